//! What a NIC can do with what it receives: Dragonet's physical resource graph (TRIOS'15).
//!
//! A packet walks from node to node until it reaches a queue. F-nodes look at headers and go on at one port. O-nodes join what
//! several F-nodes found. C-nodes are what can be configured: filter tables, whose rules name a queue or an RSS context, and RSS.

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

/// Number of a budget of entries that tables share, in [`Nic::pools`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PoolId(pub u16);

/// A NIC's receive side.
#[derive(Clone, PartialEq, Debug)]
pub struct Nic {
    /// The name on the command line, such as `intel-82599`.
    pub name: String,
    /// The name for people.
    pub title: String,
    /// Most receive queues that can be used.
    pub queues: u32,
    /// The graph; packets enter at the first.
    pub nodes: Vec<Node>,
    /// The filter tables that C-nodes stand for.
    pub tables: Vec<Table>,
    /// Budgets of entries that several tables share.
    pub pools: Vec<Pool>,
    /// Spreading by hash, where there is any.
    pub rss: Option<RssModel>,
    /// Groups of tables of which only one can hold rules at a time.
    pub exclusions: Vec<Exclusion>,
    /// What is stated of the NIC, each with where that is from.
    pub facts: Vec<Fact>,
}

/// A statement and its source.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fact {
    /// What is so.
    pub text: String,
    /// Data sheet section, driver function, page.
    pub source: String,
    /// What of the model follows from it: names of tables, or a word of [`ABOUT`]. Empty: anything.
    pub about: Vec<String>,
}

/// What a fact may be about beside tables: the hash and its table, the order of tables, the number of queues, RSS contexts, or nothing
/// that a plan uses.
pub const ABOUT: [&str; 5] = ["hash", "order", "queues", "contexts", "none"];

impl Fact {
    /// Whether nobody has looked it up: its source says so.
    pub fn is_unverified(&self) -> bool {
        ["recalled", "to be verified"].iter().any(|words| self.source.contains(words))
    }
}

/// A node of the graph.
#[derive(Clone, PartialEq, Debug)]
pub struct Node {
    /// Its name, unique in the model.
    pub name: String,
    /// What it does.
    pub kind: NodeKind,
}

/// Where an edge leads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// To a node.
    Node(NodeId),
    /// To an operand of an O-node, with the value that it gets.
    Operand {
        /// The O-node.
        node: NodeId,
        /// Which of its operands, from 0.
        operand: u8,
        /// True or false.
        value: bool,
    },
}

/// A port of an F-node.
#[derive(Clone, PartialEq, Debug)]
pub struct Port {
    /// Its name.
    pub name: String,
    /// Which packets leave here, of those that no port before took.
    pub when: Predicate,
    /// Where they go: all of them.
    pub to: Vec<Target>,
}

/// How an O-node joins its operands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operator {
    /// True when all are.
    And,
    /// True when one is.
    Or,
    /// False when all are true.
    Nand,
    /// False when one is true.
    Nor,
}

/// What a node does.
#[derive(Clone, PartialEq, Debug)]
pub enum NodeKind {
    /// F-node: the first port whose predicate passes is activated.
    Classify {
        /// In order.
        ports: Vec<Port>,
    },
    /// O-node; known as soon as the operands that have come decide it.
    Logic {
        /// The operator.
        operator: Operator,
        /// Operands that it has.
        operands: u8,
        /// Where to go when it is true.
        on_true: Vec<Target>,
        /// And false.
        on_false: Vec<Target>,
    },
    /// C-node of a filter table: a rule's packets go where the rule says.
    Filter {
        /// The table.
        table: TableId,
        /// Where packets without a rule go.
        miss: Target,
    },
    /// C-node of RSS: packets go to a queue of the main context by their hash.
    Rss {
        /// Where packets go whose fields are not hashed.
        miss: Target,
    },
    /// A receive queue.
    Queue(RxQueueId),
    /// The packet is not received.
    Drop,
}

/// Which masks a table's rules may have in a field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Masks {
    /// All of the field's bits.
    Exact,
    /// Leading bits.
    Prefix,
    /// Any bits.
    Any,
}

/// A field that a table looks at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FieldSupport {
    /// The field.
    pub field: Field,
    /// Masks that it may have.
    pub masks: Masks,
    /// Whether each rule must test it.
    pub required: bool,
}

/// Which rule counts when several hold a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// The highest priority, then the one that was added first.
    Priority,
    /// The lowest location (ethtool's `loc`), which is the priority turned round.
    Location,
    /// The one that was added last.
    Newest,
    /// Rules of a table never overlap: an equal mask for all makes them disjoint or equal.
    Disjoint,
}

/// How a table's rules reach the driver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Interface {
    /// `ethtool -N`: ETHTOOL_SRXCLSRLINS.
    Ntuple,
    /// `tc filter ... flower`, hardware only.
    Flower,
    /// DPDK's rte_flow.
    RteFlow,
    /// No driver offers it: the model knows it, plans for Linux must not use it.
    None,
}

/// A filter table.
#[derive(Clone, PartialEq, Debug)]
pub struct Table {
    /// Its name, unique in the model.
    pub name: String,
    /// Entries that it has of its own.
    pub capacity: u32,
    /// A shared budget from which entries come when its own are used up.
    pub pool: Option<PoolId>,
    /// Fields that rules may test; others they must not.
    pub fields: Vec<FieldSupport>,
    /// Rules must lie within one of these header matches (IPv4 only, say); anywhere without any.
    pub within: Vec<HeaderMatch>,
    /// Whether all rules have one mask.
    pub one_mask: bool,
    /// Priorities that rules may have, ends included.
    pub priorities: (u8, u8),
    /// Precedence among rules.
    pub order: Order,
    /// Whether rules may name a queue, an RSS context, or drop.
    pub actions: Actions,
    /// The highest queue that a rule may name.
    pub last_queue: RxQueueId,
    /// Bits that rules are compared by when the table only holds signatures, so that other flows may hit; `None` when it compares
    /// all.
    pub signature_bits: Option<u8>,
    /// How rules are set.
    pub interface: Interface,
}

/// What rules of a table may do.
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
    /// Entries.
    pub capacity: u32,
}

/// Tables of which only one may hold rules.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Exclusion {
    /// The tables.
    pub tables: Vec<TableId>,
    /// Why, for messages.
    pub reason: String,
}

/// Receive side scaling.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RssModel {
    /// Entries of an indirection table; a power of two.
    pub indirection: u32,
    /// Queues that an entry can name.
    pub queues: u32,
    /// Contexts beside the main one, each with an indirection table of its own.
    pub contexts: u32,
    /// Bytes of the hash key.
    pub key_bytes: u32,
    /// Whether the key can be set.
    pub key_settable: bool,
    /// Whether the indirection table can be set.
    pub indirection_settable: bool,
    /// Packets that are hashed over addresses and ports (IP protocol numbers).
    pub hashed_with_ports: Vec<u8>,
}

impl RssModel {
    /// The fields that packets of a protocol are hashed by.
    pub fn hashed_fields(&self, protocol: Protocol) -> HashedFields {
        if self.hashed_with_ports.contains(&protocol.0) {
            HashedFields::AddressesAndPorts
        } else {
            HashedFields::Addresses
        }
    }
}

impl Nic {
    /// A table.
    pub fn table(&self, id: TableId) -> Option<&Table> {
        self.tables.get(usize::from(id.0))
    }

    /// The tables with their numbers.
    pub fn tables(&self) -> impl Iterator<Item = (TableId, &Table)> {
        self.tables.iter().enumerate().map(|(index, table)| (TableId(index as u16), table))
    }
}
