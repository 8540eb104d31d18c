//! Queue assignment: the choice of a flow's transmit queue.
//!
//! To add one, write a type that implements [`QueueAssignment`], and a line in [`build`].

use crate::ids::{CoreId, StreamId};
use weft_units::{Bytes, TxQueueId};

/// The names known to [`build`].
pub const NAMES: &[&str] = &["hash", "dqa", "overflow", "round-robin", "two-choices"];

/// Returns the queue assignment with a name, for one host; `None` for an unknown name.
pub fn build(name: &str) -> Option<Box<dyn QueueAssignment>> {
    match name {
        "hash" => Some(Box::new(Hash)),
        "dqa" => Some(Box::new(LeastOccupied)),
        "overflow" => Some(Box::new(Overflow)),
        "round-robin" => Some(Box::new(RoundRobinAssignment::default())),
        "two-choices" => Some(Box::new(TwoChoices)),
        _ => None,
    }
}

/// The properties of a flow that needs a queue.
#[derive(Clone, Copy, Debug)]
pub struct FlowFacts {
    /// The flow's stream.
    pub flow: StreamId,
    /// Hash of its addresses and ports, fixed for the flow (`skb_get_hash`).
    pub hash: u32,
    /// Its weight.
    pub weight: u32,
    /// The previous queue, if any.
    pub before: Option<TxQueueId>,
    /// The sending core.
    pub core: CoreId,
}

/// The occupancy of a queue, qdisc and ring together.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Occupancy {
    /// Sum of the weights of active flows (Titan, ATC 2017, section 3.1).
    pub weight: u64,
    /// Number of flows with outstanding segments.
    pub flows: u32,
    /// Outstanding bytes.
    pub bytes: Bytes,
}

/// A method of assigning flows to queues.
pub trait QueueAssignment: Send {
    /// Returns the queue for the segments of a flow without outstanding segments. `allowed` is never empty: the queues of the
    /// core's XPS pool, or all queues. `occupancy` covers all queues, by [`TxQueueId`].
    fn assign(&mut self, flow: &FlowFacts, allowed: &[TxQueueId], occupancy: &[Occupancy]) -> TxQueueId;

    /// Whether a flow is assigned again after its outstanding segments have left (dynamic), or only once (hash).
    fn is_dynamic(&self) -> bool;
}

/// The default of Linux without XPS and without a driver's own queue assignment: the flow's hash, scaled to the number of queues
/// (`skb_tx_hash`). Several flows can share one queue while others are empty.
#[derive(Clone, Copy, Default, Debug)]
pub struct Hash;

impl QueueAssignment for Hash {
    fn assign(&mut self, flow: &FlowFacts, allowed: &[TxQueueId], _: &[Occupancy]) -> TxQueueId {
        allowed.get(scale(flow.hash, allowed.len())).copied().unwrap_or_default()
    }

    fn is_dynamic(&self) -> bool {
        false
    }
}

/// Titan's dynamic queue assignment (TR, section 4.1). It scans queues as Titan's kernel does (`net/core/dev.c` and
/// `lib/dynamic_queue_assignment.c` of its fork): the first empty queue in the given order, otherwise the first queue of the
/// least weight.
#[derive(Clone, Copy, Default, Debug)]
pub struct LeastOccupied;

impl QueueAssignment for LeastOccupied {
    fn assign(&mut self, _: &FlowFacts, allowed: &[TxQueueId], occupancy: &[Occupancy]) -> TxQueueId {
        let mut best = allowed.first().copied().unwrap_or_default();
        let mut least = u64::MAX;
        for &queue in allowed {
            let weight = occupancy_of(queue, occupancy).weight;
            if weight < least {
                (best, least) = (queue, weight);
            }
            if least == 0 {
                break;
            }
        }
        best
    }

    fn is_dynamic(&self) -> bool {
        true
    }
}

/// `overflowq` of Titan's kernel: the first queue without flows in the given order, otherwise the last queue. Every queue except
/// the last then has at most one flow.
#[derive(Clone, Copy, Default, Debug)]
pub struct Overflow;

impl QueueAssignment for Overflow {
    fn assign(&mut self, _: &FlowFacts, allowed: &[TxQueueId], occupancy: &[Occupancy]) -> TxQueueId {
        let empty = allowed.iter().find(|queue| occupancy_of(**queue, occupancy).flows == 0);
        empty.or(allowed.last()).copied().unwrap_or_default()
    }

    fn is_dynamic(&self) -> bool {
        true
    }
}

/// Each new flow gets the queue after that of the previous flow, and keeps it. Flows with equal lifetimes are spread evenly,
/// regardless of their hashes. With several pools of queues (XPS), the pools share one counter.
#[derive(Clone, Copy, Default, Debug)]
pub struct RoundRobinAssignment {
    assigned: usize,
}

impl QueueAssignment for RoundRobinAssignment {
    fn assign(&mut self, _: &FlowFacts, allowed: &[TxQueueId], _: &[Occupancy]) -> TxQueueId {
        let at = self.assigned % allowed.len().max(1);
        self.assigned = self.assigned.wrapping_add(1);
        allowed.get(at).copied().unwrap_or_default()
    }

    fn is_dynamic(&self) -> bool {
        false
    }
}

/// The power of two choices (Mitzenmacher 2001): a second candidate reduces the greatest occupancy far below that of a single
/// hash, and only two queues are examined regardless of their number.
#[derive(Clone, Copy, Default, Debug)]
pub struct TwoChoices;

impl QueueAssignment for TwoChoices {
    fn assign(&mut self, flow: &FlowFacts, allowed: &[TxQueueId], occupancy: &[Occupancy]) -> TxQueueId {
        let first = scale(flow.hash, allowed.len());
        // Scaling uses a hash's high bits; the reversed hash selects the other queue among the remaining ones by its low bits.
        let other = scale(flow.hash.reverse_bits(), allowed.len().saturating_sub(1));
        let second = if other < first { other } else { other + 1 };
        let candidates = [first, second].into_iter().filter_map(|at| allowed.get(at).copied());
        // For equal occupancies, `min_by_key` returns the first.
        candidates.min_by_key(|queue| occupancy_of(*queue, occupancy).weight).unwrap_or_default()
    }

    fn is_dynamic(&self) -> bool {
        true
    }
}

/// Returns the occupancy of a queue; a queue beyond the table is empty.
fn occupancy_of(queue: TxQueueId, occupancy: &[Occupancy]) -> Occupancy {
    occupancy.get(queue.index()).copied().unwrap_or_default()
}

/// Scales a hash to `0..n` without a division: `reciprocal_scale` in `include/linux/kernel.h`. Returns 0 if `n` is 0.
const fn scale(hash: u32, n: usize) -> usize {
    ((hash as u64).saturating_mul(n as u64) >> 32) as usize
}
