//! The counters of the data path, beside what the policy promises.

use super::{DaemonService, Owner, Uplink};
use crate::entitlement::{describe_classes, limits};
use crate::steering::KeptSteering;
use std::time::Instant;
use weft_control::error::ControlError;
use weft_control::interface::{ListPortsReply, Reply};
use weft_facts::status::{ServiceStatus, StatusPort, StatusUplink};
use weft_units::{BitsPerSec, Nanos};

/// The age of a heartbeat from which on the transmit worker is taken for hung.
const HUNG: Nanos = Nanos::from_secs(1);

impl DaemonService {
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
        let steer = self.steering.as_ref().map(KeptSteering::status);
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
                self.latest = self.describe(path);
                if self.missing.is_none() {
                    self.alarms.check(&self.latest, now);
                }
            }
            Err(error) => self.alarms.unreadable(&error.to_string(), now),
        }
        self.path.take_changes().iter().for_each(|change| self.log.warning(change));
        self.alarms.warn(self.path.warnings());
        self.latest.clone()
    }

    /// Adds to the counters of the data path what the daemon knows: the policy, the entitlements, the tenants and the owners of ports.
    fn describe(&self, path: ServiceStatus) -> ServiceStatus {
        let compiled = &self.policy.compiled;
        let rate = compiled.link.or(path.uplink.observed_bps.map(|bps| BitsPerSec(bps as u64)));
        let classes = describe_classes(compiled, rate, path.classes);
        ServiceStatus {
            generation: self.generation,
            policy_hash: self.policy.hash.clone(),
            policy: self.policy.name.clone(),
            uptime_s: self.started.elapsed().as_secs_f64(),
            uplink: StatusUplink {
                name: self.config.name.clone(),
                interface: self.config.device.clone(),
                netns: self.config.netns.clone(),
                rate_bps: compiled.link.map(|rate| rate.get() as f64),
                ..path.uplink
            },
            limits: limits(compiled, &classes),
            classes,
            ports: path.ports.into_iter().map(|port| self.owned(port)).collect(),
            tenants: self.status_tenants(),
            ..path
        }
    }

    /// Adds the port's owner and the limit of what it sends.
    fn owned(&self, port: StatusPort) -> StatusPort {
        let known = self.ports.get(&port.port);
        let owner = known.map_or(Owner::Configuration, |known| known.owner);
        StatusPort {
            owner_uid: match owner {
                Owner::Configuration => 0,
                Owner::User(uid) => uid,
            },
            configured: owner == Owner::Configuration,
            egress_limit: known.and_then(|known| known.spec.egress),
            uplink: self.config.name.clone(),
            ..port
        }
    }
}
