//! Walks of packet sets through the graph.

use super::logic::{Operand, decide, places};
use super::rules::Rules;
use super::{Destination, Mapping, Route, Step, Taken};
use crate::nic::configuration::{Action, Configuration, ContextId, RssContext};
use crate::nic::{Nic, NodeId, NodeKind, TableId, Target};
use std::collections::VecDeque;
use std::sync::OnceLock;
use weft_packet::header_match::{ETHER_TYPE_IPV4, ETHER_TYPE_IPV6, Field, HeaderMatch};
use weft_packet::rss::{HashedFields, Toeplitz};
use weft_units::Protocol;

/// Ethernet types that RSS spreads.
const IP: [u16; 2] = [ETHER_TYPE_IPV4, ETHER_TYPE_IPV6];

fn of_type(ether_type: u16) -> HeaderMatch {
    HeaderMatch::ALL.exact(Field::EtherType, ether_type.into())
}

/// A NIC and a configuration, prepared for many flows.
pub struct Walker<'a> {
    nic: &'a Nic,
    configuration: &'a Configuration,
    tables: Vec<Rules>,
    operands: (Vec<u32>, u32),
    /// Built for the first hash: 36 KiB.
    toeplitz: OnceLock<Toeplitz>,
}

/// A set of packets during its walk.
#[derive(Clone)]
struct State {
    packets: HeaderMatch,
    except: Vec<HeaderMatch>,
    pending: VecDeque<Target>,
    fired: Vec<bool>,
    operands: Vec<Operand>,
    path: Vec<Step>,
}

impl State {
    /// Returns the state restricted to its packets in `packets`, if there are any.
    fn part(&self, packets: HeaderMatch) -> Option<Self> {
        let except: Vec<HeaderMatch> =
            self.except.iter().filter(|headers| !headers.is_disjoint(&packets)).copied().collect();
        packets.exceeds(&except).then(|| Self { packets, except, ..self.clone() })
    }

    fn step(mut self, node: NodeId, taken: Taken) -> Self {
        self.path.push(Step { node, taken });
        self
    }

    fn then(mut self, targets: &[Target]) -> Self {
        self.pending.extend(targets);
        self
    }

    fn end(self, destination: Destination) -> Route {
        Route { packets: self.packets, except: self.except, destination, path: self.path }
    }
}

/// The result of a node for a set of packets.
enum Next {
    On(State),
    Arrived(Route),
}

impl<'a> Walker<'a> {
    /// Prepares a NIC and a configuration in time linear in the number of rules.
    pub fn new(nic: &'a Nic, configuration: &'a Configuration) -> Self {
        let tables = nic.tables().map(|(id, table)| Rules::new(id, table, configuration)).collect();
        Self { nic, configuration, tables, operands: places(nic), toeplitz: OnceLock::new() }
    }

    /// Returns the destinations of a flow's packets.
    pub fn mapping(&self, flow: &HeaderMatch) -> Mapping {
        Mapping::of(&self.walk(flow))
    }

    /// Returns the routes of a flow's packets, as [`Nic::walk`] does.
    pub fn walk(&self, flow: &HeaderMatch) -> Vec<Route> {
        let mut routes = Vec::new();
        let mut open = vec![State {
            packets: *flow,
            except: vec![],
            pending: VecDeque::from([Target::Node(NodeId(0))]),
            fired: vec![false; self.nic.nodes.len()],
            operands: vec![None; self.operands.1 as usize],
            path: vec![],
        }];
        while let Some(mut state) = open.pop() {
            match state.pending.pop_front() {
                None => routes.push(state.end(Destination::Dropped)),
                Some(target) => {
                    let before = open.len();
                    for next in self.visit(state, target) {
                        match next {
                            Next::On(state) => open.push(state),
                            Next::Arrived(route) => routes.push(route),
                        }
                    }
                    // Visits the first target first: it must be on top of the stack.
                    open[before..].reverse();
                }
            }
        }
        routes
    }

