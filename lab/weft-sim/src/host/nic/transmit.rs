//! The transmit side of a NIC: descriptor rings, the scheduler's turns, segmentation, wire.
//!
//! A segment's path:
//!
//! 1. The qdisc layer pushes descriptors into a ring (`push`) while `has_room`, and posts them with one `doorbell`. A ring that
//!    was idle becomes active in the scheduler.
//! 2. `next_turn` asks the scheduler for the next queue. It may also answer with a time to wait for, or that all rings are idle.
//! 3. `fetch` cuts the next packet from the segment at the ring's front, and puts it on the wire, unless a dropper of the policy drops
//!    it. A turn is one packet (TSO interleaving) or one segment. After its last packet the segment is done and becomes a completion.
//! 4. `end_turn` charges the turn's bytes to the scheduler, and returns the time of the next fetch: the wire's free time less the
//!    on-chip buffer (`ahead`).
//!
//! Rules that must hold:
//!
//! * One turn is outstanding at a time. The scheduler sees which queues are active, never their content.
//! * A ring is active in the scheduler if and only if it has posted descriptors, or its turn is outstanding.
//! * At most one [`Event::Transmit`] is pending. While no other event can come earlier, the world continues without one. Only a new
//!   policy brings it forward, since it may permit what a limit held back; the former event is superseded.
//! * A ring holds a segment until its last packet is fetched; `put_on_wire` corrects the balance for the packets fetched before.
//! * If an algorithm of the policy reads packets, each is announced with the doorbell, with its length and its arrival.
//!
//! Rare branches: a full ring stays with the qdisc layer, whose backlog shows it. A wait for a rate limit reschedules the event. A
//! superseded event is ignored. None of these loses a packet, so none has a counter. A dropped packet takes no time of the wire, and is
//! counted when its segment leaves the ring.

use crate::accounting::{Passed, Stage};
use crate::event::{Agenda, Event};
use crate::ids::{HostId, Table};
use crate::nic::scheduler::{AfterTurn, NicScheduler, Pick, PolicyExchangeError, PolicyScheduler};
use crate::packet::{Packet, Skb, Skbs};
use crate::segment::Segment;
use std::collections::VecDeque;
use weft_packet::ethernet;
use weft_rank::{Metadata, Metadatum};
use weft_sched::{LeafVerdict, Prepared};
use weft_units::{Bytes, LaneId, Nanos, Packets, TxQueueId};
use weft_units::{Counted, LinkTransmitter};

/// A descriptor ring.
#[derive(Clone, Default, Debug)]
struct Ring {
    /// Each with the time at which it was pushed.
    segments: VecDeque<(Segment, Nanos)>,
    /// The number of segments that were posted.
    posted: usize,
    /// Whether the scheduler has the ring as active.
    active: bool,
    /// The packets of the first segment that were dropped.
    dropped: Counted,
}

impl Ring {
    /// Whether all segments are gone.
    fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// The packets that have not been fetched yet, of the segments from this one on, with the arrival of each.
    fn packets<'a>(&'a self, from: usize, skbs: &'a Skbs) -> impl Iterator<Item = (Packet, Nanos)> + 'a {
        self.segments.range(from..).flat_map(move |(segment, at)| {
            let skb = &skbs[segment.skb];
            (skb.fetched..segment.packets).map(move |number| (packet_of(segment, skb, number.into()), *at))
        })
    }
}

/// The packet of a segment with this number.
fn packet_of(segment: &Segment, skb: &Skb, number: u32) -> Packet {
    let offset = number * skb.packet_payload;
    let payload = skb.packet_payload.min(skb.payload - offset.min(skb.payload));
    let body = skb.body.after(number);
    let len = body.frame(payload);
    Packet { body, created: skb.created, stream: segment.flow, payload, len, marked: segment.marked }
}

/// The metadata of a packet that algorithms read.
fn metadata((packet, at): &(Packet, Nanos)) -> Metadata {
    Metadata::UNKNOWN.with(Metadatum::Length, packet.len.into()).with(Metadatum::Arrived, at.get())
}

/// The extent of a queue's turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Turn {
    /// One packet: TSO interleaves the packets of queues.
    Packet,
    /// One segment.
    Segment,
}

/// A packet that the NIC has fetched, and put on the wire unless it was dropped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fetched {
    pub(crate) packet: Packet,
    /// Whether the policy sends, marks or drops it.
    pub(crate) verdict: LeafVerdict,
    pub(crate) class: u16,
    /// Departure of its first bit.
    pub(crate) start: Nanos,
    /// Departure of its last bit.
    pub(crate) departure: Nanos,
    /// The segment, if this was its last packet: its descriptor is done.
    pub(crate) done: Option<Segment>,
    /// The packets of that segment that were dropped.
    pub(crate) dropped: Counted,
}

