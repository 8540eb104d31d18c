//! An uplink of the daemon: the policy in force, its generation, the ports with their owners.
//!
//! A policy is replaced in this order: compile, compare the generation, prepare, commit, count. Whatever fails before the
//! commit changes nothing. The generation is 1 at the start and grows by one with each replacement; a policy with the text
//! that is in force replaces nothing.

use super::pending::Pending;
use super::{Caller, UplinkStart, refused};
use crate::alarms::Alarms;
use crate::config::UplinkConfig;
use crate::data_path::{DaemonMemory, DataPath, DataPathError, PolicyPlan, PortSpec, Started};
use crate::log::Log;
use crate::policy::{Outside, PolicyError, ServicePolicy};
use crate::tenants::{AllGiven, Tenants};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Instant;
use weft_control::error::ControlError;
use weft_control::interface::{
    ChangeReply, GenerationReply, LoadPolicy, PolicySource, ServiceConfig, ServiceStatus, TenantText,
};
use weft_nic::counters::DRAIN;
use weft_policy::{FileText, Steps, TenantTexts};
use weft_units::Nanos;

/// The origin of a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Owner {
    /// The configuration.
    Configuration,
    /// A user's call.
    User(u32),
}

/// A port as the daemon has it.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) spec: PortSpec,
    pub(super) owner: Owner,
    /// The removal under way.
    pub(super) leaving: Option<Leaving>,
}

/// A removal under way.
#[derive(Clone, Debug)]
pub(super) struct Leaving {
    /// The time at which packets that are left are given up.
    pub(super) until: Instant,
    pub(super) outcome: Pending<GenerationReply>,
}

impl Known {
    pub(super) fn new(spec: PortSpec, owner: Owner) -> Self {
        Self { spec, owner, leaving: None }
    }

    /// The port, if it is to be made again after its data path was lost. One that was on its way out is gone.
    pub(super) fn made_again(self) -> Option<(PortSpec, Owner)> {
        if let Some(leaving) = self.leaving {
            leaving.outcome.settle(Ok(GenerationReply::default()));
            return None;
        }
        Some((self.spec, self.owner))
    }
}

/// The state of an uplink.
#[derive(Debug)]
pub(super) struct Uplink {
    pub(super) path: Box<dyn DataPath>,
    /// The reason that no data path exists.
    pub(super) missing: Option<String>,
    pub(super) config: UplinkConfig,
    pub(super) policy: ServicePolicy,
    /// The configured policy, for `restore`.
    pub(super) default: ServicePolicy,
    pub(super) generation: u64,
    pub(super) started: Instant,
    pub(super) ports: BTreeMap<String, Known>,
    /// The ports that are made again, one after the other.
    pub(super) to_make: VecDeque<(PortSpec, Owner)>,
    pub(super) tenants: Tenants,
    /// The counters of the last tick.
    pub(super) latest: ServiceStatus,
    pub(super) alarms: Alarms,
    pub(super) log: Rc<Log>,
}

impl Uplink {
    /// An uplink over a data path that may have been taken over. Its configured ports are not made yet.
    pub(super) fn resume(start: UplinkStart, config: UplinkConfig, log: Rc<Log>) -> Self {
        let UplinkStart { policy, refused, started } = start;
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
            to_make: VecDeque::new(),
            tenants: Tenants::default(),
            latest: ServiceStatus::default(),
            alarms: Alarms::new(Rc::clone(&log)),
            log,
        };
        match former {
            Some(former) => {
                uplink.tenants = former.memory.tenants.clone();
                uplink.follow_former(former);
                uplink.remove_leaving();
                uplink.follow_configured(refused);
            }
            None => uplink.settle(&AllGiven::new(), &refused, &TenantTexts::default()),
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

    pub(super) fn hand_over(mut self) -> Result<(), DataPathError> {
        self.remove_leaving();
        self.path.hand_over()
    }

    pub(super) fn finish(self) -> Result<(), DataPathError> {
        self.path.finish()
    }

    /// Stores what a successor needs.
    pub(super) fn remember(&mut self) {
        let owner = |(name, known): (&String, &Known)| match known.owner {
            Owner::Configuration => None,
            Owner::User(uid) => Some((name.clone(), uid)),
        };
        let owners = self.ports.iter().filter_map(owner).collect();
        let egress = self.ports.iter().filter_map(|(name, known)| Some((name.clone(), known.spec.egress?)));
        let (generation, tenants) = (self.generation, self.tenants.clone());
        self.path.remember(&DaemonMemory { generation, owners, egress: egress.collect(), tenants });
    }

    /// The name that users call it by.
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
        self.ports.contains_key(name) || self.to_make.iter().any(|(spec, _)| spec.name == name)
    }

