//! The reference of the descriptor layer.

use std::collections::VecDeque;

use weft_rank::{Metadata, Metadatum};
use weft_sched::{Departure, Dequeue, Descriptor, LeafVerdict, Program};
use weft_units::{Bytes, FlowId, Instant, LaneId};

use super::{Answer, Head, Reference};

pub(crate) struct PacketReference {
    pub(crate) tree: Reference,
    queues: Vec<VecDeque<(Descriptor, u64, Metadata)>>,
    bounds: Vec<u64>,
    pub(crate) held: Vec<u64>,
    pub(crate) dropped: u64,
}

impl PacketReference {
    pub(crate) fn new(program: &Program) -> Self {
        Self {
            tree: Reference::new(program),
            queues: Vec::new(),
            bounds: program.lanes.iter().map(|lane| lane.packet_bound.get()).collect(),
            held: vec![0; program.lanes.len()],
            dropped: 0,
        }
    }

    pub(crate) fn add_flow(&mut self, at: FlowId, lane: LaneId, weight: u32) {
        self.tree.add_flow(at, lane, weight);
        self.queues.resize(self.queues.len().max(at.index() + 1), VecDeque::new());
    }

    pub(crate) fn change(&mut self, program: &Program, heirs: &[(LaneId, LaneId)], now: Instant) {
        let queues = &self.queues;
        let arrival = |at: usize| queues[at].front().map_or(0, |first: &(Descriptor, u64, _)| first.1);
        self.tree.change_by(program, heirs, now, |at, _, _| arrival(at), |at| waiting(&queues[at]));
        self.bounds = program.lanes.iter().map(|lane| lane.packet_bound.get()).collect();
        self.count(program.lanes.len());
    }

    /// Whether the flow exists.
    pub(crate) fn move_flow(&mut self, at: FlowId, lane: LaneId) -> bool {
        let queue = self.queues.get(at.index()).cloned().unwrap_or_default();
        let arrival = queue.front().map_or(0, |first| first.1);
        let moved = self.tree.move_flow_by(at, lane, |_, _| arrival, || waiting(&queue));
        self.count(self.held.len());
        moved
    }

    /// Counts the packets of each lane.
    fn count(&mut self, lanes: usize) {
        self.held = vec![0; lanes];
        for (at, queue) in self.queues.iter().enumerate().filter(|(_, queue)| !queue.is_empty()) {
            self.held[self.tree.lane_of(FlowId::from_index(at)).index()] += queue.len() as u64;
        }
    }

    /// Whether the packet was taken.
    pub(crate) fn enqueue(
        &mut self,
        flow: FlowId,
        descriptor: Descriptor,
        told: Metadata,
        now: Instant,
    ) -> bool {
        if !self.tree.exists(flow) {
            return false;
        }
        let lane = self.tree.lane_of(flow).index();
        if self.held[lane] >= self.bounds[lane] {
            return false;
        }
        self.held[lane] += 1;
        let mut packet = Metadata::UNKNOWN;
        if self.tree.is_scripted(flow) {
            self.tree.observe_time(now);
            packet =
                told.with(Metadatum::Length, descriptor.len.get()).with(Metadatum::Arrived, now.as_nanos());
        }
        let arrival = self.tree.arrival();
        let queue = &mut self.queues[flow.index()];
        queue.push_back((descriptor, arrival, packet));
        if queue.len() == 1 {
            self.tree.activate_packet(flow, arrival, &packet);
        } else {
            self.tree.arrived(flow, &packet);
        }
        true
    }

    pub(crate) fn dequeue(&mut self, now: Instant) -> Dequeue {
        let (flow, lane) = match self.tree.next(now) {
            Answer::Idle => return Dequeue::Empty,
            Answer::Wait(until) => return Dequeue::Wait(until),
            Answer::Turn(flow, lane) => (flow, lane),
        };
        let verdict = self.tree.fetched(flow, now);
        let queue = &mut self.queues[flow.index()];
        let (descriptor, ..) = queue.pop_front().expect("a backlogged flow holds a packet");
        let next = queue.front().map(|(descriptor, arrival, packet)| {
            (*arrival, packet.with(Metadatum::Length, descriptor.len.get()))
        });
        let sent = if verdict == LeafVerdict::Drop { Bytes::ZERO } else { descriptor.len };
        self.tree.finish_packet(sent, (1, descriptor.len.get()), next, now);
        self.held[lane.index()] -= 1;
        let departure = Departure { flow, lane, descriptor };
        if verdict != LeafVerdict::Drop {
            return Dequeue::Packet(departure);
        }
        self.dropped += 1;
        Dequeue::Drop(departure)
    }
}

/// The first packet of a flow that was below no algorithm, and what waits.
fn waiting(queue: &VecDeque<(Descriptor, u64, Metadata)>) -> Head {
    let bytes = queue.iter().map(|(descriptor, ..)| descriptor.len.get()).sum();
    let first = queue.front();
    let packet = first.map_or(Metadata::UNKNOWN, |(descriptor, ..)| {
        Metadata::UNKNOWN.with(Metadatum::Length, descriptor.len.get())
    });
    Head { packet, arrival: first.map_or(0, |first| first.1), queued: (queue.len() as u64, bytes) }
}
