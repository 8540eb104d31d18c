//! An uplink of the daemon: the policy in force, its generation, the ports with their owners.
//!
//! A policy is replaced in this order: compile, compare the generation, prepare, commit, count. Whatever fails before the
//! commit changes nothing. The generation is 1 at the start and grows by one with each replacement; a policy with the text
//! that is in force replaces nothing.

use super::{Owner, UplinkStart, ports, refused};
use crate::alarms::Alarms;
use crate::config::UplinkConfig;
use crate::data_path::{DataPath, DataPathError, Memory, Plan, Started};
use crate::log::Log;
use crate::policy::{Policy, PolicyError, hash};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Instant;
use weft_control::error::ControlError;
use weft_control::interface::{
    ChangeReply, ConfigReply, ConfigTenant, LoadPolicy, PolicySource, ServiceStatus, TenantText,
};
use weft_nic::counters::DRAIN;
use weft_policy::{FileText, Tenant, TenantTexts};
use weft_units::Nanos;

/// The state of an uplink.
#[derive(Debug)]
pub(super) struct Uplink {
    pub(super) path: Box<dyn DataPath>,
    /// The reason for which there is no data path.
    pub(super) missing: Option<String>,
    pub(super) config: UplinkConfig,
    pub(super) policy: Policy,
    /// The configured policy, for `restore`.
    pub(super) default: Policy,
    pub(super) generation: u64,
    pub(super) started: Instant,
    pub(super) ports: BTreeMap<String, ports::Known>,
    /// The counters of the last tick.
    pub(super) latest: ServiceStatus,
    pub(super) alarms: Alarms,
    pub(super) log: Rc<Log>,
}

impl Uplink {
    /// An uplink over a data path that may have been taken over. Its configured ports are not made yet.
    pub(super) fn resume(start: UplinkStart, config: UplinkConfig, log: Rc<Log>) -> Self {
        let UplinkStart { policy, started } = start;
        let Started { path, former, notes, missing } = started;
        notes.iter().for_each(|note| log.warning(note));
        let mut uplink = Self {
            path,
            missing,
            config,
            default: policy.clone(),
            policy,
            generation: 1,
            started: Instant::now(),
            ports: BTreeMap::new(),
            latest: ServiceStatus::default(),
            alarms: Alarms::new(Rc::clone(&log)),
            log,
        };
        if let Some(former) = former {
            uplink.follow_former(former);
        }
        uplink
    }

    /// Makes the configured ports that do not exist.
    pub(super) fn make_configured(&mut self) {
        for port in self.config.ports.clone() {
            if self.ports.contains_key(&port.name) {
                continue;
            }
            if let Err(error) = self.add_configured(&port) {
                self.log.error(&format!("port {}: {error}", port.name));
            }
        }
        self.remember();
    }

    pub(super) fn hand_over(self) -> Result<(), DataPathError> {
        self.path.hand_over()
    }

    pub(super) fn finish(self) -> Result<(), DataPathError> {
        self.path.finish()
    }

    /// Stores what a successor must know.
    pub(super) fn remember(&mut self) {
        let owner = |(name, known): (&String, &ports::Known)| match known.owner {
            Owner::Configuration => None,
            Owner::User(uid) => Some((name.clone(), uid)),
        };
        let owners = self.ports.iter().filter_map(owner).collect();
        let egress = self.ports.iter().filter_map(|(name, known)| Some((name.clone(), known.spec.egress?)));
        self.path.remember(&Memory { generation: self.generation, owners, egress: egress.collect() });
    }

    /// The name by which users call it.
    pub(super) fn title(&self) -> &str {
        self.config.title()
    }

    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    pub(super) fn policy_hash(&self) -> &str {
        &self.policy.hash
    }

    pub(super) fn has_port(&self, name: &str) -> bool {
        self.ports.contains_key(name)
    }

