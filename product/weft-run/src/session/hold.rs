//! A session that outlives its process: its descriptors in a store, its state beside them, and the way back.
//!
//! [`Session::hold`] stores what keeps the devices alive. From then on each change of the session is stored, in an order that
//! leaves a whole state after a crash at any point:
//!
//! * Something new: its devices, then its descriptors, then the state that names them. A crash before that leaves devices and
//!   descriptors that the state does not name; the next process removes them.
//! * Something that goes: the state without it, then its descriptors. Devices that the state names and that are gone are a
//!   lost port for the next process.
//! * A changed policy: the worker has it, then the state, then packets are classified by it. Packets of the former classes
//!   are known to the new state; packets of the new classes would not be known to the former one.
//!
//! [`Session::adopt`] takes over what is stored. The numbers of classes and lanes follow from all policies of the past. They are part of
//! the state beside the text in force, so that the state does not grow with the number of changes.
//!
//! A store that fails does not stop the session: its ports then end with the process, and [`Session::warnings`] says so.

use super::arp::Arp;
use super::settings::namespace;
use super::{AuthoredPolicy, NicSettings, PortKind, PortSettings, Session, SessionError, SessionPort};
use crate::cgroups::{self, Follower};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use weft_facts::ports::PortLimit;
use weft_host::cgroup::CgroupError;
use weft_host::link::{self, Mac, Numbered};
use weft_host::netns::NetNs;
use weft_host::store::{Kept, Store, StoreError};
use weft_host::{OsError, RunId};
use weft_nic::doorbell::{CgroupEntry, RINGS};
use weft_nic::nic::{Adopted, IN_HAND, KeptNic, NicError, NicPlan, PortId, PreparedPolicy, SoftwareNic};
use weft_nic::plan::PortShare;
use weft_nic::port::Receive;
use weft_policy::{CompiledPolicy, Numbers};
use weft_units::Nanos;

/// The version of [`State`] and of what it implies: the names of descriptors, the layout of the maps.
const VERSION: u32 = 3;
/// The names of the session's own descriptors.
const NAMESPACE: &str = "namespace";
const LIFE: &str = "life";

/// The state of a session.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
struct State {
    version: u32,
    /// The run that the aliases of the ports name.
    run: String,
    /// The uplink's interface, by number and by its name at the start.
    uplink: (u32, String),
    /// The ARP settings of the uplink that were changed, with their values before.
    arp: Option<Vec<(String, String)>>,
    made: u32,
    /// The policy in force.
    policy: AuthoredPolicy,
    /// Its numbers.
    numbers: Numbers,
    ports: Vec<PortState>,
    nic: KeptNic,
    /// The user's own part.
    note: serde_json::Value,
}

/// The settings of a port.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct PortState {
    name: String,
    netns: Option<String>,
    addresses: Vec<(IpAddr, u8)>,
    mac: [u8; 6],
    rings: usize,
    flows: u32,
    spare: usize,
    #[serde(default)]
    ingress: Option<PortLimit>,
}

/// The store of a session.
#[derive(Debug)]
pub(super) struct Hold {
    store: Box<dyn Store>,
    run: RunId,
    policy: AuthoredPolicy,
    numbers: Numbers,
    note: serde_json::Value,
    /// The proof that the run lives, if another process began it.
    _life: Option<OwnedFd>,
}

/// A session that was taken over.
#[derive(Debug)]
pub struct AdoptedSession {
    /// The session.
    pub session: Session,
    /// The policy in force.
    pub source: AuthoredPolicy,
    /// The user's own part of the state.
    pub note: serde_json::Value,
    /// The differences from before, one line each.
    pub notes: Vec<String>,
}

fn port_state(settings: &PortSettings) -> PortState {
    PortState {
        name: settings.name.clone(),
        netns: settings.netns.clone(),
        addresses: settings.addresses.clone(),
        mac: settings.mac.0,
        rings: settings.share.rings,
        flows: settings.share.flows,
        spare: settings.share.spare,
        ingress: settings.ingress,
    }
}

impl PortState {
    fn settings(&self) -> PortSettings {
        PortSettings {
            name: self.name.clone(),
            netns: self.netns.clone(),
            addresses: self.addresses.clone(),
            mac: Mac(self.mac),
            kind: PortKind::Veth,
            receive: Receive::Auto,
            share: PortShare { rings: self.rings, flows: self.flows, spare: self.spare },
            ingress: self.ingress,
        }
    }
}

/// The parts of a session, beside its NIC, that the state has.
struct Rest<'a> {
    uplink: &'a Numbered,
    arp: Option<&'a Arp>,
    made: u32,
    ports: &'a [SessionPort],
}

impl Hold {
    /// Ends the store, whose descriptors have no devices any more.
    pub(super) fn end(self) {
        // A store that fails keeps descriptors of nothing.
        let _ = self.store.end();
    }

