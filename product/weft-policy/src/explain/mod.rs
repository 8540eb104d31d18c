//! The fate of one packet under a policy: its class, the row that decides, its path through the tree, its limits.
//!
//! [`explain`] answers from the compiled policy, as the datapath would, and adds the places in the text. It takes these steps:
//!
//! 1. `packet`: the packet's text becomes metadata; its cgroup is compared with those of the policy.
//! 2. The first matching row of the classification table gives the class. The first matching row of the class's destination table
//!    gives the lane, and the lane gives leaf and limits.
//! 3. The path is searched from the root down to the leaf. Each step says by what the leaf's branch is chosen there.
//! 4. The guaranteed rate is that of the engine (`weft_sched::guaranteed_rates`), for the link's rate.

mod packet;
mod ranks;

use crate::compile::{Source, parse};
use crate::compiled::CompiledPolicy;
use crate::describe::describe_match;
use crate::files::Tenant;
use crate::syntax::{SyntaxKind, SyntaxNode};
use crate::words::of_discipline;
use core::fmt;
pub use packet::DescribedPacket;
pub use ranks::{Claims, PacketRank};
use weft_packet::{Match, Prefix};
use weft_sched::guarantee::guaranteed_rates;
use weft_sched::program::{Child, Custom, Discipline, LeafDiscipline, LimitSpec, Program};
use weft_text::LineIndex;
use weft_units::{BitsPerSec, LeafId, Packets};

/// A class's definition in the text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Definition {
    /// The tenant's file that has it; `None` for the policy's own text.
    pub file: Option<String>,
    /// Its line, from 1.
    pub line: usize,
    /// Its text on one line, without comments.
    pub text: String,
}

/// The order in which a node serves its children, as seen from one of them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Turn {
    /// Strict priority: the child's place, from 1, and the number of children.
    Priority {
        /// The place.
        place: usize,
        /// The number of children.
        of: usize,
    },
    /// Weighted fair queueing: the child's weight, and the sum of all weights.
    Weight {
        /// The weight.
        weight: u32,
        /// The sum.
        of: u64,
    },
    /// An algorithm of the policy's own, or of the library: its name and the child's parameters.
    Algorithm {
        /// The name.
        name: String,
        /// The parameters, as `name value`.
        parameters: Vec<String>,
    },
}

/// A node on the path from the root to a leaf.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// The node's name.
    pub node: String,
    /// The turn of the branch to the leaf.
    pub turn: Turn,
}

/// The fate of a packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Explanation {
    /// The packet, in the form in which it can be written again.
    pub packet: String,
    /// The class that takes it.
    pub class: String,
    /// The definition of the class; `None` for `default` if the policy does not write it.
    pub definition: Option<Definition>,
    /// The number of the deciding row, from 1.
    pub row: usize,
    /// The tests of the row.
    pub tests: String,
    /// The row of the class's destination table that decides; `None` for its last one, which is that of all other packets.
    pub to: Option<Prefix>,
    /// The number of the lane.
    pub lane: usize,
    /// The nodes from the root to the leaf.
    pub path: Vec<Step>,
    /// The leaf's name.
    pub leaf: String,
    /// Whether the leaf shares between flows; otherwise its packets leave in the order of arrival.
    pub discipline: LeafDiscipline,
    /// The other classes in the leaf.
    pub beside: Vec<String>,
    /// The ranks that algorithms give the packet, the one of its own leaf first.
    pub ranks: Vec<PacketRank>,
    /// The limits that apply, the one nearest to the class first.
    pub limits: Vec<LimitSpec>,
    /// The link's rate, if it is known.
    pub link: Option<BitsPerSec>,
    /// The rate of the leaf while every class sends, if the link's rate is known.
    pub guaranteed: Option<BitsPerSec>,
    /// The most packets of the lane that wait.
    pub bound: Packets,
    /// Additional facts, one line each.
    pub notes: Vec<String>,
}

/// Explains the fate of `packet` under `policy`, which must be the compilation of `source`, a policy without tenants.
pub fn explain(source: Source<'_>, policy: &CompiledPolicy, packet: &DescribedPacket) -> Explanation {
    explain_with(source, &[], policy, packet)
}