    fn visit(&self, mut state: State, target: Target) -> Vec<Next> {
        let id = target.node();
        let index = usize::from(id.0);
        let Some(node) = self.nic.nodes.get(index) else { return vec![Next::On(state)] };
        if state.fired[index] {
            return vec![Next::On(state)];
        }
        if let (NodeKind::Logic { operator, operands, on_true, on_false }, target) = (&node.kind, target) {
            let from = self.operands.0[index] as usize;
            let all = &mut state.operands[from..from + usize::from(*operands)];
            if let Target::Operand { operand, value, .. } = target
                && let Some(place) = all.get_mut(usize::from(operand))
            {
                place.get_or_insert(value);
            }
            let Some(found) = decide(*operator, all) else { return vec![Next::On(state)] };
            state.fired[index] = true;
            let state = state.step(id, Taken::Decided(found)).then(if found { on_true } else { on_false });
            return vec![Next::On(state)];
        }
        state.fired[index] = true;
        match &node.kind {
            NodeKind::Classify { ports } => {
                let mut rest = vec![state.packets];
                let mut out = Vec::new();
                for (place, port) in ports.iter().enumerate() {
                    let took = rest.iter().flat_map(|headers| port.when.of(headers));
                    let parts = took.filter_map(|headers| state.part(headers));
                    out.extend(parts.map(|part| Next::On(part.step(id, Taken::Port(place)).then(&port.to))));
                    rest = rest.iter().flat_map(|headers| port.when.without(headers)).collect();
                }
                let parts = rest.into_iter().filter_map(|headers| state.part(headers));
                out.extend(parts.map(|part| Next::On(part.step(id, Taken::NoPort))));
                out
            }
            NodeKind::Filter { table, miss } => self.filter(state, id, *table, miss),
            NodeKind::Rss { miss } => self.rss(state, id, miss),
            NodeKind::Queue(queue) => {
                vec![Next::Arrived(state.step(id, Taken::End).end(Destination::Queue(*queue)))]
            }
            NodeKind::Drop | NodeKind::Logic { .. } => {
                vec![Next::Arrived(state.step(id, Taken::End).end(Destination::Dropped))]
            }
        }
    }

    /// A filter table: each rule takes its packets from those that earlier rules left.
    fn filter(&self, mut state: State, id: NodeId, table: TableId, miss: &Target) -> Vec<Next> {
        let rules = self
            .tables
            .get(usize::from(table.0))
            .map_or_else(Vec::new, |rules| rules.of_headers(&state.packets));
        let mut out = Vec::new();
        for (place, headers) in rules {
            let Some(packets) = state.packets.intersect(&headers) else { continue };
            let Some(part) = state.part(packets) else { continue };
            let part = part.step(id, Taken::Rule(place));
            out.push(Next::Arrived(match self.configuration.rules[place].action {
                Action::Queue(queue) => part.end(Destination::Queue(queue)),
                Action::Drop => part.end(Destination::Dropped),
                Action::Context(context) => match self.configuration.context(context) {
                    Some(found) if !found.indirection.is_empty() => self.spread(part, id, found),
                    _ => part.step(id, Taken::NoContext(context)).end(Destination::Dropped),
                },
            }));
            state.except.push(headers);
        }
        let packets = state.packets;
        out.extend(state.part(packets).map(|rest| Next::On(rest.step(id, Taken::Miss).then(&[*miss]))));
        out
    }

    /// RSS: the main context spreads IP packets, others continue.
    fn rss(&self, state: State, id: NodeId, miss: &Target) -> Vec<Next> {
        let main = self.configuration.context(ContextId::MAIN).filter(|main| !main.indirection.is_empty());
        let Some(main) = main else {
            return vec![Next::On(state.step(id, Taken::NotHashed).then(&[*miss]))];
        };
        let mut rest = vec![state.packets];
        let mut out = Vec::new();
        for ip in IP.map(of_type) {
            let parts = rest
                .iter()
                .filter_map(|headers| headers.intersect(&ip))
                .filter_map(|headers| state.part(headers));
            out.extend(parts.map(|part| Next::Arrived(self.spread(part, id, main))));
            rest = rest.iter().flat_map(|headers| headers.subtract(&ip)).collect();
        }
        let parts = rest.into_iter().filter_map(|headers| state.part(headers));
        out.extend(parts.map(|part| Next::On(part.step(id, Taken::NotHashed).then(&[*miss]))));
        out
    }

    /// Returns the route through a context whose indirection table is not empty.
    fn spread(&self, state: State, id: NodeId, context: &RssContext) -> Route {
        let entries = &context.indirection;
        let hashed = |entry| Taken::Hash { context: context.id, entry };
        if let Some(hash) = self.hash(&state.packets) {
            let entry = hash as usize % entries.len();
            return state.step(id, hashed(Some(entry as u32))).end(Destination::Queue(entries[entry]));
        }
        let mut queues = entries.clone();
        queues.sort_unstable();
        queues.dedup();
        state.step(id, hashed(None)).end(Destination::AnyOf(context.id, queues))
    }

    /// Returns the common hash of all packets of a header match, if they are known to share it. Non-IP packets have hash 0.
    fn hash(&self, packets: &HeaderMatch) -> Option<u32> {
        if IP.iter().all(|ether_type| packets.is_disjoint(&of_type(*ether_type))) {
            return Some(0);
        }
        let (protocol, mask) = packets.get(Field::IpProtocol);
        if mask != Field::IpProtocol.all_bits() {
            return None;
        }
        let rss = self.nic.rss.as_ref();
        let fields = rss.map_or(HashedFields::Addresses, |rss| rss.hashed_fields(Protocol(protocol as u8)));
        let key = match fields {
            HashedFields::AddressesAndPorts => packets.flow(),
            HashedFields::Addresses => packets.exact(Field::SrcPort, 0).exact(Field::DstPort, 0).flow(),
        }?;
        let toeplitz = self.toeplitz.get_or_init(|| Toeplitz::new(&self.configuration.key));
        Some(toeplitz.flow(&key, fields))
    }
}
