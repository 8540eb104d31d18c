//! The reference of the descriptor layer.

use std::collections::VecDeque;

use weft_sched::{Departure, Dequeue, Descriptor, Program};
use weft_units::{FlowId, Instant, LaneId};

use super::{Answer, Reference};

pub(crate) struct PacketReference {
    pub(crate) tree: Reference,
    queues: Vec<VecDeque<(Descriptor, u64)>>,
    bounds: Vec<u64>,
    pub(crate) held: Vec<u64>,
}

impl PacketReference {
    pub(crate) fn new(program: &Program) -> Self {
        Self {
            tree: Reference::new(program),
            queues: Vec::new(),
            bounds: program.lanes.iter().map(|lane| lane.packet_bound.get()).collect(),
            held: vec![0; program.lanes.len()],
        }
    }

    pub(crate) fn add_flow(&mut self, at: FlowId, lane: LaneId, weight: u32) {
        self.tree.add_flow(at, lane, weight);
        self.queues.resize(self.queues.len().max(at.index() + 1), VecDeque::new());
    }

    pub(crate) fn change(&mut self, program: &Program, heirs: &[(LaneId, LaneId)], now: Instant) {
        let queues = &self.queues;
        let arrival = |at: usize| queues[at].front().map_or(0, |(_, arrival): &(Descriptor, u64)| *arrival);
        self.tree.change_by(program, heirs, now, |at, _, _| arrival(at));
        self.bounds = program.lanes.iter().map(|lane| lane.packet_bound.get()).collect();
        self.count(program.lanes.len());
    }

    /// Whether the flow exists.
    pub(crate) fn move_flow(&mut self, at: FlowId, lane: LaneId) -> bool {
        let arrival = self.queues.get(at.index()).and_then(|queue| queue.front()).map_or(0, |(_, n)| *n);
        let moved = self.tree.move_flow_by(at, lane, |_, _| arrival);
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
    pub(crate) fn enqueue(&mut self, flow: FlowId, descriptor: Descriptor) -> bool {
        if !self.tree.exists(flow) {
            return false;
        }
        let lane = self.tree.lane_of(flow).index();
        if self.held[lane] >= self.bounds[lane] {
            return false;
        }
        self.held[lane] += 1;
        let arrival = self.tree.arrival();
        let queue = &mut self.queues[flow.index()];
        queue.push_back((descriptor, arrival));
        if queue.len() == 1 {
            self.tree.activate_at(flow, arrival);
        }
        true
    }

    pub(crate) fn dequeue(&mut self, now: Instant) -> Dequeue {
        match self.tree.next(now) {
            Answer::Idle => Dequeue::Empty,
            Answer::Wait(until) => Dequeue::Wait(until),
            Answer::Turn(flow, lane) => {
                let queue = &mut self.queues[flow.index()];
                let (descriptor, _) = queue.pop_front().expect("a backlogged flow holds a packet");
                let next = queue.front().map(|(_, arrival)| *arrival);
                self.tree.finish_at(descriptor.len, next, now);
                self.held[lane.index()] -= 1;
                Dequeue::Packet(Departure { flow, lane, descriptor })
            }
        }
    }
}