/// Parameters of a NIC's transmit side.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TransmitParameters {
    /// Capacity of a ring in segments.
    pub(crate) ring: u32,
    pub(crate) turn: Turn,
    /// The lead of fetching over the wire: the on-chip buffer, as a time.
    pub(crate) ahead: Nanos,
}

/// The transmit side of a NIC.
pub(crate) struct NicTransmit {
    host: HostId,
    parameters: TransmitParameters,
    rings: Table<TxQueueId, Ring>,
    scheduler: Box<dyn NicScheduler>,
    /// Whether the scheduler is a policy tree that reads packets.
    looks_at_packets: bool,
    wire: LinkTransmitter,
    /// The time of the pending [`Event::Transmit`].
    pending: Option<Nanos>,
    /// The earliest time of the next fetch.
    next_fetch: Nanos,
    /// Bytes sent in the current turn.
    turn_bytes: u64,
    /// Packets sent or dropped in the current turn.
    turn_taken: Counted,
    passed: Passed,
    /// Bytes put on the wire.
    sent: Bytes,
}

impl NicTransmit {
    pub(crate) fn new(
        host: HostId,
        queues: u32,
        parameters: TransmitParameters,
        mut scheduler: Box<dyn NicScheduler>,
        wire: LinkTransmitter,
    ) -> Self {
        Self {
            looks_at_packets: scheduler.as_policy().is_some_and(|policy| policy.looks_at_packets()),
            host,
            parameters,
            rings: Table::of(Ring::default(), queues as usize),
            scheduler,
            wire,
            pending: None,
            next_fetch: Nanos::ZERO,
            turn_bytes: 0,
            turn_taken: Counted::default(),
            passed: Passed::default(),
            sent: Bytes::ZERO,
        }
    }

    /// Whether a ring has room for another segment.
    #[inline]
    pub(crate) fn has_room(&self, queue: TxQueueId) -> bool {
        self.rings[queue].segments.len() < self.parameters.ring as usize
    }

    /// Counts a segment that enters the ring, as a whole or cut by the stack.
    #[inline]
    pub(crate) fn count_in(&mut self, segment: &Segment) {
        self.passed.entered += crate::accounting::of_segment(segment);
    }

    /// The policy tree, if it reads packets.
    #[inline]
    fn policy(&mut self) -> Option<&mut PolicyScheduler> {
        if self.looks_at_packets { self.scheduler.as_policy() } else { None }
    }

    /// Puts a descriptor into a ring.
    #[inline]
    pub(crate) fn push(&mut self, queue: TxQueueId, segment: Segment, now: Nanos) {
        self.rings[queue].segments.push_back((segment, now));
    }

    /// Posts a ring's new descriptors at `at`: schedules the NIC's next fetch then, or as soon as it may fetch.
    #[inline]
    pub(crate) fn doorbell(
        &mut self,
        queue: TxQueueId,
        (now, at): (Nanos, Nanos),
        skbs: &Skbs,
        agenda: &mut Agenda,
    ) {
        let ring = &mut self.rings[queue];
        let new = core::mem::replace(&mut ring.posted, ring.segments.len());
        let idle = !core::mem::replace(&mut ring.active, true);
        if self.looks_at_packets {
            self.announce((queue, new), skbs, now);
        } else if idle {
            self.scheduler.activate(queue, now);
        }
        if self.pending.is_none() {
            self.sleep(at.max(self.next_fetch), agenda);
        }
    }

    /// Announces the packets of a ring's segments from the one of this number on to the policy tree.
    fn announce(&mut self, (queue, from): (TxQueueId, usize), skbs: &Skbs, now: Nanos) {
        let Some(policy) = self.scheduler.as_policy() else { return };
        for packet in self.rings[queue].packets(from, skbs) {
            policy.arrives(queue, &metadata(&packet), now);
        }
    }

    /// Schedules the NIC's next fetch at `until`.
    #[inline]
    pub(crate) fn sleep(&mut self, until: Nanos, agenda: &mut Agenda) {
        self.pending = Some(until);
        agenda.push(until, Event::Transmit { host: self.host });
    }

    /// Handles an [`Event::Transmit`]. Returns whether it is the pending one; another was superseded.
    #[inline]
    pub(crate) fn wake(&mut self, now: Nanos) -> bool {
        self.pending.take_if(|pending| *pending == now).is_some()
    }

    /// Returns the queue of the next turn.
    #[inline]
    pub(crate) fn next_turn(&mut self, now: Nanos) -> Pick {
        self.turn_bytes = 0;
        self.turn_taken = Counted::default();
        self.scheduler.next(now)
    }

