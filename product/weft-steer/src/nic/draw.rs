//! Drawings of models for Graphviz.

use super::{Interface, Nic, Node, NodeKind, Operator, Table, TableId, Target};
use crate::nic::configuration::{Action, Configuration, ContextId};
use crate::predicate::Predicate;
use core::fmt::{self, Write};
use std::collections::{BTreeMap, BTreeSet};

/// The maximum length of a predicate in a drawing, in characters; longer ones are shortened.
const SHOWN_MAX: usize = 60;

/// Draws the model in Graphviz's language: F-nodes as boxes with their ports, O-nodes as circles, C-nodes filled in with the
/// limits of their tables. With a configuration, C-nodes also show their number of rules, and dashed edges lead to the rules'
/// destinations.
pub fn draw(nic: &Nic, configuration: Option<&Configuration>) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = whole(&mut out, nic, configuration);
    out
}

fn whole(out: &mut String, nic: &Nic, configuration: Option<&Configuration>) -> fmt::Result {
    writeln!(out, "digraph {} {{", Quoted(&nic.name))?;
    writeln!(out, "  label={}; labelloc=t; rankdir=LR;", Quoted(&nic.title))?;
    writeln!(out, "  node [shape=box, fontname=\"sans-serif\", fontsize=10];")?;
    writeln!(out, "  edge [fontname=\"sans-serif\", fontsize=9];")?;
    writeln!(out, "  in [shape=plain, label=\"packets\"];\n  in -> n0;")?;
    for (index, node) in nic.nodes.iter().enumerate() {
        let (label, style) = describe(nic, node, configuration);
        writeln!(out, "  n{index} [label={}{style}];", Quoted(&label))?;
    }
    for (index, node) in nic.nodes.iter().enumerate() {
        edges(out, index, node)?;
    }
    if let Some(configuration) = configuration {
        ends(out, nic, configuration)?;
    }
    writeln!(out, "}}")
}

/// A text in Graphviz's quotes. Backslashes are doubled, since Graphviz reads `\N` as the node's name.
struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for c in self.0.chars() {
            match c {
                '"' => f.write_str("\\\"")?,
                '\\' => f.write_str("\\\\")?,
                '\n' => f.write_str("\\n")?,
                c if c.is_control() => f.write_char(' ')?,
                c => f.write_char(c)?,
            }
        }
        f.write_char('"')
    }
}

/// Returns a node's text and further attributes.
fn describe(nic: &Nic, node: &Node, configuration: Option<&Configuration>) -> (String, &'static str) {
    let name = &node.name;
    match &node.kind {
        NodeKind::Classify { ports } => {
            let mut label = name.clone();
            for port in ports.iter().filter(|port| port.when != Predicate::TRUE) {
                let when = port.when.to_string();
                let cut = when.char_indices().nth(SHOWN_MAX).map(|(at, _)| at);
                let (shown, more) = cut.map_or((when.as_str(), ""), |at| (&when[..at], "..."));
                label.push_str(&format!("\n{}: {shown}{more}", port.name));
            }
            (label, "")
        }
        NodeKind::Logic { operator, .. } => {
            let operator = match operator {
                Operator::And => "AND",
                Operator::Or => "OR",
                Operator::Nand => "NAND",
                Operator::Nor => "NOR",
            };
            (format!("{operator}\n{name}"), ", shape=circle")
        }
        NodeKind::Filter { table: id, .. } => {
            let limits =
                nic.table(*id).map_or_else(String::new, |table| limits(nic, *id, table, configuration));
            (format!("{name}\n{limits}"), ", style=\"filled,rounded\", fillcolor=lightgrey")
        }
        NodeKind::Rss { .. } => {
            let limits = nic.rss.as_ref().map_or_else(String::new, |rss| {
                let contexts = rss.contexts + 1;
                format!("\n{} entries, {} queues, contexts: {contexts}", rss.indirection, rss.queues)
            });
            (format!("{name}\nRSS{limits}"), ", style=\"filled,rounded\", fillcolor=lightgrey")
        }
        NodeKind::Queue(queue) => (format!("{name}\nqueue {queue}"), ", shape=cds"),
        NodeKind::Drop => (name.clone(), ", shape=octagon"),
    }
}

/// Formats a table's limits in a few lines.
fn limits(nic: &Nic, id: TableId, table: &Table, configuration: Option<&Configuration>) -> String {
    let pool = table.pool.and_then(|pool| nic.pools.get(usize::from(pool.0)));
    let mut room = match (table.capacity, pool) {
        (0, Some(pool)) => format!("up to {} rules of {}", pool.capacity, pool.name),
        (own, Some(pool)) => format!("{own} rules, and up to {} of {}", pool.capacity, pool.name),
        (own, None) => format!("{own} rules"),
    };
    if let Some(configuration) = configuration {
        let held = configuration.rules.iter().filter(|rule| rule.table == id).count();
        room = format!("{held} of {room}");
    }
    let fields: Vec<&str> = table.fields.iter().map(|support| support.field.name()).collect();
    let mut lines = vec![format!("table {}: {room}", table.name)];
    lines.extend(fields.chunks(5).map(|some| some.join(" ")));
    if table.one_mask {
        lines.push("one mask for all".to_owned());
    }
    if table.interface == Interface::None {
        lines.push("no driver offers it".to_owned());
    }
    lines.join("\n")
}

