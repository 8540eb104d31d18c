//! Where a NIC sends packets, and why.

mod explain;
mod logic;
#[cfg(test)]
mod reference;
mod rules;
mod steering;
#[cfg(test)]
mod tests;
mod walker;

pub use steering::Steering;
pub use walker::Walker;

use super::{Nic, NodeId};
use crate::nic::configuration::{Configuration, ContextId};
use weft_packet::header_match::HeaderMatch;
use weft_units::RxQueueId;

/// Where packets end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Destination {
    /// In a queue.
    Queue(RxQueueId),
    /// In one of a context's queues, by hashes that are not known; the queues are sorted, each once.
    AnyOf(ContextId, Vec<RxQueueId>),
    /// In none.
    Dropped,
}

/// Packets that go the same way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Route {
    /// The packets, save those of `except`. There is at least one.
    pub packets: HeaderMatch,
    /// Packets that rules took before; each header match has packets in common with `packets`.
    pub except: Vec<HeaderMatch>,
    /// Where they go.
    pub destination: Destination,
    /// Nodes that they pass, from the first.
    pub path: Vec<Step>,
}

impl Route {
    /// Whether a packet, given as the header match of all its fields, goes this way.
    pub fn holds(&self, packet: &HeaderMatch) -> bool {
        self.packets.covers(packet) && !self.except.iter().any(|headers| headers.covers(packet))
    }
}

/// A node that packets pass, and how they leave it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    /// The node.
    pub node: NodeId,
    /// How.
    pub taken: Taken,
}

/// How packets leave a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Taken {
    /// At a port of an F-node, by its place.
    Port(usize),
    /// At none: no port's predicate passes, and the F-node activates nothing.
    NoPort,
    /// The O-node found true or false.
    Decided(bool),
    /// A rule took them, by its place in [`Configuration::rules`].
    Rule(usize),
    /// No rule of the table holds them.
    Miss,
    /// They are spread by a context's indirection table; its entry where the hash is known.
    Hash {
        /// The context.
        context: ContextId,
        /// The entry.
        entry: Option<u32>,
    },
    /// RSS does not spread them: they are not IP, or the main context is not set.
    NotHashed,
    /// A rule names a context that is not set.
    NoContext(ContextId),
    /// It is a queue, or drops.
    End,
}

/// Where a flow's packets go, all routes together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Mapping {
    /// All go to the queue.
    Must(RxQueueId),
    /// They go to these queues, sorted, at least two; which of them some packets take is not known from the flow alone.
    May(Vec<RxQueueId>),
    /// Some may go to these queues, sorted, at least one; others are dropped.
    MayDrop(Vec<RxQueueId>),
    /// All are dropped.
    Dropped,
}

impl Mapping {
    /// The summary of routes.
    pub fn of(routes: &[Route]) -> Self {
        let mut queues = Vec::new();
        let mut dropped = routes.is_empty();
        for route in routes {
            match &route.destination {
                Destination::Queue(queue) => queues.push(*queue),
                Destination::AnyOf(_, any) => queues.extend_from_slice(any),
                Destination::Dropped => dropped = true,
            }
        }
        queues.sort_unstable();
        queues.dedup();
        match (queues.as_slice(), dropped) {
            ([], _) => Self::Dropped,
            ([queue], false) => Self::Must(*queue),
            (_, false) => Self::May(queues),
            (_, true) => Self::MayDrop(queues),
        }
    }

    /// The queues that packets may go to.
    pub fn queues(&self) -> &[RxQueueId] {
        match self {
            Self::Must(queue) => core::slice::from_ref(queue),
            Self::May(queues) | Self::MayDrop(queues) => queues,
            Self::Dropped => &[],
        }
    }
}

impl Nic {
    /// The routes of a flow's packets, disjoint and together all of the flow. For several flows, one [`Walker`] is faster.
    ///
    /// A packet enters at the first node. Targets are visited in the order in which they were activated, each node at most once, and the
    /// first destination counts: a packet is received once. One for which no target is left is dropped. Configurations that the NIC
    /// would not take are not refused here: see [`super::Usage::of`].
    pub fn walk(&self, configuration: &Configuration, flow: &HeaderMatch) -> Vec<Route> {
        Walker::new(self, configuration).walk(flow)
    }

    /// Where a flow's packets go. For several flows, one [`Walker`] is faster.
    pub fn mapping(&self, configuration: &Configuration, flow: &HeaderMatch) -> Mapping {
        Walker::new(self, configuration).mapping(flow)
    }
}
