//! Slow reference evaluation of one packet: lists are searched, rules compared one by one, and the hash computed from its key.

use crate::nic::configuration::{Action, Configuration, ContextId};
use crate::nic::{Nic, NodeKind, Operator, Order, TableId, Target};
use std::collections::{BTreeMap, BTreeSet};
use weft_packet::header_match::{Field, HeaderMatch};
use weft_packet::rss::{HashedFields, Toeplitz};
use weft_units::RxQueueId;

/// Returns the queue of a packet that tests all fields.
pub(super) fn queue(nic: &Nic, configuration: &Configuration, packet: &HeaderMatch) -> Option<RxQueueId> {
    let mut open = vec![Target::Node(crate::nic::NodeId(0))];
    let mut fired = BTreeSet::new();
    let mut values: BTreeMap<(u16, u8), bool> = BTreeMap::new();
    while !open.is_empty() {
        let target = open.remove(0);
        let id = target.node().0;
        if fired.contains(&id) {
            continue;
        }
        match &nic.nodes[usize::from(id)].kind {
            NodeKind::Queue(queue) => return Some(*queue),
            NodeKind::Drop => return None,
            NodeKind::Classify { ports } => {
                for port in ports {
                    if port.when.passes(packet) {
                        open.extend(port.to.clone());
                        break;
                    }
                }
            }
            NodeKind::Logic { operator, operands, on_true, on_false } => {
                if let Target::Operand { operand, value, .. } = target {
                    values.entry((id, operand)).or_insert(value);
                }
                let come: Vec<bool> = (0..*operands).filter_map(|o| values.get(&(id, o)).copied()).collect();
                let complete = come.len() == usize::from(*operands);
                let all = complete && come.iter().all(|value| *value);
                let none = complete && come.iter().all(|value| !*value);
                let some_false = come.contains(&false);
                let some_true = come.contains(&true);
                let (yes, no) = match operator {
                    Operator::And => (all, some_false),
                    Operator::Nand => (some_false, all),
                    Operator::Or => (some_true, none),
                    Operator::Nor => (none, some_true),
                };
                if !yes && !no {
                    continue;
                }
                open.extend(if yes { on_true.clone() } else { on_false.clone() });
            }
            NodeKind::Filter { table, miss } => match action(nic, configuration, packet, *table) {
                Some(Action::Queue(queue)) => return Some(queue),
                Some(Action::Drop) => return None,
                Some(Action::Context(context)) => {
                    return spread(nic, configuration, packet, context, true);
                }
                None => open.push(*miss),
            },
            NodeKind::Rss { miss } => match spread(nic, configuration, packet, ContextId::MAIN, false) {
                Some(queue) => return Some(queue),
                None => open.push(*miss),
            },
        }
        fired.insert(id);
    }
    None
}

fn action(nic: &Nic, configuration: &Configuration, packet: &HeaderMatch, id: TableId) -> Option<Action> {
    let order = nic.table(id)?.order;
    let mut best: Option<(usize, u8, Action)> = None;
    for (place, rule) in configuration.rules.iter().enumerate() {
        let better = match (order, best) {
            (_, None) | (Order::Newest, _) => true,
            (Order::Priority | Order::Location, Some((_, priority, _))) => rule.priority > priority,
            (Order::Disjoint, Some(_)) => false,
        };
        if rule.table == id && rule.headers.covers(packet) && better {
            best = Some((place, rule.priority, rule.action));
        }
    }
    best.map(|(_, _, action)| action)
}

fn spread(
    nic: &Nic,
    configuration: &Configuration,
    packet: &HeaderMatch,
    id: ContextId,
    named: bool,
) -> Option<RxQueueId> {
    let context = configuration.context(id)?;
    let ip = matches!(packet.get(Field::EtherType).0, 0x0800 | 0x86dd);
    let hash = match packet.flow() {
        Some(key) if ip => {
            let rss = nic.rss.as_ref();
            let fields = rss.map_or(HashedFields::Addresses, |rss| rss.hashed_fields(key.protocol));
            Toeplitz::new(&configuration.key).flow(&key, fields)
        }
        _ if named => 0,
        _ => return None,
    };
    context.indirection.get(hash as usize % context.indirection.len()).copied()
}
