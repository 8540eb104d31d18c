//! Models of a NIC's receive side: Dragonet's physical resource graph (TRIOS'15).
//!
//! A packet passes from node to node until it reaches a queue. F-nodes test headers and continue at one port. O-nodes combine the
//! results of several F-nodes. C-nodes are configurable: filter tables, whose rules name a queue or an RSS context, and RSS.

pub mod configuration;
mod draw;
mod graph;
mod models;
#[cfg(test)]
mod models_tests;
#[cfg(test)]
pub(crate) mod random;
mod text;
mod usage;
mod walk;

pub use draw::draw;
pub use models::{shipped, shipped_model};
pub use text::{fuzz, read, write};
pub use usage::{Refusal, Usage};
pub use walk::{Destination, Mapping, Route, Steering, Step, Taken, Walker};

use crate::predicate::Predicate;
use weft_packet::header_match::{Field, HeaderMatch};
use weft_packet::rss::HashedFields;
use weft_units::{Protocol, RxQueueId};

/// Number of a node in [`Nic::nodes`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeId(pub u16);

/// Number of a filter table in [`Nic::tables`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TableId(pub u16);

/// Number of a budget of entries shared by tables, in [`Nic::pools`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PoolId(pub u16);

/// A NIC's receive side.
#[derive(Clone, PartialEq, Debug)]
pub struct Nic {
    /// The name on the command line, such as `intel-82599`.
    pub name: String,
    /// The name for users.
    pub title: String,
    /// Number of usable receive queues.
    pub queues: u32,
    /// The graph; packets enter at the first.
    pub nodes: Vec<Node>,
    /// The filter tables of the C-nodes.
    pub tables: Vec<Table>,
    /// Budgets of entries that several tables share.
    pub pools: Vec<Pool>,
    /// Spreading by hash, if the NIC has RSS.
    pub rss: Option<RssModel>,
    /// Groups of tables that cannot hold rules at the same time.
    pub exclusions: Vec<Exclusion>,
    /// Statements about the NIC, each with its source.
    pub facts: Vec<Fact>,
}

/// A statement and its source.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fact {
    /// The statement.
    pub text: String,
    /// Data sheet section, driver function or page.
    pub source: String,
    /// Parts of the model that follow from it: names of tables, or a word of [`ABOUT`]. Empty means any part.
    pub about: Vec<String>,
}

/// The subjects of a fact beside tables: the hash and its table, the order of tables, the number of queues, RSS contexts, or
/// nothing that a plan uses.
pub const ABOUT: [&str; 5] = ["hash", "order", "queues", "contexts", "none"];

impl Fact {
    /// Whether the source states that the fact is unverified.
    pub fn is_unverified(&self) -> bool {
        ["recalled", "to be verified"].iter().any(|words| self.source.contains(words))
    }
}

/// A node of the graph.
#[derive(Clone, PartialEq, Debug)]
pub struct Node {
    /// Its name, unique in the model.
    pub name: String,
    /// Its function.
    pub kind: NodeKind,
}

/// The target of an edge.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// To a node.
    Node(NodeId),
    /// An operand of an O-node, with the value that it receives.
    Operand {
        /// The O-node.
        node: NodeId,
        /// The operand's index, from 0.
        operand: u8,
        /// The value.
        value: bool,
    },
}

/// A port of an F-node.
#[derive(Clone, PartialEq, Debug)]
pub struct Port {
    /// Its name.
    pub name: String,
    /// The packets that leave here, among those that match no earlier port.
    pub when: Predicate,
    /// All of its targets.
    pub to: Vec<Target>,
}

/// The function of an O-node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operator {
    /// True if all operands are true.
    And,
    /// True if any operand is true.
    Or,
    /// False if all operands are true.
    Nand,
    /// False if any operand is true.
    Nor,
}

/// The function of a node.
#[derive(Clone, PartialEq, Debug)]
pub enum NodeKind {
    /// F-node: the first port whose predicate passes is activated.
    Classify {
        /// The ports, in order.
        ports: Vec<Port>,
    },
    /// O-node; its result is known as soon as the received operands determine it.
    Logic {
        /// The operator.
        operator: Operator,
        /// Number of operands.
        operands: u8,
        /// Targets for a true result.
        on_true: Vec<Target>,
        /// Targets for a false result.
        on_false: Vec<Target>,
    },
    /// C-node of a filter table: a rule sends its packets to its destination.
    Filter {
        /// The table.
        table: TableId,
        /// Target of packets that match no rule.
        miss: Target,
    },
    /// C-node of RSS: the hash selects a queue of the main context.
    Rss {
        /// Target of packets that are not hashed.
        miss: Target,
    },
    /// A receive queue.
    Queue(RxQueueId),
    /// The packet is not received.
    Drop,
}

