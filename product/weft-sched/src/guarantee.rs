//! The rate that a program guarantees to each leaf: its rate while every leaf is backlogged.
//!
//! From the root downwards:
//! 1. The root has the rate of the link.
//! 2. Weighted fair queueing divides a node's rate by the weights of all children.
//! 3. Strict priority gives the first child all of it. The next child is guaranteed the part that the children before it
//!    cannot use: a child cannot use more than the limits of its lanes allow together.
//! 4. A leaf is guaranteed no more than its own limits allow.
//!
//! A leaf may get more at any time, since the schedule is work-conserving; the guarantee says what no other leaf can
//! take from it. Limits that several lanes share count for each of them, so the guarantee errs on the low side.

use crate::program::{Child, Discipline, NodeSpec, Program};
use weft_units::{BitsPerSec, LeafId};

/// The guaranteed rate of each leaf on a link of `link`, by leaf. The program must be valid.
pub fn guaranteed_rates(program: &Program, link: BitsPerSec) -> Vec<BitsPerSec> {
    let most = most_by_leaf(program);
    let mut rates = vec![BitsPerSec::ZERO; program.leaves.len()];
    let mut open = vec![(program.root, link)];
    while let Some((child, rate)) = open.pop() {
        match child {
            Child::Leaf(leaf) => {
                if let (Some(of), Some(most)) = (rates.get_mut(leaf.index()), most.get(leaf.index())) {
                    *of = rate.min(*most);
                }
            }
            Child::Node(node) => {
                if let Some(node) = program.nodes.get(node.index()) {
                    open.extend(divide(program, node, rate, &most));
                }
            }
        }
    }
    rates
}

/// Divides `rate` among the children of `node`.
fn divide(
    program: &Program,
    node: &NodeSpec,
    rate: BitsPerSec,
    most: &[BitsPerSec],
) -> Vec<(Child, BitsPerSec)> {
    match &node.discipline {
        Discipline::Wfq(weights) => {
            let sum: u128 = weights.iter().map(|weight| u128::from(weight.get())).sum();
            let part = |weight: u32| u128::from(rate.get()) * u128::from(weight) / sum.max(1);
            let part = |weight: u32| BitsPerSec(u64::try_from(part(weight)).unwrap_or(u64::MAX));
            node.children.iter().zip(weights).map(|(child, weight)| (*child, part(weight.get()))).collect()
        }
        Discipline::Priority => {
            let mut left = rate;
            let mut take = |child: &Child| {
                let given = (*child, left);
                left = left.saturating_sub(most_of(program, *child, most));
                given
            };
            node.children.iter().map(&mut take).collect()
        }
        // Nothing is known of the bytes that another order gives, so nothing is guaranteed below it.
        _ => node.children.iter().map(|child| (*child, BitsPerSec::ZERO)).collect(),
    }
}

/// The most that the limits of each leaf's lanes allow together.
fn most_by_leaf(program: &Program) -> Vec<BitsPerSec> {
    let mut most = vec![BitsPerSec::ZERO; program.leaves.len()];
    for lane in &program.lanes {
        let limits = lane.limits.iter().filter_map(|limit| program.limits.get(limit.index()));
        let rate = limits.map(|limit| limit.rate).min().unwrap_or(BitsPerSec(u64::MAX));
        if let Some(sum) = most.get_mut(lane.leaf.index()) {
            *sum = BitsPerSec(sum.get().saturating_add(rate.get()));
        }
    }
    most
}

/// The most that the leaves below `child` can use together.
fn most_of(program: &Program, child: Child, most: &[BitsPerSec]) -> BitsPerSec {
    let leaf = |leaf: LeafId| most.get(leaf.index()).copied().unwrap_or(BitsPerSec::ZERO);
    let (mut open, mut sum) = (vec![child], 0_u64);
    while let Some(child) = open.pop() {
        match child {
            Child::Leaf(id) => sum = sum.saturating_add(leaf(id).get()),
            Child::Node(id) => {
                open.extend(
                    program.nodes.get(id.index()).into_iter().flat_map(|node| node.children.iter().copied()),
                );
            }
        }
    }
    BitsPerSec(sum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::{LaneSpec, LeafDiscipline, LeafSpec, LimitSpec};
    use weft_units::{Bytes, ClassId, LimitId, NodeId, Packets, Weight};

    /// A program of `limits.len()` leaves, each with one lane and, if given, a limit in megabits.
    fn program(nodes: Vec<(Discipline, Vec<Child>)>, limits: &[Option<u64>]) -> Program {
        let node = |(discipline, children)| NodeSpec { name: String::new(), discipline, children };
        let mut program = Program {
            root: Child::Node(NodeId(0)),
            nodes: nodes.into_iter().map(node).collect(),
            leaves: Vec::new(),
            limits: Vec::new(),
            lanes: Vec::new(),
        };
        for (leaf, limit) in limits.iter().enumerate() {
            program.leaves.push(LeafSpec { name: String::new(), discipline: LeafDiscipline::Fifo });
            let mut passes = Vec::new();
            if let Some(megabits) = limit {
                passes.push(LimitId::from_index(program.limits.len()));
                let rate = BitsPerSec(megabits * 1_000_000);
                program.limits.push(LimitSpec { name: String::new(), rate, burst: Bytes::ZERO });
            }
            let (class, leaf) = (ClassId::from_index(leaf), LeafId::from_index(leaf));
            program.lanes.push(LaneSpec { class, leaf, limits: passes, packet_bound: Packets::MAX });
        }
        program
    }

    fn megabits(program: &Program) -> Vec<u64> {
        let rates = guaranteed_rates(program, BitsPerSec(1_000_000_000));
        rates.iter().map(|rate| rate.get() / 1_000_000).collect()
    }

    fn leaf(number: u32) -> Child {
        Child::Leaf(LeafId(number))
    }

    #[test]
    fn the_first_of_a_priority_has_all_of_it() {
        let program = program(vec![(Discipline::Priority, vec![leaf(0), leaf(1), leaf(2)])], &[None; 3]);
        assert_eq!(megabits(&program), [1000, 0, 0]);
    }

    #[test]
    fn a_limit_above_leaves_the_rest_to_the_next() {
        let nodes = vec![(Discipline::Priority, vec![leaf(0), leaf(1), leaf(2)])];
        assert_eq!(megabits(&program(nodes, &[Some(100), Some(250), None])), [100, 250, 650]);
    }

    #[test]
    fn weights_divide_and_limits_cap() {
        let weights = vec![Weight::new(3).expect("weight"), Weight::ONE];
        let nodes = vec![
            (Discipline::Wfq(weights), vec![Child::Node(NodeId(1)), leaf(2)]),
            (Discipline::Priority, vec![leaf(0), leaf(1)]),
        ];
        assert_eq!(megabits(&program(nodes, &[Some(500), None, Some(200)])), [500, 250, 200]);
    }
}