    pub(super) fn config_reply(&self) -> ServiceConfig {
        ServiceConfig {
            generation: self.generation,
            policy_hash: self.policy.hash.clone(),
            policy: self.policy.name.clone(),
            text: self.policy.text.clone(),
            default_policy: self.default.name.clone(),
            is_default: self.is_default(),
            tenants: self.config_tenants(),
            uplink: self.config.name.clone(),
        }
    }

    /// The error of a policy, for the caller.
    pub(super) fn wrong(&self, error: PolicyError) -> ControlError {
        match error {
            PolicyError::Refused(diagnostics) => {
                ControlError::PolicyRefused { generation: self.generation, diagnostics }
            }
            PolicyError::Read { .. } | PolicyError::Tenants { .. } => ControlError::failed(&error),
        }
    }

    /// The most steps for what `caller` asks to compile: others than administrators have few more than the policy in force, so that
    /// they keep the daemon for about as long as that takes.
    pub(super) fn steps_for(&self, caller: Caller) -> Steps {
        if caller.is_admin { Steps::WHOLE } else { self.policy.steps.and(Steps::SMALL) }
    }

    fn compile(
        &self,
        name: &str,
        text: String,
        tenants: Vec<TenantText>,
        steps: Steps,
    ) -> Result<ServicePolicy, ControlError> {
        let file = |of: TenantText| (of.tenant, FileText { name: of.name, text: of.text });
        let files = TenantTexts(tenants.into_iter().map(file).collect());
        let outside = Outside { rate: self.config.rate, port_limits: self.port_limits(), steps };
        let policy = ServicePolicy::compiled(name, text, &files, outside);
        policy.map_err(|error| self.wrong(error))
    }

    pub(super) fn load(&mut self, given: LoadPolicy) -> Result<ChangeReply, ControlError> {
        let policy = self.compile(&given.name, given.text, given.tenants, Steps::WHOLE)?;
        self.check_generation(given.generation)?;
        let wanted = self.with_given(&policy, self.given_back(&policy), Steps::WHOLE)?;
        self.path.set_drain(given.drain_ms.map_or(DRAIN, Nanos::from_millis));
        self.put_in_force(wanted)
    }

    pub(super) fn diff(&mut self, given: PolicySource, caller: Caller) -> Result<ChangeReply, ControlError> {
        let steps = self.steps_for(caller);
        let policy = self.compile(&given.name, given.text, given.tenants, steps)?;
        let policy = self.with_given(&policy, self.given_back(&policy), steps)?.policy;
        let plan = self.prepare(&policy)?;
        Ok(self.change_reply(&policy, plan))
    }

    pub(super) fn restore(&mut self) -> Result<ChangeReply, ControlError> {
        let wanted = self.with_given(&self.default, self.given_back(&self.default), Steps::WHOLE)?;
        self.put_in_force(wanted)
    }

    pub(super) fn check_generation(&self, wanted: Option<u64>) -> Result<(), ControlError> {
        match wanted {
            Some(wanted) if wanted != self.generation => {
                Err(ControlError::StaleGeneration { generation: self.generation })
            }
            _ => Ok(()),
        }
    }

    /// Says what a change to `policy` would do.
    pub(super) fn prepare(&mut self, policy: &ServicePolicy) -> Result<PolicyPlan, ControlError> {
        self.path.prepare(&policy.compiled).map_err(refused)
    }

    /// Puts a compiled policy in force, with the limits of the ports.
    pub(super) fn replace(&mut self, policy: ServicePolicy) -> Result<ChangeReply, ControlError> {
        let before = self.generation;
        let plan = self.exchange(policy)?;
        if self.generation != before {
            let hash: String = self.policy.hash.chars().take(12).collect();
            let (name, generation) = (&self.policy.name, self.generation);
            self.log.notice(&format!("policy {name} ({hash}) is in force, generation {generation}"));
        }
        Ok(self.change_reply(&self.policy, plan))
    }

    /// Exchanges the policy in force for another, which counts unless its texts are the same.
    pub(super) fn exchange(&mut self, policy: ServicePolicy) -> Result<PolicyPlan, ControlError> {
        let policy = policy.with_port_limits(self.port_limits()).map_err(|error| self.wrong(error))?;
        let plan = self.prepare(&policy)?;
        let is_same = policy.compiled == self.policy.compiled;
        if !is_same {
            self.path.commit(&policy).map_err(refused)?;
        }
        let same_texts =
            policy.hash == self.policy.hash && policy.tenant_texts() == self.policy.tenant_texts();
        if !(is_same && same_texts) {
            self.generation += 1;
            plan.warnings.iter().for_each(|warning| self.log.warning(warning));
        }
        self.policy = policy;
        self.remember();
        Ok(plan)
    }

    pub(super) fn change_reply(&self, policy: &ServicePolicy, plan: PolicyPlan) -> ChangeReply {
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
