//! Shares over workers: what others sent of a class is charged to the class here.
//!
//! Each child of a fair node has a [`ClassLine`]. At an exchange a worker adds the bytes that it sent of the child since the last
//! one, learns the bytes of the others, and lets the child's tag in its own tree advance by these, as if they had been sent here.
//! So all trees agree on who is behind, and each continues to serve the child that is furthest behind of those that it has.
//!
//! * Only a child that takes part here (it is backlogged, also if it waits for a limit, or was served since the last exchange) is charged. A class that comes back
//!   starts at virtual time, as in one tree: no credit for the time that it was away, and no debt for what it had elsewhere.
//! * The least charge of the node's children is deducted from all, since only differences of tags matter. Virtual time stays that
//!   of this worker's own service.
//! * A charge is spread over twice as many exchanges as there are workers: all of them correct an error, and together not more than it.
//! * A charge moves a tag at most some periods' service ahead of virtual time. A class that others serve better than this worker can
//!   is thus here again within that span when they cease.
//!
//! Nothing here records which workers exist, nor when each last came; their number is only that of the damping.

use weft_units::{Bytes, LaneId};

use super::line::{ClassLine, Known};
use crate::program::{Discipline, Program};
use crate::tree::PolicyTree;
use crate::validate::Layout;
use crate::virtual_time::{CHARGE_MAX, SCALE};

/// The exchanges over which a charge is spread, for each worker. All workers see an error and correct it, each at once and not knowing
/// of the others; spread over as many exchanges as there are workers or more, the corrections add up to one.
const DAMPING: u64 = 2;

/// The exchanges' worth of service that a charge may move a tag ahead of virtual time: at least this, and four times those over
/// which it is spread.
const LEAD: u64 = 64;

/// The segments' worth of service, at the node's smallest weight, that it may move a tag in any case.
const LEAD_SEGMENTS: u64 = 8;

/// A child of a fair node, as one worker has it.
#[derive(Debug)]
struct Portion {
    weight: u64,
    /// The bytes sent here since the last exchange.
    own: u64,
    known: Known,
    /// Whether the child took part at the last exchange.
    takes_part: bool,
    /// The tag's advance by what others sent that is not yet charged.
    owed: u64,
}

/// A fair node, as one worker has it.
#[derive(Debug)]
struct FairNode {
    node: u32,
    /// The first of its lines.
    first: usize,
    portions: Box<[Portion]>,
    least_weight: u64,
    virtual_time: u64,
    /// A usual advance of virtual time from one exchange to the next: the largest, which decays.
    advance: u64,
}

/// The fair nodes above a lane, as positions in [`Shares::nodes`], and the slot at each.
pub(super) type Above = Box<[(u32, u32)]>;

/// A worker's part in the shares.
#[derive(Debug)]
pub(super) struct Shares {
    nodes: Box<[FairNode]>,
    /// By lane.
    above: Box<[Above]>,
    /// The bytes of each lane at the last exchange.
    sent: Box<[u64]>,
    /// The bytes of each lane, which the caller writes before an exchange.
    pub(super) totals: Box<[u64]>,
}

/// The number of lines that the fair nodes of `program` need.
pub(super) fn lines(program: &Program) -> usize {
    fair(program).map(|(_, weights)| weights).sum()
}

/// The fair nodes and their numbers of children.
pub(super) fn fair(program: &Program) -> impl Iterator<Item = (u32, usize)> {
    let nodes = program.nodes.iter().enumerate();
    nodes
        .filter(|(_, spec)| matches!(spec.discipline, Discipline::Wfq(_)) && !spec.is_vacant())
        .map(|(at, spec)| (at as u32, spec.children.len()))
}

/// The fair nodes above each lane, by their positions among the fair nodes.
pub(super) fn paths(program: &Program, layout: &Layout) -> Box<[Above]> {
    let mut at = vec![None; program.nodes.len()];
    for (position, (node, _)) in fair(program).enumerate() {
        at[node as usize] = Some(position as u32);
    }
    let above = program.lanes.iter().map(|lane| {
        let leaf = layout.leaf_parents.get(lane.leaf.index()).copied().flatten();
        let up = |&(node, _): &(u32, u32)| layout.node_parents[node as usize];
        let path = core::iter::successors(leaf, up);
        path.filter_map(|(node, slot)| at[node as usize].map(|at| (at, slot))).collect()
    });
    above.collect()
}

