//! Checks of a model as a whole.

use super::cursor::Name;
use super::tables;
use crate::nic::{Nic, NodeKind, Target};
use weft_text::{ParseError, Span};
use weft_units::RxQueueId;

/// The places of the parts, for the checks' messages.
#[derive(Default)]
pub(super) struct Places<'a> {
    pub(super) queues: Option<Span>,
    pub(super) rss: Option<Span>,
    pub(super) nodes: Vec<Name<'a>>,
    pub(super) tables: Vec<tables::Places<'a>>,
    pub(super) pools: Vec<Name<'a>>,
    pub(super) end: usize,
}

/// Fills in values that depend on other parts, then checks the whole.
pub(super) fn settle(nic: &mut Nic, places: &Places<'_>) -> Result<(), ParseError> {
    let missing = |what: &str, hint: &str| ParseError::new(Span::at(places.end), what, hint);
    if places.queues.is_none() {
        return Err(missing("the model does not say how many queues there are", "add `queues N`"));
    }
    if nic.nodes.is_empty() {
        return Err(missing("the model has no node", "add `node NAME KIND ...`; packets enter at the first"));
    }
    tables(nic, places)?;
    rss(nic, places)?;
    edges(nic, places)?;
    cycles(nic, places)?;
    reach(nic, places)
}

/// Checks tables against the NIC: queues, contexts, and their nodes.
fn tables(nic: &mut Nic, places: &Places<'_>) -> Result<(), ParseError> {
    let last = RxQueueId(nic.queues - 1);
    let has_rss = nic.rss.is_some();
    for (index, (table, place)) in nic.tables.iter_mut().zip(&places.tables).enumerate() {
        match place.last_queue {
            None => table.last_queue = last,
            Some(span) if table.last_queue > last => {
                let what = format!(
                    "table `{}` names queues up to {}, beyond the NIC's",
                    table.name, table.last_queue
                );
                return Err(ParseError::new(span, what, format!("the NIC's last queue is {last}")));
            }
            Some(_) => {}
        }
        if table.actions.context && !has_rss {
            let what = format!("rules of table `{}` name RSS contexts, and the NIC has no RSS", table.name);
            return Err(ParseError::new(place.actions, what, "add `rss { ... }`"));
        }
        let stands =
            |kind: &NodeKind| matches!(kind, NodeKind::Filter { table, .. } if usize::from(table.0) == index);
        if !nic.nodes.iter().any(|node| stands(&node.kind)) {
            let hint = format!("add `node NAME filter {} else NODE`", table.name);
            return Err(place.name.error(format!("no node stands for table `{}`", table.name), hint));
        }
    }
    for (index, pool) in places.pools.iter().enumerate() {
        if !nic.tables.iter().any(|table| table.pool.is_some_and(|pool| usize::from(pool.0) == index)) {
            let hint = format!("add `share {}` to tables", pool.text);
            return Err(pool.error(format!("no table shares pool `{}`", pool.text), hint));
        }
    }
    Ok(())
}

/// Checks RSS against the NIC.
fn rss(nic: &Nic, places: &Places<'_>) -> Result<(), ParseError> {
    let node = nic.nodes.iter().position(|node| matches!(node.kind, NodeKind::Rss { .. }));
    match (&nic.rss, places.rss, node) {
        (Some(rss), Some(span), _) if rss.queues > nic.queues => {
            let what = format!("RSS names {} queues, and the NIC has {}", rss.queues, nic.queues);
            Err(ParseError::new(span, what, format!("at most `queues {}`", nic.queues)))
        }
        (Some(_), Some(span), None) if !nic.tables.iter().any(|table| table.actions.context) => {
            let what = "RSS is described, and neither a node nor a table uses it";
            Err(ParseError::new(span, what, "add `node NAME rss else NODE`"))
        }
        (None, _, Some(node)) => {
            let name = places.nodes[node];
            Err(name.error(
                format!("node `{}` spreads by RSS, but the NIC has no RSS", name.text),
                "add `rss { ... }`",
            ))
        }
        _ => Ok(()),
    }
}

