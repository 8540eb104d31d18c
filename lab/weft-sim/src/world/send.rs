//! The path from a socket to the NIC's rings: queue, qdisc, doorbell; and the release of segments.

use super::World;
use crate::cost::CostedOperation;
use crate::event::Agenda;
use crate::host::Host;
use crate::host::cpu::Work;
use crate::host::qdisc::{Handed, Kernel, Runner};
use crate::ids::{CoreId, HostId};
use crate::outcome::{DropPlace, HostCounters};
use crate::packet::{Body, Outgoing, Skbs};
use crate::scenario::DoorbellWrites;
use crate::segment::Segment;
use crate::trace::{Observer, PacketEventKind};
use weft_units::{Counted, Nanos, TxQueueId};

/// The time at which the qdisc runs after a segment was enqueued.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum QdiscRun {
    /// Immediately.
    Now,
    /// Later, by the sender of the segments.
    Later,
}

impl<O: Observer> World<'_, O> {
    /// Sends a segment down: into its queue's qdisc, and to the ring if the qdisc runs now. Returns the queue.
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

    /// Sends a TCP segment down, in smaller pieces while flows share queues (dynamic segmentation offload sizing: Titan, ATC
    /// 2017, section 3.3).
    pub(super) fn send_tcp(&mut self, whole: &Outgoing, run: QdiscRun, work: &mut Work) -> TxQueueId {
        let Some(size) = self.hosts[work.host].qdiscs.piece_size(whole) else {
            return self.send_down(whole, run, work);
        };
        let mut queue = TxQueueId(0);
        let mut offset = 0;
        while offset < whole.payload {
            let payload = size.min(whole.payload - offset);
            let body = whole.body.after(offset / whole.packet_payload);
            self.hosts[work.host].cpu.charge(CostedOperation::ResegmentPiece, 1.0, work);
            self.counters.resegmented += 1;
            offset += payload;
            // All pieces except the last announce more, so the qdisc runs once.
            let run = if offset == whole.payload { run } else { QdiscRun::Later };
            queue = self.send_down(&Outgoing { body, payload, ..*whole }, run, work);
        }
        queue
    }

    /// Runs a queue's qdisc, unless another core is running it: then that core continues with the new segments.
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
        let mut posted = Vec::new();
        let note = |segment: &Segment, at| {
            if O::WANTED {
                posted.push((*segment, at));
            }
        };
        let (nic, sockets) = (&mut host.transmit, &mut self.sockets);
        let handed = host.qdiscs.hand_over(queue, nic, sockets, &mut kernel, note);
        for (segment, at) in &posted {
            self.observe_segment(work.host, PacketEventKind::Posted, *at, (queue, segment));
        }
        self.release_dropped(work.host, queue, work.now());
        let host = &mut self.hosts[work.host];
        if handed.segments > 0 {
            host.cpu.charge(CostedOperation::TransmitSegment, handed.segments as i64 as f64, work);
            let of_run = (&mut self.counters, &self.skbs, &mut self.agenda);
            Self::doorbell(host, queue, handed, work, of_run);
        }
        host.qdiscs.end_run(queue, work);
    }

    /// Posts all segments that a run has put into its ring, with as many register writes as the NIC's driver needs. All are posted
    /// when the writes are done.
    fn doorbell(
        host: &mut Host,
        queue: TxQueueId,
        handed: Handed,
        work: &mut Work,
        (counters, skbs, agenda): (&mut HostCounters, &Skbs, &mut Agenda),
    ) {
        counters.segments += handed.segments;
        let writes = handed.doorbells(host.settings.doorbells);
        counters.doorbells += writes;
        counters.doorbells_unbatched += handed.doorbells(DoorbellWrites::PerFlow);
        host.cpu.charge(CostedOperation::RegisterWrite, writes as i64 as f64, work);
        host.transmit.doorbell(queue, (work.event_time(), work.now()), skbs, agenda);
    }

    /// Handles the watchdog of a rate limit.
    pub(super) fn retry_qdisc(&mut self, host: HostId, queue: TxQueueId) {
        let cores = self.hosts[host].cpu.count();
        if let Some(core) = self.hosts[host].qdiscs.retry(queue, self.now, cores) {
            self.at_once(host, core, |world, work| world.run_qdisc(queue, work));
        }
    }

    /// Releases the segments that a queue's qdisc has dropped.
    #[inline]
    fn release_dropped(&mut self, host: HostId, queue: TxQueueId, now: Nanos) {
        if !self.hosts[host].qdiscs.has_dropped() {
            return;
        }
        let dropped = self.hosts[host].qdiscs.take_dropped();
        for segment in &dropped {
            self.observe_segment(host, PacketEventKind::Dropped, now, (queue, segment));
            let mut amount = Counted::ZERO;
            amount += crate::accounting::of_segment(segment);
            self.count_drop(DropPlace::Qdiscs, segment.flow, amount);
            let body = self.release(host, queue, segment, now);
            self.forget(body);
        }
        self.hosts[host].qdiscs.reuse_dropped(dropped);
    }

    /// Frees a segment; returns its content.
    pub(super) fn release(&mut self, host: HostId, queue: TxQueueId, segment: &Segment, now: Nanos) -> Body {
        self.measure.backlog_changes(segment.class, -i64::from(segment.len), now);
        let skb = self.skbs.remove(segment.skb);
        let owner = (&self.streams[segment.flow], &mut self.sockets[segment.flow]);
        let qdiscs = &mut self.hosts[host].qdiscs;
        qdiscs.release((queue, segment), skb.truesize, owner, now, &mut self.agenda);
        skb.body
    }

    /// Writes the changed queue weights to the NIC.
    pub(super) fn update_weights(&mut self, host: HostId) {
        let state = &mut self.hosts[host];
        state.qdiscs.begin_weights(self.now);
        let mut written = 0;
        while let Some((queue, weight)) = state.qdiscs.next_weight() {
            state.transmit.set_weight(queue, weight.get());
            written += 1;
        }
        self.counters.weight_updates += u64::from(written);
        // The core that changed the weights writes them; the cost is spread over all cores in turn.
        let core = self.counters.weight_updates % u64::from(state.cpu.count());
        state.cpu.charge_registers(CoreId(core as u32), written);
    }
}
