//! The data path of `weft run` behind the daemon's interface: one session, whose ports come and go and whose policy changes
//! under traffic.
//!
//! A prepared policy is kept until it is committed, since it was numbered and planned for the policy in force and for the
//! ports at that time. If either has changed since, it is prepared again.

use super::{DataPath, DataPathError, PathClass, PathPort, PathStatus, Plan, PortSpec};
use crate::config::Config;
use std::collections::BTreeMap;
use weft_host::link::{self, Numbered};
use weft_host::{NetNs, cleanup_stale};
use weft_nic::link::{DeviceLink, LinkKind, LinkRate};
use weft_nic::nic::ClassTotals;
use weft_nic::worker::SegmentsPerTurn;
use weft_policy::CompiledPolicy;
use weft_report::status::WorkerState;
use weft_run::session::{
    ClassStatus, NicSettings, PortKind, PortSettings, PortStatus, PreparedChange, Receive, Session,
    SessionError, UNKNOWN_RATE,
};
use weft_units::{BitsPerSec, Nanos};

/// The time in which a port's packets are sent before it is removed. The daemon waits for it.
const GRACE: Nanos = Nanos::from_secs(2);
/// The largest lag of the link's clock.
const CATCH_UP: Nanos = Nanos::from_millis(10);

/// A data path of one session.
#[derive(Debug)]
pub struct SessionPath {
    uplink: String,
    uplink_netns: Option<String>,
    session: Session,
    prepared: Option<(CompiledPolicy, PreparedChange)>,
}

impl SessionPath {
    /// Starts the session with `policy` above the uplink of `config`, without ports.
    ///
    /// # Errors
    /// When the interface or its namespace does not exist, or the kernel refuses a device or a program.
    pub fn start(policy: CompiledPolicy, config: &Config) -> Result<Box<dyn DataPath>, DataPathError> {
        let (uplink, uplink_netns) = (config.uplink.clone(), config.uplink_netns.clone());
        clean([uplink_netns.as_deref()]);
        let (rate, link) = link_of(&policy);
        let settings = NicSettings {
            uplink: uplink.clone(),
            uplink_netns: uplink_netns.clone(),
            rate,
            queues: None,
            link,
            segments_per_turn: SegmentsPerTurn::Whole,
            catch_up: CATCH_UP,
        };
        let session = Session::start_without_port(&policy, &settings)?;
        Ok(Box::new(Self { uplink, uplink_netns, session, prepared: None }))
    }

    /// Whether the uplink's interface has a carrier.
    fn uplink_is_up(&self) -> bool {
        let netns = self.uplink_netns.as_deref().map_or_else(NetNs::current, NetNs::named);
        let Ok(netns) = netns else { return false };
        link::exists(&netns, &self.uplink).is_ok_and(|exists| exists)
            && Numbered::named(&netns, &self.uplink)
                .is_ok_and(|interface| interface.show().is_ok_and(|link| link.running))
    }

    fn prepared_for(&mut self, policy: &CompiledPolicy) -> Result<PreparedChange, SessionError> {
        match self.prepared.take() {
            Some((of, change)) if of == *policy => Ok(change),
            _ => self.session.prepare_policy(policy, link_of(policy)),
        }
    }
}

/// The rate and the treatment of the link under `policy`.
fn link_of(policy: &CompiledPolicy) -> (BitsPerSec, LinkKind) {
    let source = if policy.link.is_some() { LinkRate::Given } else { LinkRate::Observed };
    let link = LinkKind::Device(DeviceLink { rate: source, piece: policy.least_latency() });
    (policy.link.unwrap_or(UNKNOWN_RATE), link)
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
    fn prepare(&mut self, policy: &CompiledPolicy) -> Result<Plan, DataPathError> {
        let change = self.session.prepare_policy(policy, link_of(policy))?;
        let renumbered = change.renumbered();
        let plan = Plan {
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

    fn commit(&mut self, policy: CompiledPolicy) -> Result<(), DataPathError> {
        let change = self.prepared_for(&policy)?;
        self.session.change_policy(change)?;
        Ok(())
    }

    fn status(&mut self) -> Result<PathStatus, DataPathError> {
        let uplink_up = self.uplink_is_up();
        let status = self.session.status()?;
        let totals = self.session.totals()?;
        let worker = if self.session.is_running() { WorkerState::Running } else { WorkerState::Ended };
        let class = |class: &ClassStatus| {
            path_class(class, &totals.classes.get(class.number).cloned().unwrap_or_default())
        };
        Ok(PathStatus {
            worker,
            worker_bound: status.worker_bound,
            uplink_up,
            observed_rate: status.observed_rate,
            classes: status.classes.iter().map(class).collect(),
            ports: self.session.ports().into_iter().map(path_port).collect(),
            dropped: status.dropped.by_reason().into_iter().collect(),
            untracked: totals.classes.iter().map(|c| c.untracked.get()).sum(),
            failed_readings: status.failed,
        })
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
        };
        match self.session.add_port(&settings) {
            Ok(_) => Ok(self.session.notes().into_iter().filter(|note| !before.contains(note)).collect()),
            Err(SessionError::PortExists { name }) => Err(DataPathError::PortExists(name)),
            Err(error) => Err(error.into()),
        }
    }

    fn remove_port(&mut self, name: &str) -> Result<(), DataPathError> {
        self.prepared = None;
        match self.session.remove_port(name, GRACE) {
            Ok(_) => Ok(()),
            Err(SessionError::NoPort { name, .. }) => Err(DataPathError::NoSuchPort(name)),
            Err(error) => Err(error.into()),
        }
    }

    fn finish(self: Box<Self>) -> Result<(), DataPathError> {
        Ok(self.session.finish(GRACE).map(|_| ())?)
    }
}

fn path_class(class: &ClassStatus, totals: &ClassTotals) -> PathClass {
    let reasons = [
        ("refused", totals.refused),
        ("bound", totals.bound),
        ("ring full", totals.full),
        ("moving", totals.moving),
    ];
    PathClass {
        name: class.name.clone(),
        packets: class.packets,
        bytes: class.bytes,
        backlog: class.standing,
        rate: class.now,
        dropped: reasons
            .map(|(reason, count)| (reason, count.packets.get()))
            .into_iter()
            .collect::<BTreeMap<_, _>>(),
        sojourn: None,
    }
}

fn path_port(port: PortStatus) -> PathPort {
    PathPort {
        kind: match port.kind {
            PortKind::Tap => "tap",
            PortKind::Veth | PortKind::Auto => "veth",
        }
        .to_owned(),
        rings: port.rings,
        receive: port.receive,
        sent_packets: port.sent.packets.get(),
        sent_bytes: port.sent.bytes,
        received_packets: port.received.packets.get(),
        dropped_packets: port.dropped.total(),
        name: port.name,
    }
}
