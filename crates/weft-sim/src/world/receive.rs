//! The receiving side of a NIC: steering, rings, interrupts, NAPI polls, GRO.

use super::{Body, Event, Packet, World, host};
use crate::cost::Operation;
use crate::ids::{CoreId, HostId, PacketId, RxQueueId, StreamId, SwitchId};
use crate::network::{Forward, Hop};
use crate::scenario::ReceiveSteering;
use crate::trace::{Observer, PacketEventKind};
use crate::world::processor::Work;
use weft_units::{Bytes, Nanos};

/// Packets that one NAPI poll takes at most (`NAPI_POLL_WEIGHT`).
const POLL_WEIGHT: u32 = 64;
/// Largest merged packet (`GRO_LEGACY_MAX_SIZE`).
const GRO_MAX: u32 = 65_536;

/// Packets of a stream merged by GRO.
#[derive(Clone, Copy)]
pub(super) struct Merged {
    pub(super) stream: StreamId,
    /// Number of the first packet.
    pub(super) first: u64,
    pub(super) packets: u32,
    pub(super) payload: u32,
    pub(super) marked: u32,
    /// When the newest packet's segment was made.
    pub(super) created: Nanos,
}

impl<O: Observer> World<'_, O> {
    /// A packet leaves a host's wire at `departure`.
    #[inline]
    pub(super) fn travel(&mut self, host: HostId, to: HostId, packet: Packet, departure: Nanos) {
        if self.scenario.network.loss > 0.0 && self.chance(self.scenario.network.loss) {
            self.measure.lost(&packet);
            self.forget(packet.body);
            return;
        }
        match self.fabric.leave_host(host, departure) {
            (arrives, Hop::Host(peer)) => {
                debug_assert_eq!(peer, to);
                self.arrive(peer, packet, arrives);
            }
            (arrives, Hop::Switch(switch)) => {
                let packet = self.packets.insert(packet);
                self.queue.push(arrives, Event::AtSwitch { switch, packet });
            }
        }
    }

    /// A packet is lost for good: what it alone refers to is free.
    pub(super) fn forget(&mut self, body: Body) {
        if let Body::Ack { content } = body {
            self.acks.remove(content);
        }
    }

    /// A packet reaches a switch.
    pub(super) fn at_switch(&mut self, switch: SwitchId, index: PacketId) {
        let packet = self.packets[index];
        let stream = &self.streams[packet.stream];
        let ecn = self.senders[packet.stream].uses_ecn();
        let to = stream.to;
        match self.fabric.forward(switch, to, stream.hash, Bytes(u64::from(packet.len)), ecn, self.now) {
            Forward::Dropped => {
                self.packets.remove(index);
                self.forget(packet.body);
                if O::WANTED {
                    self.observe(to, PacketEventKind::Dropped, self.now, &packet, None);
                }
            }
            Forward::Queued { arrives, at, marked } => {
                let packet = Packet { marked: packet.marked || marked, ..packet };
                match at {
                    Hop::Host(host) => {
                        self.packets.remove(index);
                        self.arrive(host, packet, arrives);
                    }
                    Hop::Switch(next) => {
                        self.packets[index] = packet;
                        self.queue.push(arrives, Event::AtSwitch { switch: next, packet: index });
                    }
                }
            }
        }
    }

    /// A packet will be in a host's receive ring at `at`. Calls for one host come in the order of `at`.
    fn arrive(&mut self, to: HostId, packet: Packet, at: Nanos) {
        let vector = self.receive_queue_of(packet.stream);
        self.streams[packet.stream].arriving += 1;
        self.hosts[to].vectors[vector].ring.push_back((at, packet));
        self.arm(to, vector, at);
    }

    /// The receive queue of a stream's next packet. With [`ReceiveSteering::ToTransmitQueue`] it is the one beside the queue that the
    /// other direction was sent from last; it changes only while nothing of the stream is under way, so that the order stays.
    fn receive_queue_of(&mut self, stream: StreamId) -> RxQueueId {
        let facts = &self.streams[stream];
        let nic = &self.scenario.hosts[facts.to.index()].nic;
        if nic.receive_steering != ReceiveSteering::ToTransmitQueue || facts.arriving > 0 {
            return facts.receive_queue;
        }
        let learnt =
            self.streams[stream.reverse()].queue.map(|queue| RxQueueId(queue.0 % nic.receive_queues));
        let facts = &mut self.streams[stream];
        facts.receive_queue = learnt.unwrap_or(facts.receive_queue);
        facts.receive_queue
    }

    /// Something for a queue pair's poll will be there at `at`: makes sure that an interrupt comes, no sooner than moderation lets it.
    pub(super) fn arm(&mut self, host: HostId, vector: RxQueueId, at: Nanos) {
        let interval = self.scenario.hosts[host.index()].nic.interrupt_interval;
        let state = &mut self.hosts[host].vectors[vector];
        if state.polling {
            return;
        }
        let earliest = state.last.map_or(at, |last| at.max(last + interval));
        if earliest >= state.due {
            return;
        }
        let latency = self.scenario.costs.contention.interrupt_latency_ns;
        let time = if latency > 0.0 { earliest + self.exponential(Nanos(latency as u64)) } else { earliest };
        let state = &mut self.hosts[host].vectors[vector];
        if time < state.due {
            state.due = time;
            self.queue.push(time, Event::Interrupt { host, vector });
        }
    }

    pub(super) fn interrupt(&mut self, host: HostId, vector: RxQueueId) {
        let state = &mut self.hosts[host].vectors[vector];
        if state.polling || state.due != self.now {
            // Superseded by an earlier one.
            return;
        }
        state.due = Nanos::MAX;
        state.last = Some(self.now);
        state.polling = true;
        let own = state.core;
        let core = if self.scenario.hosts[host.index()].nic.pinned_interrupts {
            own
        } else {
            CoreId((self.uniform() * self.hosts[host].cores.len() as f64) as u32)
        };
        self.counters.interrupts += 1;
        let mut work = self.work_on(host, core);
        self.charge(Operation::Interrupt, 1.0, &mut work);
        self.end_work(&work);
        let state = &mut self.hosts[host].cores[core];
        state.polls.push_back(vector);
        if !state.pending && state.free <= self.now {
            self.processor(host, core);
        } else {
            self.wake(host, core, self.now);
        }
    }

    /// A NAPI poll: frees what was sent, takes what was received.
    pub(super) fn poll(&mut self, vector: RxQueueId, work: &mut Work) {
        let host = work.host;
        self.charge(Operation::Poll, 1.0, work);
        self.complete(vector, work);
        let taken = self.take_received(vector, work);
        let state = &mut self.hosts[host].vectors[vector];
        let more = taken == POLL_WEIGHT || !state.done.is_empty();
        if more {
            self.hosts[host].cores[work.core].polls.push_back(vector);
            return;
        }
        state.polling = false;
        if let Some(&(at, _)) = state.ring.front() {
            let now = work.now();
            self.arm(host, vector, at.max(now));
        }
    }

    /// Frees the segments that the NIC has fetched, lets their flows send, and fills the rings again.
    fn complete(&mut self, vector: RxQueueId, work: &mut Work) {
        let host = work.host;
        let mut done = std::mem::take(&mut self.hosts[host].vectors[vector].done);
        if done.is_empty() {
            return;
        }
        self.charge(Operation::CompleteSegment, done.len() as f64, work);
        let batching = self.scenario.hosts[host.index()].stack.transmit_batching;
        // By queue: what was completed, told to the byte queue limit in one sum (`netdev_tx_completed_queue`).
        let mut queues = std::mem::take(&mut self.scratch_queues);
        let now = work.now();
        for (queue, segment) in done.drain(..) {
            match queues.iter_mut().find(|(known, _)| *known == queue) {
                Some((_, bytes)) => *bytes += u64::from(segment.len),
                None => queues.push((queue, u64::from(segment.len))),
            }
            let stream = segment.flow;
            self.touch(stream, work);
            let is_data = self.release(host, queue, segment, now);
            let sender = &mut self.senders[stream];
            if is_data && (sender.throttled || batching) && !sender.in_tasklet {
                sender.throttled = false;
                sender.in_tasklet = true;
                self.hosts[host].cores[work.core].tasklet.push_back(stream);
            }
        }
        let state = &mut self.hosts[host];
        state.vectors[vector].done = done;
        for (queue, bytes) in queues.drain(..) {
            state.queues[queue].limit.completed(Bytes(bytes), now);
            state.cores[work.core].net_tx.push_back(queue);
        }
        self.scratch_queues = queues;
    }

    /// Takes received packets through GRO into the stack; gives how many.
    fn take_received(&mut self, vector: RxQueueId, work: &mut Work) -> u32 {
        let host = work.host;
        let (gro, gro_flows) = {
            let stack = &self.scenario.hosts[host.index()].stack;
            (stack.gro, stack.gro_flows as usize)
        };
        let mut merged = std::mem::take(&mut self.scratch_merged);
        let mut taken = 0;
        while taken < POLL_WEIGHT {
            let now = work.now();
            let Some(packet) = self.next_received(host, vector, now) else { break };
            taken += 1;
            self.streams[packet.stream].arriving -= 1;
            self.charge(Operation::ReceivePacket, 1.0, work);
            if O::WANTED {
                self.observe(host, PacketEventKind::Delivered, now, &packet, None);
            }
            match packet.body {
                Body::Data { first } => {
                    let one = Merged {
                        stream: packet.stream,
                        first,
                        packets: 1,
                        payload: packet.payload,
                        marked: u32::from(packet.marked),
                        created: packet.created,
                    };
                    if !gro {
                        self.receive_data(one, work);
                        continue;
                    }
                    if let Some(flushed) = merge(&mut merged, one, gro_flows) {
                        self.receive_data(flushed, work);
                    }
                }
                Body::Ack { content } => {
                    let ack = self.acks.remove(content);
                    self.receive_ack(packet.stream.reverse(), ack, work);
                }
                Body::Datagram { .. } => self.receive_datagram(&packet, work),
                Body::Probe { probe, reply, asked } => self.receive_probe(probe, reply, asked, work),
            }
        }
        for one in merged.drain(..) {
            self.receive_data(one, work);
        }
        self.scratch_merged = merged;
        taken
    }

    /// The next packet that has arrived by `now` and found room in the ring.
    fn next_received(&mut self, host: HostId, vector: RxQueueId, now: Nanos) -> Option<Packet> {
        let state = &mut self.hosts[host];
        let queue = &mut state.vectors[vector];
        if queue.accepted == 0 {
            self.settle(host, vector, now);
        }
        let state = &mut self.hosts[host];
        let queue = &mut state.vectors[vector];
        if queue.accepted == 0 {
            return None;
        }
        queue.accepted -= 1;
        let (_, packet) = queue.ring.pop_front()?;
        host::count(&mut state.receive_books.left, 1, u64::from(packet.len));
        Some(packet)
    }

    /// Decides about the packets that have arrived since the last poll: only polls make room, so the first ones fill the ring and the
    /// others are dropped.
    fn settle(&mut self, host: HostId, vector: RxQueueId, now: Nanos) {
        let room = self.scenario.hosts[host.index()].nic.receive_ring;
        let state = &mut self.hosts[host];
        let queue = &mut state.vectors[vector];
        let first = queue.accepted as usize;
        let arrived = queue.ring.iter().skip(first).take_while(|(at, _)| *at <= now).count();
        let fit = arrived.min((room - queue.accepted) as usize);
        let bytes: u64 =
            queue.ring.range(first..first + arrived).map(|(_, packet)| u64::from(packet.len)).sum();
        host::count(&mut state.receive_books.entered, arrived as u64, bytes);
        queue.accepted += fit as u32;
        for (_, packet) in queue.ring.drain(first + fit..first + arrived) {
            host::count(&mut state.receive_books.dropped, 1, u64::from(packet.len));
            self.streams[packet.stream].arriving -= 1;
            if let Body::Ack { content } = packet.body {
                self.acks.remove(content);
            }
        }
    }
}

/// Adds a packet to those being merged. Gives what must go up the stack first: the same flow's when the packet does not follow it or it
/// is full, or the oldest when there are too many flows.
fn merge(merged: &mut Vec<Merged>, one: Merged, flows: usize) -> Option<Merged> {
    if let Some(held) = merged.iter_mut().find(|held| held.stream == one.stream) {
        let follows =
            held.first + u64::from(held.packets) == one.first && (held.marked == 0) == (one.marked == 0);
        if follows && held.payload + one.payload < GRO_MAX {
            held.packets += 1;
            held.payload += one.payload;
            held.marked += one.marked;
            held.created = one.created;
            return None;
        }
        return Some(std::mem::replace(held, one));
    }
    let oldest = (merged.len() >= flows.max(1)).then(|| merged.remove(0));
    merged.push(one);
    oldest
}
