//! The counters of the data path, beside what the policy promises.

use super::{Owner, Service, Uplink};
use crate::data_path::{PathClass, PathPort, PathStatus};
use crate::entitlement::{Entitlement, entitlements, limits, of_another};
use crate::steering::Steering;
use std::collections::BTreeMap;
use std::time::Instant;
use weft_control::error::ControlError;
use weft_control::interface::{ListPortsReply, Reply};
use weft_nic::nic::Draining;
use weft_facts::status::{
    ServiceStatus, StatusClass, StatusDraining, StatusPort, StatusPortLimit, StatusUplink,
};
use weft_run::session::PortLimit;
use weft_units::Nanos;

/// The reason for absent waiting times.
const NO_SOJOURN: &str = "no packet of the class has left yet";

/// The age of a heartbeat from which on the transmit worker is taken for hung.
const HUNG: Nanos = Nanos::from_secs(1);

impl Service {
    /// The counters now, of all uplinks.
    ///
    /// # Errors
    /// When a data path cannot be read.
    pub fn status(&mut self) -> Result<ServiceStatus, ControlError> {
        let all: Result<Vec<_>, ControlError> = self.uplinks.iter_mut().map(Uplink::status).collect();
        self.latest = self.together(all?);
        Ok(self.latest.clone())
    }

    /// The counters of the last reading, of all uplinks.
    pub fn latest(&self) -> &ServiceStatus {
        &self.latest
    }

    /// The counters of the last reading, of the uplink `name` or of all.
    pub fn latest_of(&self, name: Option<&str>) -> ServiceStatus {
        let found = name.and_then(|name| self.uplinks.iter().find(|uplink| uplink.title() == name));
        found.map_or(&self.latest, |uplink| &uplink.latest).clone()
    }

    /// Checks that there is an uplink `name`, if one is named.
    ///
    /// # Errors
    /// When it does not exist.
    pub fn check_uplink(&self, name: Option<&str>) -> Result<(), ControlError> {
        name.map_or(Ok(()), |name| self.place(Some(name)).map(|_| ()))
    }

    /// Whether the transmit workers of all uplinks that have one have shown a sign of life of late.
    pub fn workers_live(&self) -> bool {
        let running = |uplink: &&Uplink| uplink.missing.is_none();
        self.uplinks.iter().filter(running).all(|uplink| uplink.path.heartbeat_age() < HUNG)
    }

    /// Reads the data paths, raises alarms, and starts uplinks again that have lost theirs.
    pub fn tick(&mut self, now: Instant) {
        let all = self.uplinks.iter_mut().map(|uplink| uplink.tick(now)).collect();
        self.latest = self.together(all);
        if let Some(steering) = &mut self.steering {
            steering.tell(&self.log);
        }
        self.restart_uplinks(now);
    }

    pub(super) fn status_of(&mut self, name: Option<&str>) -> Result<Reply, ControlError> {
        let status = match name {
            Some(_) => self.one(name)?.status()?,
            None => self.status()?,
        };
        Ok(Reply::Status(Box::new(status)))
    }

    pub(super) fn list_ports(&mut self, name: Option<&str>) -> Result<ListPortsReply, ControlError> {
        let Reply::Status(status) = self.status_of(name)? else { return Ok(ListPortsReply::default()) };
        let ports = status.each().into_iter().flat_map(|uplink| uplink.ports.clone()).collect();
        Ok(ListPortsReply { generation: status.generation, ports })
    }

    /// The counters of all uplinks: those of the default one, beside all if there are several.
    fn together(&self, mut all: Vec<ServiceStatus>) -> ServiceStatus {
        let steer = self.steering.as_ref().map(Steering::status);
        if all.len() == 1 {
            return ServiceStatus { steer, ..all.remove(0) };
        }
        let first = all.get(self.config.default_uplink.unwrap_or(0)).cloned().unwrap_or_default();
        ServiceStatus { uplinks: all, steer, ..first }
    }
}

impl Uplink {
    /// The counters now.
    pub(super) fn status(&mut self) -> Result<ServiceStatus, ControlError> {
        let path = self.path.status().map_err(super::refused)?;
        self.latest = self.describe(path);
        Ok(self.latest.clone())
    }

    /// Reads the counters and raises alarms. Counters that cannot be read are an alarm, and the former are returned.
    fn tick(&mut self, now: Instant) -> ServiceStatus {
        match self.path.status() {
            Ok(path) => {
                let untracked = path.untracked;
                self.latest = self.describe(path);
                if self.missing.is_none() {
                    self.alarms.check(&self.latest, untracked, now);
                }
            }
            Err(error) => self.alarms.unreadable(&error.to_string(), now),
        }
        self.path.take_changes().iter().for_each(|change| self.log.warning(change));
        self.alarms.warn(self.path.warnings());
        self.latest.clone()
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
            draining: describe_draining(path.draining),
            uplink: StatusUplink {
                name: self.config.name.clone(),
                interface: self.config.device.clone(),
                netns: self.config.netns.clone(),
                up: path.uplink_up,
                rate_bps: compiled.link.map(|rate| rate.get() as f64),
                observed_bps: path.observed_rate.map(|rate| rate.get() as f64),
            },
            limits: limits(compiled, &classes),
            classes,
            ports: path.ports.into_iter().map(|port| self.describe_port(port)).collect(),
            dropped: names(path.dropped),
            counters: path.counters,
            failed_readings: path.failed_readings,
            tenants: self.status_tenants(),
            uplinks: Vec::new(),
            steer: None,
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
            counters: port.counters,
            uplink: self.config.name.clone(),
        }
    }
}

/// The drains under way; `None` without one.
fn describe_draining(draining: Draining) -> Option<StatusDraining> {
    (draining.rings > 0).then(|| StatusDraining {
        rings: draining.rings,
        longest_s: draining.longest.as_secs_f64(),
        limit_s: draining.limit.as_secs_f64(),
    })
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
        counters: class.counters,
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
