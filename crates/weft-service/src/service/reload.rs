//! The configuration, read again while the daemon runs.
//!
//! The policy, the rate and the ports follow the files. Other keys need a restart, which a warning says. A file that is
//! wrong changes nothing. A port that cannot be made is a warning, and the others are made.

use super::{Owner, Service};
use crate::config::{Config, PortConfig};
use crate::policy::{Policy, PolicyError};
use weft_control::error::ControlError;
use weft_control::interface::ReloadReply;

impl Service {
    /// Reads the configuration again and puts it in force.
    ///
    /// # Errors
    /// When a file is wrong, or the policy cannot be replaced; nothing has changed then.
    pub fn reload(&mut self) -> Result<ReloadReply, ControlError> {
        let config = self.folders.load().map_err(|error| ControlError::failed(&error))?;
        let policy = Policy::read(&config.policy, config.rate).map_err(|error| match error {
            PolicyError::Refused(diagnostics) => {
                ControlError::PolicyRefused { generation: self.generation, diagnostics }
            }
            PolicyError::Read { .. } => ControlError::failed(&error),
        })?;
        let change = self.replace(policy.clone())?;
        self.default = policy;
        let mut steps = change.steps;
        let mut warnings = change.warnings;
        warnings.extend(restarts(&self.config, &config));
        self.follow_ports(&config, &mut steps, &mut warnings);
        let ours =
            Config { rate: config.rate, policy: config.policy, ports: config.ports, ..self.config.clone() };
        self.config = ours;
        Ok(ReloadReply {
            generation: self.generation,
            policy_hash: self.policy.hash.clone(),
            steps,
            warnings,
        })
    }

    /// Removes ports that the configuration no longer has or has otherwise, and makes new ones. Ports of users stay.
    fn follow_ports(&mut self, config: &Config, steps: &mut Vec<String>, warnings: &mut Vec<String>) {
        let configured = |name: &String| config.ports.iter().find(|port| port.name == *name);
        let before: Vec<PortConfig> = self.config.ports.clone();
        let is_same = |name: &String| before.iter().find(|port| port.name == *name) == configured(name);
        let mut gone = Vec::new();
        for (name, known) in &self.ports {
            if known.owner == Owner::Configuration && !is_same(name) {
                gone.push(name.clone());
            }
        }
        for name in gone {
            match self.take_port(&name) {
                Ok(()) => steps.push(format!("port {name} removed")),
                Err(error) => warnings.push(format!("port {name}: {error}")),
            }
        }
        for port in config
            .ports
            .iter()
            .filter(|port| !self.ports.contains_key(&port.name))
            .cloned()
            .collect::<Vec<_>>()
        {
            match self.add_configured(&port) {
                Ok(()) => steps.push(format!("port {} added", port.name)),
                Err(error) => warnings.push(format!("port {}: {error}", port.name)),
            }
        }
    }
}

/// The keys that differ and need a restart.
fn restarts(old: &Config, new: &Config) -> Vec<String> {
    let keys = [
        ("uplink", old.uplink != new.uplink || old.uplink_netns != new.uplink_netns),
        ("socket", old.socket != new.socket),
        ("group", old.group != new.group),
        ("metrics", old.metrics != new.metrics),
        ("on-failure", old.on_failure != new.on_failure),
        ("watchdog", old.watchdog != new.watchdog),
    ];
    let changed = keys.into_iter().filter(|(_, changed)| *changed);
    changed.map(|(key, _)| format!("`{key}` changes with the next start of the daemon")).collect()
}
