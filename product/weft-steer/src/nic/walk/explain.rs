//! Routes as text.

use super::{Destination, Mapping, Route, Step, Taken};
use crate::nic::configuration::{Action, Configuration, ContextId};
use crate::nic::{Nic, NodeKind};
use core::fmt;
use weft_units::RxQueueId;

/// The maximum number of excepted packets listed for a route; further ones are counted.
const LISTED_MAX: usize = 3;

impl Route {
    /// Explains the route: a line for the packets, one per node, one for the destination.
    pub fn explain(&self, nic: &Nic, configuration: &Configuration) -> Vec<String> {
        let mut packets = self.packets.to_string();
        for (index, headers) in self.except.iter().take(LISTED_MAX).enumerate() {
            packets.push_str(if index == 0 { ", but not " } else { ", nor " });
            packets.push_str(&headers.to_string());
        }
        if let Some(more) = self.except.len().checked_sub(LISTED_MAX).filter(|more| *more > 0) {
            packets.push_str(&format!(", nor those of {more} more rules"));
        }
        let mut lines = vec![packets];
        for (place, step) in self.path.iter().enumerate() {
            // A final queue node would repeat the last line.
            let last = place + 1 == self.path.len() && step.taken == Taken::End;
            if !last {
                lines.push(format!("  {}: {}", node_name(nic, step), words(nic, configuration, step)));
            }
        }
        lines.push(format!("  -> {}", self.destination));
        lines
    }
}

fn node_name<'a>(nic: &'a Nic, step: &Step) -> &'a str {
    nic.nodes.get(usize::from(step.node.0)).map_or("a node that the model has not", |node| &node.name)
}

fn words(nic: &Nic, configuration: &Configuration, step: &Step) -> String {
    let context = |id: ContextId| match id {
        ContextId::MAIN => "the main RSS context".to_owned(),
        ContextId(number) => format!("RSS context {number}"),
    };
    match step.taken {
        Taken::Port(port) => match nic.nodes.get(usize::from(step.node.0)).map(|node| &node.kind) {
            Some(NodeKind::Classify { ports }) => {
                let port = ports.get(port);
                let name = port.map_or("", |port| &port.name);
                port.filter(|port| port.when != crate::Predicate::TRUE)
                    .map_or_else(|| format!("port {name}"), |port| format!("port {name}, as {}", port.when))
            }
            _ => format!("port {port}"),
        },
        Taken::NoPort => "no port takes them".to_owned(),
        Taken::Decided(found) => format!("found {found}"),
        Taken::Rule(place) => configuration.rules.get(place).map_or_else(
            || format!("rule {place}"),
            |rule| {
                let action = match rule.action {
                    Action::Queue(queue) => format!("to queue {queue}"),
                    Action::Context(id) => format!("to {}", context(id)),
                    Action::Drop => "drop".to_owned(),
                };
                format!("rule {place} ({}, priority {}): {action}", rule.headers, rule.priority)
            },
        ),
        Taken::Miss => "no rule holds them".to_owned(),
        Taken::Hash { context: id, entry: Some(entry) } => {
            format!("the hash names entry {entry} of {}", context(id))
        }
        Taken::Hash { context: id, entry: None } => format!("spread by hash over {}", context(id)),
        Taken::NotHashed => "not spread by RSS".to_owned(),
        Taken::NoContext(id) => format!("{} is not set", context(id)),
        Taken::End => "end".to_owned(),
    }
}

/// Formats queues, separated by commas.
fn list(queues: &[RxQueueId]) -> String {
    queues.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Queue(queue) => write!(f, "queue {queue}"),
            Self::AnyOf(_, queues) => write!(f, "one of queues {}", list(queues)),
            Self::Dropped => f.write_str("dropped"),
        }
    }
}

impl fmt::Display for Mapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Must(queue) => write!(f, "queue {queue}"),
            Self::May(queues) => write!(f, "one of queues {}", list(queues)),
            Self::MayDrop(queues) => write!(f, "dropped, or one of queues {}", list(queues)),
            Self::Dropped => f.write_str("dropped"),
        }
    }
}

impl fmt::Display for Route {
    /// Writes the packets and their destination; [`Route::explain`] also gives the reasons.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let but = if self.except.is_empty() { "" } else { " (but those of rules before)" };
        write!(f, "{}{but} -> {}", self.packets, self.destination)
    }
}
