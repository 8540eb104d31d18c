//! From a socket to the NIC's rings: queue, qdisc, doorbell; and what is freed or dropped on the way.

use super::World;
use crate::cost::Operation;
use crate::host::cpu::Work;
use crate::host::qdisc::{Handed, Kernel, Runner};
use crate::ids::{CoreId, HostId};
use crate::packet::{Body, Outgoing};
use crate::segment::Segment;
use crate::trace::{Observer, PacketEventKind};
use weft_units::{Nanos, TxQueueId};

/// When the qdisc is run that a segment was sent into.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum QdiscRun {
    /// At once.
    Now,
    /// Later, by whoever sends.
    Later,
}

impl<O: Observer> World<'_, O> {
    /// Sends a segment down: to its queue's qdisc, and from there to the ring if the qdisc is run now. Returns the queue.
    pub(super) fn send_down(&mut self, outgoing: &Outgoing, run: QdiscRun, work: &mut Work) -> TxQueueId {
        let host = &mut self.hosts[work.host];
        let facts = &self.streams[outgoing.stream];
        let socket = &mut self.sockets[outgoing.stream];
        let (agenda, skbs) = (&mut self.agenda, &mut self.skbs);
        let mut kernel = Kernel { cpu: &mut host.cpu, work, agenda, skbs };
        let (queue, segment) = host.qdiscs.send(outgoing, facts, socket, &mut kernel);
        if O::WANTED {
            let created = self.skbs[segment.skb].created;
            self.observe_segment(work.host, PacketEventKind::Queued, created, (queue, &segment));
        }
        self.measure.backlog_changes(segment.class, i64::from(segment.len), work.now());
        self.release_dropped(work.host, queue, work.now());
        if run == QdiscRun::Now {
            self.run_qdisc(queue, work);
        }
        queue
    }

    /// Sends a TCP segment down, in smaller pieces while flows share queues (dynamic segmentation offload sizing: Titan, ATC 2017,
    /// section 3.3).
    pub(super) fn send_tcp(&mut self, whole: &Outgoing, run: QdiscRun, work: &mut Work) -> TxQueueId {
        let Some(size) = self.hosts[work.host].qdiscs.piece_size(whole) else {
            return self.send_down(whole, run, work);
        };
        let mut queue = TxQueueId(0);
        let mut offset = 0;
        while offset < whole.payload {
            let payload = size.min(whole.payload - offset);
            let body = whole.body.after(offset / whole.packet_payload);
            self.hosts[work.host].cpu.charge(Operation::ResegmentPiece, 1.0, work);
            self.counters.resegmented += 1;
            offset += payload;
            // Each but the last is enqueued with more to come, so the qdisc is run once.
            let run = if offset == whole.payload { run } else { QdiscRun::Later };
            queue = self.send_down(&Outgoing { body, payload, ..*whole }, run, work);
        }
        queue
    }

    /// Runs a queue's qdisc, unless another core does: then that one goes on with what has come.
    pub(super) fn run_qdisc(&mut self, queue: TxQueueId, work: &mut Work) {
        let host = &mut self.hosts[work.host];
        match host.qdiscs.begin_run(queue, work) {
            Runner::OtherKnows => return,
            Runner::Other { core, until } => {
                host.cpu.raise_net_tx(core, queue);
                return host.cpu.wake(core, until, &mut self.agenda);
            }
            Runner::This => {}
        }
        let (agenda, skbs) = (&mut self.agenda, &mut self.skbs);
        let mut kernel = Kernel { cpu: &mut host.cpu, work, agenda, skbs };
        let handed = host.qdiscs.hand_over(queue, &mut host.transmit, &mut self.sockets, &mut kernel);
        self.release_dropped(work.host, queue, work.now());
        self.hosts[work.host].cpu.charge(Operation::TransmitSegment, handed.segments as f64, work);
        if handed.segments > 0 {
            self.doorbell(queue, handed, work);
        }
        self.hosts[work.host].qdiscs.end_run(queue, work);
    }

    /// Tells the NIC once of all segments that a run has put into its ring.
    fn doorbell(&mut self, queue: TxQueueId, handed: Handed, work: &mut Work) {
        self.counters.segments += handed.segments;
        self.counters.doorbells += 1;
        self.counters.doorbells_unbatched += 1 + handed.changes;
        let host = &mut self.hosts[work.host];
        host.cpu.charge(Operation::RegisterWrite, 1.0, work);
        host.transmit.doorbell(queue, (work.event_time(), work.now()), &mut self.agenda);
    }

    /// A rate limit's time has come.
    pub(super) fn retry_qdisc(&mut self, host: HostId, queue: TxQueueId) {
        let cores = self.hosts[host].cpu.count();
        if let Some(core) = self.hosts[host].qdiscs.retry(queue, self.now, cores) {
            self.at_once(host, core, |world, work| world.run_qdisc(queue, work));
        }
    }

    /// Releases what a queue's qdisc has dropped.
    #[inline]
    fn release_dropped(&mut self, host: HostId, queue: TxQueueId, now: Nanos) {
        if !self.hosts[host].qdiscs.has_dropped() {
            return;
        }
        let dropped = self.hosts[host].qdiscs.take_dropped();
        for segment in &dropped {
            self.observe_segment(host, PacketEventKind::Dropped, now, (queue, segment));
            let body = self.release(host, queue, segment, now);
            self.forget(body);
        }
        self.hosts[host].qdiscs.reuse_dropped(dropped);
    }

    /// Frees a segment; returns what it carried.
    pub(super) fn release(&mut self, host: HostId, queue: TxQueueId, segment: &Segment, now: Nanos) -> Body {
        self.measure.backlog_changes(segment.class, -i64::from(segment.len), now);
        let skb = self.skbs.remove(segment.skb);
        let owner = (&self.streams[segment.flow], &mut self.sockets[segment.flow]);
        let qdiscs = &mut self.hosts[host].qdiscs;
        qdiscs.release((queue, segment), skb.truesize, owner, now, &mut self.agenda);
        skb.body
    }

    /// Writes the queue weights that changed to the NIC.
    pub(super) fn update_weights(&mut self, host: HostId) {
        let state = &mut self.hosts[host];
        state.qdiscs.begin_weights(self.now);
        let mut written = 0;
        while let Some((queue, weight)) = state.qdiscs.next_weight() {
            state.transmit.set_weight(queue, weight.get());
            written += 1;
        }
        self.counters.weight_updates += u64::from(written);
        // The writes are made by whichever core changed the weights; over time all of them do.
        let core = self.counters.weight_updates % u64::from(state.cpu.count());
        state.cpu.charge_registers(CoreId(core as u32), written);
    }
}
