//! Writes scenarios as files that read back as the same scenario.

use super::config::{HostSpec, Scenario};
use super::costs;
use super::keys::{Context, lines};
use super::kinds::{key, text};
use super::tables::{CHANGES, FLOWS, HEAD, HOST, NETWORK, NIC, PROBES, STACK, SWITCH};
use crate::cost::Costs;

/// The source of the written cost tables: a scenario does not keep the original ones.
const SOURCE: &str = "as the scenario had them when it was written out";

/// Writes a scenario as TOML, every value with its unit, including defaults. For a scenario that [`super::read()`] could have
/// returned, the text reads back as the same scenario.
pub fn write(scenario: &Scenario) -> String {
    let context = Context { classes: &scenario.classes };
    let mut out = lines(HEAD, scenario, context);
    let free = scenario.costs == Costs::FREE;
    if free {
        out += &format!("costs = {}\n", costs::show(&scenario.costs));
    }
    let runs = equal_runs(&scenario.hosts);
    if let [(_, count)] = runs[..] {
        out += &format!("hosts = {count}\n");
    }
    out += &format!("\n[network]\n{}", lines(NETWORK, &scenario.network, context));
    out += &format!("\n[network.switch]\n{}", lines(SWITCH, &scenario.network.switch, context));
    match runs[..] {
        [(host, _)] => out += &host_tables("[host]", "", "host", host, context),
        _ => {
            for (host, count) in runs {
                out += &host_tables("[[hosts]]", &format!("count = {count}\n"), "hosts", host, context);
            }
        }
    }
    for group in &scenario.flows {
        out += &format!("\n[[flows]]\n{}", lines(FLOWS, group, context));
    }
    for probe in &scenario.probes {
        out += &format!("\n[[probes]]\n{}", lines(PROBES, probe, context));
    }
    for change in &scenario.changes {
        out += &format!("\n[[changes]]\n{}", lines(CHANGES, change, context));
    }
    if !scenario.files.is_empty() {
        let files = scenario.files.iter().map(|(path, file)| format!("{} = {}\n", key(path), text(file)));
        out += &format!("\n[files]\n{}", files.collect::<String>());
    }
    if !free {
        out += &costs::write(&scenario.costs, "costs.", SOURCE);
    }
    out
}

/// Returns runs of consecutive equal hosts with their lengths.
fn equal_runs(hosts: &[HostSpec]) -> Vec<(&HostSpec, usize)> {
    hosts.chunk_by(PartialEq::eq).filter_map(|run| run.first().map(|host| (host, run.len()))).collect()
}

/// Formats a host's tables.
fn host_tables(head: &str, first: &str, name: &str, host: &HostSpec, context: Context<'_>) -> String {
    format!(
        "\n{head}\n{first}{}\n[{name}.stack]\n{}\n[{name}.nic]\n{}",
        lines(HOST, host, context),
        lines(STACK, &host.stack, context),
        lines(NIC, &host.nic, context),
    )
}
