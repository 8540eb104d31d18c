//! Surplus round robin: deficit round robin with charges after sending.
//!
//! Deficit round robin (Shreedhar and Varghese 1996) needs the length of the first packet before a queue may send. A NIC learns
//! it only by fetching the packet. So a queue may send here while its credit is positive, and excess bytes reduce its next credit
//! ("surplus round robin", Adiseshu, Parulkar and Varghese 1996). Over any period, a queue's sent bytes differ from its credit by
//! less than one packet.

use super::AfterTurn;
use super::ring::{Links, Ring};
use weft_units::Bytes;

/// Members that share in proportion to their weights: queues, or classes of queues.
#[derive(Debug)]
pub(super) struct Surplus {
    quantum: i64,
    links: Links,
    ring: Ring,
    active: usize,
    accounts: Box<[Account]>,
    /// Whether the head has received its credit for this visit.
    credited: bool,
}

#[derive(Clone, Copy, Debug)]
struct Account {
    /// Bytes that may be sent; negative for excess bytes already sent.
    credit: i64,
    weight: u32,
}

impl Account {
    /// Returns the credit per round in bytes; at least one, so that every member gets turns.
    fn refill(&self, quantum: i64) -> i64 {
        quantum.saturating_mul(i64::from(self.weight)).max(1)
    }
}

impl Surplus {
    /// Creates members below `members`, all of weight 1. A quantum of zero counts as one byte.
    pub(super) fn new(members: u32, quantum: Bytes) -> Self {
        Self {
            quantum: i64::try_from(quantum.get()).unwrap_or(i64::MAX).max(1),
            links: Links::new(members),
            ring: Ring::EMPTY,
            active: 0,
            accounts: vec![Account { credit: 0, weight: 1 }; members as usize].into(),
            credited: false,
        }
    }

    /// Adds a member to the end of the round, without credit. No effect if it takes part already.
    pub(super) fn activate(&mut self, member: u32) {
        if self.ring.push(&mut self.links, member) {
            self.active += 1;
        }
    }

    /// Sets the member's weight from its next credit on; 0 counts as 1.
    pub(super) fn set_weight(&mut self, member: u32, weight: u32) {
        if let Some(account) = self.accounts.get_mut(member as usize) {
            account.weight = weight.max(1);
        }
    }

    /// Returns the member of the next turn.
    ///
    /// Members that remain below zero with their new credit are skipped. After a whole round without a turn, all rounds up to the
    /// next turn are credited at once, so the cost is independent of the quantum.
    pub(super) fn next(&mut self) -> Option<u32> {
        let mut passed = 0;
        loop {
            let head = self.ring.head()?;
            let account = self.accounts.get_mut(head as usize)?;
            if !self.credited {
                account.credit = account.credit.saturating_add(account.refill(self.quantum));
                self.credited = true;
            }
            if account.credit > 0 {
                return Some(head);
            }
            self.leave();
            passed += 1;
            if passed == self.active {
                passed = 0;
                self.skip_rounds();
            }
        }
    }

    /// Ends the head's turn.
    pub(super) fn finish(&mut self, sent: Bytes, after: AfterTurn) {
        let Some(head) = self.ring.head() else { return };
        let Some(account) = self.accounts.get_mut(head as usize) else { return };
        if after == AfterTurn::Empty {
            account.credit = 0;
            self.credited = false;
            self.active -= 1;
            self.ring.pop(&mut self.links);
            return;
        }
        account.credit = account.credit.saturating_sub(i64::try_from(sent.get()).unwrap_or(i64::MAX));
        if account.credit <= 0 {
            self.leave();
        }
    }

    /// Ends the head's visit and starts the next one.
    fn leave(&mut self) {
        self.ring.rotate(&mut self.links);
        self.credited = false;
    }

    /// Credits all members for the rounds that pass before the first turn of any of them.
    fn skip_rounds(&mut self) {
        let (accounts, quantum) = (&self.accounts, self.quantum);
        let needed = |member: u32| {
            let account = accounts.get(member as usize)?;
            // One further credit makes it positive.
            Some(account.credit.saturating_neg() / account.refill(quantum))
        };
        let rounds = self.ring.iter(&self.links).filter_map(needed).min().unwrap_or(0);
        if rounds == 0 {
            return;
        }
        for member in self.ring.iter(&self.links) {
            if let Some(account) = self.accounts.get_mut(member as usize) {
                account.credit =
                    account.credit.saturating_add(account.refill(quantum).saturating_mul(rounds));
            }
        }
    }
}
