//! The accounting of one ring: packets posted by doorbells against packets found in the ring.
//!
//! The two may differ for three reasons:
//! * the doorbell is ahead of its packet, since it is posted first;
//! * a posted packet was dropped before the ring;
//! * a packet arrived without a doorbell, because the kernel cut a packet into more pieces than the program predicted.
//!
//! Steps:
//! 1. A fetched packet ([`RingAccounting::came`]) is announced if `done < posted`. Otherwise it is matched with a
//!    packet given up before, or counted as a stray.
//! 2. A packet that was sent completely ([`RingAccounting::gone`]) increments `done` if it was announced.
//! 3. An empty ring ([`RingAccounting::empty`]) first matches strays with doorbells posted since. If packets are still
//!    missing, a shortage begins. After [`NEVER_CAME`] its minimum is given up as lost and added to `done`.
//! 4. At the end ([`RingAccounting::close`]) all missing packets are lost.
//!
//! Invariant: `done` never exceeds the posted count, in whatever order doorbells and packets arrive. A ring that was
//! out of step is therefore in step again afterwards. The state belongs to the transmit worker, one instance per ring.
//! Every rare branch returns a value that the worker counts: [`Arrival::GivenUp`] (undoes `lost`), [`Arrival::Stray`]
//! (`strays`), [`RingAccounting::matched`] (undoes `strays`), [`Empty::Short`] (`doorbell_ahead`), [`Empty::Lost`]
//! (`lost`).

use weft_units::{Instant, Nanos};

/// The time that a ring may be short of posted packets before they count as dropped between doorbell and ring. Far
/// above any stall of the kernel's receive backlog. A packet that arrives later is still found, and the loss is undone.
pub(crate) const NEVER_CAME: Nanos = Nanos::from_millis(200);

/// The accounting's classification of a fetched packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Arrival {
    /// Its doorbell was posted.
    Announced,
    /// It was counted as lost before.
    GivenUp,
    /// Its doorbell has not been posted, so far.
    Stray,
}

/// The accounting's finding for an empty ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Empty {
    /// No packet is missing.
    InStep,
    /// Posted packets have not arrived yet.
    Short,
    /// The number of packets that have been missing for [`NEVER_CAME`].
    Lost(u64),
}

/// A shortage: its start, and the minimum of missing packets since.
#[derive(Clone, Copy, Debug)]
struct Shortage {
    since: Instant,
    least: u64,
}

/// The accounting of one ring.
#[derive(Debug, Default)]
pub(crate) struct RingAccounting {
    done: u64,
    /// Whether the packet being sent was announced.
    open: bool,
    given_up: u64,
    strays: u64,
    last_stray: Instant,
    /// Strays whose doorbells were posted later, until the next call of [`Self::matched`].
    matched: u64,
    shortage: Option<Shortage>,
}

impl RingAccounting {
    /// The accounting of a ring that was in use, when `done` packets were done. A packet that was in progress then is
    /// missing now, and given up as any other.
    pub(crate) fn resume(done: u64) -> Self {
        Self { done, ..Self::default() }
    }

    /// The number of posted packets that are done; never more than were posted.
    pub(crate) fn done(&self) -> u64 {
        self.done
    }

    /// Classifies a fetched packet, when `posted` packets had been posted.
    pub(crate) fn came(&mut self, posted: u64, now: impl FnOnce() -> Instant) -> Arrival {
        self.open = self.done < posted;
        if self.open {
            if self.done + 1 == posted {
                self.shortage = None;
            }
            return Arrival::Announced;
        }
        if self.given_up > 0 {
            self.given_up -= 1;
            return Arrival::GivenUp;
        }
        self.strays += 1;
        self.last_stray = now();
        Arrival::Stray
    }

    /// Completes the last fetched packet.
    pub(crate) fn gone(&mut self) {
        self.done += u64::from(core::mem::take(&mut self.open));
    }

    /// Completes `drained` packets that another process has sent, when `posted` had been posted.
    pub(crate) fn drained(&mut self, drained: u64, posted: u64) {
        self.done = (self.done + drained).min(posted.max(self.done));
    }

