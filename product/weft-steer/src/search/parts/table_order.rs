//! Properties derived from a NIC's graph: the order in which packets meet the filter tables, and the default queue.

use crate::nic::configuration::{Action, Rule};
use crate::nic::{Nic, NodeKind, Order, Table, TableId, Target};
use std::collections::BTreeMap;
use weft_packet::HeaderMatch;
use weft_units::RxQueueId;

/// Returns a rule in the planner's form. In tables with priorities, rules that test more bits have higher ones, so that a rule
/// with wildcards never precedes one that it covers; 120 bits are an IPv4 five-tuple.
pub(in crate::search) fn rule_to_set(
    table: &Table,
    id: TableId,
    headers: HeaderMatch,
    queue: RxQueueId,
) -> Rule {
    const MOST_BITS: u32 = 120;
    let (first, last) = table.priorities;
    let span = u32::from(last.saturating_sub(first));
    let level = match table.order {
        Order::Priority | Order::Location => headers.bits_tested().min(MOST_BITS) * span / MOST_BITS,
        Order::Newest | Order::Disjoint => 0,
    };
    Rule { table: id, headers, priority: first + level as u8, action: Action::Queue(queue) }
}

/// Returns the queue of packets that match no rule and are not hashed: the graph's path of misses.
pub(in crate::search) fn default_queue(nic: &Nic) -> RxQueueId {
    let mut at = 0_usize;
    // At most as many steps as nodes: a graph with a cycle has no such queue.
    for _ in 0..nic.nodes.len() {
        let next = match nic.nodes.get(at).map(|node| &node.kind) {
            Some(NodeKind::Queue(queue)) => return *queue,
            Some(NodeKind::Filter { miss, .. } | NodeKind::Rss { miss }) => Some(*miss),
            Some(NodeKind::Classify { ports }) => ports.last().and_then(|port| port.to.first().copied()),
            Some(NodeKind::Logic { on_true, .. }) => on_true.first().copied(),
            Some(NodeKind::Drop) | None => None,
        };
        match next {
            Some(Target::Node(node) | Target::Operand { node, .. }) => at = usize::from(node.0),
            None => break,
        }
    }
    RxQueueId(0)
}

/// Returns the order in which packets meet the tables: that of a breadth-first walk over the graph.
pub(in crate::search) fn table_order(nic: &Nic) -> BTreeMap<TableId, u32> {
    let mut order = BTreeMap::new();
    let mut seen = vec![false; nic.nodes.len()];
    let mut queue = std::collections::VecDeque::from([0_usize]);
    while let Some(at) = queue.pop_front() {
        let Some(node) = nic.nodes.get(at) else { continue };
        if core::mem::replace(&mut seen[at], true) {
            continue;
        }
        let targets: Vec<Target> = match &node.kind {
            NodeKind::Filter { table, miss } => {
                let next = order.len() as u32;
                order.entry(*table).or_insert(next);
                vec![*miss]
            }
            NodeKind::Rss { miss } => vec![*miss],
            NodeKind::Classify { ports } => ports.iter().flat_map(|port| port.to.clone()).collect(),
            NodeKind::Logic { on_true, on_false, .. } => [on_true.clone(), on_false.clone()].concat(),
            NodeKind::Queue(_) | NodeKind::Drop => Vec::new(),
        };
        queue.extend(targets.into_iter().map(|target| match target {
            Target::Node(node) | Target::Operand { node, .. } => usize::from(node.0),
        }));
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::workload;

    #[test]
    fn tables_in_a_row_are_met_in_that_row() {
        let nic = workload::dragonet_nic(10);
        assert_eq!(table_order(&nic), BTreeMap::from([(TableId(0), 0), (TableId(1), 1)]));
        assert_eq!(default_queue(&nic), RxQueueId(0));
        assert_eq!(table_order(&workload::rss_nic(4, 8)), BTreeMap::new());
    }

    #[test]
    fn a_graph_with_a_circle_has_the_first_queue_as_default() {
        let mut nic = workload::one_table_nic(4, 1);
        let NodeKind::Filter { miss, .. } = &mut nic.nodes[0].kind else { panic!("a filter") };
        *miss = Target::Node(crate::nic::NodeId(0));
        assert_eq!(default_queue(&nic), RxQueueId(0));
    }

    #[test]
    fn rules_that_test_more_bits_have_higher_priorities() {
        let nic = workload::one_table_nic(4, 1);
        let priority = |headers| rule_to_set(&nic.tables[0], TableId(0), headers, RxQueueId(1)).priority;
        let flow = workload::slides(1)[0].headers;
        assert_eq!((priority(HeaderMatch::ALL), priority(flow)), (1, 7));
    }
}
