//! Leading classes, over all workers: those that give way on a link that the workers share (module `link`). "Leading" has the
//! meaning that it has in wireless fair queueing (CIF-Q; Ng, Stoica and Zhang, INFOCOM 1998): a leading class has more than its share.
//!
//! Each child of a fair node has a level: the bytes that all workers sent of it, by weight. A child leads if its level is some
//! segments above that of the child furthest behind which takes part here or was served somewhere lately. A child that comes back
//! starts at the level of the one furthest behind, and none falls behind by more than some segments: what it cannot use now it does
//! not get later.
//!
//! A lane leads if its child leads at some fair node above it. A worker gives way while all lanes lead that may send here.
//! Until then it may send what brings its children that far above those that it does not have: its *room*, to which the slots of the
//! link are cut. A longer one would take a class of small weight beyond its share by a whole slot.

use weft_units::{BitsPerSec, Bytes, Instant, LaneId, Nanos};

use super::lease::Settings;
use super::line::ClassLine;
use super::shares::{Above, fair, paths};
use crate::program::{Discipline, Program};
use crate::tree::PolicyTree;
use crate::validate::Layout;
use crate::virtual_time::{CHARGE_MAX, SCALE};

/// The least lead of a leading child over another, in segments at the node's smallest weight.
const LEAD_SEGMENTS: u64 = 2;
/// The most leads that a child may fall behind, besides what another of the smallest weight sends in a slot of the link: what is
/// forgotten of a child that waits for its slot is lost to it.
const BEHIND_MOST: u64 = 16;
/// The span that a child counts as taking part somewhere after its last service, and the segments' worth of time that is added.
const LATELY: Nanos = Nanos::from_millis(1);
const LATELY_SEGMENTS: u64 = 16;
/// The exchanges that a child counts as waiting for the link, besides a segment's time.
const WANTED_PERIODS: u64 = 2;

/// A child of a fair node.
#[derive(Debug)]
struct Child {
    weight: u64,
    /// The bytes of all workers at the last look.
    total: u64,
    level: u64,
    /// The last look at which it took part; `None` before.
    seen: Option<Instant>,
    /// The lanes below it that may send here.
    lanes: u64,
    /// Whether there were some at the last look.
    wanted_here: bool,
    /// Whether some worker lately had packets that only the link keeps.
    wanted: bool,
}

/// A fair node.
#[derive(Debug)]
struct Node {
    node: u32,
    /// The first of its lines.
    first: usize,
    children: Box<[Child]>,
    lead: u64,
    /// The distance that a child may fall behind.
    behind: u64,
    /// The level of the child furthest behind of those that take part somewhere.
    least: u64,
    /// The same, of those that may not send here.
    least_elsewhere: Option<u64>,
}

/// The levels, as a worker has them.
#[derive(Debug)]
pub(super) struct LeadingClasses {
    nodes: Box<[Node]>,
    /// By lane.
    above: Box<[Above]>,
    lately: Nanos,
    wanted: Nanos,
}

impl LeadingClasses {
    /// The levels from now on, on a link of `rate`.
    pub(super) fn new(
        (program, layout): (&Program, &Layout),
        lines: &[ClassLine],
        (rate, settings): (BitsPerSec, Settings),
    ) -> Self {
        let Settings { segment, slot, .. } = settings;
        let (mut first, mut nodes) = (0, Vec::new());
        for (node, children) in fair(program) {
            let Discipline::Wfq(weights) = &program.nodes[node as usize].discipline else { continue };
            let child = |(slot, weight): (usize, u64)| {
                let total = lines.get(first + slot).map_or(0, |line| line.add(0));
                Child { weight, total, level: 0, seen: None, lanes: 0, wanted_here: false, wanted: false }
            };
            let weights: Vec<u64> = weights.iter().map(|weight| u64::from(weight.get())).collect();
            let smallest = weights.iter().copied().min().unwrap_or(1);
            let lead = units(segment.get() * LEAD_SEGMENTS, smallest);
            let behind = lead.saturating_mul(BEHIND_MOST) + units(rate.bytes_in(slot).get(), smallest);
            let children_of = weights.into_iter().enumerate().map(child).collect();
            let (least, least_elsewhere) = (0, None);
            nodes.push(Node { node, first, children: children_of, lead, behind, least, least_elsewhere });
            first += children;
        }
        let lately = LATELY + Nanos(rate.time_for(segment).get().saturating_mul(LATELY_SEGMENTS));
        let wanted = Nanos(settings.period.get() * WANTED_PERIODS) + rate.time_for(segment);
        Self { nodes: nodes.into(), above: paths(program, layout), lately, wanted }
    }

