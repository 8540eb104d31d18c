//! Interrupts and NAPI polls: sent segments are freed, received packets are passed up the stack.

use super::World;
use crate::cost::CostedOperation;
use crate::host::cpu::Work;
use crate::host::nic::{Merged, POLL_WEIGHT};
use crate::ids::HostId;
use crate::outcome::DropPlace;
use crate::packet::{Body, Packet};
use crate::trace::{Observer, PacketEventKind};
use weft_units::{Bytes, Nanos, RxQueueId, TxQueueId};

impl<O: Observer> World<'_, O> {
    pub(super) fn interrupt(&mut self, host: HostId, queue: RxQueueId) {
        let state = &mut self.hosts[host];
        let Some(core) = state.receive.interrupt(queue, self.now, &mut self.random) else { return };
        self.counters.interrupts += 1;
        let mut work = state.cpu.at_once(core, self.now);
        state.cpu.charge(CostedOperation::Interrupt, 1.0, &mut work);
        state.cpu.end_at_once(&work);
        state.cpu.raise_poll(core, queue);
        if state.cpu.is_idle(core, self.now) {
            self.processor(host, core);
        } else {
            state.cpu.wake(core, self.now, &mut self.agenda);
        }
    }

    /// Performs a NAPI poll.
    pub(super) fn poll(&mut self, queue: RxQueueId, work: &mut Work) {
        self.hosts[work.host].cpu.charge(CostedOperation::Poll, 1.0, work);
        self.free_completed(queue, work);
        let taken = self.take_received(queue, work);
        let host = &mut self.hosts[work.host];
        if host.receive.end_poll((queue, taken), work.now(), &mut self.random, &mut self.agenda) {
            host.cpu.raise_poll(work.core, queue);
        }
    }

    /// Frees the segments that the NIC has fetched, lets their streams send, and refills the rings.
    fn free_completed(&mut self, pair: RxQueueId, work: &mut Work) {
        let host = work.host;
        let done = self.hosts[host].receive.take_completed(pair);
        if done.is_empty() {
            return self.hosts[host].receive.reuse_completed(pair, done);
        }
        self.hosts[host].cpu.charge(CostedOperation::CompleteSegment, done.len() as f64, work);
        // The completed bytes per queue; the byte queue limit receives one sum.
        let mut freed = std::mem::take(&mut self.freed_by_queue);
        let now = work.now();
        for (queue, segment) in &done {
            add(&mut freed, *queue, Bytes(u64::from(segment.len)));
            let stream = segment.flow;
            self.observe_segment(host, PacketEventKind::Freed, now, (*queue, segment));
            self.hosts[host].cpu.touch_socket(&mut self.sockets[stream].touched, work);
            let body = self.release(host, *queue, segment, now);
            let state = &mut self.hosts[host];
            let is_data = matches!(body, Body::Data { .. });
            if is_data && self.senders[stream].segment_freed(state.settings.tasklet) {
                state.cpu.raise_tasklet(work.core, stream);
            }
        }
        let state = &mut self.hosts[host];
        state.receive.reuse_completed(pair, done);
        for (queue, bytes) in freed.drain(..) {
            state.qdiscs.completed(queue, bytes, now);
            state.cpu.raise_net_tx(work.core, queue);
        }
        self.freed_by_queue = freed;
    }

    /// Passes received packets through GRO into the stack; returns their number.
    fn take_received(&mut self, queue: RxQueueId, work: &mut Work) -> u32 {
        let mut taken = 0;
        let mut dropped = Vec::new();
        while taken < POLL_WEIGHT {
            let now = work.now();
            let on_drop = |at, packet: &Packet| dropped.push((at, *packet));
            let host = &mut self.hosts[work.host];
            let packet = host.receive.take_packet(queue, now, on_drop);
            if packet.is_some() {
                host.cpu.charge(CostedOperation::ReceivePacket, 1.0, work);
            }
            if !dropped.is_empty() {
                self.forget_dropped(&mut dropped, work);
            }
            let Some(packet) = packet else { break };
            taken += 1;
            self.steering.taken(packet.stream);
            self.observe(work.host, PacketEventKind::Delivered, now, &packet, None);
            self.receive(&packet, work);
        }
        if taken > 0 {
            let merged = self.hosts[work.host].receive.flush();
            merged.iter().for_each(|one| self.receive_data(one, work));
            self.hosts[work.host].receive.reuse_merged(merged);
        }
        taken
    }

    /// Releases packets that found no room in the ring, and empties the list.
    #[cold]
    fn forget_dropped(&mut self, dropped: &mut Vec<(Nanos, Packet)>, work: &Work) {
        for (at, packet) in dropped.drain(..) {
            self.steering.taken(packet.stream);
            self.observe(work.host, PacketEventKind::Dropped, at, &packet, None);
            self.count_drop(DropPlace::ReceiveRings, packet.stream, crate::accounting::of_packet(&packet));
            self.forget(packet.body);
        }
    }

    #[inline]
    fn receive(&mut self, packet: &Packet, work: &mut Work) {
        match packet.body {
            Body::Data { first } => {
                let packets = self.senders[packet.stream].packets_of(packet.payload);
                let one = Merged::single(first, packets, packet);
                if let Some(flushed) = self.hosts[work.host].receive.merge(one) {
                    self.receive_data(&flushed, work);
                }
            }
            Body::Ack { content } => self.receive_ack(packet.stream.reverse(), content, work),
            Body::Datagram { number } => self.receive_datagram(number, packet, work),
            Body::Ping { probe, way, asked } => self.receive_ping(probe, way, asked, work),
        }
    }
}

fn add(sums: &mut Vec<(TxQueueId, Bytes)>, queue: TxQueueId, bytes: Bytes) {
    match sums.iter_mut().find(|(known, _)| *known == queue) {
        Some((_, sum)) => *sum += bytes,
        None => sums.push((queue, bytes)),
    }
}
