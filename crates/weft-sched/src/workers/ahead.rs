//! Classes that are ahead of others, over all workers: those that give way on a link that the workers share (module `link`).
//!
//! Each child of a fair node has a level: the bytes that all workers sent of it, by weight. A child is ahead if its level is some
//! segments above that of the child furthest behind which takes part here or was served somewhere lately. A child that comes back
//! starts at the level of the one furthest behind, and none falls behind by more than some segments: what it cannot use now it does
//! not get later.
//!
//! A lane is ahead if its child is at some fair node above it. A worker gives way while all lanes are ahead that may send here.

use weft_units::{BitsPerSec, Bytes, Instant, LaneId, Nanos};

use super::line::ClassLine;
use super::shares::{Above, fair, paths};
use crate::program::{Discipline, Program};
use crate::tree::PolicyTree;
use crate::validate::Layout;
use crate::virtual_time::{CHARGE_MAX, SCALE};

/// The segments by which a child must be above another to be ahead of it, at the node's smallest weight.
const LEAD_SEGMENTS: u64 = 2;
/// The leads by which a child may fall behind.
const BEHIND_MOST: u64 = 16;
/// The span after its last service for which a child counts as one that takes part somewhere, and the segments' worth of time
/// that is added.
const LATELY: Nanos = Nanos::from_millis(1);
const LATELY_SEGMENTS: u64 = 16;

/// A child of a fair node.
#[derive(Debug)]
struct Child {
    weight: u64,
    /// The bytes of all workers at the last look.
    total: u64,
    level: u64,
    /// The last look at which it took part; `None` before.
    seen: Option<Instant>,
}

/// A fair node.
#[derive(Debug)]
struct Node {
    node: u32,
    /// The first of its lines.
    first: usize,
    children: Box<[Child]>,
    lead: u64,
    /// The level of the child furthest behind of those that take part somewhere.
    least: u64,
}

/// The levels, as a worker knows them.
#[derive(Debug)]
pub(super) struct Ahead {
    nodes: Box<[Node]>,
    /// By lane.
    above: Box<[Above]>,
    lately: Nanos,
}

impl Ahead {
    /// The levels from now on, on a link of `rate` with segments of this length.
    pub(super) fn new(
        (program, layout): (&Program, &Layout),
        lines: &[ClassLine],
        (rate, segment): (BitsPerSec, Bytes),
    ) -> Self {
        let (mut first, mut nodes) = (0, Vec::new());
        for (node, children) in fair(program) {
            let Discipline::Wfq(weights) = &program.nodes[node as usize].discipline else { continue };
            let child = |(slot, weight): (usize, u64)| {
                let total = lines.get(first + slot).map_or(0, |line| line.add(0));
                Child { weight, total, level: 0, seen: None }
            };
            let weights: Vec<u64> = weights.iter().map(|weight| u64::from(weight.get())).collect();
            let lead = units(segment.get() * LEAD_SEGMENTS, weights.iter().copied().min().unwrap_or(1));
            let children_of = weights.into_iter().enumerate().map(child).collect();
            nodes.push(Node { node, first, children: children_of, lead, least: 0 });
            first += children;
        }
        let lately = LATELY + Nanos(rate.time_for(segment).get().saturating_mul(LATELY_SEGMENTS));
        Self { nodes: nodes.into(), above: paths(program, layout), lately }
    }

    /// Learns what all workers sent.
    pub(super) fn look(&mut self, lines: &[ClassLine], tree: &PolicyTree, now: Instant) {
        for node in &mut self.nodes {
            node.look(lines, tree, now, self.lately);
        }
    }

    /// Whether all lanes that may send here are ahead, and there are some.
    pub(super) fn is_ahead(&self, tree: &PolicyTree) -> bool {
        let mut some = false;
        for (lane, above) in self.above.iter().enumerate() {
            if tree.lane_may_send(LaneId::from_index(lane)) {
                some = true;
                if !above.iter().any(|&(node, slot)| self.nodes[node as usize].is_ahead(slot as usize)) {
                    return false;
                }
            }
        }
        some
    }
}

impl Node {
    fn look(&mut self, lines: &[ClassLine], tree: &PolicyTree, now: Instant, lately: Nanos) {
        let (mut least, mut most) = (u64::MAX, 0);
        for (slot, child) in self.children.iter_mut().enumerate() {
            let total = lines[self.first + slot].add(0);
            let more = total.wrapping_sub(core::mem::replace(&mut child.total, total));
            if more > 0 || tree.child_takes_part(self.node, slot) {
                if !child.takes_part(now, lately) {
                    child.level = child.level.max(self.least);
                }
                child.level = child.level.saturating_add(units(more, child.weight));
                child.seen = Some(now);
            }
            if child.takes_part(now, lately) {
                (least, most) = (least.min(child.level), most.max(child.level));
            }
        }
        let floor = most.saturating_sub(self.lead.saturating_mul(BEHIND_MOST)).max(least);
        if least == u64::MAX {
            return;
        }
        // Only differences matter.
        for child in &mut self.children {
            child.level = if child.takes_part(now, lately) { child.level.max(floor) } else { child.level };
            child.level = child.level.saturating_sub(floor);
        }
        self.least = 0;
    }

    fn is_ahead(&self, slot: usize) -> bool {
        self.children[slot].level > self.least.saturating_add(self.lead)
    }
}

impl Child {
    fn takes_part(&self, now: Instant, lately: Nanos) -> bool {
        self.seen.is_some_and(|seen| now.saturating_since(seen) <= lately)
    }
}

/// The advance of a level by `bytes` at `weight`.
fn units(bytes: u64, weight: u64) -> u64 {
    bytes.min(CHARGE_MAX) * SCALE / weight
}
