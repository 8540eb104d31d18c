//! A description of a compiled policy in words, so that people can check it before it runs.

use crate::attributes;
use crate::compiled::CompiledPolicy;
use crate::disciplines::row_of;
use crate::words::of_discipline;
use core::fmt::Write;
use weft_packet::{Match, PortRange};
use weft_sched::program::{Child, LaneSpec, LeafDiscipline, LimitSpec};
use weft_units::{BitsPerSec, Bytes, LeafId, Protocol};

/// The tree, limits, lanes, rules and destinations of `policy` as indented plain text.
pub fn describe(policy: &CompiledPolicy) -> String {
    let mut out = String::new();
    if let Some(link) = policy.link {
        line(&mut out, 0, &format!("link of {link}"));
    }
    for class in &policy.classes {
        if let Some(latency) = class.latency {
            line(
                &mut out,
                0,
                &format!("latency of {}: no chunk of another class takes more than {latency}", class.name),
            );
        }
    }
    for clause in &policy.steering {
        line(&mut out, 0, &format!("receive queues: {}", clause.text));
    }
    line(&mut out, 0, "tree");
    draw(&mut out, policy, policy.program.root, 1, "");
    let mut limits = policy.program.limits.iter().filter(|limit| !limit.is_vacant()).peekable();
    if limits.peek().is_some() {
        line(&mut out, 0, "limits");
        for limit in limits {
            line(&mut out, 1, &describe_limit(limit));
        }
    }
    line(&mut out, 0, "lanes");
    for (number, lane) in policy.program.lanes.iter().enumerate().filter(|(_, lane)| !lane.is_vacant()) {
        line(&mut out, 1, &format!("{number}: {}", describe_lane(policy, lane)));
    }
    line(&mut out, 0, "rules; the first match decides");
    for (number, rule) in policy.rules.iter().enumerate() {
        let class = policy.classes.get(rule.class.index()).map_or("?", |class| &class.name);
        let text = describe_match(&rule.matcher, policy);
        line(&mut out, 1, &format!("{}: {text} -> {class}", number + 1));
    }
    let by_port = policy.destinations.iter().flatten().any(|row| row.port.is_some());
    let ports = if by_port { "; rows of a port are for its packets alone" } else { "" };
    line(&mut out, 0, &format!("destinations; the longest prefix decides{ports}"));
    for (class, rows) in policy.classes.iter().zip(&policy.destinations) {
        for row in rows {
            let port = row.port.map(|number| format!("port \"{}\"", port_name(policy, number)));
            let to = row.to.map(|to| format!("to {to}"));
            let to = match (port, to) {
                (Some(port), Some(to)) => format!("{port} and {to}"),
                (Some(one), None) | (None, Some(one)) => one,
                (None, None) if rows.len() == 1 => "any".to_owned(),
                (None, None) => "any other".to_owned(),
            };
            line(&mut out, 1, &format!("{}: {to} -> lane {}", class.name, row.lane));
        }
    }
    out
}

/// The line about infrastructure, which is served above the tree; empty if the policy has a class `infrastructure`.
pub fn describe_infrastructure(policy: &CompiledPolicy) -> &'static str {
    if policy.names_infrastructure() {
        return "";
    }
    "above the tree: infrastructure (ARP, neighbour discovery, group membership, DHCP, link protocols), up to a hundredth of the \
     link; what is beyond goes by the rules\n"
}

fn line(out: &mut String, level: usize, text: &str) {
    for _ in 0..level {
        out.push_str("  ");
    }
    out.push_str(text);
    out.push('\n');
}

