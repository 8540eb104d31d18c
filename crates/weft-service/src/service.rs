//! The state of the daemon: the policy in force, its generation, the ports with their owners. Independent of sockets.
//!
//! [`Service::handle`] answers one request. A policy is replaced in this order: compile, compare the generation, prepare,
//! commit, count. Whatever fails before the commit changes nothing. The generation is 1 at the start and grows by one with
//! each replacement; a policy with the text that is in force replaces nothing.

mod ports;
mod reload;
mod status;

use crate::config::{Config, Folders};
use crate::data_path::{DataPath, DataPathError, Memory, Plan, Started};
use crate::log::Log;
use crate::policy::{Policy, PolicyError};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Instant;
use weft_control::error::ControlError;
use weft_control::interface::{
    ChangeReply, ConfigReply, GenerationReply, ListPortsReply, Reply, Request, ServiceStatus,
};

pub use ports::{Owner, random_mac};

/// The caller of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Caller {
    /// The user.
    pub uid: u32,
    /// Whether the user may change what others made: root, or the daemon's own user.
    pub is_admin: bool,
}

/// The state of the daemon.
#[derive(Debug)]
pub struct Service {
    path: Box<dyn DataPath>,
    folders: Folders,
    config: Config,
    policy: Policy,
    /// The configured policy, for `restore`.
    default: Policy,
    generation: u64,
    started: Instant,
    ports: BTreeMap<String, ports::Known>,
    /// The counters of the last tick.
    latest: ServiceStatus,
    log: Rc<Log>,
}

impl Service {
    /// The state of a daemon with `path`, on which `policy` is in force. Makes the configured ports; one that cannot be
    /// made is logged, and the others are made.
    pub fn new(
        path: Box<dyn DataPath>,
        config: Config,
        folders: Folders,
        policy: Policy,
        log: Rc<Log>,
    ) -> Self {
        Self::resume(Started { path, former: None, notes: Vec::new() }, config, folders, policy, log)
    }

    /// The state of a daemon over a data path that may have been taken over: with the policy and the ports of the former
    /// daemon, which then follow the configuration as after a reload, under traffic.
    pub fn resume(started: Started, config: Config, folders: Folders, policy: Policy, log: Rc<Log>) -> Self {
        let Started { path, former, notes } = started;
        notes.iter().for_each(|note| log.warning(note));
        let mut service = Self {
            path,
            folders,
            config,
            default: policy.clone(),
            policy,
            generation: 1,
            started: Instant::now(),
            ports: BTreeMap::new(),
            latest: ServiceStatus::default(),
            log,
        };
        if let Some(former) = former {
            service.follow_former(former);
        }
        for port in service.config.ports.clone() {
            if service.ports.contains_key(&port.name) {
                continue;
            }
            if let Err(error) = service.add_configured(&port) {
                service.log.error(&format!("port {}: {error}", port.name));
            }
        }
        service.remember();
        service
    }

    /// Leaves the data path to a successor of this process.
    ///
    /// # Errors
    /// When it ends with the daemon, and had failed before.
    pub fn hand_over(self) -> Result<(), DataPathError> {
        self.path.hand_over()
    }

    /// Stores what a successor must know.
    fn remember(&mut self) {
        let owner = |(name, known): (&String, &ports::Known)| match known.owner {
            Owner::Configuration => None,
            Owner::User(uid) => Some((name.clone(), uid)),
        };
        let owners = self.ports.iter().filter_map(owner).collect();
        let egress = self.ports.iter().filter_map(|(name, known)| Some((name.clone(), known.spec.egress?)));
        self.path.remember(&Memory { generation: self.generation, owners, egress: egress.collect() });
    }

