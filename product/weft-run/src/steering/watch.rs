//! Live flows: the sockets of a namespace, with a plan that follows them.

use std::collections::{BTreeMap, BTreeSet};
use thiserror::Error;
use weft_host::NetNs;
use weft_host::sock_diag::{SockDiag, SockDiagError, Socket, State};
use weft_packet::{Field, HeaderMatch, Prefix};
use weft_steer::change::{ChangeError, ChangePlan, apply, changes};
use weft_steer::search::{Planner, SteeredFlowId};
use weft_steer::{Configuration, Flow};
use weft_units::{FlowKey, Protocol};

/// Errors of watching.
#[derive(Debug, Error)]
pub enum WatchError {
    /// The kernel does not list its sockets.
    #[error(transparent)]
    Sockets(#[from] SockDiagError),
    /// The planner built a configuration that exceeds the NIC: a bug of weftline.
    #[error("the planner's configuration exceeds the NIC, which is a bug of weftline: {0}")]
    Change(#[from] ChangeError),
}

/// The changes since the last poll.
#[derive(Clone, Debug, Default)]
pub struct FlowChanges {
    /// Flows that appeared.
    pub added: Vec<Flow>,
    /// Flows that disappeared.
    pub removed: Vec<Flow>,
    /// The number of other flows that were moved for them.
    pub moved: u32,
    /// The changes to apply to the NIC.
    pub changes: ChangePlan,
}

/// A watch of a namespace's sockets. A connected socket is a flow of one five-tuple; a UDP socket without a remote
/// address is a flow with wildcards.
pub struct SocketWatch {
    sockets: SockDiag,
    planner: Planner,
    /// The configuration of the NIC.
    configuration: Configuration,
    known: BTreeMap<HeaderMatch, (SteeredFlowId, Flow)>,
}

impl SocketWatch {
    /// Starts from the NIC's current configuration.
    ///
    /// # Errors
    /// When the kernel does not list its sockets.
    pub fn new(ns: &NetNs, planner: Planner, configuration: Configuration) -> Result<Self, WatchError> {
        Ok(Self { sockets: SockDiag::open(ns)?, planner, configuration, known: BTreeMap::new() })
    }

    /// Polls the sockets and plans. Returns the changes, or `None` when no flow appeared or disappeared.
    ///
    /// # Errors
    /// When the kernel does not list its sockets, or planning fails.
    pub fn look(&mut self) -> Result<Option<FlowChanges>, WatchError> {
        let there: BTreeMap<HeaderMatch, Flow> =
            flows(&mut self.sockets)?.into_iter().map(|flow| (flow.headers, flow)).collect();
        let gone: BTreeSet<HeaderMatch> =
            self.known.keys().filter(|headers| !there.contains_key(*headers)).copied().collect();
        let new: Vec<Flow> = there
            .into_iter()
            .filter(|(headers, _)| !self.known.contains_key(headers))
            .map(|(_, flow)| flow)
            .collect();
        if gone.is_empty() && new.is_empty() {
            return Ok(None);
        }
        let mut update = FlowChanges { added: new.clone(), ..FlowChanges::default() };
        let mut ids = Vec::new();
        for headers in gone {
            if let Some((id, flow)) = self.known.remove(&headers) {
                ids.push(id);
                update.removed.push(flow);
            }
        }
        if !ids.is_empty() {
            self.planner.remove(&ids);
            update.moved += self.planner.moved();
        }
        if !new.is_empty() {
            let ids = self.planner.add(new.clone());
            update.moved += self.planner.moved();
            self.known.extend(new.into_iter().zip(ids).map(|(flow, id)| (flow.headers, (id, flow))));
        }
        let to = self.planner.plan().configuration;
        update.changes = changes(self.planner.nic(), &self.configuration, &to)?;
        for change in &update.changes.changes {
            apply(&mut self.configuration, change);
        }
        Ok(Some(update))
    }

    /// The planner.
    pub const fn planner(&self) -> &Planner {
        &self.planner
    }

    /// The number of planned flows.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Whether no flow is planned.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }
}

/// The flows of the sockets of a namespace, ordered by their headers.
///
/// # Errors
/// When the kernel does not list its sockets.
pub fn flows(sockets: &mut SockDiag) -> Result<Vec<Flow>, SockDiagError> {
    let there: BTreeMap<HeaderMatch, Flow> =
        sockets.list()?.iter().filter_map(flow_of).map(|flow| (flow.headers, flow)).collect();
    Ok(there.into_values().collect())
}

/// The flow that a socket receives; `None` for a socket that receives nothing from outside, or only new connections.
fn flow_of(socket: &Socket) -> Option<Flow> {
    match socket.received_flow() {
        Some(key) if socket.state == State::Established && !is_local(&key) => Some(Flow::new(&key)),
        Some(_) => None,
        None if socket.protocol == Protocol::UDP && !socket.local.ip().is_loopback() => {
            Some(Flow { headers: unconnected(socket), ..Flow::new(&any_key(socket)) })
        }
        None => None,
    }
}

fn is_local(key: &FlowKey) -> bool {
    key.src.is_loopback() || key.dst.is_loopback() || key.src == key.dst
}

fn any_key(socket: &Socket) -> FlowKey {
    FlowKey {
        src: socket.local.ip(),
        dst: socket.local.ip(),
        sport: 0,
        dport: socket.local.port(),
        protocol: socket.protocol,
    }
}

/// All packets to a port, and to an address where the socket has one.
fn unconnected(socket: &Socket) -> HeaderMatch {
    let local = socket.local.ip().to_canonical();
    let headers = HeaderMatch::ALL
        .exact(Field::IpProtocol, socket.protocol.0.into())
        .exact(Field::DstPort, socket.local.port().into());
    if !local.is_unspecified() {
        return headers.prefix(Field::DstIp, Prefix::host(local));
    }
    // An IPv6 socket that also receives IPv4 is planned as IPv6, since a flow has one kind of address.
    let kind = if local.is_ipv4() {
        weft_packet::header_match::ETHER_TYPE_IPV4
    } else {
        weft_packet::header_match::ETHER_TYPE_IPV6
    };
    headers.exact(Field::EtherType, kind.into())
}