/// Draws `child` and the subtree below it. The compiler bounds the number of levels.
fn draw(out: &mut String, policy: &CompiledPolicy, child: Child, level: usize, mark: &str) {
    match child {
        Child::Leaf(leaf) => line(out, level, &format!("{mark}{}", describe_leaf(policy, leaf))),
        Child::Node(id) => {
            let Some(node) = policy.program.nodes.get(id.index()) else { return };
            let meaning =
                row_of(&node.discipline).map_or("an algorithm of the policy's own", |row| row.shown);
            line(out, level, &format!("{mark}{}: {meaning}", node.name));
            let weights = node.discipline.weights().unwrap_or_default();
            for (number, child) in node.children.iter().enumerate() {
                let mark = match weights.get(number) {
                    Some(weight) => format!("weight {}: ", weight.get()),
                    None => format!("{}. ", number + 1),
                };
                draw(out, policy, *child, level + 1, &mark);
            }
        }
    }
}

fn describe_leaf(policy: &CompiledPolicy, id: LeafId) -> String {
    let Some(leaf) = policy.program.leaves.get(id.index()) else { return String::new() };
    let kind = match &leaf.discipline {
        LeafDiscipline::Fifo => "FIFO",
        LeafDiscipline::Fair => "fair over its flows",
        LeafDiscipline::Custom(custom) => &custom.algorithm.name,
    };
    let mut classes: Vec<&str> = Vec::new();
    for lane in policy.program.lanes.iter().filter(|lane| lane.leaf == id) {
        let name = policy.classes.get(lane.class.index()).map_or("?", |class| &class.name);
        if classes.last() != Some(&name) {
            classes.push(name);
        }
    }
    if classes == [leaf.name.as_str()] {
        format!("{}: {kind}", leaf.name)
    } else {
        format!("{}: {kind}, of {}", leaf.name, classes.join(" and "))
    }
}

fn describe_limit(limit: &LimitSpec) -> String {
    let burst = if limit.burst == Bytes::ZERO {
        "every packet spaced".to_owned()
    } else {
        format!("bursts up to {}", limit.burst)
    };
    format!("{}: {}, {burst}", limit.name, limit.rate)
}

fn describe_lane(policy: &CompiledPolicy, lane: &LaneSpec) -> String {
    let class = policy.classes.get(lane.class.index()).map_or("?", |class| &class.name);
    let leaf = policy.program.leaves.get(lane.leaf.index()).map_or("?", |leaf| &leaf.name);
    let limits: Vec<&str> = lane
        .limits
        .iter()
        .filter_map(|limit| policy.program.limits.get(limit.index()))
        .map(|limit| limit.name.as_str())
        .collect();
    let limits = if limits.is_empty() {
        "not limited".to_owned()
    } else {
        format!("limited by {}", limits.join(", "))
    };
    format!("class {class}, leaf {leaf}, {limits}, at most {} packets wait", lane.packet_bound)
}

/// The tests of a row in the language's syntax; `any` for a row without tests.
pub fn describe_match(row: &Match, policy: &CompiledPolicy) -> String {
    let mut tests = Vec::new();
    if let Some(protocol) = row.protocol {
        tests.push(protocol_name(protocol));
    }
    tests.extend(row.src.map(|prefix| format!("from {prefix}")));
    tests.extend(row.dst.map(|prefix| format!("to {prefix}")));
    tests.extend(row.sport.map(|ports| format!("sport {}", ports_text(ports))));
    tests.extend(row.dport.map(|ports| format!("dport {}", ports_text(ports))));
    if let Some((value, mask)) = row.mark {
        let mask = if mask == u32::MAX { String::new() } else { format!("/{mask:#x}") };
        tests.push(format!("mark {value:#x}{mask}"));
    }
    tests.extend(row.priority.map(|priority| format!("priority {priority}")));
    if let Some(number) = row.cgroup {
        let path = policy.cgroups.get(usize::from(number)).map_or("?", String::as_str);
        tests.push(format!("cgroup \"{path}\""));
    }
    if let Some(number) = row.port {
        tests.push(format!("port \"{}\"", port_name(policy, number)));
    }
    let attributes = row.attributes.iter();
    tests.extend(attributes.map(|(of, value)| format!("{of} {}", attributes::write(of, value))));
    if tests.is_empty() { "any".to_owned() } else { tests.join(" and ") }
}

