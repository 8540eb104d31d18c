//! What a ring was rung for, and what has come of it.
//!
//! A bell may be ahead of its packet (it is rung before), the packet of a bell may have been dropped on its way, and a
//! packet may be one that no bell spoke of (the kernel cut a packet into more pieces than the program foresaw). The ledger
//! keeps the count of what is done within what was rung, whichever comes first, so that a ring that was out of step once
//! is in step again afterwards.

use weft_units::{Instant, Nanos};

/// For how long a ring may be short of packets that were rung before they count as dropped between bell and ring. Far
/// above any stall of the kernel's receive backlog; a packet that comes later still is found and taken back.
pub(crate) const NEVER_CAME: Nanos = Nanos::from_millis(200);

/// What a packet that was found in a ring is to the ledger.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Arrival {
    /// Its bell had rung.
    Belled,
    /// It had been given up before.
    GivenUp,
    /// No bell has spoken of it, so far.
    Stray,
}

/// What it means that a ring is empty.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Empty {
    /// Nothing is missing.
    InStep,
    /// Packets that were rung are still to come.
    Short,
    /// So many packets have not come for [`NEVER_CAME`].
    Lost(u64),
}

/// A time of being short: since when, and by how many packets at least.
#[derive(Clone, Copy, Debug)]
struct Shortage {
    since: Instant,
    least: u64,
}

/// The ledger of one ring.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    done: u64,
    /// Whether the packet that is being sent had been rung.
    open: bool,
    given_up: u64,
    strays: u64,
    last_stray: Instant,
    /// Strays whose bells have rung since, until they are asked for.
    matched: u64,
    shortage: Option<Shortage>,
}

impl Ledger {
    /// Packets done with, of those that were rung: never more.
    pub(crate) fn done(&self) -> u64 {
        self.done
    }

    /// A packet was taken out of the ring, of which `rung` had been rung by then.
    pub(crate) fn came(&mut self, rung: u64, now: impl FnOnce() -> Instant) -> Arrival {
        self.open = self.done < rung;
        if self.open {
            if self.done + 1 == rung {
                self.shortage = None;
            }
            return Arrival::Belled;
        }
        if self.given_up > 0 {
            self.given_up -= 1;
            return Arrival::GivenUp;
        }
        self.strays += 1;
        self.last_stray = now();
        Arrival::Stray
    }

    /// The packet that came last has been sent to its end.
    pub(crate) fn gone(&mut self) {
        self.done += u64::from(core::mem::take(&mut self.open));
    }

    /// The ring was found empty when `rung` had been rung.
    pub(crate) fn empty(&mut self, rung: u64, now: Instant) -> Empty {
        if now.saturating_since(self.last_stray) > NEVER_CAME {
            self.strays = 0;
        }
        // The bell of a stray that was behind its packet.
        let late_bells = self.strays.min(rung.saturating_sub(self.done));
        self.strays -= late_bells;
        self.matched += late_bells;
        self.done += late_bells;
        let missing = rung.saturating_sub(self.done);
        if missing == 0 {
            self.shortage = None;
            return Empty::InStep;
        }
        let shortage = self.shortage.get_or_insert(Shortage { since: now, least: missing });
        shortage.least = shortage.least.min(missing);
        if now.saturating_since(shortage.since) <= NEVER_CAME {
            return Empty::Short;
        }
        let lost = shortage.least;
        self.shortage = None;
        self.done += lost;
        self.given_up += lost;
        Empty::Lost(lost)
    }

    /// At the end, when the ring has been emptied: how many packets were rung and never came.
    pub(crate) fn close(&mut self, rung: u64) -> u64 {
        let missing = rung.saturating_sub(self.done);
        let late_bells = self.strays.min(missing);
        self.strays -= late_bells;
        self.matched += late_bells;
        self.done = rung.max(self.done);
        missing - late_bells
    }

    /// How many packets that came as [`Arrival::Stray`] were none, by bells that have been found since the last call.
    pub(crate) fn matched(&mut self) -> u64 {
        core::mem::take(&mut self.matched)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant::from_secs(5);
    const LATER: Instant = Instant::from_nanos(5_300_000_000);

    fn send(ledger: &mut Ledger, rung: u64) -> Arrival {
        let arrival = ledger.came(rung, || NOW);
        ledger.gone();
        arrival
    }

    #[test]
    fn a_dropped_packet_is_given_up_although_others_keep_coming() {
        let mut ledger = Ledger::default();
        let mut rung = 1;
        assert_eq!(ledger.empty(rung, NOW), Empty::Short);
        let mut lost = 0;
        for i in 1..100 {
            rung += 1;
            assert_eq!(send(&mut ledger, rung), Arrival::Belled);
            if let Empty::Lost(n) = ledger.empty(rung, NOW + Nanos::from_millis(5 * i)) {
                lost += n;
            }
        }
        assert_eq!((lost, ledger.done()), (1, rung));
    }

    #[test]
    fn a_packet_that_was_given_up_does_not_leave_the_ring_out_of_step() {
        let mut ledger = Ledger::default();
        assert_eq!(ledger.empty(1, NOW), Empty::Short);
        assert_eq!(ledger.empty(1, LATER), Empty::Lost(1));
        assert_eq!(send(&mut ledger, 1), Arrival::GivenUp);
        assert_eq!(ledger.done(), 1);
        assert_eq!((send(&mut ledger, 3), send(&mut ledger, 3)), (Arrival::Belled, Arrival::Belled));
        assert_eq!(ledger.empty(3, LATER), Empty::InStep);
    }

    #[test]
    fn a_bell_behind_its_packet_is_not_a_lost_packet() {
        let mut ledger = Ledger::default();
        assert_eq!(send(&mut ledger, 0), Arrival::Stray);
        assert_eq!(ledger.done(), 0);
        assert_eq!(ledger.matched(), 0);
        assert_eq!(ledger.empty(1, NOW), Empty::InStep);
        assert_eq!(ledger.done(), 1);
        assert_eq!(ledger.matched(), 1, "it was no stray");
        assert_eq!(ledger.matched(), 0);
    }

    #[test]
    fn a_stray_without_a_bell_does_not_hide_a_later_shortage() {
        let mut ledger = Ledger::default();
        assert_eq!(send(&mut ledger, 0), Arrival::Stray);
        assert_eq!(ledger.empty(1, LATER), Empty::Short, "the stray's bell would have come long ago");
    }

    #[test]
    fn a_bell_that_rings_while_a_stray_is_sent_stays_for_its_own_packet() {
        let mut ledger = Ledger::default();
        assert_eq!(ledger.came(0, || NOW), Arrival::Stray);
        ledger.gone();
        assert_eq!(ledger.done(), 0, "one was rung meanwhile, and is still to come");
        assert_eq!(send(&mut ledger, 1), Arrival::Belled);
    }

    #[test]
    fn the_end_counts_what_is_missing() {
        let mut ledger = Ledger::default();
        assert_eq!(send(&mut ledger, 5), Arrival::Belled);
        assert_eq!(ledger.close(5), 4);
    }
}