/// The masks that a table's rules may have for a field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Masks {
    /// All of the field's bits.
    Exact,
    /// Leading bits.
    Prefix,
    /// Any bits.
    Any,
}

/// A field that a table matches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FieldSupport {
    /// The field.
    pub field: Field,
    /// The permitted masks.
    pub masks: Masks,
    /// Whether each rule must test it.
    pub required: bool,
}

/// Precedence among rules that match the same packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// The highest priority, then the oldest rule.
    Priority,
    /// The lowest location (ethtool's `loc`), an inverted priority.
    Location,
    /// The newest rule.
    Newest,
    /// Rules of the table never overlap: one mask for all makes them equal or disjoint.
    Disjoint,
}

/// The interface that sets rules in the driver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Interface {
    /// `ethtool -N`: ETHTOOL_SRXCLSRLINS.
    Ntuple,
    /// `tc filter ... flower`, hardware only.
    Flower,
    /// DPDK's rte_flow.
    RteFlow,
    /// No driver offers the table. The model has it, but plans for Linux must not use it.
    None,
}

/// A filter table.
#[derive(Clone, PartialEq, Debug)]
pub struct Table {
    /// Its name, unique in the model.
    pub name: String,
    /// Number of its entries, without those of the pool.
    pub capacity: u32,
    /// A shared budget that provides entries after its own are used up.
    pub pool: Option<PoolId>,
    /// Fields that rules may test; rules must not test others.
    pub fields: Vec<FieldSupport>,
    /// Rules must lie within one of these header matches (IPv4 only, for example); empty means no restriction.
    pub within: Vec<HeaderMatch>,
    /// Whether all rules share one mask.
    pub one_mask: bool,
    /// Permitted priorities, ends included.
    pub priorities: (u8, u8),
    /// Precedence among rules.
    pub order: Order,
    /// The permitted actions.
    pub actions: Actions,
    /// The highest queue that a rule may name.
    pub last_queue: RxQueueId,
    /// Number of compared bits if the table holds only signatures, so that other flows may match; `None` if it compares all bits.
    pub signature_bits: Option<u8>,
    /// The interface that sets rules.
    pub interface: Interface,
}

/// The actions that a table's rules may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Actions {
    /// Name a queue.
    pub queue: bool,
    /// Name an RSS context.
    pub context: bool,
    /// Drop.
    pub drop: bool,
}

/// A shared budget of entries.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pool {
    /// Its name.
    pub name: String,
    /// Number of entries.
    pub capacity: u32,
}

/// Tables that cannot hold rules at the same time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Exclusion {
    /// The tables.
    pub tables: Vec<TableId>,
    /// The reason, for messages.
    pub reason: String,
}

/// Receive side scaling.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RssModel {
    /// Number of entries of an indirection table; a power of two.
    pub indirection: u32,
    /// Number of queues that an entry can name.
    pub queues: u32,
    /// Number of contexts beside the main one, each with its own indirection table.
    pub contexts: u32,
    /// Length of the hash key in bytes.
    pub key_bytes: u32,
    /// Whether the key can be set.
    pub key_settable: bool,
    /// Whether the indirection table can be set.
    pub indirection_settable: bool,
    /// Protocols hashed over addresses and ports (IP protocol numbers).
    pub hashed_with_ports: Vec<u8>,
}

impl RssModel {
    /// Returns the hashed fields of a protocol's packets.
    pub fn hashed_fields(&self, protocol: Protocol) -> HashedFields {
        if self.hashed_with_ports.contains(&protocol.0) {
            HashedFields::AddressesAndPorts
        } else {
            HashedFields::Addresses
        }
    }
}

impl Nic {
    /// Returns a table.
    pub fn table(&self, id: TableId) -> Option<&Table> {
        self.tables.get(usize::from(id.0))
    }

    /// Iterates over the tables with their numbers.
    pub fn tables(&self) -> impl Iterator<Item = (TableId, &Table)> {
        self.tables.iter().enumerate().map(|(index, table)| (TableId(index as u16), table))
    }
}