    /// Answers a request. The caller's right to it was checked before.
    ///
    /// # Errors
    /// With the error for the caller; nothing has changed then, unless the error says so.
    pub fn handle(&mut self, request: Request, caller: Caller) -> Result<Reply, ControlError> {
        match request {
            Request::Status | Request::Monitor(_) => Ok(Reply::Status(Box::new(self.status()?))),
            Request::Config => Ok(Reply::Config(self.config_reply())),
            Request::LoadPolicy(p) => self.load(&p.name, p.text, p.generation).map(Reply::Change),
            Request::DiffPolicy(p) => self.diff(&p.name, p.text).map(Reply::Change),
            Request::RestorePolicy => self.replace(self.default.clone()).map(Reply::Change),
            Request::AddPort(port) => {
                self.add_port(port, caller).map(|reply| Reply::AddPort(Box::new(reply)))
            }
            Request::RemovePort(port) => {
                self.remove_port(&port.name, caller)?;
                Ok(Reply::Generation(GenerationReply { generation: self.generation }))
            }
            Request::ListPorts => {
                let status = self.status()?;
                Ok(Reply::Ports(ListPortsReply { generation: status.generation, ports: status.ports }))
            }
            Request::Reload => self.reload().map(Reply::Reload),
        }
    }

    /// Ends the data path: the ports are removed.
    ///
    /// # Errors
    /// When the data path had failed before.
    pub fn finish(self) -> Result<(), DataPathError> {
        self.path.finish()
    }

    /// The generation in force.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The hash of the policy in force.
    pub fn policy_hash(&self) -> &str {
        &self.policy.hash
    }

    /// The configuration in force.
    pub fn config(&self) -> &Config {
        &self.config
    }

    fn config_reply(&self) -> ConfigReply {
        ConfigReply {
            generation: self.generation,
            policy_hash: self.policy.hash.clone(),
            policy: self.policy.name.clone(),
            text: self.policy.text.clone(),
            default_policy: self.default.name.clone(),
            is_default: self.policy.hash == self.default.hash,
        }
    }

    fn compile(&self, name: &str, text: String) -> Result<Policy, ControlError> {
        let policy = Policy::limited(name, text, self.config.rate, self.port_limits());
        policy.map_err(|error| self.refused_policy(error))
    }

    fn refused_policy(&self, error: PolicyError) -> ControlError {
        match error {
            PolicyError::Refused(diagnostics) => {
                ControlError::PolicyRefused { generation: self.generation, diagnostics }
            }
            PolicyError::Read { .. } => ControlError::failed(&error),
        }
    }

    fn load(&mut self, name: &str, text: String, expected: Option<u64>) -> Result<ChangeReply, ControlError> {
        let policy = self.compile(name, text)?;
        if expected.is_some_and(|generation| generation != self.generation) {
            return Err(ControlError::StaleGeneration { generation: self.generation });
        }
        self.replace(policy)
    }

    fn diff(&mut self, name: &str, text: String) -> Result<ChangeReply, ControlError> {
        let policy = self.compile(name, text)?;
        let plan = self.path.prepare(&policy.compiled).map_err(refused)?;
        Ok(self.change_reply(&policy, plan))
    }

    /// Puts a compiled policy in force, with the limits of the ports.
    fn replace(&mut self, policy: Policy) -> Result<ChangeReply, ControlError> {
        let policy =
            policy.with_port_limits(self.port_limits()).map_err(|error| self.refused_policy(error))?;
        let plan = self.path.prepare(&policy.compiled).map_err(refused)?;
        if policy.compiled != self.policy.compiled {
            self.path.commit(&policy).map_err(refused)?;
        }
        if policy.hash != self.policy.hash || policy.compiled != self.policy.compiled {
            self.generation += 1;
            let hash: String = policy.hash.chars().take(12).collect();
            let (name, generation) = (&policy.name, self.generation);
            self.log.notice(&format!("policy {name} ({hash}) is in force, generation {generation}"));
            plan.warnings.iter().for_each(|warning| self.log.warning(warning));
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
        }
    }
}

/// An error of the data path, for the caller.
fn refused(error: DataPathError) -> ControlError {
    match error {
        DataPathError::Unsupported(message) => ControlError::Unsupported { message: message.to_owned() },
        DataPathError::PortExists(name) => ControlError::PortExists { name },
        DataPathError::NoSuchPort(name) => ControlError::NoSuchPort { name },
        other => ControlError::failed(&other),
    }
}

#[cfg(test)]
mod tests;
