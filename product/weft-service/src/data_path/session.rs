//! The data path of `weft run` behind the daemon's interface: one session, whose ports come and go and whose policy changes
//! under traffic.
//!
//! A prepared policy is kept until it is committed, since it was numbered and planned for the policy in force and for the
//! ports at that time. If either has changed since, it is prepared again.

use super::kernel::{KernelUplink, is_wanted};
use super::{DaemonMemory, DataPath, DataPathError, Former, Maker, PolicyPlan, PortSpec, Started};
use crate::config::{Config, Hold, OnFailure, UplinkConfig};
use crate::holding::Opened;
use crate::policy::ServicePolicy;
use core::num::NonZeroUsize;
use weft_facts::status::ServiceStatus;
use weft_host::store::{Kept, Store};
use weft_host::{NetNs, cleanup_stale, link};
use weft_policy::CompiledPolicy;
use weft_run::session::{
    Abandoned, AdoptedSession, AuthoredPolicy, NicSettings, PortKind, PortSettings, PortStatus,
    PreparedChange, Receive, Session, SessionError,
};
use weft_units::Nanos;

/// The time in which the packets of all ports are sent at the end.
const GRACE: Nanos = Nanos::from_secs(2);

/// A data path of one session.
#[derive(Debug)]
pub struct SessionPath {
    session: Session,
    /// The number of transmit workers.
    workers: NonZeroUsize,
    prepared: Option<(CompiledPolicy, PreparedChange)>,
}

/// The maker of sessions, and of policies in the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sessions;

impl Maker for Sessions {
    fn start(
        &self,
        policy: &ServicePolicy,
        uplink: &UplinkConfig,
        config: &Config,
        store: Option<Opened>,
    ) -> Result<Started, DataPathError> {
        let (kernel, note) = is_wanted(policy, uplink);
        let mut started = if kernel {
            // What a former daemon has left belongs to ports.
            store.map_or(Ok(()), abandon)?;
            KernelUplink::start(policy, uplink)?
        } else {
            SessionPath::start(policy, uplink, config, store)?
        };
        started.notes.extend(note);
        Ok(started)
    }

    fn may_start(&self, uplink: &UplinkConfig) -> bool {
        let place = uplink.netns.as_deref().map_or_else(NetNs::current, NetNs::named);
        place.is_ok_and(|place| link::exists(&place, &uplink.device).unwrap_or(false))
    }
}

impl SessionPath {
    /// Starts the session with `policy` above `uplink`, without ports, or takes over what a former daemon has left in the
    /// store.
    ///
    /// # Errors
    /// When the interface or its namespace does not exist, or the kernel refuses a device or a program.
    pub fn start(
        policy: &ServicePolicy,
        uplink: &UplinkConfig,
        config: &Config,
        store: Option<Opened>,
    ) -> Result<Started, DataPathError> {
        // No other process could take over the ports of several workers.
        let several = uplink.workers.get() > 1;
        let (store, mut notes) = match store {
            Some(left) if config.hold == Hold::Off || several => {
                abandon(left)?;
                (None, Vec::new())
            }
            Some((store, kept)) if !kept.state.is_empty() => match adopt(config, uplink, store, kept) {
                Ok(started) => return Ok(started),
                Err((store, note)) => (store, vec![note]),
            },
            Some((mut store, kept)) => {
                // A former daemon was killed before it had a state.
                drop(kept);
                store.clear()?;
                (Some(store), Vec::new())
            }
            None => (None, Vec::new()),
        };
        // Not before a take-over, whose packets wait.
        clean([uplink.netns.as_deref()]);
        let settings = settings(&policy.compiled, uplink);
        settings.plan_for_ports(&policy.compiled, &[])?;
        let mut session = Session::start_without_port(&policy.compiled, &settings)?;
        match store {
            Some(store) => {
                session.hold(store, policy.authored(), serde_json::Value::Null)?;
                session.on_failure(on_failure(config));
            }
            None if several && config.hold != Hold::Off => {
                let workers = uplink.workers;
                notes.push(format!(
                    "the ports will end with the daemon, since {workers} workers share the policy; they outlive it with `workers = 1`"
                ));
            }
            None if config.hold != Hold::Off => {
                notes.push("the store of descriptors failed: the ports will end with the daemon".to_owned());
            }
            None => {}
        }
        Ok(Started {
            path: Box::new(Self { session, workers: uplink.workers, prepared: None }),
            former: None,
            notes,
            missing: None,
        })
    }

    /// Prepares a policy that a port of the default share can run, whether there are ports or not.
    fn prepare_change(&mut self, policy: &CompiledPolicy) -> Result<PreparedChange, SessionError> {
        let settings = NicSettings { workers: self.workers, ..NicSettings::of_policy(policy) };
        settings.plan_for_ports(policy, &[])?;
        self.session.prepare_policy(policy, (settings.rate, settings.link))
    }

    fn prepared_for(&mut self, policy: &CompiledPolicy) -> Result<PreparedChange, SessionError> {
        match self.prepared.take() {
            Some((of, change)) if of == *policy => Ok(change),
            _ => self.prepare_change(policy),
        }
    }
}

/// Removes the ports of a store that no process takes over, and the store.
///
/// # Errors
/// When the store fails.
pub fn abandon((store, kept): Opened) -> Result<(), DataPathError> {
    Session::abandon(&kept);
    drop(kept);
    Ok(store.end()?)
}

/// The settings of the session under `policy`.
pub(crate) fn settings(policy: &CompiledPolicy, uplink: &UplinkConfig) -> NicSettings {
    NicSettings {
        uplink: uplink.device.clone(),
        uplink_netns: uplink.netns.clone(),
        workers: uplink.workers,
        ..NicSettings::of_policy(policy)
    }
}

