//! An output port: a FIFO whose departures are known in advance.

use super::Hop;
use std::collections::VecDeque;
use weft_facts::record::{Balance, Stage};
use weft_units::{Bytes, Nanos};
use weft_units::{Counted, LinkTransmitter};

/// A packet in the port, or one whose departure has not been processed.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    /// Departure of its last bit.
    departs: Nanos,
    len: Bytes,
}

/// An output port and its link.
#[derive(Clone, Debug)]
pub(super) struct Port {
    wire: LinkTransmitter,
    /// Queued packets by departure; draining the port removes those in the past.
    ring: VecDeque<Waiting>,
    /// Sum of the ring's bytes.
    backlog: Bytes,
    far_end: Hop,
    /// All arrived packets, including dropped ones.
    pub(super) entered: Counted,
    left: Counted,
    dropped: Counted,
}

impl Port {
    pub(super) fn new(wire: LinkTransmitter, far_end: Hop) -> Self {
        let (entered, left, dropped) = Default::default();
        Self { wire, ring: VecDeque::new(), backlog: Bytes::ZERO, far_end, entered, left, dropped }
    }

    pub(super) const fn far_end(&self) -> Hop {
        self.far_end
    }

    /// Returns the bytes held as of the last [`drain`](Self::drain).
    pub(super) const fn holds(&self) -> Bytes {
        self.backlog
    }

    /// Removes packets that left up to and including `now`; returns their bytes.
    #[inline]
    pub(super) fn drain(&mut self, now: Nanos) -> Bytes {
        let mut freed = Bytes::ZERO;
        while let Some(first) = self.ring.front()
            && first.departs <= now
        {
            freed += first.len;
            self.left.packets.0 += 1;
            self.ring.pop_front();
        }
        self.left.bytes += freed;
        self.backlog -= freed;
        freed
    }

    /// Queues a packet that occupies the link with `wire` bytes; returns its departure.
    #[inline]
    pub(super) fn enqueue(&mut self, now: Nanos, len: Bytes, wire: Bytes) -> Nanos {
        let departs = self.wire.transmit(now, wire);
        self.ring.push_back(Waiting { departs, len });
        self.backlog += len;
        departs
    }

    /// Counts a packet that found no room.
    pub(super) fn drop_one(&mut self, len: Bytes) {
        self.dropped.packets.0 += 1;
        self.dropped.bytes += len;
    }

    /// Counts the held packets at `now` one by one.
    pub(super) fn held(&self, now: Nanos) -> Counted {
        amount(self.ring.iter().filter(|waiting| waiting.departs > now))
    }

    /// Returns the balance at `now`. The ring's entries count as held or as left, by their time.
    pub(super) fn balance(&self, name: String, now: Nanos) -> Stage {
        let gone = amount(self.ring.iter().filter(|waiting| waiting.departs <= now));
        let left = Counted { packets: self.left.packets + gone.packets, bytes: self.left.bytes + gone.bytes };
        Stage { name, balance: Balance::of(self.entered, left, self.dropped, self.held(now)) }
    }
}

fn amount<'a>(packets: impl Iterator<Item = &'a Waiting>) -> Counted {
    packets.map(|packet| Counted::one(packet.len)).sum()
}