    /// Settles an empty ring, when `posted` packets had been posted.
    pub(crate) fn empty(&mut self, posted: u64, now: Instant) -> Empty {
        if now.saturating_since(self.last_stray) > NEVER_CAME {
            self.strays = 0;
        }
        // Doorbells that were posted after their packets had counted as strays.
        let late_doorbells = self.strays.min(posted.saturating_sub(self.done));
        self.strays -= late_doorbells;
        self.matched += late_doorbells;
        self.done += late_doorbells;
        let missing = posted.saturating_sub(self.done);
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

    /// Closes the accounting of an emptied ring. Returns the number of packets posted and lost.
    pub(crate) fn close(&mut self, posted: u64) -> u64 {
        let missing = posted.saturating_sub(self.done);
        let late_doorbells = self.strays.min(missing);
        self.strays -= late_doorbells;
        self.matched += late_doorbells;
        self.done = posted.max(self.done);
        missing - late_doorbells
    }

    /// The number of strays since the last call whose doorbells were found after all.
    pub(crate) fn matched(&mut self) -> u64 {
        core::mem::take(&mut self.matched)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant::from_secs(5);
    const LATER: Instant = Instant::from_nanos(5_300_000_000);

    fn send(accounting: &mut RingAccounting, posted: u64) -> Arrival {
        let arrival = accounting.came(posted, || NOW);
        accounting.gone();
        arrival
    }

    #[test]
    fn a_dropped_packet_is_given_up_although_others_keep_coming() {
        let mut accounting = RingAccounting::default();
        let mut posted = 1;
        assert_eq!(accounting.empty(posted, NOW), Empty::Short);
        let mut lost = 0;
        for i in 1..100 {
            posted += 1;
            assert_eq!(send(&mut accounting, posted), Arrival::Announced);
            if let Empty::Lost(n) = accounting.empty(posted, NOW + Nanos::from_millis(5 * i)) {
                lost += n;
            }
        }
        assert_eq!((lost, accounting.done()), (1, posted));
    }

    #[test]
    fn a_packet_that_was_given_up_does_not_leave_the_ring_out_of_step() {
        let mut accounting = RingAccounting::default();
        assert_eq!(accounting.empty(1, NOW), Empty::Short);
        assert_eq!(accounting.empty(1, LATER), Empty::Lost(1));
        assert_eq!(send(&mut accounting, 1), Arrival::GivenUp);
        assert_eq!(accounting.done(), 1);
        assert_eq!(
            (send(&mut accounting, 3), send(&mut accounting, 3)),
            (Arrival::Announced, Arrival::Announced)
        );
        assert_eq!(accounting.empty(3, LATER), Empty::InStep);
    }

    #[test]
    fn a_doorbell_behind_its_packet_is_not_a_lost_packet() {
        let mut accounting = RingAccounting::default();
        assert_eq!(send(&mut accounting, 0), Arrival::Stray);
        assert_eq!(accounting.done(), 0);
        assert_eq!(accounting.matched(), 0);
        assert_eq!(accounting.empty(1, NOW), Empty::InStep);
        assert_eq!(accounting.done(), 1);
        assert_eq!(accounting.matched(), 1, "it was no stray");
        assert_eq!(accounting.matched(), 0);
    }

    #[test]
    fn a_stray_without_a_doorbell_does_not_hide_a_later_shortage() {
        let mut accounting = RingAccounting::default();
        assert_eq!(send(&mut accounting, 0), Arrival::Stray);
        assert_eq!(accounting.empty(1, LATER), Empty::Short, "the stray's doorbell would have come long ago");
    }

    #[test]
    fn a_doorbell_that_rings_while_a_stray_is_sent_stays_for_its_own_packet() {
        let mut accounting = RingAccounting::default();
        assert_eq!(accounting.came(0, || NOW), Arrival::Stray);
        accounting.gone();
        assert_eq!(accounting.done(), 0, "one was posted meanwhile, and is still to come");
        assert_eq!(send(&mut accounting, 1), Arrival::Announced);
    }

    #[test]
    fn the_end_counts_what_is_missing() {
        let mut accounting = RingAccounting::default();
        assert_eq!(send(&mut accounting, 5), Arrival::Announced);
        assert_eq!(accounting.close(5), 4);
    }
}
