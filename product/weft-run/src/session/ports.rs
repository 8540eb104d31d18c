//! The ports of a session: added, removed and shown while it runs.
//!
//! A port has its near end in the namespace of its applications, and its far end, its rings and a separate macvtap on
//! the uplink's interface in the session's namespace. By that macvtap, which has the port's hardware address, the kernel
//! finds the port: packets from the network, from other ports, and to everybody. The NIC transmits through another
//! macvtap, which belongs to no port, so any port can be removed.
//!
//! [`Session::add_port`], in this order:
//! 1. Check the name, the kind and the plan.
//! 2. Create the receiving device, which the kernel may refuse for its hardware address, then the port.
//! 3. Set the port's MTU, the ARP settings if port and uplink share a namespace, and the addresses. A process that sees
//!    the port running can then use its routes.
//! 4. Add the port to the NIC, which brings it up.
//!
//! Ownership: the NIC owns the devices of its ports. A step that fails deletes what was created, and changes no other
//! port.
//!
//! An operator may delete a port's devices, or its namespace, which exists on without a name, since this process holds
//! it. Both are reported ([`PortState`]); the port stays until it is removed, and the other ports continue.

use super::settings::{namespace, place};
use super::{Arp, PortKind, PortSettings, Session, SessionError, report, settings};
use core::net::IpAddr;
use std::os::fd::OwnedFd;
use weft_facts::counters::{PathDrops, PortEvents};
use weft_facts::ports::PortLimit;
use weft_host::link::{self, Mac};
use weft_host::netns::NetNs;
use weft_nic::nic::Totals;
use weft_nic::nic::{NicError, NicPort, PortId, PortParts, PortTotals};
use weft_nic::port::Uplink;
use weft_units::{Counted, Nanos};

/// The state of a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PortState {
    /// It carries packets.
    Running,
    /// Its namespace has lost its name, or the name is another namespace's.
    NamespaceDeleted,
    /// Its devices were deleted.
    DeviceDeleted,
}

/// The current status of a port.
#[derive(Clone, Debug)]
pub struct PortStatus {
    /// Its name.
    pub name: String,
    /// The namespace of its near end; `None` for the session's.
    pub netns: Option<String>,
    /// Its kind.
    pub kind: PortKind,
    /// Its hardware address.
    pub mac: Mac,
    /// The addresses that it was given.
    pub addresses: Vec<(IpAddr, u8)>,
    /// The carrier of its received packets, with the reason where the kernel does not carry them.
    pub receive: String,
    /// The limit of what it receives.
    pub ingress: Option<PortLimit>,
    /// The number of its rings.
    pub rings: usize,
    /// The number of its tracked flows.
    pub flows: u64,
    /// Packets sent, over all classes.
    pub sent: Counted,
    /// Packets received through the uplink.
    pub received: Counted,
    /// Packets dropped, by reason. The uplink's drops belong to no port.
    pub dropped: PathDrops,
    /// Packets of rare events, by counter.
    pub counters: PortEvents,
    /// Its state.
    pub state: PortState,
}

/// A port of a session.
#[derive(Debug)]
pub(super) struct SessionPort {
    id: PortId,
    settings: PortSettings,
    /// The inode of its namespace.
    inode: u64,
    /// Its state at the last look.
    seen: PortState,
}

/// Duplicates of the rings of a port, for the session's store.
fn duplicates(rings: &[OwnedFd]) -> Result<Vec<OwnedFd>, SessionError> {
    let copy = |ring: &OwnedFd| ring.try_clone();
    let copies: std::io::Result<Vec<OwnedFd>> = rings.iter().map(copy).collect();
    Ok(copies.map_err(|e| NicError::Stopped(format!("duplicate a descriptor of the port: {e}")))?)
}

impl Session {
    /// Adds a port and brings it up. The other ports are not touched.
    ///
    /// # Errors
    /// When the name is taken, the NIC has no room, or a device cannot be created; nothing remains then.
    pub fn add_port(&mut self, settings: &PortSettings) -> Result<PortId, SessionError> {
        settings.kind.check().map_err(SessionError::NoSuchPort)?;
        settings.kind.check_receive(settings.receive).map_err(NicError::from)?;
        if self.ports.iter().any(|port| port.settings.name == settings.name) {
            return Err(SessionError::PortExists { name: settings.name.clone() });
        }
        settings.check_name()?;
        let app = namespace(settings.netns.as_deref())?;
        let plan = self.nic.plan().for_port(&settings.name, settings.share).map_err(NicError::from)?;
        self.check_room(plan.rings.len())?;
        let state = self.uplink.show()?;
        let outside = self.uplink.namespace();
        // First, since the kernel may refuse its hardware address.
        let device = format!("rx{}", self.made);
        self.made += 1;
        let parent = (outside, state.name.as_str());
        let receive = Uplink::on_interface(parent, (&self.namespace, &device), settings.mac)?
            .with_receive(settings.receive);
        let rings = u32::try_from(plan.rings.len()).unwrap_or(u32::MAX);
        let mut port = settings.create_port((&app, &self.namespace), rings)?;
        link::set_alias(&app, &settings.name, &self.run().alias())?;
        port.follow(state.mtu, true)?;
        if let Some(limit) = settings.ingress {
            port.limit_received(&settings::bucket(limit, state.mtu))?;
        }
        let beside = app.inode()? == outside.inode()?;
        match &mut self.arp {
            Some(arp) if beside => arp.add_port(outside, &settings.name),
            None if beside => self.arp = Some(Arp::keep_apart(&self.uplink, &settings.name)),
            _ => {}
        }
        // Before the port comes up: a process that sees it running can then use its routes.
        for (address, length) in &settings.addresses {
            link::add_address(&app, &settings.name, *address, *length)?;
        }
        let kept = if self.is_held() { duplicates(port.rings())? } else { Vec::new() };
        let id = self.nic.add_port(PortParts { port, plan, receive: Some(receive) })?;
        self.ports.push(SessionPort::new(id, settings.clone(), app.inode()?));
        self.keep_port(id, kept);
        self.follow();
        Ok(id)
    }

