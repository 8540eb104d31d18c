//! The configuration, read again while the daemon runs.
//!
//! The policy, the rate and the ports follow the files. Other keys need a restart, which a warning says. A file that is
//! wrong changes nothing. A port that cannot be made is a warning, and the others are made.

use super::pending::Pending;
use super::tenants::Wanted;
use super::uplink::Known;
use super::{DaemonService, Owner, Uplink};
use crate::config::{Config, ConfiguredPort, UplinkConfig};
use crate::data_path::{Former, PortSpec};
use crate::policy::{RefusedTenants, ServicePolicy};
use std::collections::VecDeque;
use weft_control::error::ControlError;
use weft_control::interface::{GenerationReply, ReloadReply};
use weft_policy::{Steps, is_given};

impl Uplink {
    /// Goes on with the policy and the ports of a former daemon, and lets them follow the configuration, under traffic. A
    /// port that the configuration has otherwise is made anew.
    pub(super) fn follow_former(&mut self, former: Former) {
        let Former { policy, memory, ports } = former;
        self.generation = memory.generation.max(1);
        self.policy = policy;
        for spec in ports {
            let owner = memory.owners.get(&spec.name).map_or(Owner::Configuration, |uid| Owner::User(*uid));
            self.ports.insert(spec.name.clone(), Known::new(spec, owner));
        }
        self.log.notice(&format!(
            "took over {} port(s) of a former daemon, policy {}, generation {}",
            self.ports.len(),
            self.policy.name,
            self.generation
        ));
        let differs = |known: &Known| {
            let port = self.config.ports.iter().find(|port| port.name == known.spec.name);
            known.owner == Owner::Configuration && port.is_none_or(|port| !is_as(port, &known.spec))
        };
        let gone: Vec<String> =
            self.ports.iter().filter(|(_, known)| differs(known)).map(|(name, _)| name.clone()).collect();
        for name in gone {
            if let Err(error) = self.leave(&name) {
                self.log.error(&format!("port {name}: {error}"));
            }
        }
    }

    /// Puts the configured policy in force after that of a former daemon. A tenant whose configured file is `refused` keeps the one that
    /// it had.
    pub(super) fn follow_configured(&mut self, refused: RefusedTenants) {
        if let Err(error) = self.try_configured(refused) {
            self.log.error(&format!("the configured policy is not in force: {error}"));
        }
    }

    fn try_configured(&mut self, refused: RefusedTenants) -> Result<(), ControlError> {
        let given = self.tenants.given();
        if !refused.is_empty() {
            let mut texts = self.default.tenant_texts();
            let had = self.policy.tenant_texts().0.into_iter();
            texts.0.extend(had.filter(|(name, _)| refused.contains_key(name) && !is_given(&given, name)));
            let (name, text, rate) = (&self.default.name, self.default.text.clone(), self.default.rate);
            if let Ok(policy) = ServicePolicy::limited(name, text, &texts, rate, Vec::new()) {
                self.default = policy;
            }
        }
        let wanted = self.with_given(&self.default, given, Steps::WHOLE)?.without(refused);
        self.put_in_force(wanted).map(|_| ())
    }

    /// Begins to remove ports that the configuration no longer has or has otherwise. Ports of users stay.
    fn drop_ports(&mut self, ports: &[ConfiguredPort]) -> Vec<(String, Pending<GenerationReply>)> {
        let configured = |name: &String| ports.iter().find(|port| port.name == *name);
        let before: Vec<ConfiguredPort> = self.config.ports.clone();
        let is_same = |name: &String| before.iter().find(|port| port.name == *name) == configured(name);
        let ours = self.ports.iter().filter(|(_, known)| known.owner == Owner::Configuration);
        let gone: Vec<String> =
            ours.filter(|(name, _)| !is_same(name)).map(|(name, _)| name.clone()).collect();
        self.to_make.retain(|(_, owner)| *owner != Owner::Configuration);
        gone.into_iter().filter_map(|name| self.leave(&name).ok().map(|outcome| (name, outcome))).collect()
    }

    /// Makes a port of the configuration, unless it exists.
    fn follow_port(&mut self, port: &ConfiguredPort, told: &mut Told) {
        if self.ports.contains_key(&port.name) {
            return;
        }
        match self.add_configured(port) {
            Ok(()) => told.step(self, &format!("port {} added", port.name)),
            Err(error) => told.warning(self, &format!("port {}: {error}", port.name)),
        }
    }
}

