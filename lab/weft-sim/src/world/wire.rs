//! The path from the NIC's rings over the network to a receive ring.

use super::World;
use crate::host::nic::Fetched;
use crate::host::socket::Stream;
use crate::ids::{HostId, PacketId, StreamId, SwitchId};
use crate::network::{Header, Passage};
use crate::nic::scheduler::Pick;
use crate::outcome::DropPlace;
use crate::packet::{Body, Packet};
use crate::trace::{Observer, PacketEventKind};
use weft_sched::LeafVerdict;
use weft_units::{Counted, Nanos, TxQueueId};

impl<O: Observer> World<'_, O> {
    /// Fetches and sends packets until another event may come first.
    pub(super) fn transmit(&mut self, host: HostId) {
        if !self.hosts[host].transmit.wake(self.now) {
            return;
        }
        loop {
            let next = match self.hosts[host].transmit.next_turn(self.now) {
                Pick::Queue(queue) => self.send_turn(host, queue).max(self.now),
                Pick::Wait(until) => until.max(self.now + Nanos(1)),
                Pick::Idle => return,
            };
            if next >= self.agenda.earliest_possible() || next > self.end {
                self.hosts[host].transmit.sleep(next, &mut self.agenda);
                return;
            }
            self.now = next;
            self.events += 1;
        }
    }

    /// Sends or drops the packets of a queue's turn; returns the time of the NIC's next fetch.
    fn send_turn(&mut self, host: HostId, queue: TxQueueId) -> Nanos {
        loop {
            let state = &mut self.hosts[host];
            let Some(fetched) = state.transmit.fetch(queue, self.now, &mut self.skbs) else {
                return state.transmit.end_turn(queue, self.now, &self.skbs);
            };
            let marked =
                fetched.verdict == LeafVerdict::Mark && self.senders[fetched.packet.stream].uses_ecn();
            let packet = Packet { marked: fetched.packet.marked || marked, ..fetched.packet };
            let fetched = Fetched { packet, ..fetched };
            if fetched.verdict == LeafVerdict::Drop {
                self.dropped_by_policy(host, queue, &packet);
            } else {
                self.put_on_wire(host, queue, &fetched);
            }
            if fetched.dropped != Counted::ZERO {
                self.count_drop(DropPlace::Dropper, packet.stream, fetched.dropped);
            }
            let state = &mut self.hosts[host];
            if let Some(segment) = fetched.done {
                state.receive.completes((queue, segment), self.now, &mut self.random, &mut self.agenda);
            }
            if !state.transmit.turn_goes_on(&fetched) {
                return state.transmit.end_turn(queue, self.now, &self.skbs);
            }
        }
    }

    /// Handles a packet that the NIC has fetched and sends.
    #[inline]
    fn put_on_wire(&mut self, host: HostId, queue: TxQueueId, fetched: &Fetched) {
        let packet = &fetched.packet;
        self.counters.packets += 1;
        if let Some(policy) = &mut self.hosts[host].policy {
            policy.count_sent(packet);
        }
        if let Some(flow) = self.streams[packet.stream].flow {
            self.measure.sent(flow, fetched.class, packet.len);
        }
        self.observe_sent(host, queue, fetched);
        let (random, agenda) = (&mut self.random, &mut self.agenda);
        let passage = self.network.leave_host(host, packet, fetched.departure, random, agenda);
        self.pass(packet, passage);
    }

    /// Handles a packet that a dropper of the host's policy drops.
    fn dropped_by_policy(&mut self, host: HostId, queue: TxQueueId, packet: &Packet) {
        self.observe(host, PacketEventKind::Dropped, self.now, packet, Some(queue));
        self.forget(packet.body);
    }

    /// Handles a packet that reaches a switch.
    pub(super) fn at_switch(&mut self, switch: SwitchId, id: PacketId) {
        let stream = self.network.packet(id).stream;
        let facts = &self.streams[stream];
        let ecn_capable = self.senders[stream].uses_ecn();
        let header = Header { to: facts.to, hash: facts.hash, ecn_capable };
        let (packet, passage) = self.network.at_switch(switch, id, &header, self.now, &mut self.agenda);
        self.pass(&packet, passage);
    }

    /// Continues according to a packet's passage.
    #[inline]
    fn pass(&mut self, packet: &Packet, passage: Passage) {
        match passage {
            Passage::UnderWay => {}
            Passage::Arrives { host, at } => self.arrive(host, packet, at),
            Passage::Lost { at } => {
                self.count_drop(DropPlace::Links, packet.stream, crate::accounting::of_packet(packet));
                let from = self.streams[packet.stream].from;
                self.observe(from, PacketEventKind::Dropped, at, packet, None);
                self.forget(packet.body);
            }
            Passage::Dropped => {
                self.count_drop(
                    DropPlace::SwitchBuffers,
                    packet.stream,
                    crate::accounting::of_packet(packet),
                );
                let to = self.streams[packet.stream].to;
                self.observe(to, PacketEventKind::Dropped, self.now, packet, None);
                self.forget(packet.body);
            }
        }
    }

    /// Adds a packet to a host's receive ring, with its arrival at `at`.
    #[inline]
    fn arrive(&mut self, to: HostId, packet: &Packet, at: Nanos) {
        debug_assert_eq!(to, self.streams[packet.stream].to);
        let host = &mut self.hosts[to];
        let (learns, sockets, receive) = (host.settings.learns_queues, &self.sockets, &host.receive);
        let learnt = || {
            let queue = if learns { sockets[packet.stream.reverse()].queue } else { None };
            queue.map(|queue| receive.beside(queue))
        };
        let queue = self.steering.arrives(packet.stream, learnt);
        host.receive.arrives(queue, packet, at, &mut self.random, &mut self.agenda);
    }

    /// Counts packets of a stream that are dropped, by the class that the policy of their sender's NIC gives them or, without one, by
    /// that of the scenario.
    #[cold]
    pub(super) fn count_drop(&mut self, place: DropPlace, stream: StreamId, amount: Counted) {
        let Stream { from, class, .. } = self.streams[stream];
        if let Some(policy) = &mut self.hosts[from].policy {
            policy.count_dropped(place, stream, amount);
        } else if let Some(dropped) = self.without_policy.get_mut(usize::from(class)) {
            dropped.dropped.count(place, amount);
        }
    }

    /// Frees the resources of a packet that is lost for good.
    #[inline]
    pub(super) fn forget(&mut self, body: Body) {
        if let Body::Ack { content } = body {
            self.acks.remove(content);
        }
    }
}
