//! O-nodes: received operands, and the result that they determine.

use crate::nic::{Nic, NodeKind, Operator};

/// A received operand; `None` before it is received.
pub(super) type Operand = Option<bool>;

/// Returns the position of each node's operands in one list of all operands, and the length of that list.
pub(super) fn places(nic: &Nic) -> (Vec<u32>, u32) {
    let mut places = Vec::with_capacity(nic.nodes.len());
    let mut next = 0;
    for node in &nic.nodes {
        places.push(next);
        if let NodeKind::Logic { operands, .. } = node.kind {
            next += u32::from(operands);
        }
    }
    (places, next)
}

/// Returns the result that the received operands determine (Dragonet's short-circuit table, lib/Dragonet/ProtocolGraph.hs).
pub(super) fn decide(operator: Operator, operands: &[Operand]) -> Option<bool> {
    let (deciding, negated) = match operator {
        Operator::And => (false, false),
        Operator::Nand => (false, true),
        Operator::Or => (true, false),
        Operator::Nor => (true, true),
    };
    let found = if operands.contains(&Some(deciding)) {
        Some(deciding)
    } else if operands.contains(&None) {
        None
    } else {
        Some(!deciding)
    };
    found.map(|found| found != negated)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_decide_as_soon_as_they_can() {
        let (t, f) = (Some(true), Some(false));
        for (operator, operands, expected) in [
            (Operator::And, [t, None], None),
            (Operator::And, [f, None], f),
            (Operator::And, [t, t], t),
            (Operator::Or, [f, None], None),
            (Operator::Or, [None, t], t),
            (Operator::Or, [f, f], f),
            (Operator::Nand, [None, f], t),
            (Operator::Nand, [t, t], f),
            (Operator::Nor, [None, t], f),
            (Operator::Nor, [f, f], t),
            (Operator::Nor, [f, None], None),
        ] {
            assert_eq!(decide(operator, &operands), expected, "{operator:?} {operands:?}");
        }
    }
}