    /// Fetches the next packet of a queue's turn and puts it on the wire, or drops it; `None` if the ring is empty.
    #[inline]
    pub(crate) fn fetch(&mut self, queue: TxQueueId, now: Nanos, skbs: &mut Skbs) -> Option<Fetched> {
        let (segment, at) = *self.rings[queue].segments.front()?;
        let skb = &mut skbs[segment.skb];
        let packet = packet_of(&segment, skb, skb.fetched.into());
        skb.fetched += 1;
        let done = (skb.fetched >= segment.packets).then_some(segment);
        let verdict = match self.policy() {
            Some(policy) => policy.fetched(&metadata(&(packet, at)), now),
            None => LeafVerdict::Send,
        };
        self.turn_taken.packets += Packets(1);
        self.turn_taken.bytes += packet.bytes();
        let ring = &mut self.rings[queue];
        if verdict == LeafVerdict::Drop {
            ring.dropped += Counted::new(1, packet.len.into());
        }
        let mut dropped = Counted::ZERO;
        if done.is_some() {
            ring.segments.pop_front();
            ring.posted = ring.posted.saturating_sub(1);
            dropped = core::mem::take(&mut ring.dropped);
            self.passed.left += crate::accounting::of_segment(&segment);
            self.passed.left -= dropped;
            self.passed.dropped += dropped;
        }
        let class = segment.class;
        if verdict == LeafVerdict::Drop {
            return Some(Fetched { packet, verdict, class, start: now, departure: now, done, dropped });
        }
        self.turn_bytes += u64::from(packet.len);
        self.sent += packet.bytes();
        let start = now.max(self.wire.free_at());
        let departure = self.wire.transmit(now, packet.bytes() + ethernet::AROUND);
        Some(Fetched { packet, verdict, class, start, departure, done, dropped })
    }

    /// Whether a queue's turn continues after this packet.
    #[inline]
    pub(crate) const fn turn_goes_on(&self, fetched: &Fetched) -> bool {
        matches!(self.parameters.turn, Turn::Segment) && fetched.done.is_none()
    }

    /// Ends a queue's turn; returns the earliest time of the next fetch.
    #[inline]
    pub(crate) fn end_turn(&mut self, queue: TxQueueId, now: Nanos, skbs: &Skbs) -> Nanos {
        let ring = &mut self.rings[queue];
        ring.active = !ring.is_empty();
        let sent = Bytes(self.turn_bytes);
        if self.looks_at_packets {
            let next = ring.packets(0, skbs).next().map(|packet| metadata(&packet));
            let turn = (sent, self.turn_taken);
            self.policy().into_iter().for_each(|policy| policy.finish_with(queue, turn, next.as_ref(), now));
        } else {
            let after = AfterTurn::holding(ring.segments.len());
            self.scheduler.finish(queue, sent, after, now);
        }
        self.next_fetch = self.wire.free_at().saturating_sub(self.parameters.ahead);
        self.next_fetch
    }

    pub(crate) fn set_weight(&mut self, queue: TxQueueId, weight: u32) {
        self.scheduler.set_weight(queue, weight);
    }

    /// Exchanges the scheduler's policy, and asks it again: it may permit what a limit of the former one held back. No effect on a
    /// scheduler without a policy.
    pub(crate) fn exchange_policy(
        &mut self,
        (prepared, lanes): (Prepared, &[(TxQueueId, LaneId)]),
        (now, skbs): (Nanos, &Skbs),
        agenda: &mut Agenda,
    ) -> Result<(), PolicyExchangeError> {
        let Some(scheduler) = self.scheduler.as_policy() else { return Ok(()) };
        let rings = &self.rings;
        let waiting = |queue: TxQueueId| {
            let mut first = None;
            let mut queued = Counted::default();
            for packet in rings.get(queue).into_iter().flat_map(|ring| ring.packets(0, skbs)) {
                first.get_or_insert_with(|| metadata(&packet));
                queued.packets += Packets(1);
                queued.bytes += packet.0.bytes();
            }
            (first.unwrap_or(Metadata::UNKNOWN), queued)
        };
        let exchanged = scheduler.exchange(prepared, lanes, waiting, now);
        self.looks_at_packets = scheduler.looks_at_packets();
        exchanged?;
        let at = now.max(self.next_fetch);
        if self.pending.is_some_and(|pending| pending > at) {
            self.sleep(at, agenda);
        }
        Ok(())
    }

    /// Counts the packets and bytes put on the wire. A ring holds a segment until its last packet is fetched; the packets fetched
    /// before are counted here as sent, and in the ring as held.
    pub(crate) fn put_on_wire(&self, skbs: &Skbs) -> Counted {
        let fronts = self.rings.iter().filter_map(|ring| Some((ring.segments.front()?.0, ring.dropped)));
        let partly =
            fronts.map(|(segment, dropped)| u64::from(skbs[segment.skb].fetched) - dropped.packets.get());
        let partly: u64 = partly.sum();
        let mut sent = Counted { packets: self.passed.left.packets, bytes: self.sent };
        sent += Counted::new(partly, 0);
        sent
    }
}

