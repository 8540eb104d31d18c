//! Routes of packets through a NIC, with the reason for each step.

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

/// The destination of packets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Destination {
    /// A queue.
    Queue(RxQueueId),
    /// One of a context's queues, by unknown hashes; the queues are sorted and distinct.
    AnyOf(ContextId, Vec<RxQueueId>),
    /// No queue.
    Dropped,
}

/// Packets that take the same route.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Route {
    /// The packets, without those of `except`. At least one remains.
    pub packets: HeaderMatch,
    /// Packets taken by earlier rules; each header match intersects `packets`.
    pub except: Vec<HeaderMatch>,
    /// Their destination.
    pub destination: Destination,
    /// The nodes that they pass, in order.
    pub path: Vec<Step>,
}

impl Route {
    /// Whether a packet, given as the header match of all of its fields, takes this route.
    pub fn holds(&self, packet: &HeaderMatch) -> bool {
        self.packets.covers(packet) && !self.except.iter().any(|headers| headers.covers(packet))
    }
}

/// A node that packets pass, and its exit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    /// The node.
    pub node: NodeId,
    /// The exit.
    pub taken: Taken,
}

/// The exit that packets take from a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Taken {
    /// A port of an F-node, by its index.
    Port(usize),
    /// No port: no predicate matches, and the F-node activates nothing.
    NoPort,
    /// The result of an O-node.
    Decided(bool),
    /// A rule, by its index in [`Configuration::rules`].
    Rule(usize),
    /// No rule of the table matches.
    Miss,
    /// A context's indirection table; with the entry if the hash is known.
    Hash {
        /// The context.
        context: ContextId,
        /// The entry.
        entry: Option<u32>,
    },
    /// RSS does not apply: the packets are not IP, or the main context is not set.
    NotHashed,
    /// A rule that names a missing context.
    NoContext(ContextId),
    /// The end of the route: a queue, or a drop.
    End,
}

/// The summary of all routes of a flow.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Mapping {
    /// All packets reach one queue.
    Must(RxQueueId),
    /// Packets reach these queues, sorted, at least two; the flow alone does not determine which.
    May(Vec<RxQueueId>),
    /// Some packets may reach these queues, sorted, at least one; others are dropped.
    MayDrop(Vec<RxQueueId>),
    /// All packets are dropped.
    Dropped,
}

impl Mapping {
    /// Summarises routes.
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

    /// The queues that packets may reach.
    pub fn queues(&self) -> &[RxQueueId] {
        match self {
            Self::Must(queue) => core::slice::from_ref(queue),
            Self::May(queues) | Self::MayDrop(queues) => queues,
            Self::Dropped => &[],
        }
    }
}

impl Nic {
    /// Returns the routes of a flow's packets, disjoint and complete. For several flows, one [`Walker`] is faster.
    ///
    /// A packet enters at the first node. Targets are visited in the order of their activation, each node at most once, and the
    /// first destination wins: a packet is received once. A packet without a remaining target is dropped. Configurations that do
    /// not fit the NIC are accepted here: see [`super::Usage::of`].
    pub fn walk(&self, configuration: &Configuration, flow: &HeaderMatch) -> Vec<Route> {
        Walker::new(self, configuration).walk(flow)
    }

    /// Returns the destinations of a flow's packets. For several flows, one [`Walker`] is faster.
    pub fn mapping(&self, configuration: &Configuration, flow: &HeaderMatch) -> Mapping {
        Walker::new(self, configuration).mapping(flow)
    }
}
