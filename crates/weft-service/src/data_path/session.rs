//! The data path of `weft run` behind the daemon's interface.
//!
//! A session has one port and one policy. The port is made with the session, so without a port there is no session, and a
//! policy can be replaced while there is none. A change under traffic and a second port are refused with
//! [`DataPathError::Unsupported`].

use super::{DataPath, DataPathError, PathClass, PathPort, PathStatus, Plan, PortSpec};
use crate::config::Config;
use std::collections::{BTreeMap, BTreeSet};
use weft_host::link::{self, Numbered};
use weft_host::{NetNs, cleanup_stale};
use weft_nic::link::{DeviceLink, LinkKind, LinkRate};
use weft_nic::nic::{ClassTotals, Totals};
use weft_nic::worker::SegmentsPerTurn;
use weft_policy::CompiledPolicy;
use weft_report::status::WorkerState;
use weft_run::session::{PortKind, Receive, Session, Settings, Status, UNKNOWN_RATE};
use weft_units::Nanos;

/// The time in which a port's packets are sent before it is removed. The daemon waits for it.
const GRACE: Nanos = Nanos::from_secs(2);
/// The largest number of rings of a port.
const RINGS: usize = 256;
/// The largest lag of the link's clock.
const CATCH_UP: Nanos = Nanos::from_millis(10);

const LIVE: &str = "unsupported: a policy cannot be replaced yet while a port exists; remove the port first";
const ONE_PORT: &str = "unsupported: there can be one port only at present";

/// A data path of at most one session.
#[derive(Debug)]
pub struct SessionPath {
    uplink: String,
    uplink_netns: Option<String>,
    policy: CompiledPolicy,
    running: Option<(PortSpec, Session)>,
}

impl SessionPath {
    /// Checks the uplink of `config`. The session begins with its port.
    ///
    /// # Errors
    /// When the interface or its namespace does not exist.
    pub fn start(policy: CompiledPolicy, config: &Config) -> Result<Box<dyn DataPath>, DataPathError> {
        let path = Self {
            uplink: config.uplink.clone(),
            uplink_netns: config.uplink_netns.clone(),
            policy,
            running: None,
        };
        path.interface()?;
        Ok(Box::new(path))
    }

    /// The uplink's interface.
    fn interface(&self) -> Result<Numbered, DataPathError> {
        let failed =
            |e: &dyn core::fmt::Display| DataPathError::Failed(format!("uplink {}: {e}", self.uplink));
        let netns = self.uplink_netns.as_deref().map_or_else(NetNs::current, NetNs::named);
        let netns = netns.map_err(|e| failed(&e))?;
        if !link::exists(&netns, &self.uplink).map_err(|e| failed(&e))? {
            return Err(DataPathError::Failed(format!(
                "there is no interface {} for the uplink",
                self.uplink
            )));
        }
        Numbered::named(&netns, &self.uplink).map_err(|e| failed(&e))
    }

    fn settings(&self, port: &PortSpec) -> Settings {
        let rate = if self.policy.link.is_some() { LinkRate::Given } else { LinkRate::Observed };
        Settings {
            name: port.name.clone(),
            port_netns: port.netns.clone(),
            uplink: self.uplink.clone(),
            uplink_netns: self.uplink_netns.clone(),
            addresses: port.addresses.clone(),
            mac: port.mac,
            rate: self.policy.link.unwrap_or(UNKNOWN_RATE),
            queues: None,
            link: LinkKind::Device(DeviceLink { rate, piece: self.policy.least_latency() }),
            segments_per_turn: SegmentsPerTurn::Whole,
            rings: RINGS,
            catch_up: CATCH_UP,
            port: PortKind::Auto,
            receive: Receive::Auto,
        }
    }

    /// Removes what killed daemons and runs left in the namespaces of the port and the uplink.
    fn clean(&self, port: &PortSpec) {
        let _ = cleanup_stale();
        for name in [&port.netns, &self.uplink_netns].into_iter().flatten() {
            if let Ok(netns) = NetNs::named(name) {
                let _ = netns.run(cleanup_stale);
            }
        }
    }
}

impl DataPath for SessionPath {
    fn prepare(&mut self, policy: &CompiledPolicy) -> Result<Plan, DataPathError> {
        Ok(Plan { steps: steps(&self.policy, policy), warnings: Vec::new() })
    }

    fn commit(&mut self, policy: CompiledPolicy) -> Result<(), DataPathError> {
        if self.running.is_some() && policy != self.policy {
            return Err(DataPathError::Unsupported(LIVE));
        }
        self.policy = policy;
        Ok(())
    }