impl Stage for NicTransmit {
    fn name(&self) -> &'static str {
        "rings"
    }

    fn passed(&self) -> &Passed {
        &self.passed
    }

    fn held(&self) -> Counted {
        let mut held = Counted::default();
        let segments = self.rings.iter().flat_map(|ring| &ring.segments);
        segments.for_each(|(segment, _)| held += crate::accounting::of_segment(segment));
        held
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::StreamId;
    use crate::nic::scheduler::RoundRobin;
    use crate::packet::{Body, Outgoing, Skb};
    use weft_units::BitsPerSec;

    const HOST: HostId = HostId(1);

    /// 1 Gb/s: a byte takes 8 ns.
    fn nic(turn: Turn) -> NicTransmit {
        let parameters = TransmitParameters { ring: 2, turn, ahead: Nanos(1000) };
        let wire = LinkTransmitter::new(BitsPerSec(1_000_000_000)).expect("a rate");
        NicTransmit::new(HOST, 2, parameters, Box::new(RoundRobin::new(2)), wire)
    }

    /// A segment of two packets.
    fn segment(skbs: &mut Skbs, stream: u32) -> Segment {
        let outgoing = Outgoing {
            stream: StreamId(stream),
            body: Body::Data { first: 40 },
            payload: 2000,
            packet_payload: 1448,
        };
        let skb = skbs.insert(Skb::new(&outgoing, Nanos(7)));
        let (len, packets) = (outgoing.len(), outgoing.packets() as u16);
        Segment { skb, flow: outgoing.stream, len, packets, class: 0, band: 0, marked: false }
    }

    fn put(nic: &mut NicTransmit, queue: TxQueueId, segment: Segment) {
        nic.count_in(&segment);
        nic.push(queue, segment, Nanos(0));
    }

    #[test]
    fn a_doorbell_brings_one_event_and_turns_interleave_packets() {
        let (mut nic, mut skbs, mut agenda) = (nic(Turn::Packet), Skbs::new(), Agenda::new());
        let now = Nanos(100);
        for queue in [TxQueueId(0), TxQueueId(1)] {
            let segment = segment(&mut skbs, queue.0);
            put(&mut nic, queue, segment);
            nic.doorbell(queue, (now, Nanos(150)), &skbs, &mut agenda);
        }
        assert_eq!((agenda.len(), agenda.pop()), (1, Some((Nanos(150), Event::Transmit { host: HOST }))));
        let mut seen = Vec::new();
        while let Pick::Queue(queue) = nic.next_turn(now) {
            let fetched = nic.fetch(queue, now, &mut skbs).expect("a packet");
            assert!(!nic.turn_goes_on(&fetched));
            nic.end_turn(queue, now, &skbs);
            seen.push((queue.0, fetched.packet.body, fetched.packet.len, fetched.done.is_some()));
        }
        let (first, second) = (Body::Data { first: 40 }, Body::Data { first: 41 });
        assert_eq!(seen[..2], [(0, first, 1514, false), (1, first, 1514, false)]);
        assert_eq!(seen[2..], [(0, second, 618, true), (1, second, 618, true)]);
        assert_eq!((nic.held(), nic.passed.left), (Counted::default(), nic.passed.entered));
        assert_eq!(nic.put_on_wire(&skbs), nic.passed.entered);
    }

    #[test]
    fn a_segment_in_part_fetched_is_held_and_on_the_wire() {
        let (mut nic, mut skbs) = (nic(Turn::Segment), Skbs::new());
        let segment = segment(&mut skbs, 0);
        put(&mut nic, TxQueueId(0), segment);
        assert!(nic.has_room(TxQueueId(0)));
        put(&mut nic, TxQueueId(0), segment);
        assert!(!nic.has_room(TxQueueId(0)));
        let fetched = nic.fetch(TxQueueId(0), Nanos(0), &mut skbs).expect("a packet");
        assert!(nic.turn_goes_on(&fetched));
        // Frame, preamble, check sequence and gap: 1538 bytes of 8 ns; fetching runs ahead by 1000 ns.
        assert_eq!(fetched.departure, Nanos(1538 * 8));
        assert_eq!(nic.end_turn(TxQueueId(0), Nanos(0), &skbs), Nanos(1538 * 8 - 1000));
        assert_eq!(nic.held().packets.0, 4);
        assert_eq!(nic.put_on_wire(&skbs), Counted { packets: weft_units::Packets(1), bytes: Bytes(1514) });
    }
}