/// Explains the fate of `packet` under `policy`, which must be the compilation of `source` with `tenants`.
pub fn explain_with(
    source: Source<'_>,
    tenants: &[Tenant],
    policy: &CompiledPolicy,
    packet: &DescribedPacket,
) -> Explanation {
    let meta = packet.meta(policy);
    let decides = policy.rules.iter().position(|rule| rule.matcher.matches(&meta));
    let row = decides.unwrap_or(policy.rules.len().saturating_sub(1));
    let matcher = policy.rules.get(row).map_or_else(Match::default, |rule| rule.matcher.clone());
    let class = policy.rules.get(row).map_or_else(Default::default, |rule| rule.class);
    let (to, id) =
        policy.destination_of(class, &meta).map_or_else(Default::default, |row| (row.to, row.lane));
    let program = &policy.program;
    let lane = program.lanes.get(id.index());
    let leaf = lane.map_or_else(LeafId::default, |lane| lane.leaf);
    let class_name = |lane: &weft_sched::program::LaneSpec| {
        policy.classes.get(lane.class.index()).map_or_else(String::new, |class| class.name.clone())
    };
    let class = lane.map(class_name).unwrap_or_default();
    let class_of = class.clone();
    let mut beside: Vec<String> =
        program.lanes.iter().filter(|lane| lane.leaf == leaf).map(class_name).collect();
    beside.retain(|other| *other != class);
    beside.dedup();
    let limits = lane.map_or(&[][..], |lane| &lane.limits);
    let limits = limits.iter().filter_map(|limit| program.limits.get(limit.index()));
    let spec = program.leaves.get(leaf.index());
    let path = path_to(policy, leaf);
    Explanation {
        packet: packet.to_string(),
        definition: definition_of(source, tenants, &class),
        class,
        row: row + 1,
        tests: describe_match(&matcher, policy),
        to,
        lane: id.index(),
        path,
        leaf: spec.map_or_else(String::new, |leaf| leaf.name.clone()),
        discipline: spec.map_or(LeafDiscipline::Fifo, |leaf| leaf.discipline.clone()),
        beside,
        ranks: ranks::ranks(policy, leaf, &packet.claims, packet.priority),
        limits: limits.cloned().collect(),
        link: policy.link,
        guaranteed: policy.link.and_then(|link| guaranteed_rates(program, link).get(leaf.index()).copied()),
        bound: lane.map_or(Packets(0), |lane| lane.packet_bound),
        notes: [steered(policy, &class_of), notes(policy, packet)].concat(),
    }
}

/// The clauses that give the flows of a class their receive queues.
fn steered(policy: &CompiledPolicy, class: &str) -> Vec<String> {
    let clauses = policy.steering.iter().filter(|clause| clause.classes.iter().any(|of| of == class));
    clauses
        .map(|clause| {
            format!(
                "`steer {}` says which receive queues the packets have that this one answers",
                clause.text
            )
        })
        .collect()
}

/// The nodes from the root to `leaf`.
pub fn path_to(policy: &CompiledPolicy, leaf: LeafId) -> Vec<Step> {
    let mut path = Vec::new();
    find_path(&policy.program, policy.program.root, leaf, &mut path);
    path.reverse();
    path
}

/// Adds the steps from `leaf` up to `at`. Returns whether the leaf is below `at`.
fn find_path(program: &Program, at: Child, leaf: LeafId, path: &mut Vec<Step>) -> bool {
    let id = match at {
        Child::Leaf(id) => return id == leaf,
        Child::Node(id) => id,
    };
    let Some(node) = program.nodes.get(id.index()) else { return false };
    let below = |child: &Child| find_path(program, *child, leaf, path);
    let Some(place) = node.children.iter().position(below) else { return false };
    let turn = match &node.discipline {
        Discipline::Priority => Turn::Priority { place: place + 1, of: node.children.len() },
        Discipline::Wfq(weights) => Turn::Weight {
            weight: weights.get(place).map_or(1, |weight| weight.get()),
            of: weights.iter().map(|weight| u64::from(weight.get())).sum(),
        },
        other => {
            let values = |custom: &Custom| {
                let values = custom.parameters.get(place).map_or(&[][..], Vec::as_slice);
                let named = custom.algorithm.parameters.iter().zip(values);
                named.map(|(field, value)| format!("{} {value}", field.name)).collect()
            };
            let parameters = other.custom().map_or_else(Vec::new, |custom| values(custom));
            Turn::Algorithm { name: of_discipline(other).to_owned(), parameters }
        }
    };
    path.push(Step { node: node.name.clone(), turn });
    true
}

/// The definition of `class` in the policy's text, or in the file of the tenant that it belongs to. A tenant's packets that its file
/// does not classify are defined where the tenant is.
fn definition_of(source: Source<'_>, tenants: &[Tenant], class: &str) -> Option<Definition> {
    let within =
        |tenant: &&Tenant| class.strip_prefix(&tenant.name).is_some_and(|rest| rest.starts_with('.'));
    // The deepest one: it has the longest name.
    let Some(tenant) = tenants.iter().filter(within).max_by_key(|tenant| tenant.name.len()) else {
        return definition(source, SyntaxKind::ClassItem, class);
    };
    let name = class.get(tenant.name.len() + 1..).unwrap_or_default();
    let own = tenant.file.as_ref().and_then(|file| {
        let source = Source { name: &file.name, text: &file.text };
        let found = definition(source, SyntaxKind::ClassItem, name)?;
        Some(Definition { file: Some(file.name.clone()), ..found })
    });
    own.or_else(|| defined_tenant(source, tenants, &tenant.name))
}

