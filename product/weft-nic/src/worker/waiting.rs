//! The packets that wait in the NIC, by class: as backlogged rings where each ring has one class, and as packets
//! posted less those completed where classes share rings.

use super::ports::WorkerPort;
use super::{Engine, Worker};
use crate::records::RecordSource;
use crate::sampler::Standing;
use crate::sync::Ordering;
use weft_units::{Bytes, ClassId, Instant};

/// The end of a packet's way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    /// The uplink has taken it.
    Sent,
    /// The uplink has refused it.
    Refused,
}

impl<R: RecordSource, E: Engine> Worker<'_, R, E> {
    /// Records that ring `number`, which was idle, has a packet to send.
    pub(super) fn became_ready(&mut self, number: usize) {
        let ring = &mut self.rings[number];
        ring.backlogged = true;
        ring.since = self.parts.link.now();
        self.all_backlogged += 1;
        if let Some(class) = ring.class {
            self.backlogged[class.index()] += 1;
        }
        if let Some(device) = self.parts.device.as_mut() {
            device.activated(number);
        }
    }

    /// Records that ring `number` has no packet to send after its turn. The flow of a vacant slot is removed.
    pub(super) fn became_idle(&mut self, number: usize) {
        let ring = &mut self.rings[number];
        ring.backlogged = false;
        self.all_backlogged -= 1;
        let (class, vacant) = (ring.class, ring.fd.is_none());
        if vacant {
            self.engine.remove_ring(ring.flow);
            self.vacant.push(number);
        }
        let Some(class) = class else { return };
        self.backlogged[class.index()] -= 1;
        if self.backlogged[class.index()] == 0 {
            // Another ring of the class may have been posted meanwhile.
            self.take_doorbells();
            if self.backlogged[class.index()] == 0 {
                self.parts.sampler.ran_dry(class);
            }
        }
    }

    /// Records that a packet of `class` has left ring `number` completely with a chunk from `start` to `departure`, to the uplink
    /// or refused by it.
    pub(super) fn packet_has_left(
        &mut self,
        number: usize,
        class: ClassId,
        (start, departure): (Instant, Instant),
        end: End,
    ) {
        let ring = &mut self.rings[number];
        // A link's clock that is behind has the chunk leave in the past; its last bit leaves now.
        let gone = (self.stamp, departure.max(self.stamp + (departure - start)));
        if let (Some(wait), End::Sent) = (ring.arrivals.left(ring.accounting.done(), gone), end)
            && let Some(sojourns) = self.parts.counters.sojourns.get(class.index())
        {
            sojourns.record(wait);
        }
        let wait = departure.saturating_since(ring.since);
        ring.since = departure;
        let shared = ring.class.is_none();
        self.parts.sampler.waited(class, wait);
        // A class with separate rings runs dry when its last ring becomes idle.
        if shared && !self.is_in_shared_ring(class) {
            self.parts.sampler.ran_dry(class);
        }
    }

    /// Whether a packet of `class` is in a ring that classes share. Packets on their way to their rings cannot be sent
    /// yet, and only the count of all classes shows which rings have packets.
    fn is_in_shared_ring(&self, class: ClassId) -> bool {
        let (mut posted, mut gone) = (0, 0);
        for port in self.ports.iter().flatten() {
            posted += port.page.classes[class.index()].packets.load(Ordering::Relaxed);
            let counted = &port.counters.classes[class.index()];
            gone += counted.sent.get().packets.get() + counted.refused.get().packets.get();
        }
        let ready = |ring: &crate::ring::Ring| !ring.late && ring.posted() > ring.accounting.done();
        posted > gone && (self.late.is_empty() || self.rings.iter().any(ready))
    }

    /// Whether the NIC could send a packet of `class` now.
    fn is_ready(&self, class: ClassId) -> bool {
        if self.shares_rings {
            return self.all_backlogged > 0 && self.is_in_shared_ring(class);
        }
        self.backlogged[class.index()] > 0
    }

    /// Whether at least `enough` packets are in the NIC.
    pub(super) fn waits(&self, enough: u64) -> bool {
        let mut waiting = 0;
        let pages = self.ports.iter().flatten().map(|port| &port.page);
        pages.flat_map(|page| page.classes.iter().take(self.parts.classes)).any(|class| {
            let done = class.done.load(Ordering::Relaxed);
            waiting += class.packets.load(Ordering::Relaxed).saturating_sub(done);
            waiting >= enough
        })
    }

    /// The current backlog of the NIC.
    pub(super) fn standing(&self) -> Standing {
        let of_port = if self.shares_rings { waiting_bytes_of_shared_rings } else { waiting_bytes };
        let bytes = |class: usize| self.ports.iter().flatten().map(|port| of_port(port, class)).sum();
        let classes = 0..self.parts.classes;
        Standing {
            backlogged_rings: self.all_backlogged + self.late.len() as u32,
            bytes: classes.clone().map(bytes).collect(),
            ready: classes.map(|class| self.is_ready(ClassId::from_index(class))).collect(),
            lost: self.parts.link.lost(),
        }
    }
}

/// The frame bytes of `class` posted to `port` and not yet completed. They are read from the page, which outlives a worker
/// and so has what a former process completed, unlike this worker's counters. A lost packet is completed without its bytes.
fn waiting_bytes(port: &WorkerPort, class: usize) -> Bytes {
    let page = &port.page.classes[class];
    if page.done.load(Ordering::Relaxed) >= page.packets.load(Ordering::Relaxed) {
        return Bytes(0);
    }
    let done = Bytes(page.done_bytes.load(Ordering::Relaxed));
    Bytes(page.bytes.load(Ordering::Relaxed)).saturating_sub(done)
}

/// As [`waiting_bytes`], where classes share rings: the page does not count completed packets by class there. Such a port
/// does not outlive its process.
fn waiting_bytes_of_shared_rings(port: &WorkerPort, class: usize) -> Bytes {
    let counted = &port.counters.classes[class];
    let gone = counted.sent.get().bytes + counted.refused.get().bytes;
    Bytes(port.page.classes[class].bytes.load(Ordering::Relaxed)).saturating_sub(gone)
}