    fn store_state(&mut self, nic: &SoftwareNic, rest: &Rest<'_>) -> Result<(), SessionError> {
        let Some(nic) = nic.kept() else {
            return Err(NicError::Kept("it has a port of another kind than veth".to_owned()).into());
        };
        let state = State {
            version: VERSION,
            run: self.run.to_string(),
            uplink: (rest.uplink.index(), rest.uplink.first_name().to_owned()),
            arp: rest.arp.map(Arp::before),
            made: rest.made,
            policy: self.policy.clone(),
            numbers: self.numbers.clone(),
            ports: rest.ports.iter().map(|port| port_state(port.settings())).collect(),
            nic,
            note: self.note.clone(),
        };
        let bytes = serde_json::to_vec(&state).map_err(|e| NicError::Kept(e.to_string()))?;
        Ok(self.store.set_state(&bytes)?)
    }

    /// Stores a changed policy with its numbers.
    fn store_policy(
        &mut self,
        source: Option<AuthoredPolicy>,
        nic: &SoftwareNic,
        rest: &Rest<'_>,
    ) -> Result<(), SessionError> {
        let source =
            source.ok_or_else(|| NicError::Kept("the text of the policy is not known".to_owned()))?;
        self.policy = source;
        self.numbers = Numbers::of(nic.plan().whole());
        self.store_state(nic, rest)
    }
}

impl Session {
    /// Stores the session in `store`, so that another process can take it over. `source` is the policy in force, which the
    /// session was started with, and `note` the user's own part of the state.
    ///
    /// # Errors
    /// When the store fails.
    pub fn hold(
        &mut self,
        mut store: Box<dyn Store>,
        source: AuthoredPolicy,
        note: serde_json::Value,
    ) -> Result<(), SessionError> {
        let run = RunId::current();
        store.keep(NAMESPACE, self.namespace.fd())?;
        if let Some(life) = run.proof() {
            store.keep(LIFE, life.as_fd())?;
        }
        for (name, fd) in self.nic.descriptors()? {
            store.keep(&name, fd.as_fd())?;
        }
        let numbers = Numbers::of(self.nic.plan().whole());
        self.hold = Some(Hold { store, run, policy: source, numbers, note, _life: None });
        self.store_state()
    }

    /// Whether another process could take the session over.
    pub fn is_held(&self) -> bool {
        self.hold.is_some()
    }

    /// Replaces the user's own part of the state.
    pub fn set_note(&mut self, note: serde_json::Value) {
        if let Some(hold) = self.hold.as_mut() {
            hold.note = note;
        }
        self.keep_state();
    }

    /// The run that aliases of the session's ports name.
    pub(super) fn run(&self) -> RunId {
        self.hold.as_ref().map_or_else(RunId::current, |hold| hold.run)
    }

    fn store_state(&mut self) -> Result<(), SessionError> {
        let rest = Rest { uplink: &self.uplink, arp: self.arp.as_ref(), made: self.made, ports: &self.ports };
        self.hold.as_mut().map_or(Ok(()), |hold| hold.store_state(&self.nic, &rest))
    }

    /// Stores the state. A store that fails is given up.
    pub(super) fn keep_state(&mut self) {
        let result = self.store_state();
        self.give_up(result);
    }

    fn give_up(&mut self, result: Result<(), SessionError>) {
        let Err(error) = result else { return };
        self.not_held = Some(error.to_string());
        if let Some(mut hold) = self.hold.take() {
            // What is left would be an old state.
            let _ = hold.store.clear();
        }
    }

    /// Checks that the store has room for a new port of `rings` rings.
    pub(super) fn check_room(&self, rings: usize) -> Result<(), SessionError> {
        let check = |hold: &Hold| hold.store.check_room(SoftwareNic::port_descriptors_max(rings));
        Ok(self.hold.as_ref().map_or(Ok(()), check)?)
    }

    /// Stores a new port, whose rings are duplicated in `rings`.
    pub(super) fn keep_port(&mut self, id: PortId, rings: Vec<OwnedFd>) {
        let result = self.store_port(id, rings);
        self.give_up(result);
    }

    fn store_port(&mut self, id: PortId, rings: Vec<OwnedFd>) -> Result<(), SessionError> {
        let Some(hold) = self.hold.as_mut() else { return Ok(()) };
        for (name, fd) in self.nic.port_descriptors(id, rings)? {
            hold.store.keep(&name, fd.as_fd())?;
        }
        self.store_state()
    }

    /// The names of the stored descriptors of port `id`, and its number of rings.
    pub(super) fn stored_names(&self, id: PortId) -> Vec<String> {
        if self.hold.is_none() {
            return Vec::new();
        }
        let rings = self.nic.port(id).map_or(0, |port| port.ring_plan().rings.len());
        self.nic.port_names(id, rings)
    }