fn edges(out: &mut String, from: usize, node: &Node) -> fmt::Result {
    let mut edge = |target: &Target, label: &str| match target {
        Target::Node(to) => writeln!(out, "  n{from} -> n{} [label={}];", to.0, Quoted(label)),
        Target::Operand { node: to, operand, value } => {
            let label = format!("{label}\noperand {operand} is {value}");
            writeln!(out, "  n{from} -> n{} [label={}];", to.0, Quoted(label.trim_start()))
        }
    };
    match &node.kind {
        NodeKind::Classify { ports } => {
            for port in ports {
                for target in &port.to {
                    edge(target, &port.name)?;
                }
            }
        }
        NodeKind::Logic { on_true, on_false, .. } => {
            for target in on_true {
                edge(target, "true")?;
            }
            for target in on_false {
                edge(target, "false")?;
            }
        }
        NodeKind::Filter { miss, .. } => edge(miss, "no rule")?,
        NodeKind::Rss { miss } => edge(miss, "not hashed")?,
        NodeKind::Queue(_) | NodeKind::Drop => {}
    }
    Ok(())
}

/// Writes the destinations of rules, with the number of rules for each.
fn ends(out: &mut String, nic: &Nic, configuration: &Configuration) -> fmt::Result {
    let mut counts: BTreeMap<(TableId, Action), u32> = BTreeMap::new();
    for rule in &configuration.rules {
        *counts.entry((rule.table, rule.action)).or_default() += 1;
    }
    let place = |action: &Action| match action {
        Action::Queue(queue) => (format!("q{queue}"), format!("queue {queue}"), "cds"),
        Action::Context(ContextId::MAIN) => ("c0".to_owned(), "the main RSS context".to_owned(), "folder"),
        Action::Context(ContextId(id)) => (format!("c{id}"), format!("RSS context {id}"), "folder"),
        Action::Drop => ("dropped".to_owned(), "dropped".to_owned(), "octagon"),
    };
    let used: BTreeSet<Action> = counts.keys().map(|(_, action)| *action).collect();
    for action in &used {
        let (id, label, shape) = place(action);
        writeln!(out, "  {id} [label={}, shape={shape}];", Quoted(&label))?;
    }
    for ((table, action), count) in &counts {
        let nodes = nic.nodes.iter().enumerate();
        let stands = |node: &Node| matches!(node.kind, NodeKind::Filter { table: one, .. } if one == *table);
        for (from, _) in nodes.filter(|(_, node)| stands(node)) {
            let label = if *count == 1 { "1 rule".to_owned() } else { format!("{count} rules") };
            writeln!(out, "  n{from} -> {} [label={}, style=dashed];", place(action).0, Quoted(&label))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nic::configuration::Rule;
    use crate::nic::random::{some_configuration, some_nic};
    use crate::nic::read;
    use proptest::prelude::*;
    use weft_packet::header_match::{Field, HeaderMatch};
    use weft_units::RxQueueId;

    const MODEL: &str = r"
nic small 'A \small NIC'
queues 2
table ports {
  capacity 4
  match dst-port exact
  order disjoint
  actions queue, drop
  interface none
}
node in classify {
  port tcp when tcp -> both operand 0 is true, both operand 1 is false
  port other -> ports
}
node both and 2 {
  true -> gone
  false -> ports
}
node ports filter ports else default
node default queue 0
node gone drop
";

    #[test]
    fn a_small_model_with_rules() {
        let nic = read(&MODEL.replace('\'', "\""), "small.nic").expect("model");
        let rule = |port, action| Rule {
            table: TableId(0),
            headers: HeaderMatch::ALL.exact(Field::DstPort, port),
            priority: 0,
            action,
        };
        let rules = vec![
            rule(1, Action::Queue(RxQueueId(1))),
            rule(2, Action::Queue(RxQueueId(1))),
            rule(3, Action::Drop),
        ];
        let drawn = draw(&nic, Some(&Configuration { rules, ..Configuration::default() }));
        let expected = r#"digraph "small" {
  label="A \\small NIC"; labelloc=t; rankdir=LR;
  node [shape=box, fontname="sans-serif", fontsize=10];
  edge [fontname="sans-serif", fontsize=9];
  in [shape=plain, label="packets"];
  in -> n0;
  n0 [label="in\ntcp: ip-proto 6"];
  n1 [label="AND\nboth", shape=circle];
  n2 [label="ports\ntable ports: 3 of 4 rules\ndst-port\nno driver offers it", style="filled,rounded", fillcolor=lightgrey];
  n3 [label="default\nqueue 0", shape=cds];
  n4 [label="gone", shape=octagon];
  n0 -> n1 [label="tcp\noperand 0 is true"];
  n0 -> n1 [label="tcp\noperand 1 is false"];
  n0 -> n2 [label="other"];
  n1 -> n4 [label="true"];
  n1 -> n2 [label="false"];
  n2 -> n3 [label="no rule"];
  q1 [label="queue 1", shape=cds];
  dropped [label="dropped", shape=octagon];
  n2 -> q1 [label="2 rules", style=dashed];
  n2 -> dropped [label="1 rule", style=dashed];
}
"#;
        assert_eq!(drawn, expected);
    }

    proptest! {
        #[test]
        fn every_edge_is_drawn_and_every_quote_closed(nic in some_nic(), configuration in some_configuration()) {
            let drawn = draw(&nic, Some(&configuration));
            let solid = drawn.lines().filter(|line| line.contains(" -> ") && !line.contains("style=dashed")).count();
            let edges: usize = nic.nodes.iter().map(|node| node.kind.targets().count()).sum();
            prop_assert_eq!(solid, edges + 1);
            for line in drawn.lines() {
                let quotes = line.replace("\\\\", "").replace("\\\"", "").matches('"').count();
                prop_assert_eq!(quotes % 2, 0, "{}", line);
            }
        }
    }
}