    fn status(&mut self) -> Result<PathStatus, DataPathError> {
        let uplink_up = self.interface().is_ok_and(|i| i.show().is_ok_and(|link| link.running));
        let Some((port, session)) = &mut self.running else {
            let names = self.policy.classes.iter().map(|class| class.name.clone());
            let classes = names.map(|name| PathClass { name, ..PathClass::default() }).collect();
            return Ok(PathStatus { uplink_up, classes, ..PathStatus::default() });
        };
        let status = session.status()?;
        let totals = session.totals()?;
        let worker = if session.is_running() { WorkerState::Running } else { WorkerState::Ended };
        let receive = session.receive_path().to_string();
        Ok(PathStatus {
            worker,
            worker_bound: status.worker_bound,
            uplink_up,
            observed_rate: status.observed_rate,
            classes: classes(&status, &totals),
            ports: vec![path_port(port, &status, &totals, receive)],
            dropped: status.dropped.by_reason().into_iter().collect(),
            untracked: totals.classes.iter().map(|c| c.untracked.get()).sum(),
            failed_readings: status.failed,
        })
    }

    fn add_port(&mut self, port: &PortSpec) -> Result<Vec<String>, DataPathError> {
        match &self.running {
            Some((there, _)) if there.name == port.name => Err(DataPathError::PortExists(port.name.clone())),
            Some(_) => Err(DataPathError::Unsupported(ONE_PORT)),
            None => {
                self.clean(port);
                let session = Session::start(&self.policy, &self.settings(port))?;
                let notes = session.notes();
                self.running = Some((port.clone(), session));
                Ok(notes)
            }
        }
    }

    fn remove_port(&mut self, name: &str) -> Result<(), DataPathError> {
        match self.running.take_if(|(port, _)| port.name == name) {
            Some((_, session)) => Ok(session.finish(GRACE).map(|_| ())?),
            None => Err(DataPathError::NoSuchPort(name.to_owned())),
        }
    }

    fn finish(self: Box<Self>) -> Result<(), DataPathError> {
        match self.running {
            Some((_, session)) => Ok(session.finish(GRACE).map(|_| ())?),
            None => Ok(()),
        }
    }
}

/// The difference of two policies, by classes.
fn steps(old: &CompiledPolicy, new: &CompiledPolicy) -> Vec<String> {
    if old == new {
        return Vec::new();
    }
    let names = |policy: &CompiledPolicy| -> BTreeSet<String> {
        policy.classes.iter().map(|class| class.name.clone()).collect()
    };
    let (before, after) = (names(old), names(new));
    let gone = before.difference(&after).map(|name| format!("class {name} removed"));
    let added = after.difference(&before).map(|name| format!("class {name} added"));
    let mut steps: Vec<String> = gone.chain(added).collect();
    if old.link != new.link {
        let rate =
            |policy: &CompiledPolicy| policy.link.map_or_else(|| "none".to_owned(), |rate| rate.to_string());
        steps.push(format!("link: {} -> {}", rate(old), rate(new)));
    }
    if old.program != new.program {
        steps.push("shares, limits or bounds changed".to_owned());
    }
    if old.rules != new.rules {
        steps.push("rules changed".to_owned());
    }
    if steps.is_empty() { vec!["the policy changed".to_owned()] } else { steps }
}

fn classes(status: &Status, totals: &Totals) -> Vec<PathClass> {
    let drops = |c: &ClassTotals| {
        let reasons =
            [("refused", c.refused), ("bound", c.bound), ("ring full", c.full), ("moving", c.moving)];
        reasons.map(|(reason, count)| (reason, count.packets.get())).into_iter().collect::<BTreeMap<_, _>>()
    };
    let of = |(class, totals): (&weft_run::session::ClassStatus, &ClassTotals)| PathClass {
        name: class.name.clone(),
        packets: class.packets,
        bytes: class.bytes,
        backlog: class.standing,
        rate: class.now,
        dropped: drops(totals),
        sojourn: None,
    };
    status.classes.iter().zip(&totals.classes).map(of).collect()
}

fn path_port(port: &PortSpec, status: &Status, totals: &Totals, receive: String) -> PathPort {
    let sent = totals.sum(|c| c.sent);
    PathPort {
        name: port.name.clone(),
        kind: "veth".to_owned(),
        rings: RINGS,
        receive,
        sent_packets: sent.packets.get(),
        sent_bytes: sent.bytes,
        received_packets: status.received,
        dropped_packets: status.dropped.total(),
    }
}