/// The changes and the warnings of a reload.
#[derive(Debug, Default)]
struct Told {
    steps: Vec<String>,
    warnings: Vec<String>,
}

/// A line about an uplink, with its name if it has one.
fn about(uplink: &Uplink, line: &str) -> String {
    uplink.config.name.as_ref().map_or_else(|| line.to_owned(), |name| format!("uplink {name}: {line}"))
}

impl Told {
    fn step(&mut self, uplink: &Uplink, line: &str) {
        self.steps.push(about(uplink, line));
    }

    fn warning(&mut self, uplink: &Uplink, line: &str) {
        self.warnings.push(about(uplink, line));
    }
}

/// A reload under way, whose policies are in force: its ports go and come one after the other.
#[derive(Debug)]
pub(super) struct Reloading {
    /// The ports that go, with the places of their uplinks.
    leaving: VecDeque<(usize, String, Pending<GenerationReply>)>,
    /// The ports of the configuration.
    coming: VecDeque<(usize, ConfiguredPort)>,
    told: Told,
    outcome: Pending<ReloadReply>,
}

/// An uplink of the daemon, with what is new of it.
struct Renewed {
    /// Its place.
    at: usize,
    uplink: UplinkConfig,
    /// The configured policy.
    policy: ServicePolicy,
    /// The same with what users gave.
    wanted: Wanted,
}

impl DaemonService {
    /// Reads the configuration again and puts it in force: the policies at once, and the ports in steps.
    ///
    /// # Errors
    /// When a file is wrong, a policy cannot be replaced, or another reload is under way; nothing has changed then.
    pub fn reload(&mut self) -> Result<Pending<ReloadReply>, ControlError> {
        if self.is_reloading() {
            return Err(ControlError::Busy { message: "another reload is under way".to_owned() });
        }
        let config = self.folders.load().map_err(|error| ControlError::failed(&error))?;
        let renewed = self.renewed(&config)?;
        let mut told = Told::default();
        for (count, new) in renewed.iter().enumerate() {
            let Some(ours) = self.uplinks.get_mut(new.at) else { continue };
            match ours.follow_policy(new, &mut told) {
                // The first one: nothing has changed so far.
                Err(error) if count == 0 => return Err(error),
                Err(error) => told.warning(ours, &error.to_string()),
                Ok(()) => {}
            }
        }
        told.warnings.extend(restarts(&self.config, &config));
        let (mut leaving, mut coming) = (VecDeque::new(), VecDeque::new());
        for Renewed { at, uplink, .. } in renewed {
            let Some(ours) = self.uplinks.get_mut(at) else { continue };
            leaving.extend(ours.drop_ports(&uplink.ports).into_iter().map(|(name, of)| (at, name, of)));
            coming.extend(uplink.ports.iter().map(|port| (at, port.clone())));
            ours.config.ports = uplink.ports;
        }
        let uplinks = self.uplinks.iter().map(|uplink| uplink.config.clone()).collect();
        self.config = Config { uplinks, ..self.config.clone() };
        let outcome = Pending::default();
        self.reloading = Some(Reloading { leaving, coming, told, outcome: outcome.clone() });
        Ok(outcome)
    }

    /// Whether a reload is under way.
    pub fn is_reloading(&self) -> bool {
        self.reloading.is_some()
    }

    /// Takes the next step of a reload. Returns whether there was one.
    pub(super) fn advance_reload(&mut self) -> bool {
        let Some(mut reloading) = self.reloading.take() else { return false };
        // First the ports that go, since one may come again at another uplink.
        if let Some((at, name, outcome)) = reloading.leaving.front() {
            let Some(result) = outcome.result() else {
                self.reloading = Some(reloading);
                return false;
            };
            if let Some(ours) = self.uplinks.get(*at) {
                match result {
                    Ok(_) => reloading.told.step(ours, &format!("port {name} removed")),
                    Err(error) => reloading.told.warning(ours, &format!("port {name}: {error}")),
                }
            }
            reloading.leaving.pop_front();
        } else if let Some((at, port)) = reloading.coming.pop_front() {
            if let Some(ours) = self.uplinks.get_mut(at) {
                ours.follow_port(&port, &mut reloading.told);
            }
        } else {
            let Told { steps, warnings } = reloading.told;
            let (generation, policy_hash) = (self.generation(), self.policy_hash().to_owned());
            reloading.outcome.settle(Ok(ReloadReply { generation, policy_hash, steps, warnings }));
            return true;
        }
        self.reloading = Some(reloading);
        true
    }