    /// Removes what was stored under `names`, after the state that does not name it.
    pub(super) fn forget(&mut self, names: &[String]) {
        let mut result = self.store_state();
        if let (Ok(()), Some(hold)) = (&result, self.hold.as_mut()) {
            let forgot: Result<(), StoreError> = names.iter().try_for_each(|name| hold.store.forget(name));
            result = forgot.map_err(SessionError::from);
        }
        self.give_up(result);
    }

    /// Puts a prepared policy in force, whose text is `source`. It is stored with its numbers before a packet is classified by
    /// them. Returns the time that the worker sent nothing.
    pub(super) fn exchange(
        &mut self,
        change: PreparedPolicy,
        cgroups: &[Option<CgroupEntry>],
        source: Option<AuthoredPolicy>,
    ) -> Result<Nanos, NicError> {
        let rest = Rest { uplink: &self.uplink, arp: self.arp.as_ref(), made: self.made, ports: &self.ports };
        let (hold, mut stored) = (self.hold.as_mut(), Ok(()));
        let store = |nic: &SoftwareNic| {
            if let Some(hold) = hold {
                stored = hold.store_policy(source, nic, &rest);
            }
        };
        let changed = self.nic.change_policy_storing(change, cgroups, store);
        self.give_up(stored);
        Ok(changed?.pause)
    }

    /// Leaves the session, which is held, to a successor: packets stay in their rings, those that were fetched go to the store, and everything else
    /// stays where it is.
    ///
    /// # Errors
    /// When the store does not take the fetched packets, which are lost then.
    pub fn hand_over(self) -> Result<(), SessionError> {
        let Self { nic, arp, cgroups, namespace, mut hold, .. } = self;
        drop(cgroups);
        let kept = match (nic.hand_over(), hold.as_mut()) {
            (Ok(Some(packets)), Some(hold)) => {
                hold.store.keep(IN_HAND, packets.as_fd()).map_err(SessionError::from)
            }
            (result, _) => result.map(|_| ()).map_err(SessionError::from),
        };
        // Dropping them would undo what the successor relies on.
        core::mem::forget((arp, namespace, hold));
        kept
    }

    /// Removes the devices of the session in `kept`, which no process takes over.
    pub fn abandon(kept: &Kept) {
        let namespace = kept.descriptors.get(NAMESPACE).and_then(|fd| fd.try_clone().ok());
        if let Some(namespace) = namespace {
            remove_devices(&NetNs::received(namespace, "(kept)"), &[]);
        }
    }

    /// Takes over the session in `kept`, whose store is `store`. `compile` compiles the policy in force, and `settings` are
    /// those of the NIC under the policy in force.
    ///
    /// # Errors
    /// When it cannot be taken over; nothing of it remains then, and the store is empty.
    pub fn adopt(
        mut store: Box<dyn Store>,
        mut kept: Kept,
        compile: impl Fn(&AuthoredPolicy) -> Option<CompiledPolicy>,
        settings: impl Fn(&CompiledPolicy) -> NicSettings,
    ) -> Result<AdoptedSession, Abandoned> {
        let namespace = kept.descriptors.remove(NAMESPACE).map(|fd| NetNs::received(fd, "(kept)"));
        if kept.descriptors.contains_key(IN_HAND) && store.forget(IN_HAND).is_err() {
            // A successor would send them, too.
            kept.descriptors.remove(IN_HAND);
        }
        let outside = |error: SessionError| error;
        let result = match namespace.as_ref() {
            Some(namespace) => take_over(namespace, &mut kept, &compile, &settings).map_err(outside),
            None => Err(NicError::Kept("descriptor namespace is missing".to_owned()).into()),
        };
        match (result, namespace) {
            (Ok(taken), Some(namespace)) => {
                let unused: BTreeSet<String> = kept.descriptors.keys().cloned().collect();
                Ok(taken.finish(store, namespace, &unused))
            }
            (result, namespace) => {
                if let Some(namespace) = namespace {
                    remove_devices(&namespace, &[]);
                }
                drop(kept);
                let cleared = store.clear();
                let error = result.err().unwrap_or_else(|| NicError::Kept(String::new()).into());
                Err(Abandoned { error, store: cleared.is_ok().then_some(store) })
            }
        }
    }
}

/// A session that could not be taken over, and its store, which is empty now; `None` if that failed, too.
#[derive(Debug)]
pub struct Abandoned {
    /// The reason.
    pub error: SessionError,
    /// The store.
    pub store: Option<Box<dyn Store>>,
}

/// Removes the devices in the NIC's namespace whose numbers are not among `known`.
fn remove_devices(namespace: &NetNs, known: &[u32]) {
    for link in link::list(namespace).unwrap_or_default() {
        if link.name != "lo" && !known.contains(&link.index) {
            let _ = link::delete(namespace, &link.name);
        }
    }
}

