//! The packets that wait in the NIC, by class: those posted less those completed, as far as rings have a class.

use super::{Engine, Worker};
use crate::records::RecordSource;
use crate::sampler::Standing;
use crate::sync::Ordering;
use weft_units::{Bytes, ClassId, Instant};

impl<R: RecordSource, E: Engine> Worker<'_, R, E> {
    /// Records that ring `number`, which was idle, has a packet to send.
    pub(super) fn became_ready(&mut self, number: usize) {
        self.ready_from_now(number);
        if let Some(device) = self.parts.device.as_mut() {
            device.activated(number);
        }
    }

    /// Records that the packet of ring `number` waits from now on.
    pub(super) fn ready_from_now(&mut self, number: usize) {
        self.parts.rings[number].since = self.parts.link.now();
    }

    /// Records that a packet of `class` has left ring `number` completely at `departure`.
    pub(super) fn packet_has_left(&mut self, number: usize, class: ClassId, departure: Instant) {
        let ring = &mut self.parts.rings[number];
        let wait = departure.saturating_since(ring.since);
        ring.since = departure;
        let (shared, emptied) =
            (ring.class.is_none(), self.posted(number) <= self.parts.rings[number].accounting.done());
        self.parts.sampler.waited(class, wait);
        // A class can run dry only when one of its own rings does, or in a shared ring.
        if (shared || emptied) && !self.is_waiting(class) {
            self.parts.sampler.ran_dry(class);
        }
    }

    /// Records that ring `number` is late: its doorbell was ahead of its packet.
    pub(super) fn ring_was_late(&mut self, number: usize) {
        if let Some(class) = self.parts.rings[number].class
            && !self.has_ready_ring(class)
        {
            self.parts.sampler.ran_dry(class);
        }
    }

    /// Whether a packet of `class` is in a ring.
    fn is_waiting(&self, class: ClassId) -> bool {
        let Some(doorbells) = self.shared.classes.get(class.index()) else { return false };
        let counted = &self.parts.counters.classes[class.index()];
        let gone =
            counted.sent.get().packets.get() + counted.refused.get().packets.get() + self.lost[class.index()];
        let posted = doorbells.packets.load(Ordering::Relaxed);
        // Packets that are still on their way to their rings cannot be sent yet.
        posted > gone && (self.late.is_empty() || self.has_ready_ring(class))
    }

    /// Whether a ring has a packet of `class` that the NIC could send. For shared rings only the count tells.
    fn has_ready_ring(&self, class: ClassId) -> bool {
        let mine = |(number, ring): (usize, &crate::ring::Ring)| {
            ring.class.is_none_or(|c| c == class)
                && !ring.late
                && self.posted(number) > ring.accounting.done()
        };
        self.parts.rings.iter().enumerate().any(mine)
    }

    /// Updates the number of lost packets in the class of ring `number`.
    pub(super) fn count_lost(&mut self, number: usize, change: impl FnOnce(u64) -> u64) {
        if let Some(count) = self.parts.rings[number].class.and_then(|c| self.lost.get_mut(c.index())) {
            *count = change(*count);
        }
    }

    /// The current backlog of the NIC.
    pub(super) fn standing(&self) -> Standing {
        let classes = self.parts.counters.classes.iter().enumerate();
        let bytes = classes.map(|(i, class)| {
            let posted = self.shared.classes[i].bytes.load(Ordering::Relaxed);
            let gone = class.sent.get().bytes + class.refused.get().bytes;
            Bytes(posted).saturating_sub(gone)
        });
        let waiting = |number: usize, ring: &crate::ring::Ring| {
            self.shared.rings[number].packets.load(Ordering::Relaxed) > ring.accounting.done()
        };
        let rings = self.parts.rings.iter().enumerate();
        let backlogged_rings = rings.filter(|(number, ring)| waiting(*number, ring)).count() as u32;
        let ready = (0..self.parts.counters.classes.len()).map(|i| {
            let class = ClassId::from_index(i);
            self.is_waiting(class) && self.has_ready_ring(class)
        });
        Standing {
            backlogged_rings,
            bytes: bytes.collect(),
            ready: ready.collect(),
            lost: self.parts.link.lost(),
        }
    }
}
