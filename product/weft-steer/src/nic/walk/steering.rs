//! Compiled steering for many packets: the form that the software NIC evaluates per frame.

use super::logic::{Operand, decide, places};
use super::rules::Rules;
use crate::nic::configuration::{Action, Configuration, ContextId, RssContext};
use crate::nic::{Nic, Node, NodeId, NodeKind, RssModel, Target};
use weft_packet::header_match::HeaderMatch;
use weft_packet::rss::{HashedFields, Toeplitz};
use weft_units::RxQueueId;

/// The maximum number of edges, nodes and operands for a walk without heap memory.
const INLINE: usize = 256;

/// A compiled NIC and configuration, for packets with known headers.
#[derive(Clone)]
pub struct Steering {
    nodes: Vec<Node>,
    tables: Vec<Rules>,
    actions: Vec<Action>,
    contexts: Vec<RssContext>,
    rss: Option<RssModel>,
    toeplitz: Toeplitz,
    operands: (Vec<u32>, u32),
    edges: usize,
    /// Whether each node has at most one successor and none is an O-node, so that at most one target is pending.
    straight: bool,
}

/// The result of a node for a packet.
enum Found<'a> {
    Queue(RxQueueId),
    Dropped,
    On(&'a [Target]),
}

/// The state of a packet's walk through a graph that is not straight.
struct Memory<'a> {
    pending: &'a mut [Target],
    fired: &'a mut [bool],
    operands: &'a mut [Operand],
}

impl Steering {
    /// Compiles a configuration in time linear in the number of rules.
    pub fn new(nic: &Nic, configuration: &Configuration) -> Self {
        let logic = nic.nodes.iter().any(|node| matches!(node.kind, NodeKind::Logic { .. }));
        let forks = nic.nodes.iter().any(|node| match &node.kind {
            NodeKind::Classify { ports } => ports.iter().any(|port| port.to.len() > 1),
            _ => false,
        });
        Self {
            nodes: nic.nodes.clone(),
            tables: nic.tables().map(|(id, table)| Rules::new(id, table, configuration)).collect(),
            actions: configuration.rules.iter().map(|rule| rule.action).collect(),
            contexts: configuration.contexts.clone(),
            rss: nic.rss.clone(),
            toeplitz: Toeplitz::new(&configuration.key),
            operands: places(nic),
            edges: nic.nodes.iter().map(|node| node.kind.targets().count()).sum(),
            straight: !logic && !forks,
        }
    }

    /// Returns the queue of a packet, given as the header match of its fields; untested bits count as zero. `None` if it is
    /// dropped.
    ///
    /// Allocates nothing for graphs of up to 256 nodes, edges and operands.
    pub fn queue(&self, packet: &HeaderMatch) -> Option<RxQueueId> {
        let packet = packet.whole();
        if self.straight {
            return self.straight_on(&packet);
        }
        let first = Target::Node(NodeId(0));
        let (edges, nodes, operands) = (self.edges + 1, self.nodes.len(), self.operands.1 as usize);
        if edges.max(nodes).max(operands) <= INLINE {
            self.general(
                &packet,
                &mut Memory {
                    pending: &mut [first; INLINE][..edges],
                    fired: &mut [false; INLINE][..nodes],
                    operands: &mut [None; INLINE][..operands],
                },
            )
        } else {
            let (mut pending, mut fired) = (vec![first; edges], vec![false; nodes]);
            let mut operands = vec![None; operands];
            self.general(
                &packet,
                &mut Memory { pending: &mut pending, fired: &mut fired, operands: &mut operands },
            )
        }
    }

    fn straight_on(&self, packet: &HeaderMatch) -> Option<RxQueueId> {
        let mut next = NodeId(0);
        // A node is passed once: more steps than nodes would mean a cycle.
        for _ in 0..self.nodes.len() {
            match self.pass(self.nodes.get(usize::from(next.0))?, packet) {
                Found::Queue(queue) => return Some(queue),
                Found::Dropped | Found::On([]) => return None,
                Found::On([target, ..]) => next = target.node(),
            }
        }
        None
    }

    fn general(&self, packet: &HeaderMatch, memory: &mut Memory<'_>) -> Option<RxQueueId> {
        let (mut next, mut end) = (0, 1);
        while next < end {
            let target = memory.pending[next];
            next += 1;
            let index = usize::from(target.node().0);
            let Some(node) = self.nodes.get(index) else { continue };
            if memory.fired[index] {
                continue;
            }
            let found = if let NodeKind::Logic { operator, operands, on_true, on_false } = &node.kind {
                let from = self.operands.0[index] as usize;
                let all = &mut memory.operands[from..from + usize::from(*operands)];
                if let Target::Operand { operand, value, .. } = target
                    && let Some(place) = all.get_mut(usize::from(operand))
                {
                    place.get_or_insert(value);
                }
                let Some(found) = decide(*operator, all) else { continue };
                Found::On(if found { on_true } else { on_false })
            } else {
                self.pass(node, packet)
            };
            memory.fired[index] = true;
            match found {
                Found::Queue(queue) => return Some(queue),
                Found::Dropped => return None,
                Found::On(targets) => {
                    // Each node fires once, so every edge has room.
                    memory.pending[end..end + targets.len()].copy_from_slice(targets);
                    end += targets.len();
                }
            }
        }
        None
    }

    fn pass<'a>(&'a self, node: &'a Node, packet: &HeaderMatch) -> Found<'a> {
        match &node.kind {
            NodeKind::Classify { ports } => {
                let port = ports.iter().find(|port| port.when.passes(packet));
                Found::On(port.map_or(&[], |port| &port.to))
            }
            NodeKind::Filter { table, miss } => {
                let rule = self.tables.get(usize::from(table.0)).and_then(|rules| rules.of_packet(packet));
                match rule.map(|place| self.actions[place]) {
                    None => Found::On(core::slice::from_ref(miss)),
                    Some(Action::Queue(queue)) => Found::Queue(queue),
                    Some(Action::Drop) => Found::Dropped,
                    Some(Action::Context(id)) => self.context(id).map_or(Found::Dropped, |context| {
                        Found::Queue(spread(context, self.hash(packet).unwrap_or(0)))
                    }),
                }
            }
            NodeKind::Rss { miss } => match (self.context(ContextId::MAIN), self.hash(packet)) {
                (Some(main), Some(hash)) => Found::Queue(spread(main, hash)),
                _ => Found::On(core::slice::from_ref(miss)),
            },
            NodeKind::Queue(queue) => Found::Queue(*queue),
            NodeKind::Drop | NodeKind::Logic { .. } => Found::Dropped,
        }
    }

    /// Returns a context whose indirection table is not empty.
    fn context(&self, id: ContextId) -> Option<&RssContext> {
        self.contexts
            .iter()
            .find(|context| context.id == id)
            .filter(|context| !context.indirection.is_empty())
    }

    /// Returns the hash of an IP packet.
    fn hash(&self, packet: &HeaderMatch) -> Option<u32> {
        let key = packet.flow()?;
        let fields = self.rss.as_ref().map_or(HashedFields::Addresses, |rss| rss.hashed_fields(key.protocol));
        Some(self.toeplitz.flow(&key, fields))
    }
}

/// Returns the queue of a hash. The table's size is a power of two, so the remainder is the hash's low bits.
fn spread(context: &RssContext, hash: u32) -> RxQueueId {
    context.indirection[hash as usize % context.indirection.len()]
}
