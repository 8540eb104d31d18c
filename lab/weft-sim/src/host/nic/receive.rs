//! The queue pairs of a NIC: receive rings, completions of sent segments, interrupts and their NAPI polls.
//!
//! A packet's path:
//!
//! 1. `arrives` puts a packet into a receive ring with its arrival time, which may be in the future. `completes` adds a fetched
//!    segment to the pair's completions.
//! 2. `arm` schedules an interrupt, unless the pair is being polled or an earlier interrupt is due. Moderation delays it to the
//!    interval after the last one, and a random latency delays its handler.
//! 3. `interrupt` disables interrupts and returns the core that polls.
//! 4. The poll takes completions (`take_completed`), then up to [`POLL_WEIGHT`] packets (`take_packet`). `merge` and `flush` are
//!    GRO.
//! 5. `end_poll` requests another poll if packets or completions may remain. Otherwise it enables interrupts and arms the next
//!    one.
//!
//! Rules that must hold:
//!
//! * Arrivals of a pair come in the order of their times, so the ring is sorted.
//! * Only polls free descriptors. It is therefore exact to decide at a poll which packets found room: the first ones fill the
//!   ring, later ones are dropped (`settle`).
//! * A pending packet or completion has a pending interrupt or poll, or the stream would stall.
//!
//! Rare branches and their counters: a full ring (`passed.dropped`). A superseded interrupt is discarded without a counter, since
//! an earlier one did its work; [`HostCounters::interrupts`](crate::outcome::HostCounters::interrupts) has those that were taken.

use super::{Merge, Merged};
use crate::accounting::{Passed, Stage};
use crate::event::{Agenda, Event};
use crate::ids::{CoreId, HostId, Table};
use crate::packet::Packet;
use crate::random::Random;
use crate::segment::Segment;
use std::collections::VecDeque;
use weft_units::{Counted, Nanos, RxQueueId, TxQueueId};

/// The maximum number of packets per NAPI poll (`NAPI_POLL_WEIGHT`).
pub(crate) const POLL_WEIGHT: u32 = 64;

/// The target of interrupts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Interrupts {
    /// Each queue's own core.
    Pinned,
    /// A random core.
    Spread,
}

/// Parameters of a NIC's receive side.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReceiveParameters {
    pub(crate) queues: u32,
    /// Capacity of a ring in packets.
    pub(crate) ring: u32,
    /// The least time between two interrupts of a queue.
    pub(crate) interval: Nanos,
    /// Mean time from an interrupt to its handler; `None` for zero.
    pub(crate) latency: Option<Nanos>,
    pub(crate) interrupts: Interrupts,
    /// Number of cores of the host.
    pub(crate) cores: u32,
    /// The maximum number of streams merged by GRO at a time; `None` if GRO is off.
    pub(crate) merge: Option<u32>,
}

/// The completions, receive ring and interrupt of a queue pair.
#[derive(Debug)]
struct QueuePair {
    /// The core of its interrupts, if they are pinned.
    core: CoreId,
    /// Whether NAPI is polling, with interrupts disabled.
    polling: bool,
    /// Time of the pending interrupt.
    due: Option<Nanos>,
    /// Time of the last interrupt.
    last: Option<Nanos>,
    /// Segments fetched by the NIC and not freed yet, with the transmit queue of each.
    done: Vec<(TxQueueId, Segment)>,
    /// Received packets and packets still on the wire, by arrival time.
    ring: VecDeque<(Nanos, Packet)>,
    /// Number of packets at the ring's front that arrived and found room.
    accepted: u32,
}

impl QueuePair {
    /// Decides about the packets that arrived since the last accepted one was taken. Only polls free descriptors, so the first
    /// packets fill the ring of this capacity and the others are dropped.
    #[inline]
    fn settle(
        &mut self,
        capacity: u32,
        passed: &mut Passed,
        now: Nanos,
        mut on_drop: impl FnMut(Nanos, &Packet),
    ) {
        let (mut arrived, mut bytes) = (0_u32, 0);
        for (_, packet) in self.ring.iter().take_while(|(at, _)| *at <= now) {
            arrived += 1;
            bytes += u64::from(packet.len);
        }
        passed.entered += Counted::new(u64::from(arrived), bytes);
        self.accepted = arrived.min(capacity);
        if arrived > self.accepted {
            for (at, packet) in self.ring.drain(self.accepted as usize..arrived as usize) {
                passed.dropped += Counted::new(1, u64::from(packet.len));
                on_drop(at, &packet);
            }
        }
    }

    fn waiting(&self) -> impl Iterator<Item = &Packet> {
        self.ring.range(..self.accepted as usize).map(|(_, packet)| packet)
    }

    fn under_way(&self) -> impl Iterator<Item = &Packet> {
        self.ring.range(self.accepted as usize..).map(|(_, packet)| packet)
    }
}

/// The receive side of a NIC.
#[derive(Debug)]
pub(crate) struct NicReceive {
    host: HostId,
    parameters: ReceiveParameters,
    pairs: Table<RxQueueId, QueuePair>,
    merge: Merge,
    passed: Passed,
}