/// The parts of a session that are taken over.
struct Taken {
    state: State,
    nic: SoftwareNic,
    uplink: Numbered,
    ports: Vec<SessionPort>,
    follower: Follower,
    life: Option<OwnedFd>,
    notes: Vec<String>,
}

fn take_over(
    namespace: &NetNs,
    kept: &mut Kept,
    compile: &impl Fn(&AuthoredPolicy) -> Option<CompiledPolicy>,
    settings: &impl Fn(&CompiledPolicy) -> NicSettings,
) -> Result<Taken, SessionError> {
    let state = read_state(&kept.state)?;
    remove_devices(namespace, &state.nic.devices());
    let policy = compile(&state.policy).ok_or_else(|| {
        NicError::Kept(format!("the policy {} does not compile any more", state.policy.name))
    })?;
    let settings = settings(&policy);
    let mut notes = Vec::new();
    let uplink = find_uplink(&settings, &state.uplink, &mut notes)?;
    let config = settings.config(&policy, Vec::new(), RINGS);
    let plan = NicPlan::numbered(&policy, &state.numbers, config)?;
    let watch = cgroups::watch(plan.whole());
    let plan = plan.with_cgroups(cgroups::entries(&watch));
    let nic = state.nic.clone();
    let life = kept.descriptors.remove(LIFE);
    let Adopted { nic, ports, lost } = SoftwareNic::adopt(plan, nic, namespace, &mut kept.descriptors)?;
    notes.extend(lost.iter().map(|port| format!("port {} is lost: {}", port.name, port.error)));
    let by_name: BTreeMap<&str, PortId> = ports.iter().map(|(name, id)| (name.as_str(), *id)).collect();
    let port = |of: &PortState| {
        let id = *by_name.get(of.name.as_str())?;
        let inode = nic.port(id)?.port().near().namespace().inode().ok()?;
        Some(SessionPort::new(id, of.settings(), inode))
    };
    let ports = state.ports.iter().filter_map(port).collect();
    let follower = Follower::start(watch, nic.cgroups())
        .map_err(|e| CgroupError::from(OsError::new("start the thread that follows cgroups", e)))?;
    Ok(Taken { state, nic, uplink, ports, follower, life, notes })
}

fn read_state(bytes: &[u8]) -> Result<State, NicError> {
    let other = |what: String| NicError::Kept(format!("its state is of another version: {what}"));
    let value: serde_json::Value = serde_json::from_slice(bytes).map_err(|e| other(e.to_string()))?;
    let version = value.get("version").and_then(serde_json::Value::as_u64);
    if version != Some(VERSION.into()) {
        return Err(other(format!("{version:?} instead of {VERSION}")));
    }
    serde_json::from_value(value).map_err(|e| other(e.to_string()))
}

/// The uplink's interface, which may have been renamed.
fn find_uplink(
    settings: &NicSettings,
    (index, name): &(u32, String),
    notes: &mut Vec<String>,
) -> Result<Numbered, SessionError> {
    let outside = namespace(settings.uplink_netns.as_deref())?;
    let configured = Numbered::named(&outside, &settings.uplink).ok();
    if configured.as_ref().is_some_and(|found| found.index() != *index) {
        let why = format!("the uplink is now {}, another interface", settings.uplink);
        return Err(NicError::Kept(why).into());
    }
    let uplink = Numbered::at(&outside, *index, name)?;
    let now = uplink.show()?.name;
    if configured.is_none() {
        notes.push(format!("the uplink {} is now called {now}", settings.uplink));
    }
    Ok(uplink)
}

impl Taken {
    fn finish(self, store: Box<dyn Store>, namespace: NetNs, unused: &BTreeSet<String>) -> AdoptedSession {
        let Self { state, nic, uplink, ports, follower, life, mut notes } = self;
        if let Some(known) = nic.kept() {
            remove_devices(&namespace, &known.devices());
        }
        let run = state.run.parse().unwrap_or_else(|_| RunId::current());
        let (policy, numbers) = (state.policy, Numbers::of(nic.plan().whole()));
        let source = policy.clone();
        let note = state.note;
        let hold = Hold { store, run, policy, numbers, note: note.clone(), _life: life };
        let before = state.arp;
        let mut session = Session::of(nic, uplink, namespace, Some(follower));
        session.arp = before.map(|before| super::arp::Arp::resume(&session.uplink, before));
        (session.ports, session.made, session.hold) = (ports, state.made, Some(hold));
        let unused: Vec<String> = unused.iter().cloned().collect();
        session.forget(&unused);
        if let Some(error) = &session.not_held {
            notes.push(error.clone());
        }
        session.follow();
        AdoptedSession { session, source, note, notes }
    }
}
