//! Whether the daemon can run what its configuration says, before it starts: [`check`] is asked by the start itself, and
//! [`report`] says everything that is wrong, and changes nothing.

use super::{DaemonError, DaemonOptions};
use crate::config::{ConfiguredPort, UplinkConfig};
use crate::data_path::session::settings;
use crate::policy::ServicePolicy;
use weft_facts::ports::LimitedPort;
use weft_host::{Mac, require_network_rights};
use weft_policy::promise::{About, refused_with};
use weft_policy::{CompileOptions, Source};
use weft_run::place::{Place, refusal};
use weft_run::session::{PortKind, PortSettings, Receive, SessionError};
use weft_titan::host_users::host_users;

/// The answer to whether the daemon can run a configuration.
#[derive(Debug, Default)]
pub struct GateReport {
    /// The uplinks, policies and ports that would run, in lines.
    pub lines: Vec<String>,
    /// The parts that the daemon starts without.
    pub notes: Vec<String>,
    /// The mistakes: the daemon would not start, or start without a port.
    pub mistakes: Vec<DaemonError>,
}

/// Checks that the ports of an uplink can run `policy`: one of any name, and those of `names`.
///
/// # Errors
/// With the place in the text, where the policy needs more than a port has.
pub fn check(uplink: &UplinkConfig, policy: &ServicePolicy, names: &[&str]) -> Result<(), DaemonError> {
    let compiled = &policy.compiled;
    let Err(error) = settings(compiled, uplink).plan_for_ports(compiled, names) else { return Ok(()) };
    let refusal = refusal(&error, compiled);
    let (link, users) = (policy.rate, host_users());
    let options = CompileOptions { link, users, ..CompileOptions::default() };
    let source = Source { name: &policy.name, text: &policy.text };
    let place = (Place::Daemon.title(), &refusal);
    match refused_with(source, &policy.tenant_texts(), &options, place) {
        Some(found) if refusal.about != About::Surroundings => {
            Err(DaemonError::Refused(format!("{}; {}", found.one_line(), found.help)))
        }
        _ => Err(DaemonError::DataPath(error.into())),
    }
}

/// Reads the configuration and its policies, and checks the interfaces, the namespaces and the names of the ports. Changes
/// nothing.
pub fn report(options: &DaemonOptions) -> GateReport {
    let mut report = GateReport::default();
    let config = match options.config() {
        Ok((_, config)) => config,
        Err(error) => return GateReport { mistakes: vec![error], ..report },
    };
    for uplink in &config.uplinks {
        report.policy(uplink);
    }
    match require_network_rights() {
        Ok(()) => report.host(&config.uplinks),
        // Not even a namespace can be read then.
        Err(error) => {
            report.notes.push(format!("interfaces, namespaces and names were not looked at: {error}"));
        }
    }
    report.lines.push(format!("socket {}, metrics {}", config.socket.display(), config.metrics));
    report
}

impl GateReport {
    /// Checks the policy of an uplink, with the limits of its ports, and describes both.
    fn policy(&mut self, uplink: &UplinkConfig) {
        let limit = |port: &ConfiguredPort| {
            let of = port.egress?;
            Some(LimitedPort { port: port.name.clone(), limit: of })
        };
        let limits = uplink.ports.iter().filter_map(limit).collect();
        let read = ServicePolicy::read(&uplink.policy, uplink.rate);
        let policy = match read.and_then(|policy| policy.with_port_limits(limits)) {
            Ok(policy) => policy,
            Err(error) => return self.mistakes.push(error.into()),
        };
        let names: Vec<&str> = uplink.ports.iter().map(|port| port.name.as_str()).collect();
        self.mistakes.extend(check(uplink, &policy, &names).err());
        self.lines.extend(policy.diagnostics.iter().map(ToString::to_string));
        self.lines.extend(describe(uplink, &policy));
    }

    /// Looks at the interfaces and the names on this host. The daemon waits for an uplink while another is there.
    fn host(&mut self, uplinks: &[UplinkConfig]) {
        let look = |uplink: &UplinkConfig| {
            let policy = ServicePolicy::read(&uplink.policy, uplink.rate).ok()?;
            settings(&policy.compiled, uplink).check_host().err()
        };
        let missing: Vec<_> = uplinks.iter().filter_map(|uplink| Some((uplink, look(uplink)?))).collect();
        let all = missing.len() == uplinks.len();
        for (uplink, error) in missing {
            let name = uplink.name.as_ref().map_or_else(String::new, |name| format!("uplink {name}: "));
            match all {
                true => self.mistakes.push(DaemonError::DataPath(error.into())),
                false => self.notes.push(format!("{name}{error}; the daemon starts, and waits for it")),
            }
        }
        for port in uplinks.iter().flat_map(|uplink| &uplink.ports) {
            if let Err(error) = look_at(port) {
                self.mistakes.push(DaemonError::Port { name: port.name.clone(), error: Box::new(error) });
            }
        }
    }
}

/// Checks that the port can have its name. It may be a running daemon's, which is taken over or made anew.
fn look_at(port: &ConfiguredPort) -> Result<(), SessionError> {
    let settings = PortSettings {
        name: port.name.clone(),
        netns: port.netns.clone(),
        addresses: Vec::new(),
        mac: port.mac.unwrap_or(Mac([0; 6])),
        kind: PortKind::Auto,
        receive: Receive::Auto,
        share: PortSettings::SHARE,
        ingress: None,
    };
    if settings.is_running() { Ok(()) } else { settings.check_name() }
}

/// An uplink in lines.
fn describe(uplink: &UplinkConfig, policy: &ServicePolicy) -> [String; 3] {
    let hash: String = policy.hash.chars().take(12).collect();
    let ports: Vec<&str> = uplink.ports.iter().map(|port| port.name.as_str()).collect();
    let name = uplink.name.as_ref().map_or_else(String::new, |name| format!("{name}: "));
    [
        format!("{name}uplink {}", uplink.device),
        format!("{name}policy {} ({hash}), {} classes", policy.name, policy.compiled.classes.len()),
        if ports.is_empty() {
            format!("{name}no ports")
        } else {
            format!("{name}ports {}", ports.join(", "))
        },
    ]
}