    pub(super) fn config_reply(&self) -> ConfigReply {
        ConfigReply {
            generation: self.generation,
            policy_hash: self.policy.hash.clone(),
            policy: self.policy.name.clone(),
            text: self.policy.text.clone(),
            default_policy: self.default.name.clone(),
            is_default: self.policy.hash == self.default.hash && self.policy.tenants == self.default.tenants,
            tenants: self.policy.tenants.iter().map(config_tenant).collect(),
            uplink: self.config.name.clone(),
        }
    }

    /// The error of a policy, for the caller.
    pub(super) fn wrong(&self, error: PolicyError) -> ControlError {
        match error {
            PolicyError::Refused(diagnostics) => {
                ControlError::PolicyRefused { generation: self.generation, diagnostics }
            }
            PolicyError::Read { .. } => ControlError::failed(&error),
        }
    }

    fn compile(&self, name: &str, text: String, tenants: Vec<TenantText>) -> Result<Policy, ControlError> {
        let file = |of: TenantText| (of.tenant, FileText { name: of.name, text: of.text });
        let files = TenantTexts(tenants.into_iter().map(file).collect());
        let policy = Policy::limited(name, text, &files, self.config.rate, self.port_limits());
        policy.map_err(|error| self.wrong(error))
    }

    pub(super) fn load(&mut self, given: LoadPolicy) -> Result<ChangeReply, ControlError> {
        let policy = self.compile(&given.name, given.text, given.tenants)?;
        if given.generation.is_some_and(|generation| generation != self.generation) {
            return Err(ControlError::StaleGeneration { generation: self.generation });
        }
        self.path.set_drain(given.drain_ms.map_or(DRAIN, Nanos::from_millis));
        self.replace(policy)
    }

    pub(super) fn diff(&mut self, given: PolicySource) -> Result<ChangeReply, ControlError> {
        let policy = self.compile(&given.name, given.text, given.tenants)?;
        let plan = self.prepare(&policy)?;
        Ok(self.change_reply(&policy, plan))
    }

    pub(super) fn restore(&mut self) -> Result<ChangeReply, ControlError> {
        self.replace(self.default.clone())
    }

    /// Says what a change to `policy` would do.
    pub(super) fn prepare(&mut self, policy: &Policy) -> Result<Plan, ControlError> {
        self.path.prepare(&policy.compiled).map_err(refused)
    }

    /// Puts a compiled policy in force, with the limits of the ports.
    pub(super) fn replace(&mut self, policy: Policy) -> Result<ChangeReply, ControlError> {
        let policy = policy.with_port_limits(self.port_limits()).map_err(|error| self.wrong(error))?;
        let plan = self.prepare(&policy)?;
        if policy.compiled != self.policy.compiled {
            self.path.commit(&policy).map_err(refused)?;
        }
        if policy.hash != self.policy.hash || policy.compiled != self.policy.compiled {
            self.generation += 1;
            let hash: String = policy.hash.chars().take(12).collect();
            let (name, generation) = (&policy.name, self.generation);
            self.log.notice(&format!("policy {name} ({hash}) is in force, generation {generation}"));
            plan.warnings.iter().for_each(|warning| self.log.warning(warning));
            policy.interpreted.iter().for_each(|reason| self.log.notice(reason));
        }
        self.policy = policy;
        self.remember();
        Ok(self.change_reply(&self.policy, plan))
    }

    fn change_reply(&self, policy: &Policy, plan: Plan) -> ChangeReply {
        ChangeReply {
            generation: self.generation,
            policy_hash: policy.hash.clone(),
            steps: plan.steps,
            warnings: plan.warnings,
            diagnostics: policy.diagnostics.clone(),
            uplink: self.config.name.clone(),
        }
    }
}

fn config_tenant(tenant: &Tenant) -> ConfigTenant {
    ConfigTenant {
        tenant: tenant.name.clone(),
        file: tenant.file.as_ref().map(|file| file.name.clone()),
        hash: tenant.file.as_ref().map(|file| hash(&file.text)),
    }
}