/// Checks each edge's target, each operand and each queue.
fn edges(nic: &Nic, places: &Places<'_>) -> Result<(), ParseError> {
    let mut fed: Vec<Vec<bool>> = nic
        .nodes
        .iter()
        .map(|node| match node.kind {
            NodeKind::Logic { operands, .. } => vec![false; operands.into()],
            _ => vec![],
        })
        .collect();
    for (node, place) in nic.nodes.iter().zip(&places.nodes) {
        for target in node.kind.targets() {
            let end = usize::from(target.node().0);
            let name = &nic.nodes[end].name;
            match (target, &nic.nodes[end].kind) {
                (Target::Node(_), NodeKind::Logic { .. }) => {
                    let what = format!("node `{}` leads to `{name}` without saying which operand", node.name);
                    return Err(place.error(what, format!("write `{name} operand 0 is true`")));
                }
                (Target::Operand { operand, .. }, NodeKind::Logic { operands, .. }) => {
                    let Some(fed) = fed[end].get_mut(usize::from(*operand)) else {
                        let what = format!("node `{}` feeds operand {operand} of `{name}`", node.name);
                        return Err(place.error(what, format!("its operands are 0 to {}", operands - 1)));
                    };
                    *fed = true;
                }
                (Target::Operand { .. }, _) => {
                    let what = format!("node `{}` feeds an operand of `{name}`, which has none", node.name);
                    return Err(place.error(what, format!("write `{name}` alone")));
                }
                (Target::Node(_), _) => {}
            }
        }
        if let NodeKind::Queue(queue) = node.kind
            && queue.0 >= nic.queues
        {
            let what = format!("node `{}` is queue {queue}, and the NIC has {}", node.name, nic.queues);
            return Err(place.error(what, format!("queues are 0 to {}", nic.queues - 1)));
        }
    }
    for (place, fed) in places.nodes.iter().zip(&fed) {
        if let Some(operand) = fed.iter().position(|fed| !fed) {
            let what = format!("nothing feeds operand {operand} of `{}`", place.text);
            return Err(
                place.error(what, format!("add `-> {} operand {operand} is true` somewhere", place.text))
            );
        }
    }
    Ok(())
}

/// Refuses a node on a cycle.
fn cycles(nic: &Nic, places: &Places<'_>) -> Result<(), ParseError> {
    let mut entering = vec![0u32; nic.nodes.len()];
    let ends = |node: usize| nic.nodes[node].kind.targets().map(|target| usize::from(target.node().0));
    for end in (0..nic.nodes.len()).flat_map(ends) {
        entering[end] += 1;
    }
    // Kahn's algorithm: nodes without incoming edges are removed until none remains.
    let mut free: Vec<usize> = (0..nic.nodes.len()).filter(|node| entering[*node] == 0).collect();
    let mut left = nic.nodes.len();
    while let Some(node) = free.pop() {
        left -= 1;
        for end in ends(node) {
            entering[end] -= 1;
            if entering[end] == 0 {
                free.push(end);
            }
        }
    }
    if left == 0 {
        return Ok(());
    }
    // Every remaining node has a remaining predecessor, so following predecessors from any of them reaches a cycle.
    let mut before = vec![None; nic.nodes.len()];
    for node in (0..nic.nodes.len()).filter(|node| entering[*node] > 0) {
        for end in ends(node).filter(|end| entering[*end] > 0) {
            before[end] = Some(node);
        }
    }
    let mut node = entering.iter().position(|count| *count > 0).unwrap_or(0);
    for _ in 0..nic.nodes.len() {
        node = before[node].unwrap_or(node);
    }
    let name = places.nodes[node];
    Err(name.error(
        format!("packets can go from `{}` back to it", name.text),
        "a packet passes each node at most once",
    ))
}

/// Refuses an unreachable node.
fn reach(nic: &Nic, places: &Places<'_>) -> Result<(), ParseError> {
    let mut seen = vec![false; nic.nodes.len()];
    seen[0] = true;
    let mut open = vec![0];
    while let Some(node) = open.pop() {
        for target in nic.nodes[node].kind.targets() {
            let end = usize::from(target.node().0);
            if !core::mem::replace(&mut seen[end], true) {
                open.push(end);
            }
        }
    }
    let lost = seen.iter().position(|seen| !seen);
    lost.map_or(Ok(()), |node| {
        let name = places.nodes[node];
        let first = &nic.nodes[0].name;
        Err(name.error(
            format!("no packet reaches node `{}`", name.text),
            format!("packets enter at the first node, `{first}`; lead an edge from there to it"),
        ))
    })
}