fn on_failure(config: &Config) -> weft_nic::nic::OnFailure {
    match config.on_failure {
        OnFailure::Hold => weft_nic::nic::OnFailure::Hold,
        OnFailure::Pass => weft_nic::nic::OnFailure::Pass,
    }
}

/// Takes over what a former daemon has left. The error is the store, empty now, and the reason.
fn adopt(
    config: &Config,
    uplink: &UplinkConfig,
    store: Box<dyn Store>,
    kept: Kept,
) -> Result<Started, (Option<Box<dyn Store>>, String)> {
    let compile =
        |source: &AuthoredPolicy| ServicePolicy::of_authored(source).ok().map(|policy| policy.compiled);
    let adopted = Session::adopt(store, kept, compile, |policy| settings(policy, uplink));
    let failed = |Abandoned { error, store }| {
        (store, format!("{error}; the ports are made anew, and connections through them have lost packets"))
    };
    let AdoptedSession { session, source, note, notes } = adopted.map_err(failed)?;
    let Ok(policy) = ServicePolicy::of_authored(&source) else {
        return Err((None, format!("the policy {} does not compile", source.name)));
    };
    session.on_failure(on_failure(config));
    let memory: DaemonMemory = serde_json::from_value(note).unwrap_or_default();
    let spec = |port: PortStatus| PortSpec {
        egress: memory.egress.get(&port.name).copied(),
        ingress: port.ingress,
        name: port.name,
        netns: port.netns,
        addresses: port.addresses,
        mac: port.mac,
    };
    let ports = session.ports().into_iter().map(spec).collect();
    let former = Some(Former { policy, memory, ports });
    Ok(Started {
        path: Box::new(SessionPath { session, workers: NonZeroUsize::MIN, prepared: None }),
        former,
        notes,
        missing: None,
    })
}

/// Removes what killed daemons and runs left here and in these namespaces.
fn clean<'a>(namespaces: impl IntoIterator<Item = Option<&'a str>>) {
    let _ = cleanup_stale();
    for name in namespaces.into_iter().flatten() {
        if let Ok(netns) = NetNs::named(name) {
            let _ = netns.run(cleanup_stale);
        }
    }
}

impl DataPath for SessionPath {
    fn prepare(&mut self, policy: &CompiledPolicy) -> Result<PolicyPlan, DataPathError> {
        let change = self.prepare_change(policy)?;
        let renumbered = change.renumbered();
        let plan = PolicyPlan {
            steps: renumbered.steps.iter().map(ToString::to_string).collect(),
            warnings: renumbered
                .warnings
                .iter()
                .map(|warning| format!("{warning}; {}", warning.help()))
                .collect(),
        };
        self.prepared = Some((policy.clone(), change));
        Ok(plan)
    }

    fn commit(&mut self, policy: &ServicePolicy) -> Result<(), DataPathError> {
        let change = self.prepared_for(&policy.compiled)?.with_source(policy.authored());
        self.session.change_policy(change)?;
        Ok(())
    }

    fn set_drain(&mut self, limit: Nanos) {
        self.session.set_drain(limit);
    }

    fn status(&mut self) -> Result<ServiceStatus, DataPathError> {
        Ok(self.session.status()?)
    }

    fn add_port(&mut self, port: &PortSpec) -> Result<Vec<String>, DataPathError> {
        // A prepared policy has no plan for the port.
        self.prepared = None;
        clean([port.netns.as_deref()]);
        let before = self.session.notes();
        let settings = PortSettings {
            name: port.name.clone(),
            netns: port.netns.clone(),
            addresses: port.addresses.clone(),
            mac: port.mac,
            kind: PortKind::Auto,
            receive: Receive::Auto,
            share: PortSettings::SHARE,
            ingress: port.ingress,
        };
        match self.session.add_port(&settings) {
            Ok(_) => Ok(self.session.notes().into_iter().filter(|note| !before.contains(note)).collect()),
            Err(error) => Err(of_port(error)),
        }
    }

    fn close_port(&mut self, name: &str) -> Result<(), DataPathError> {
        self.session.close_port(name).map_err(of_port)
    }

    fn is_drained(&self, name: &str) -> bool {
        self.session.is_drained(name)
    }

    fn remove_port(&mut self, name: &str) -> Result<(), DataPathError> {
        self.prepared = None;
        self.session.remove_port(name, Nanos::ZERO).map(|_| ()).map_err(of_port)
    }

    fn remember(&mut self, memory: &DaemonMemory) {
        // Numbers and names always make a document.
        self.session.set_note(serde_json::to_value(memory).unwrap_or_default());
    }

    fn warnings(&self) -> Vec<String> {
        self.session.warnings()
    }

    fn take_changes(&self) -> Vec<String> {
        self.session.take_changes()
    }

    fn is_uplink_gone(&self) -> bool {
        self.session.uplink_is_gone()
    }

    fn heartbeat_age(&self) -> Nanos {
        self.session.heartbeat_age()
    }

    fn hand_over(self: Box<Self>) -> Result<(), DataPathError> {
        if self.session.is_held() { Ok(self.session.hand_over()?) } else { self.finish() }
    }

    fn finish(self: Box<Self>) -> Result<(), DataPathError> {
        Ok(self.session.finish(GRACE).map(|_| ())?)
    }
}

/// An error about a port.
fn of_port(error: SessionError) -> DataPathError {
    match error {
        SessionError::PortExists { name } => DataPathError::PortExists(name),
        SessionError::NoPort { name, .. } => DataPathError::NoSuchPort(name),
        error => error.into(),
    }
}