impl Shares {
    pub(super) fn new(program: &Program, layout: &Layout) -> Self {
        let mut first = 0;
        let mut nodes = Vec::new();
        for (node, children) in fair(program) {
            let Discipline::Wfq(weights) = &program.nodes[node as usize].discipline else { continue };
            let portion =
                |weight: u64| Portion { weight, own: 0, known: Known::default(), takes_part: false, owed: 0 };
            let weights: Vec<u64> = weights.iter().map(|weight| u64::from(weight.get())).collect();
            nodes.push(FairNode {
                node,
                first,
                least_weight: weights.iter().copied().min().unwrap_or(1),
                portions: weights.into_iter().map(portion).collect(),
                virtual_time: 0,
                advance: 0,
            });
            first += children;
        }
        let nothing: Box<[u64]> = vec![0; program.lanes.len()].into();
        Self { above: paths(program, layout), nodes: nodes.into(), sent: nothing.clone(), totals: nothing }
    }

    /// Notes the bytes that each lane had sent before this worker began.
    pub(super) fn begin(&mut self, mut sent: impl FnMut(LaneId) -> Bytes) {
        for (lane, last) in self.sent.iter_mut().enumerate() {
            *last = sent(LaneId::from_index(lane)).get();
        }
    }

    /// One exchange.
    pub(super) fn exchange(
        &mut self,
        lines: &[ClassLine],
        segment: Bytes,
        workers: u64,
        tree: &mut PolicyTree,
    ) {
        for ((last, total), above) in self.sent.iter_mut().zip(&self.totals).zip(&self.above) {
            let own = total.saturating_sub(*last);
            *last = *total;
            if own > 0 {
                for &(node, slot) in above {
                    self.nodes[node as usize].portions[slot as usize].own += own;
                }
            }
        }
        for node in &mut self.nodes {
            node.exchange(lines, segment, workers, tree);
        }
    }
}

impl FairNode {
    fn exchange(&mut self, lines: &[ClassLine], segment: Bytes, workers: u64, tree: &mut PolicyTree) {
        let mut least = u64::MAX;
        for (slot, portion) in self.portions.iter_mut().enumerate() {
            let own = core::mem::take(&mut portion.own);
            let takes_part = own > 0 || tree.child_takes_part(self.node, slot);
            if !takes_part && !portion.takes_part {
                continue;
            }
            let news = portion.known.exchange(&lines[self.first + slot], own);
            let followed = core::mem::replace(&mut portion.takes_part, takes_part);
            portion.owed =
                if followed { portion.owed.saturating_add(units(news, portion.weight)) } else { 0 };
            if takes_part {
                least = least.min(portion.owed);
            }
        }
        if least == u64::MAX {
            return;
        }
        let damping = workers.saturating_mul(DAMPING).max(1);
        let lead = self.lead(segment, damping, tree);
        let mut changed = false;
        for (slot, portion) in self.portions.iter_mut().enumerate() {
            if !portion.takes_part {
                continue;
            }
            portion.owed = (portion.owed - least).min(lead);
            let part = portion.owed.div_ceil(damping);
            if part > 0 {
                portion.owed -= part;
                tree.charge_elsewhere(self.node, slot, part, lead);
                changed = true;
            }
        }
        if changed {
            tree.offer_again(self.node);
        }
    }

    /// The distance from virtual time to which a charge may move a tag.
    fn lead(&mut self, segment: Bytes, damping: u64, tree: &PolicyTree) -> u64 {
        let now = tree.fair_time(self.node);
        // After a rebase this is zero once.
        let advance = now.saturating_sub(core::mem::replace(&mut self.virtual_time, now));
        self.advance = advance.max(self.advance - self.advance / 8);
        let floor = units(segment.get().saturating_mul(LEAD_SEGMENTS), self.least_weight);
        self.advance
            .saturating_mul(LEAD.max(damping.saturating_mul(4)))
            .saturating_add(floor)
            .min(CHARGE_MAX * SCALE)
    }
}

/// The advance of a tag by `bytes` at `weight`.
fn units(bytes: u64, weight: u64) -> u64 {
    bytes.min(CHARGE_MAX) * SCALE / weight
}
