//! What a ring was posted for, and what has come of it.
//!
//! A doorbell may be ahead of its packet (it is posted before), the packet of a doorbell may have been dropped on its way, and a
//! packet may be one that no doorbell spoke of (the kernel cut a packet into more pieces than the program foresaw). The accounting
//! keeps the count of what is done within what was posted, whichever comes first, so that a ring that was out of step once
//! is in step again afterwards.

use weft_units::{Instant, Nanos};

/// For how long a ring may be short of packets that were posted before they count as dropped between doorbell and ring. Far
/// above any stall of the kernel's receive backlog; a packet that comes later still is found and taken back.
pub(crate) const NEVER_CAME: Nanos = Nanos::from_millis(200);

/// What a packet that was found in a ring is to the accounting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Arrival {
    /// Its doorbell had posted.
    Announced,
    /// It had been given up before.
    GivenUp,
    /// No doorbell has spoken of it, so far.
    Stray,
}

/// What it means that a ring is empty.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Empty {
    /// Nothing is missing.
    InStep,
    /// Packets that were posted are still to come.
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

/// The accounting of one ring.
#[derive(Debug, Default)]
pub(crate) struct RingAccounting {
    done: u64,
    /// Whether the packet that is being sent had been posted.
    open: bool,
    given_up: u64,
    strays: u64,
    last_stray: Instant,
    /// Strays whose doorbells have posted since, until they are asked for.
    matched: u64,
    shortage: Option<Shortage>,
}

impl RingAccounting {
    /// Packets done with, of those that were posted: never more.
    pub(crate) fn done(&self) -> u64 {
        self.done
    }

    /// A packet was taken out of the ring, of which `posted` had been posted by then.
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

    /// The packet that came last has been sent to its end.
    pub(crate) fn gone(&mut self) {
        self.done += u64::from(core::mem::take(&mut self.open));
    }

    /// The ring was found empty when `posted` had been posted.
    pub(crate) fn empty(&mut self, posted: u64, now: Instant) -> Empty {
        if now.saturating_since(self.last_stray) > NEVER_CAME {
            self.strays = 0;
        }
        // The doorbell of a stray that was behind its packet.
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

    /// At the end, when the ring has been emptied: how many packets were posted and never came.
    pub(crate) fn close(&mut self, posted: u64) -> u64 {
        let missing = posted.saturating_sub(self.done);
        let late_doorbells = self.strays.min(missing);
        self.strays -= late_doorbells;
        self.matched += late_doorbells;
        self.done = posted.max(self.done);
        missing - late_doorbells
    }

    /// How many packets that came as [`Arrival::Stray`] were none, by doorbells that have been found since the last call.
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
