//! The counters of the data path, beside what the policy promises.

use super::{Owner, Service};
use crate::data_path::{PathClass, PathPort, PathStatus};
use crate::entitlement::{Entitlement, entitlements, limits, of_another};
use std::collections::BTreeMap;
use weft_control::error::ControlError;
use weft_report::status::{ServiceStatus, StatusClass, StatusPort, StatusPortLimit, StatusUplink};
use weft_run::session::PortLimit;
use weft_units::Nanos;

/// The reason for absent waiting times.
const NO_SOJOURN: &str = "no packet of the class has left yet";

/// The age of a heartbeat from which on the transmit worker is taken for hung.
const HUNG: Nanos = Nanos::from_secs(1);

impl Service {
    /// The counters now.
    ///
    /// # Errors
    /// When the data path cannot be read.
    pub fn status(&mut self) -> Result<ServiceStatus, ControlError> {
        let path = self.path.status().map_err(super::refused)?;
        self.latest = self.describe(path);
        Ok(self.latest.clone())
    }

    /// The counters of the last reading.
    pub fn latest(&self) -> &ServiceStatus {
        &self.latest
    }

    /// Whether the transmit worker has shown a sign of life of late.
    pub fn worker_lives(&self) -> bool {
        self.path.heartbeat_age() < HUNG
    }

    /// Warnings of the data path that hold now.
    pub fn warnings(&self) -> Vec<String> {
        self.path.warnings()
    }

    /// Packets of flows for which there was no room, and the counters now. For alarms.
    ///
    /// # Errors
    /// When the data path cannot be read.
    pub fn tick(&mut self) -> Result<u64, ControlError> {
        let path = self.path.status().map_err(super::refused)?;
        let untracked = path.untracked;
        self.latest = self.describe(path);
        Ok(untracked)
    }

    fn describe(&self, path: PathStatus) -> ServiceStatus {
        let compiled = &self.policy.compiled;
        let rate = compiled.link.or(path.observed_rate);
        let entitled = entitlements(compiled, rate);
        let classes: Vec<StatusClass> = path
            .classes
            .into_iter()
            .enumerate()
            .map(|(index, class)| {
                let entitlement = entitled.get(index).cloned().unwrap_or_else(|| of_another(&class.name));
                describe_class(class, entitlement)
            })
            .collect();
        ServiceStatus {
            generation: self.generation,
            policy_hash: self.policy.hash.clone(),
            policy: self.policy.name.clone(),
            uptime_s: self.started.elapsed().as_secs_f64(),
            worker: path.worker,
            worker_bound: path.worker_bound,
            policy_change_pause_s: path.change_pause_max.as_secs_f64(),
            uplink: StatusUplink {
                interface: self.config.uplink.clone(),
                netns: self.config.uplink_netns.clone(),
                up: path.uplink_up,
                rate_bps: compiled.link.map(|rate| rate.get() as f64),
                observed_bps: path.observed_rate.map(|rate| rate.get() as f64),
            },
            limits: limits(compiled, &classes),
            classes,
            ports: path.ports.into_iter().map(|port| self.describe_port(port)).collect(),
            dropped: names(path.dropped),
            failed_readings: path.failed_readings,
        }
    }

    fn describe_port(&self, port: PathPort) -> StatusPort {
        let known = self.ports.get(&port.name);
        let spec = known.map(|known| &known.spec);
        let owner = known.map_or(Owner::Configuration, |known| known.owner);
        StatusPort {
            netns: spec.and_then(|spec| spec.netns.clone()),
            mac: spec.map(|spec| spec.mac.to_string()).unwrap_or_default(),
            addresses: spec
                .map(|spec| spec.addresses.iter().map(|(ip, length)| format!("{ip}/{length}")).collect())
                .unwrap_or_default(),
            owner_uid: match owner {
                Owner::Configuration => 0,
                Owner::User(uid) => uid,
            },
            configured: owner == Owner::Configuration,
            egress_limit: spec.and_then(|spec| spec.egress).map(port_limit),
            ingress_limit: spec.and_then(|spec| spec.ingress).map(port_limit),
            port: port.name,
            kind: port.kind,
            rings: port.rings as u64,
            receive: port.receive,
            sent_packets: port.sent_packets,
            sent_bytes: port.sent_bytes.get(),
            received_packets: port.received_packets,
            dropped_packets: port.dropped_packets,
        }
    }
}

fn port_limit(limit: PortLimit) -> StatusPortLimit {
    StatusPortLimit { rate_bps: limit.rate.get(), burst_bytes: limit.burst.get() }
}

fn describe_class(class: PathClass, entitlement: Entitlement) -> StatusClass {
    let (entitled_bps, entitled_reason) = match entitlement {
        Entitlement::Rate(rate) => (Some(rate.get() as f64), None),
        Entitlement::Unknown(reason) => (None, Some(reason)),
    };
    let sojourn_reason = class.sojourn.is_none().then(|| NO_SOJOURN.to_owned());
    let (sojourn_s, sojourn_histogram) = class.sojourn.map(|s| (s.percentiles, s.histogram)).unzip();
    StatusClass {
        class: class.name,
        bytes: class.bytes.get(),
        packets: class.packets,
        dropped: names(class.dropped),
        backlog_bytes: class.backlog.get(),
        bps: class.rate.get() as f64,
        entitled_bps,
        entitled_reason,
        sojourn_s,
        sojourn_reason,
        sojourn_histogram,
    }
}

/// Reasons as labels: `ring full` becomes `ring_full`.
fn names(dropped: BTreeMap<&'static str, u64>) -> BTreeMap<String, u64> {
    dropped.into_iter().map(|(reason, packets)| (reason.replace(' ', "_"), packets)).collect()
}