    /// Learns what all workers sent, and which classes wait for the link.
    pub(super) fn look(&mut self, lines: &[ClassLine], tree: &PolicyTree, now: Instant) {
        let Self { nodes, above, lately, wanted } = self;
        nodes.iter_mut().flat_map(|node| &mut node.children).for_each(|child| child.lanes = 0);
        for (lane, above) in above.iter().enumerate() {
            if tree.lane_may_send(LaneId::from_index(lane)) {
                above.iter().for_each(|&(node, slot)| {
                    nodes[node as usize].children[slot as usize].lanes += 1;
                });
            }
        }
        nodes.iter_mut().for_each(|node| node.look(lines, tree, now, (*lately, *wanted)));
    }

    /// Whether all lanes that may send here lead, and there are some.
    pub(super) fn all_lead(&self, tree: &PolicyTree) -> bool {
        let mut some = false;
        for (lane, above) in self.above.iter().enumerate() {
            if tree.lane_may_send(LaneId::from_index(lane)) {
                some = true;
                if !above.iter().any(|&(node, slot)| self.nodes[node as usize].leads(slot as usize)) {
                    return false;
                }
            }
        }
        some
    }

    /// The bytes that the lanes that may send here may send until they lead; the most there are if no other child waits.
    pub(super) fn room(&self, tree: &PolicyTree) -> Bytes {
        let may_send = |lane: &usize| tree.lane_may_send(LaneId::from_index(*lane));
        let of_lane = |lane: usize| {
            let of = |&(node, slot): &(u32, u32)| self.nodes[node as usize].room(slot as usize);
            self.above[lane].iter().map(of).min().unwrap_or(u64::MAX)
        };
        Bytes((0..self.above.len()).filter(may_send).map(of_lane).fold(0, u64::saturating_add))
    }
}

impl Node {
    fn look(
        &mut self,
        lines: &[ClassLine],
        tree: &PolicyTree,
        now: Instant,
        (lately, wanted): (Nanos, Nanos),
    ) {
        let (mut least, mut most) = (u64::MAX, 0);
        for (slot, child) in self.children.iter_mut().enumerate() {
            let line = &lines[self.first + slot];
            let wanted_here = core::mem::replace(&mut child.wanted_here, child.lanes > 0);
            if child.wanted_here {
                line.want(now.as_nanos());
            } else if wanted_here {
                line.want_no_more();
            }
            child.wanted = now.as_nanos().saturating_sub(line.wanted()) <= wanted.get();
            let total = line.add(0);
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
        if least == u64::MAX {
            return;
        }
        let floor = most.saturating_sub(self.behind).max(least);
        // Only differences matter.
        for child in &mut self.children {
            child.level = if child.takes_part(now, lately) { child.level.max(floor) } else { child.level };
            child.level = child.level.saturating_sub(floor);
        }
        let levels = |lanes: bool| {
            let of = self.children.iter().filter(move |child| child.takes_part(now, lately) && child.wanted);
            of.filter(move |child| lanes || child.lanes == 0).map(|child| child.level).min()
        };
        (self.least, self.least_elsewhere) = (levels(true).unwrap_or(0), levels(false));
    }

    /// The part of a lane in the bytes that bring the child at `slot` a lead above those elsewhere.
    fn room(&self, slot: usize) -> u64 {
        let Some(least) = self.least_elsewhere else { return u64::MAX };
        let child = &self.children[slot];
        let units = least.saturating_add(self.lead).saturating_sub(child.level);
        let bytes = u128::from(units) * u128::from(child.weight) / u128::from(SCALE);
        u64::try_from(bytes).unwrap_or(u64::MAX) / child.lanes.max(1)
    }

    fn leads(&self, slot: usize) -> bool {
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
