//! Writes models as texts.

use super::nodes::OPERATORS;
use super::tables::{INTERFACES, MASKS, ORDERS};
use crate::nic::{Nic, Node, NodeKind, RssModel, Table, Target};
use crate::predicate::Predicate;
use crate::predicate::value::PROTOCOLS;
use core::fmt::{self, Write};
use weft_units::RxQueueId;

/// Writes a model as a text that reads back equal, if a text can represent the model: names are words, texts have no quotes or
/// control characters (these are replaced), and choices have several elements.
pub fn write(nic: &Nic) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = whole(&mut out, nic);
    out
}

fn whole(out: &mut String, nic: &Nic) -> fmt::Result {
    writeln!(out, "nic {} {}", nic.name, Quoted(&nic.title))?;
    writeln!(out, "queues {}", nic.queues)?;
    for pool in &nic.pools {
        writeln!(out, "\npool {} of {}", pool.name, pool.capacity)?;
    }
    for each in &nic.tables {
        table(out, nic, each)?;
    }
    for exclusion in &nic.exclusions {
        let tables: Vec<&str> = exclusion
            .tables
            .iter()
            .filter_map(|id| nic.table(*id))
            .map(|table| table.name.as_str())
            .collect();
        writeln!(out, "\nexclude {} because {}", tables.join(", "), Quoted(&exclusion.reason))?;
    }
    if let Some(each) = &nic.rss {
        rss(out, each)?;
    }
    for each in &nic.nodes {
        node(out, nic, each)?;
    }
    if !nic.facts.is_empty() {
        out.push('\n');
    }
    for fact in &nic.facts {
        write!(out, "fact {} from {}", Quoted(&fact.text), Quoted(&fact.source))?;
        let about =
            if fact.about.is_empty() { String::new() } else { format!(" about {}", fact.about.join(", ")) };
        writeln!(out, "{about}")?;
    }
    Ok(())
}

/// A text in quotes.
struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for c in self.0.chars() {
            f.write_char(match c {
                '"' => '\'',
                c if c.is_control() => ' ',
                c => c,
            })?;
        }
        f.write_char('"')
    }
}

/// Returns the word for a value.
fn word<T: PartialEq>(known: &[(&'static str, T)], value: &T) -> &'static str {
    known.iter().find(|(_, one)| one == value).map_or("", |(word, _)| word)
}

fn table(out: &mut String, nic: &Nic, table: &Table) -> fmt::Result {
    writeln!(out, "\ntable {} {{", table.name)?;
    writeln!(out, "  capacity {}", table.capacity)?;
    if let Some(pool) = table.pool.and_then(|pool| nic.pools.get(usize::from(pool.0))) {
        writeln!(out, "  share {}", pool.name)?;
    }
    for support in &table.fields {
        let required = if support.required { " required" } else { "" };
        writeln!(out, "  match {} {}{required}", support.field.name(), word(&MASKS, &support.masks))?;
    }
    for headers in &table.within {
        writeln!(out, "  within {headers}")?;
    }
    if table.one_mask {
        writeln!(out, "  one-mask")?;
    }
    if table.priorities != (0, 0) {
        writeln!(out, "  priorities {} to {}", table.priorities.0, table.priorities.1)?;
    }
    writeln!(out, "  order {}", word(&ORDERS, &table.order))?;
    let actions =
        [("queue", table.actions.queue), ("context", table.actions.context), ("drop", table.actions.drop)];
    let actions: Vec<&str> = actions.iter().filter(|(_, can)| *can).map(|(word, _)| *word).collect();
    writeln!(out, "  actions {}", actions.join(", "))?;
    if table.last_queue != RxQueueId(nic.queues.saturating_sub(1)) {
        writeln!(out, "  last-queue {}", table.last_queue)?;
    }
    if let Some(bits) = table.signature_bits {
        writeln!(out, "  signature {bits} bits")?;
    }
    writeln!(out, "  interface {}\n}}", word(&INTERFACES, &table.interface))
}

fn rss(out: &mut String, rss: &RssModel) -> fmt::Result {
    let settable = |yes| if yes { "settable" } else { "fixed" };
    writeln!(out, "\nrss {{\n  entries {} {}", rss.indirection, settable(rss.indirection_settable))?;
    writeln!(out, "  queues {}\n  contexts {}", rss.queues, rss.contexts)?;
    writeln!(out, "  key {} bytes {}", rss.key_bytes, settable(rss.key_settable))?;
    let name = |number: &u8| {
        PROTOCOLS
            .iter()
            .find(|(_, one)| one == number)
            .map_or_else(|| number.to_string(), |(name, _)| (*name).into())
    };
    let protocols: Vec<String> = rss.hashed_with_ports.iter().map(name).collect();
    if !protocols.is_empty() {
        writeln!(out, "  ports {}", protocols.join(", "))?;
    }
    writeln!(out, "}}")
}

fn node(out: &mut String, nic: &Nic, node: &Node) -> fmt::Result {
    write!(out, "\nnode {} ", node.name)?;
    let to = |targets: &[Target]| {
        let all: Vec<String> = targets.iter().map(|one| target(nic, one)).collect();
        if all.is_empty() { String::new() } else { format!(" -> {}", all.join(", ")) }
    };
    match &node.kind {
        NodeKind::Classify { ports } => {
            writeln!(out, "classify {{")?;
            for port in ports {
                let when =
                    if port.when == Predicate::TRUE { String::new() } else { format!(" when {}", port.when) };
                writeln!(out, "  port {}{when}{}", port.name, to(&port.to))?;
            }
            writeln!(out, "}}")
        }
        NodeKind::Logic { operator, operands, on_true, on_false } => {
            writeln!(out, "{} {operands} {{", word(&OPERATORS, operator))?;
            writeln!(out, "  true{}\n  false{}\n}}", to(on_true), to(on_false))
        }
        NodeKind::Filter { table, miss } => {
            let table = nic.table(*table).map_or("", |table| &table.name);
            writeln!(out, "filter {table} else {}", target(nic, miss))
        }
        NodeKind::Rss { miss } => writeln!(out, "rss else {}", target(nic, miss)),
        NodeKind::Queue(queue) => writeln!(out, "queue {queue}"),
        NodeKind::Drop => writeln!(out, "drop"),
    }
}

/// Formats the target of an edge.
fn target(nic: &Nic, target: &Target) -> String {
    let name = |id: crate::nic::NodeId| nic.nodes.get(usize::from(id.0)).map_or("", |node| &node.name);
    match target {
        Target::Node(id) => name(*id).to_owned(),
        Target::Operand { node, operand, value } => format!("{} operand {operand} is {value}", name(*node)),
    }
}