    /// The uplinks that the new configuration has, too, with their policies, which all compile and fit.
    fn renewed(&mut self, config: &Config) -> Result<Vec<Renewed>, ControlError> {
        let mut renewed = Vec::new();
        for (at, ours) in self.uplinks.iter_mut().enumerate() {
            let Some(uplink) = config.uplinks.iter().find(|uplink| uplink.name == ours.config.name) else {
                continue;
            };
            let good = ours.default.tenant_texts();
            let read = ServicePolicy::read_around(&uplink.policy, uplink.rate, &good);
            let (policy, mut refused) = read.map_err(|error| ours.wrong(error))?;
            let given = ours.tenants.given();
            refused.retain(|tenant, _| !is_given(&given, tenant));
            let wanted = ours.with_given(&policy, given, Steps::WHOLE)?;
            if ours.missing.is_none() {
                ours.prepare(&wanted.policy)?;
            }
            let wanted = wanted.without(refused);
            renewed.push(Renewed { at, uplink: uplink.clone(), policy, wanted });
        }
        Ok(renewed)
    }
}

impl Uplink {
    /// Puts the configured policy in force. An uplink without a data path gets it with its next start.
    fn follow_policy(&mut self, new: &Renewed, told: &mut Told) -> Result<(), ControlError> {
        if self.missing.is_some() {
            self.take(new.wanted.clone());
        } else {
            let change = self.put_in_force(new.wanted.clone())?;
            change.steps.iter().for_each(|step| told.step(self, step));
            change.warnings.iter().for_each(|warning| told.warning(self, warning));
        }
        self.default = new.policy.clone();
        self.config.rate = new.uplink.rate;
        self.config.policy.clone_from(&new.uplink.policy);
        Ok(())
    }
}

/// Whether a port is what the configuration says.
fn is_as(port: &ConfiguredPort, spec: &PortSpec) -> bool {
    let limits = (port.egress, port.ingress) == (spec.egress, spec.ingress);
    limits
        && port.netns == spec.netns
        && port.addresses == spec.addresses
        && port.mac.is_none_or(|mac| mac == spec.mac)
}

/// The keys that differ and need a restart.
fn restarts(old: &Config, new: &Config) -> Vec<String> {
    let keys = [
        ("default-uplink", default_of(old) != default_of(new)),
        ("workers", differs(old, new, |uplink| uplink.workers)),
        ("backend", differs(old, new, |uplink| uplink.backend)),
        ("socket", old.socket != new.socket),
        ("group", old.group != new.group),
        ("metrics", old.metrics != new.metrics),
        ("hold", old.hold != new.hold),
        ("on-failure", old.on_failure != new.on_failure),
        ("watchdog", old.watchdog != new.watchdog),
        ("steer", old.steer != new.steer),
    ];
    let changed = keys.into_iter().filter(|(_, changed)| *changed).map(|(key, _)| key.to_owned());
    let told = |key: String| format!("`{key}` changes with the next start of the daemon");
    moved(old, new).into_iter().chain(changed).map(told).collect()
}

/// The configured default uplink, where there is a choice.
fn default_of(config: &Config) -> Option<&str> {
    let several = config.uplinks.len() > 1;
    let default = config.default_uplink.filter(|_| several)?;
    config.uplinks.get(default).map(UplinkConfig::title)
}

/// Whether an uplink of both has another value.
fn differs<T: PartialEq>(old: &Config, new: &Config, of: impl Fn(&UplinkConfig) -> T) -> bool {
    let differs = |a: &UplinkConfig, b: &UplinkConfig| a.name == b.name && of(a) != of(b);
    old.uplinks.iter().any(|a| new.uplinks.iter().any(|b| differs(a, b)))
}

/// The keys of uplinks that came, went, or have another interface.
fn moved(old: &Config, new: &Config) -> Vec<String> {
    let key = |uplink: &UplinkConfig| match &uplink.name {
        Some(name) => format!("uplink.{name}"),
        None => "uplink".to_owned(),
    };
    let same =
        |a: &UplinkConfig, b: &UplinkConfig| (&a.name, &a.device, &a.netns) == (&b.name, &b.device, &b.netns);
    let differs = |uplink: &&UplinkConfig, others: &Config| !others.uplinks.iter().any(|u| same(u, uplink));
    let gone = old.uplinks.iter().filter(|uplink| differs(uplink, new));
    let come = new.uplinks.iter().filter(|uplink| differs(uplink, old));
    let mut keys: Vec<String> = gone.chain(come).map(key).collect();
    keys.sort();
    keys.dedup();
    keys
}
