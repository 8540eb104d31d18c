//! Reads the nodes of the graph.

use super::cursor::{Cursor, Declared, Name, QUEUES_MAX, twice};

use crate::nic::{Node, NodeId, NodeKind, Operator, Port, TableId, Target};
use crate::predicate::Predicate;
use std::collections::BTreeSet;
use weft_text::ParseError;
use weft_units::RxQueueId;

/// The words for operators.
pub(super) const OPERATORS: [(&str, Operator); 4] =
    [("and", Operator::And), ("or", Operator::Or), ("nand", Operator::Nand), ("nor", Operator::Nor)];
const KINDS: [&str; 9] = ["classify", "filter", "rss", "queue", "drop", "and", "or", "nand", "nor"];

/// Reads `node NAME KIND ...`, from the name.
pub(super) fn node<'a>(
    cursor: &mut Cursor<'a>,
    names: &Declared<'a>,
) -> Result<(Node, Name<'a>), ParseError> {
    let name = cursor.name("a node")?;
    let kind = cursor.one_of("a kind of node", &KINDS)?;
    let kind = match kind.text {
        "classify" => classify(cursor, names)?,
        "filter" => {
            let table = TableId(names.tables.find(cursor.word("a table's name")?)?);
            cursor.expect("else")?;
            NodeKind::Filter { table, miss: target(cursor, names)? }
        }
        "rss" => {
            cursor.expect("else")?;
            NodeKind::Rss { miss: target(cursor, names)? }
        }
        "queue" => NodeKind::Queue(RxQueueId(cursor.number("a queue's number", 0, QUEUES_MAX - 1)?)),
        "drop" => NodeKind::Drop,
        word => {
            let operator = OPERATORS.iter().find(|(known, _)| *known == word).map(|(_, operator)| *operator);
            let Some(operator) = operator else { return Err(cursor.error("a kind of node")) };
            logic(cursor, names, operator)?
        }
    };
    Ok((Node { name: name.text.to_owned(), kind }, name))
}

/// Reads `{ port NAME [when PREDICATE] [-> TARGETS] ... }`.
fn classify<'a>(cursor: &mut Cursor<'a>, names: &Declared<'a>) -> Result<NodeKind, ParseError> {
    let mut ports = Vec::new();
    let mut seen = BTreeSet::new();
    cursor.expect("{")?;
    while !cursor.eat("}") {
        cursor.expect("port")?;
        let name = cursor.name("a port")?;
        if !seen.insert(name.text) {
            return Err(twice(name));
        }
        let when = if cursor.eat("when") { cursor.predicate()? } else { Predicate::TRUE };
        ports.push(Port { name: name.text.to_owned(), when, to: targets(cursor, names)? });
    }
    Ok(NodeKind::Classify { ports })
}

/// Reads `OPERANDS { [true -> TARGETS] [false -> TARGETS] }`.
fn logic<'a>(
    cursor: &mut Cursor<'a>,
    names: &Declared<'a>,
    operator: Operator,
) -> Result<NodeKind, ParseError> {
    let operands = cursor.number("the number of operands", 1, 255)?;
    cursor.expect("{")?;
    let (mut on_true, mut on_false) = (None, None);
    while !cursor.eat("}") {
        let value = cursor.one_of("`true` or `false`", &["true", "false"])?;
        let to = Some(targets(cursor, names)?);
        if core::mem::replace(if value.text == "true" { &mut on_true } else { &mut on_false }, to).is_some() {
            return Err(twice(value));
        }
    }
    let (on_true, on_false) = (on_true.unwrap_or_default(), on_false.unwrap_or_default());
    Ok(NodeKind::Logic { operator, operands, on_true, on_false })
}

/// Reads `[-> TARGET, TARGET ...]`.
fn targets<'a>(cursor: &mut Cursor<'a>, names: &Declared<'a>) -> Result<Vec<Target>, ParseError> {
    let mut out = Vec::new();
    if cursor.eat("->") {
        out.push(target(cursor, names)?);
        while cursor.eat(",") {
            out.push(target(cursor, names)?);
        }
    }
    Ok(out)
}

/// Reads `NODE`, or `NODE operand N is true`.
fn target<'a>(cursor: &mut Cursor<'a>, names: &Declared<'a>) -> Result<Target, ParseError> {
    let node = NodeId(names.nodes.find(cursor.word("a node's name")?)?);
    if !cursor.eat("operand") {
        return Ok(Target::Node(node));
    }
    let operand = cursor.number("the operand's number", 0, 254)?;
    cursor.expect("is")?;
    let value = cursor.one_of("`true` or `false`", &["true", "false"])?.text == "true";
    Ok(Target::Operand { node, operand, value })
}
