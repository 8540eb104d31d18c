//! The state of the daemon: the policy in force, its generation, the ports with their owners. Independent of sockets.
//!
//! [`Service::handle`] answers one request. A policy is replaced in this order: compile, compare the generation, prepare,
//! commit, count. Whatever fails before the commit changes nothing. The generation is 1 at the start and grows by one with
//! each replacement; a policy with the text that is in force replaces nothing.

mod ports;
mod reload;
mod status;

use crate::config::{Config, Folders};
use crate::data_path::{DataPath, DataPathError, Plan};
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
        for port in service.config.ports.clone() {
            if let Err(error) = service.add_configured(&port) {
                service.log.error(&format!("port {}: {error}", port.name));
            }
        }
        service
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
        Policy::new(name, text, self.config.rate).map_err(|error| match error {
            PolicyError::Refused(diagnostics) => {
                ControlError::PolicyRefused { generation: self.generation, diagnostics }
            }
            PolicyError::Read { .. } => ControlError::failed(&error),
        })
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

    /// Puts a compiled policy in force.
    fn replace(&mut self, policy: Policy) -> Result<ChangeReply, ControlError> {
        let plan = self.path.prepare(&policy.compiled).map_err(refused)?;
        if policy.compiled != self.policy.compiled {
            self.path.commit(policy.compiled.clone()).map_err(refused)?;
        }
        if policy.hash != self.policy.hash || policy.compiled != self.policy.compiled {
            self.generation += 1;
            let hash: String = policy.hash.chars().take(12).collect();
            let (name, generation) = (&policy.name, self.generation);
            self.log.notice(&format!("policy {name} ({hash}) is in force, generation {generation}"));
            plan.warnings.iter().for_each(|warning| self.log.warning(warning));
        }
        self.policy = policy;
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