impl NicReceive {
    pub(crate) fn new(host: HostId, parameters: ReceiveParameters) -> Self {
        let pair = |queue| QueuePair {
            core: CoreId(queue % parameters.cores),
            polling: false,
            due: None,
            last: None,
            done: Vec::new(),
            ring: VecDeque::new(),
            accepted: 0,
        };
        let pairs = (0..parameters.queues).map(pair).collect();
        let (merge, passed) = (Merge::new(parameters.merge), Passed::default());
        Self { host, parameters, pairs, merge, passed }
    }

    /// Returns the receive queue of a transmit queue's pair.
    #[inline]
    pub(crate) const fn beside(&self, queue: TxQueueId) -> RxQueueId {
        // Most NICs have as many queues in both directions.
        if queue.0 < self.parameters.queues {
            RxQueueId(queue.0)
        } else {
            RxQueueId(queue.0 % self.parameters.queues)
        }
    }

    /// Adds a packet that arrives in a receive ring at `at`. Calls are in the order of `at`.
    #[inline]
    pub(crate) fn arrives(
        &mut self,
        queue: RxQueueId,
        packet: &Packet,
        at: Nanos,
        random: &mut Random,
        agenda: &mut Agenda,
    ) {
        self.pairs[queue].ring.push_back((at, *packet));
        self.arm(queue, at, random, agenda);
    }

    /// Adds a segment fetched by the transmit side to the completions of its pair.
    #[inline]
    pub(crate) fn completes(
        &mut self,
        (queue, segment): (TxQueueId, Segment),
        now: Nanos,
        random: &mut Random,
        agenda: &mut Agenda,
    ) {
        let pair = self.beside(queue);
        self.pairs[pair].done.push((queue, segment));
        self.arm(pair, now, random, agenda);
    }

    /// Schedules an interrupt for work that is available at `at`, no sooner than moderation permits.
    fn arm(&mut self, queue: RxQueueId, at: Nanos, random: &mut Random, agenda: &mut Agenda) {
        let pair = &mut self.pairs[queue];
        if pair.polling {
            return;
        }
        let earliest = pair.last.map_or(at, |last| at.max(last + self.parameters.interval));
        if pair.due.is_some_and(|due| earliest >= due) {
            return;
        }
        let late = match (self.parameters.latency, pair.due) {
            (None, _) => Nanos::ZERO,
            (Some(mean), None) => random.exponential(mean),
            (Some(mean), Some(due)) => match random.exponential_below(mean, due - earliest) {
                Some(late) => late,
                // The pending interrupt comes first.
                None => return,
            },
        };
        let time = earliest + late;
        pair.due = Some(time);
        agenda.push(time, Event::Interrupt { host: self.host, queue });
    }

    /// Handles an interrupt: returns the core that polls; `None` if an earlier interrupt superseded this one.
    #[inline]
    pub(crate) fn interrupt(&mut self, queue: RxQueueId, now: Nanos, random: &mut Random) -> Option<CoreId> {
        let pair = &mut self.pairs[queue];
        if pair.polling || pair.due != Some(now) {
            return None;
        }
        pair.due = None;
        pair.last = Some(now);
        pair.polling = true;
        Some(match self.parameters.interrupts {
            Interrupts::Pinned => pair.core,
            Interrupts::Spread => CoreId((random.uniform() * f64::from(self.parameters.cores)) as u32),
        })
    }

    /// Removes the segments to be freed. The caller returns the list for reuse of its memory.
    #[inline]
    pub(crate) fn take_completed(&mut self, queue: RxQueueId) -> Vec<(TxQueueId, Segment)> {
        std::mem::take(&mut self.pairs[queue].done)
    }

    #[inline]
    pub(crate) fn reuse_completed(&mut self, queue: RxQueueId, mut list: Vec<(TxQueueId, Segment)>) {
        list.clear();
        self.pairs[queue].done = list;
    }

    /// Returns the next packet that arrived by `now` and found room in the ring. Calls `on_drop` for packets that found none, with
    /// their arrival times.
    #[inline]
    pub(crate) fn take_packet(
        &mut self,
        queue: RxQueueId,
        now: Nanos,
        on_drop: impl FnMut(Nanos, &Packet),
    ) -> Option<Packet> {
        let pair = &mut self.pairs[queue];
        if pair.accepted == 0 {
            pair.settle(self.parameters.ring, &mut self.passed, now, on_drop);
        }
        pair.accepted = pair.accepted.checked_sub(1)?;
        let (_, packet) = pair.ring.pop_front()?;
        self.passed.left += Counted::new(1, u64::from(packet.len));
        Some(packet)
    }

    /// Merges a packet of data with its predecessors; returns the merge to pass up the stack first.
    #[inline]
    pub(crate) fn merge(&mut self, one: Merged) -> Option<Merged> {
        self.merge.add(one)
    }

    #[inline]
    pub(crate) fn flush(&mut self) -> Vec<Merged> {
        self.merge.flush()
    }

    #[inline]
    pub(crate) fn reuse_merged(&mut self, list: Vec<Merged>) {
        self.merge.reuse(list);
    }