fn port_name(policy: &CompiledPolicy, number: u16) -> &str {
    let name = usize::from(number).checked_sub(1).and_then(|index| policy.ports.get(index));
    name.map_or("?", String::as_str)
}

fn protocol_name(protocol: Protocol) -> String {
    match protocol {
        Protocol::TCP => "tcp".to_owned(),
        Protocol::UDP => "udp".to_owned(),
        Protocol::SCTP => "sctp".to_owned(),
        Protocol::ICMP => "icmp".to_owned(),
        Protocol::ICMPV6 => "icmpv6".to_owned(),
        Protocol(number) => format!("protocol {number}"),
    }
}

fn ports_text(ports: PortRange) -> String {
    if ports.first == ports.last {
        ports.first.to_string()
    } else {
        format!("{}..{}", ports.first, ports.last)
    }
}

/// The graph in Graphviz's language: classes at the top as in Loom's figures, and limits as boxes between a class and
/// its leaf.
pub fn to_dot(policy: &CompiledPolicy) -> String {
    let mut out = String::from("digraph policy {\n  rankdir=TB;\n  node [fontname=\"sans-serif\"];\n");
    let program = &policy.program;
    for (number, class) in policy.classes.iter().enumerate().filter(|(_, class)| !class.is_vacant()) {
        let _ = writeln!(out, "  class{number} [label=\"{}\", shape=plaintext];", escaped(&class.name));
    }
    for (number, limit) in program.limits.iter().enumerate().filter(|(_, limit)| !limit.is_vacant()) {
        let label = format!("{}\\n{}", escaped(&limit.name), rate_text(limit.rate));
        let _ = writeln!(out, "  limit{number} [label=\"{label}\", shape=box, style=rounded];");
    }
    for (number, leaf) in program.leaves.iter().enumerate().filter(|(_, leaf)| !leaf.is_vacant()) {
        let kind = match &leaf.discipline {
            LeafDiscipline::Fifo => "fifo",
            LeafDiscipline::Fair => "fair",
            LeafDiscipline::Custom(custom) => &custom.algorithm.name,
        };
        let _ = writeln!(out, "  leaf{number} [label=\"{}\\n{kind}\", shape=ellipse];", escaped(&leaf.name));
    }
    for (number, node) in program.nodes.iter().enumerate().filter(|(_, node)| !node.is_vacant()) {
        let weights = node.discipline.weights().unwrap_or_default();
        let keyword = of_discipline(&node.discipline);
        let _ =
            writeln!(out, "  node{number} [label=\"{}\\n{keyword}\", shape=ellipse];", escaped(&node.name));
        for (position, child) in node.children.iter().enumerate() {
            let label = match weights.get(position) {
                Some(weight) => format!("w:{}", weight.get()),
                None => format!("{}.", position + 1),
            };
            let child = match child {
                Child::Node(id) => format!("node{id}"),
                Child::Leaf(id) => format!("leaf{id}"),
            };
            let _ = writeln!(out, "  {child} -> node{number} [label=\"{label}\"];");
        }
    }
    let mut edges: Vec<String> =
        program.lanes.iter().filter(|lane| !lane.is_vacant()).flat_map(lane_edges).collect();
    edges.sort();
    edges.dedup();
    out.extend(edges);
    out.push_str("}\n");
    out
}

/// The edges of a lane, from its class through its limits to its leaf.
fn lane_edges(lane: &LaneSpec) -> Vec<String> {
    let mut stages = vec![format!("class{}", lane.class)];
    stages.extend(lane.limits.iter().map(|limit| format!("limit{limit}")));
    stages.push(format!("leaf{}", lane.leaf));
    stages.windows(2).map(|pair| format!("  {} -> {};\n", pair[0], pair[1])).collect()
}

fn rate_text(rate: BitsPerSec) -> String {
    rate.to_string()
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}
