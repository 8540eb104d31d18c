//! What is set in a NIC: rules in its filter tables, and how RSS spreads.

use crate::nic::TableId;
use weft_packet::header_match::HeaderMatch;
use weft_packet::rss::RssKey;
use weft_units::RxQueueId;

/// Number of an RSS context; 0 is the main one, which packets reach that no rule holds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct ContextId(pub u32);

impl ContextId {
    /// The context of packets that no rule holds.
    pub const MAIN: Self = Self(0);
}

/// What happens to a rule's packets.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Action {
    /// They go to a queue.
    Queue(RxQueueId),
    /// They are spread over a context's queues.
    Context(ContextId),
    /// They are dropped.
    Drop,
}

/// A rule in a filter table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Rule {
    /// The table.
    pub table: TableId,
    /// Packets that it holds.
    pub headers: HeaderMatch,
    /// Precedence in tables that have priorities: the higher one counts.
    pub priority: u8,
    /// What it does.
    pub action: Action,
}

/// How a context spreads packets: the hash's low bits name an entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RssContext {
    /// Its number.
    pub id: ContextId,
    /// Queues; as many as the NIC's table has entries.
    pub indirection: Vec<RxQueueId>,
}

/// Everything that is set.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Configuration {
    /// Rules of all tables, in the order in which they were added.
    pub rules: Vec<Rule>,
    /// Contexts, by number; empty when the NIC has no RSS or it is off.
    pub contexts: Vec<RssContext>,
    /// The hash's key, shared by all contexts.
    pub key: RssKey,
}

impl Configuration {
    /// A context.
    pub fn context(&self, id: ContextId) -> Option<&RssContext> {
        self.contexts.iter().find(|context| context.id == id)
    }
}