/// The clause that defines a tenant.
fn defined_tenant(source: Source<'_>, tenants: &[Tenant], name: &str) -> Option<Definition> {
    let within = |tenant: &&Tenant| name.strip_prefix(&tenant.name).is_some_and(|rest| rest.starts_with('.'));
    let Some(above) = tenants.iter().filter(within).max_by_key(|tenant| tenant.name.len()) else {
        return definition(source, SyntaxKind::NodeItem, name);
    };
    let file = above.file.as_ref()?;
    let source = Source { name: &file.name, text: &file.text };
    let found = definition(source, SyntaxKind::NodeItem, name.get(above.name.len() + 1..)?)?;
    Some(Definition { file: Some(file.name.clone()), ..found })
}

/// The item of `kind` that defines `name` in a text.
fn definition(source: Source<'_>, kind: SyntaxKind, defined: &str) -> Option<Definition> {
    let (tree, _) = parse(source);
    let named = |item: &SyntaxNode| {
        let name = item.children().find(|child| child.kind() == SyntaxKind::Name);
        item.kind() == kind && name.is_some_and(|name| name.text() == defined)
    };
    let item = tree.children().find(named)?;
    let tokens = item.descendants_with_tokens().filter_map(rowan::NodeOrToken::into_token);
    let kept: String = tokens
        .map(|token| match token.kind() {
            SyntaxKind::Whitespace | SyntaxKind::Comment => " ".to_owned(),
            _ => token.text().to_owned(),
        })
        .collect();
    let text = kept.split_whitespace().collect::<Vec<_>>().join(" ");
    let line = LineIndex::new(source.text).position(item.text_range().start().into()).line;
    Some(Definition { file: None, line, text })
}

fn notes(policy: &CompiledPolicy, packet: &DescribedPacket) -> Vec<String> {
    let mut notes = Vec::new();
    if packet.key.is_none() && !policy.names_infrastructure() {
        notes.push(
            "ARP, LLDP and other traffic without which a network fails is infrastructure, above the tree, up to its share"
                .to_owned(),
        );
    }
    let absolute = packet.cgroup.as_ref().is_some_and(|path| path.starts_with('/'));
    if absolute && policy.cgroups.iter().any(|path| !path.starts_with('/')) {
        notes.push(
            "the policy names cgroups below the run's own; write the packet's without a leading `/` to compare it with them"
                .to_owned(),
        );
    }
    if packet.port.is_some() && policy.ports.is_empty() {
        notes.push("the policy names no port of the NIC, so the packet's decides nothing".to_owned());
    }
    if policy.link.is_none() {
        notes.push(
            "the policy does not state the link's rate; `--rate` gives one for the guarantee".to_owned(),
        );
    }
    notes
}

impl fmt::Display for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Priority { place, of } => write!(f, "strict priority, place {place} of {of}"),
            Self::Weight { weight, of } => write!(f, "weighted fair queueing, weight {weight} of {of}"),
            Self::Algorithm { name, parameters } if parameters.is_empty() => write!(f, "algorithm {name}"),
            Self::Algorithm { name, parameters } => write!(f, "algorithm {name}, {}", parameters.join(", ")),
        }
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "packet     {}", self.packet)?;
        match &self.definition {
            Some(Definition { file: Some(file), line, text }) => {
                writeln!(f, "class      {} ({file}, line {line}: {text})", self.class)?
            }
            Some(Definition { file: None, line, text }) => {
                writeln!(f, "class      {} (line {line}: {text})", self.class)?
            }
            None => writeln!(f, "class      {} (packets that no class takes)", self.class)?,
        }
        let to = self.to.map_or_else(String::new, |to| format!("; to {to}"));
        writeln!(f, "row        {}: {}{to} -> lane {}", self.row, self.tests, self.lane)?;
        for (number, step) in self.path.iter().enumerate() {
            let title = if number == 0 { "path" } else { "" };
            writeln!(f, "{title:<10} {}{}: {}", "  ".repeat(number), step.node, step.turn)?;
        }
        let title = if self.path.is_empty() { "path" } else { "" };
        let order = match &self.discipline {
            LeafDiscipline::Fifo => "FIFO",
            LeafDiscipline::Fair => "fair over its flows",
            LeafDiscipline::Custom(custom) => &format!("{} over its flows", custom.algorithm.name),
        };
        let with =
            if self.beside.is_empty() { String::new() } else { format!(", with {}", self.beside.join(", ")) };
        writeln!(f, "{title:<10} {}{}: {order}{with}", "  ".repeat(self.path.len()), self.leaf)?;
        for (number, rank) in self.ranks.iter().enumerate() {
            let title = if number == 0 { "ranks" } else { "" };
            writeln!(f, "{title:<10} {rank}")?;
        }
        for (number, limit) in self.limits.iter().enumerate() {
            let title = if number == 0 { "limits" } else { "" };
            writeln!(f, "{title:<10} {}: {}, bursts up to {}", limit.name, limit.rate, limit.burst)?;
        }
        if self.limits.is_empty() {
            writeln!(f, "limits     none")?;
        }
        if let (Some(rate), Some(link)) = (self.guaranteed, self.link) {
            writeln!(f, "guarantee  {rate} of {link}, while every class sends")?;
        }
        writeln!(f, "bound      {} packets wait at most", self.bound)?;
        self.notes.iter().try_for_each(|note| writeln!(f, "note       {note}"))
    }
}
