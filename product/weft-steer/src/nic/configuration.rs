//! The configuration of a NIC: rules of its filter tables, and RSS contexts.

use crate::nic::TableId;
use weft_packet::header_match::HeaderMatch;
use weft_packet::rss::RssKey;
use weft_units::RxQueueId;

/// Number of an RSS context; 0 is the main one, which spreads packets that match no rule.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct ContextId(pub u32);

impl ContextId {
    /// The context of packets that match no rule.
    pub const MAIN: Self = Self(0);
}

/// The action of a rule on its packets.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Action {
    /// Sends them to a queue.
    Queue(RxQueueId),
    /// Spreads them over a context's queues.
    Context(ContextId),
    /// Drops them.
    Drop,
}

/// A rule in a filter table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Rule {
    /// The table.
    pub table: TableId,
    /// The packets that it matches.
    pub headers: HeaderMatch,
    /// Precedence in tables with priorities: the higher one wins.
    pub priority: u8,
    /// The action.
    pub action: Action,
}

/// An RSS context: the low bits of the hash select an entry of its indirection table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RssContext {
    /// Its number.
    pub id: ContextId,
    /// Queues by entry; the length is that of the NIC's table.
    pub indirection: Vec<RxQueueId>,
}

/// A NIC's complete configuration.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Configuration {
    /// Rules of all tables, in the order in which they were added.
    pub rules: Vec<Rule>,
    /// Contexts, by number; empty if the NIC has no RSS or RSS is off.
    pub contexts: Vec<RssContext>,
    /// The hash's key, shared by all contexts.
    pub key: RssKey,
}

impl Configuration {
    /// Returns a context.
    pub fn context(&self, id: ContextId) -> Option<&RssContext> {
        self.contexts.iter().find(|context| context.id == id)
    }
}