    /// Ends a poll at `now` that took `taken` packets. Returns whether the queue pair must be polled again; otherwise interrupts
    /// are enabled.
    #[inline]
    pub(crate) fn end_poll(
        &mut self,
        (queue, taken): (RxQueueId, u32),
        now: Nanos,
        random: &mut Random,
        agenda: &mut Agenda,
    ) -> bool {
        let pair = &mut self.pairs[queue];
        if taken == POLL_WEIGHT || !pair.done.is_empty() {
            return true;
        }
        pair.polling = false;
        if let Some(&(at, _)) = pair.ring.front() {
            self.arm(queue, at.max(now), random, agenda);
        }
        false
    }

    /// Counts the packets still on the wire to a receive ring.
    pub(crate) fn under_way(&self) -> Counted {
        amount(self.pairs.iter().flat_map(QueuePair::under_way))
    }
}

impl Stage for NicReceive {
    fn name(&self) -> &'static str {
        "receive rings"
    }

    fn passed(&self) -> &Passed {
        &self.passed
    }

    fn held(&self) -> Counted {
        amount(self.pairs.iter().flat_map(QueuePair::waiting))
    }
}

fn amount<'a>(packets: impl Iterator<Item = &'a Packet>) -> Counted {
    let mut sum = Counted::default();
    packets.for_each(|packet| sum += Counted::new(1, u64::from(packet.len)));
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::StreamId;
    use crate::packet::Body;

    const HOST: HostId = HostId(2);
    const QUEUE: RxQueueId = RxQueueId(1);

    fn nic() -> NicReceive {
        let parameters = ReceiveParameters {
            queues: 2,
            ring: 3,
            interval: Nanos(1000),
            latency: None,
            interrupts: Interrupts::Pinned,
            cores: 4,
            merge: None,
        };
        NicReceive::new(HOST, parameters)
    }

    fn packet(number: u64) -> Packet {
        let (stream, created) = (StreamId(0), Nanos::ZERO);
        Packet { body: Body::Datagram { number }, created, stream, payload: 8, len: 60, marked: false }
    }

    #[test]
    fn interrupts_are_moderated_and_off_while_polling() {
        let (mut nic, mut random, mut agenda) = (nic(), Random::new(1), Agenda::new());
        let interrupt = |at| Some((Nanos(at), Event::Interrupt { host: HOST, queue: QUEUE }));
        nic.arrives(QUEUE, &packet(0), Nanos(500), &mut random, &mut agenda);
        nic.arrives(QUEUE, &packet(1), Nanos(600), &mut random, &mut agenda);
        assert_eq!((agenda.pop(), agenda.pop()), (interrupt(500), None));
        assert_eq!(nic.interrupt(QUEUE, Nanos(499), &mut random), None, "it is not that one");
        assert_eq!(nic.interrupt(QUEUE, Nanos(500), &mut random), Some(CoreId(1)));
        nic.arrives(QUEUE, &packet(2), Nanos(700), &mut random, &mut agenda);
        assert_eq!(agenda.pop(), None);
        assert!(nic.take_packet(QUEUE, Nanos(550), |_, _| ()).is_some());
        assert_eq!(nic.take_packet(QUEUE, Nanos(550), |_, _| ()), None);
        assert!(!nic.end_poll((QUEUE, 1), Nanos(550), &mut random, &mut agenda));
        assert_eq!(agenda.pop(), interrupt(1500));
    }

    #[test]
    fn a_full_ring_drops_what_comes_last() {
        let (mut nic, mut random, mut agenda) = (nic(), Random::new(1), Agenda::new());
        for number in 0..6 {
            nic.arrives(QUEUE, &packet(number), Nanos(number), &mut random, &mut agenda);
        }
        let mut dropped = Vec::new();
        let first = nic.take_packet(QUEUE, Nanos(4), |_, lost| dropped.push(lost.body));
        assert_eq!(first, Some(packet(0)));
        assert_eq!(dropped, [packet(3).body, packet(4).body]);
        let (held, under_way) = (nic.held().packets.0, nic.under_way().packets.0);
        assert_eq!((nic.passed.entered.packets.0, held, under_way), (5, 2, 1));
    }

    #[test]
    fn completions_go_to_the_pair_of_their_queue() {
        let (mut nic, mut random, mut agenda) = (nic(), Random::new(1), Agenda::new());
        let segment = Segment {
            skb: crate::ids::SkbId(0),
            flow: StreamId(0),
            len: 60,
            packets: 1,
            class: 0,
            band: 0,
            marked: false,
        };
        nic.completes((TxQueueId(5), segment), Nanos(9), &mut random, &mut agenda);
        assert_eq!(agenda.pop(), Some((Nanos(9), Event::Interrupt { host: HOST, queue: QUEUE })));
        let done = nic.take_completed(QUEUE);
        assert_eq!(done, [(TxQueueId(5), segment)]);
        nic.reuse_completed(QUEUE, done);
        assert!(nic.take_completed(QUEUE).is_empty());
    }
}