    /// Takes the port `name` down. Its packets are sent from now on until it is removed.
    ///
    /// # Errors
    /// When there is no such port.
    pub fn close_port(&mut self, name: &str) -> Result<(), SessionError> {
        let at = self.place_of(name)?;
        Ok(self.nic.close_port(self.ports[at].id)?)
    }

    /// Whether the packets of the port `name` were all sent, or there is no such port.
    pub fn is_drained(&self, name: &str) -> bool {
        let port = self.ports.iter().find(|port| port.name() == name);
        port.and_then(|port| self.nic.port(port.id)).is_none_or(NicPort::is_drained)
    }

    /// The place of the port `name`.
    fn place_of(&self, name: &str) -> Result<usize, SessionError> {
        let there = || {
            let there: Vec<&str> = self.ports.iter().map(SessionPort::name).collect();
            if there.is_empty() { "none".to_owned() } else { there.join(", ") }
        };
        let at = self.ports.iter().position(|port| port.name() == name);
        at.ok_or_else(|| SessionError::NoPort { name: name.to_owned(), there: there() })
    }

    /// Removes the port `name`: takes it down, sends its packets for at most `grace`, and deletes its devices. The other
    /// ports are not touched. Returns its last status.
    ///
    /// # Errors
    /// When there is no such port.
    pub fn remove_port(&mut self, name: &str, grace: Nanos) -> Result<PortStatus, SessionError> {
        let at = self.place_of(name)?;
        let names = self.stored_names(self.ports[at].id);
        let port = self.ports.remove(at);
        let before = self.nic.port(port.id).map(|of_nic| port.status(of_nic, self.nic.rest()));
        let totals = self.nic.remove_port(port.id, grace)?;
        if self.is_held() {
            self.forget(&names);
        }
        let gone = || SessionError::NoPort { name: name.to_owned(), there: "none".to_owned() };
        Ok(before.ok_or_else(gone)?.with(&totals))
    }

    /// The ports, in the order in which they were added.
    pub fn ports(&self) -> Vec<PortStatus> {
        let status = |port: &SessionPort| Some(port.status(self.nic.port(port.id)?, self.nic.rest()));
        self.ports.iter().filter_map(status).collect()
    }
}

impl SessionPort {
    pub(super) fn new(id: PortId, settings: PortSettings, inode: u64) -> Self {
        Self { id, settings, inode, seen: PortState::Running }
    }

    pub(super) fn settings(&self) -> &PortSettings {
        &self.settings
    }

    fn status(&self, port: &NicPort, rest: Nanos) -> PortStatus {
        let settings = self.settings.clone();
        let flows = port.flows();
        let status = PortStatus {
            name: settings.name,
            netns: settings.netns,
            kind: settings.kind,
            mac: settings.mac,
            addresses: settings.addresses,
            receive: port.receive_path().to_string(),
            ingress: settings.ingress,
            rings: port.ring_plan().rings.len(),
            flows,
            sent: Counted::default(),
            received: Counted::default(),
            dropped: PathDrops::default(),
            counters: PortEvents::default(),
            state: self.state(port),
        };
        status.with(&port.recent_totals(rest))
    }

    /// The state at the last look, or what the worker has found since.
    fn state(&self, port: &NicPort) -> PortState {
        match (self.seen, port.has_failed()) {
            (PortState::Running, true) => PortState::DeviceDeleted,
            (seen, _) => seen,
        }
    }

    /// Looks whether its devices and its namespace exist, with system calls.
    pub(super) fn look(&mut self, port: &NicPort) {
        let is_it = |ns: NetNs| ns.inode().is_ok_and(|inode| inode == self.inode);
        self.seen = match &self.settings.netns {
            _ if port.has_failed() || !port.port().exists() => PortState::DeviceDeleted,
            // A port that was moved has nothing to do with it any more.
            Some(name) if !port.port().has_moved(self.inode) && !NetNs::named(name).is_ok_and(is_it) => {
                PortState::NamespaceDeleted
            }
            _ => PortState::Running,
        };
    }

    /// The warning for the operator, if the port has lost its devices or its namespace.
    pub(super) fn warning(&self, port: &NicPort) -> Option<String> {
        let name = &self.settings.name;
        match self.state(port) {
            PortState::Running => port.contested().map(|what| {
                format!(
                    "another program fights over port {name}: {what}, again and again, and it is restored once a second; \
                     find the program"
                )
            }),
            PortState::DeviceDeleted => {
                Some(format!("the devices of port {name} were deleted; remove the port"))
            }
            PortState::NamespaceDeleted => {
                let place = place(self.settings.netns.as_deref());
                Some(format!("{place} of port {name} was deleted; remove the port"))
            }
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.settings.name
    }

    pub(super) fn id(&self) -> PortId {
        self.id
    }
}

impl PortStatus {
    /// The status with the counts of `totals`.
    fn with(self, totals: &PortTotals) -> Self {
        let (sent, received) = (totals.sum(|class| class.sent), totals.received());
        let counters = totals.events;
        let dropped = report::dropped(&Totals { ports: totals.clone(), ..Totals::default() });
        Self { sent, received, dropped, counters, ..self }
    }
}
