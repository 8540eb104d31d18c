//! The document of `weft status`: the counters of a running daemon.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::counters::{ClassDrops, ClassEvents, Counters, PathDrops, PortEvents};
use crate::human;
use crate::ports::PortLimit;
use crate::record::{Document, Host};
use crate::table::{Cell, Column, Table};
use crate::tenants::{StatusTenant, tenant_table};

/// The document of `weft status`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StatusReport {
    /// `weft-status/1`.
    pub schema: String,
    /// The host of the daemon.
    pub host: Host,
    /// The counters.
    #[serde(flatten)]
    pub status: ServiceStatus,
}

/// The counters of a running daemon.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServiceStatus {
    /// The number of the policy in force: 1 at the start of the daemon, one more with each replacement.
    pub generation: u64,
    /// The SHA-256 of the policy's text, in hexadecimal digits.
    pub policy_hash: String,
    /// The name of the policy.
    pub policy: String,
    /// The time since the daemon started, in seconds.
    pub uptime_s: f64,
    /// The state of the transmit worker.
    pub worker: WorkerState,
    /// Whether the transmit worker, not the link, is the bottleneck.
    #[serde(default)]
    pub worker_bound: bool,
    /// The longest time for which a replacement of the policy kept the worker from sending, in seconds; 0 before the first.
    #[serde(default)]
    pub policy_change_pause_s: f64,
    /// The drains under way; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub draining: Option<StatusDraining>,
    /// The interface through which packets leave.
    pub uplink: StatusUplink,
    /// The classes in the policy's order.
    pub classes: Vec<StatusClass>,
    /// The rate limits in the policy's order.
    #[serde(default)]
    pub limits: Vec<StatusLimit>,
    /// The ports.
    pub ports: Vec<StatusPort>,
    /// Packets received through the uplink.
    pub received_packets: u64,
    /// Rings with packets that wait.
    pub backlogged_rings: u32,
    /// Packets dropped, by reason.
    pub dropped: PathDrops,
    /// Packets of rare events at the ports, by counter.
    pub counters: PortEvents,
    /// Failed readings of the kernel's counters.
    #[serde(default)]
    pub failed_readings: u64,
    /// The tenants of the policy, each before those below it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tenants: Vec<StatusTenant>,
    /// The counters of each uplink, where there are several and none was asked for; the others are then those of the default
    /// uplink, or of the first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uplinks: Vec<ServiceStatus>,
    /// Differences from what was made, as sentences: for a policy in the kernel.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The receive steering of the host's NIC, where the configuration wants it and no single uplink was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steer: Option<StatusSteer>,
}

/// Rings that flows wait for, since they have left packets there before they changed their class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StatusDraining {
    /// The rings.
    pub rings: u64,
    /// The time for which the first of them has been waited for, in seconds.
    pub longest_s: f64,
    /// The time after which the class that takes the flow sends what stands before, in seconds.
    pub limit_s: f64,
}

impl StatusDraining {
    /// The state in a line.
    pub fn headline(&self) -> String {
        let Self { rings, longest_s, limit_s } = self;
        let rings = if *rings == 1 { "1 ring".to_owned() } else { format!("{rings} rings") };
        format!("draining: flows wait for {rings} of former classes, {longest_s:.1} s of at most {limit_s} s")
    }
}

/// The receive steering that the daemon keeps.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StatusSteer {
    /// The interface.
    pub interface: String,
    /// Its namespace; null for the daemon's.
    #[serde(default)]
    pub netns: Option<String>,
    /// The model of the NIC.
    pub nic: String,
    /// The steering policy.
    pub policy: String,
    /// The flows of the plan.
    pub flows: u64,
    /// The rules that are set.
    pub rules: u64,
    /// Whether the main table is set.
    pub table: bool,
    /// The changes made so far.
    pub changes: u64,
    /// The wishes of the policy that were given up, as sentences.
    #[serde(default)]
    pub degraded: Vec<String>,
    /// The reason for which the plan is not applied at present.
    #[serde(default)]
    pub error: Option<String>,
}

impl StatusSteer {
    /// The state in a line.
    pub fn headline(&self) -> String {
        let Self { interface, nic, policy, flows, rules, changes, .. } = self;
        let table = if self.table { " and the table" } else { "" };
        let error = self.error.as_ref().map_or_else(String::new, |error| format!("; NOT APPLIED: {error}"));
        format!(
            "steer {interface} ({nic}) by {policy}: {rules} rules{table} for {flows} flows, {changes} changes so far{error}"
        )
    }
}

/// The state of the transmit worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WorkerState {
    /// No port exists yet.
    #[default]
    Waiting,
    /// The worker runs.
    Running,
    /// The worker has ended by itself.
    Ended,
}

impl WorkerState {
    /// The state in a word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Ended => "ended",
        }
    }
}

/// The carrier of a policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Backend {
    /// The software NIC, for what goes through its ports.
    #[default]
    Port,
    /// The kernel's qdiscs, for all that leaves by the interface.
    Kernel,
}

/// The interface through which packets leave.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StatusUplink {
    /// The name of the uplink; absent where the configuration has one without a name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The name of the interface.
    pub interface: String,
    /// Its namespace; null for the daemon's.
    #[serde(default)]
    pub netns: Option<String>,
    /// The carrier of the policy.
    #[serde(default)]
    pub backend: Backend,
    /// Whether it has a carrier.
    pub up: bool,
    /// The rate of the link, if the policy or the configuration gives one.
    #[serde(default)]
    pub rate_bps: Option<f64>,
    /// The rate that the device shows by its back-pressure; null while it is not the bottleneck.
    #[serde(default)]
    pub observed_bps: Option<f64>,
}

/// The counters of a class.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StatusClass {
    /// Its name.
    pub class: String,
    /// Bytes sent.
    pub bytes: u64,
    /// Packets sent.
    pub packets: u64,
    /// Packets dropped, by reason.
    pub dropped: ClassDrops,
    /// Packets of rare events of the class, by counter.
    pub counters: ClassEvents,
    /// Bytes that wait.
    pub backlog_bytes: u64,
    /// The rate on the wire over the last second.
    pub bps: f64,
    /// The rate that the policy guarantees; null where it cannot be known.
    pub entitled_bps: Option<f64>,
    /// The reason for an unknown entitlement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entitled_reason: Option<String>,
    /// Percentiles of the waiting time since the class began; null before its first packet has left.
    pub sojourn_s: Option<Percentiles>,
    /// The reason for absent waiting times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sojourn_reason: Option<String>,
    /// The histogram of the waiting time since the class began; absent before its first packet has left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sojourn_histogram: Option<Histogram>,
}

/// Percentiles of a time, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Percentiles {
    /// The median.
    pub p50: f64,
    /// The 90th percentile.
    pub p90: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The 99.9th percentile.
    pub p999: f64,
}

/// A histogram of times.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Histogram {
    /// The upper bounds of the buckets, in seconds, ascending.
    pub bounds_s: Vec<f64>,
    /// The packets in each bucket. One more than there are bounds: the last counts the packets above all bounds.
    pub counts: Vec<u64>,
    /// The sum of all times, in seconds.
    pub sum_s: f64,
    /// The number of packets.
    pub count: u64,
}

/// A rate limit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StatusLimit {
    /// Its name.
    pub limit: String,
    /// Its rate.
    pub limit_bps: f64,
    /// The rate through it over the last second; null where classes send with and without it.
    pub bps: Option<f64>,
    /// The classes with traffic below it.
    pub classes: Vec<String>,
}

/// A port.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StatusPort {
    /// Its name.
    pub port: String,
    /// Its namespace; null for the daemon's.
    #[serde(default)]
    pub netns: Option<String>,
    /// The kind of device.
    pub kind: String,
    /// Its hardware address.
    pub mac: String,
    /// Its addresses, each with its prefix length.
    pub addresses: Vec<String>,
    /// The user who added it.
    pub owner_uid: u32,
    /// Whether it comes from the daemon's configuration.
    pub configured: bool,
    /// The number of its descriptor rings.
    pub rings: u64,
    /// The carrier of received packets.
    pub receive: String,
    /// Packets sent.
    pub sent_packets: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Packets received.
    pub received_packets: u64,
    /// Packets dropped on their way to or from the port.
    pub dropped_packets: u64,
    /// Packets of rare events at the port, by counter.
    pub counters: PortEvents,
    /// The limit of what it sends, beside those of the policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub egress_limit: Option<PortLimit>,
    /// The limit of what it receives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ingress_limit: Option<PortLimit>,
    /// The uplink, if the configuration names its uplinks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uplink: Option<String>,
}

impl ServiceStatus {
    /// The counters of each uplink.
    pub fn each(&self) -> Vec<&Self> {
        if self.uplinks.is_empty() { vec![self] } else { self.uplinks.iter().collect() }
    }

    /// `title`, with the uplink's name if it has one.
    fn titled(&self, title: &str) -> String {
        self.uplink.name.as_ref().map_or_else(|| title.to_owned(), |name| format!("{title} of uplink {name}"))
    }

    /// The state in a line.
    pub fn headline(&self) -> String {
        let Self { policy, generation, uplink, .. } = self;
        let hash: String = self.policy_hash.chars().take(12).collect();
        let carrier = if uplink.up { "up" } else { "DOWN" };
        let rate = match (uplink.rate_bps, uplink.observed_bps) {
            (Some(rate), _) => human::rate(rate),
            (None, Some(rate)) => format!("its own rate, {} now", human::rate(rate)),
            (None, None) => "its own rate".to_owned(),
        };
        let by = match uplink.backend {
            Backend::Port => format!("; worker {}", self.worker.as_str()),
            Backend::Kernel => ", in the kernel".to_owned(),
        };
        let (interface, up) = (&uplink.interface, human::time(self.uptime_s));
        let name = uplink.name.as_ref().map_or_else(String::new, |name| format!("{name}: "));
        format!(
            "{name}policy {policy} (generation {generation}, {hash}) by {interface} ({carrier}) at {rate}{by}, up {up}"
        )
    }

    /// The counters of one uplink as tables.
    fn tables(&self) -> Vec<Table> {
        let mut classes = self.class_table();
        classes.note(self.headline());
        if let Some(draining) = &self.draining {
            classes.note(draining.headline());
        }
        classes.note(format!("dropped in all: {}", reasons(&self.dropped)));
        if let Some(counters) = self.counters.text() {
            classes.note(format!("counted in all: {counters}"));
        }
        self.warnings.iter().for_each(|warning| {
            classes.note(format!("WARNING: {warning}"));
        });
        let limits = (!self.limits.is_empty()).then(|| self.limit_table());
        let tenants = (!self.tenants.is_empty()).then(|| self.tenant_table());
        let ports = (self.uplink.backend == Backend::Port).then(|| self.port_table());
        [classes].into_iter().chain(limits).chain(ports).chain(tenants).collect()
    }

    /// The classes as a table.
    pub fn class_table(&self) -> Table {
        let mut table = Table::new(self.titled("Classes")).columns([
            Column::left("class"),
            Column::right("rate"),
            Column::right("entitled"),
            Column::right("waiting"),
            Column::right("delay p50"),
            Column::right("p99"),
            Column::right("packets"),
            Column::right("bytes"),
            Column::left("dropped"),
        ]);
        for c in &self.classes {
            table.row([
                Cell::plain(&c.class),
                human::rate(c.bps).into(),
                human::or_none(c.entitled_bps, human::rate).into(),
                human::bytes(c.backlog_bytes as f64).into(),
                human::or_none(c.sojourn_s, |s| human::time(s.p50)).into(),
                human::or_none(c.sojourn_s, |s| human::time(s.p99)).into(),
                human::count(c.packets).into(),
                human::bytes(c.bytes as f64).into(),
                reasons(&c.dropped).into(),
            ]);
            if let Some(counters) = c.counters.text() {
                table.note(format!("class {}: {counters}", c.class));
            }
        }
        table
    }

    /// The rate limits as a table.
    pub fn limit_table(&self) -> Table {
        let mut table = Table::new(self.titled("Limits")).columns([
            Column::left("limit"),
            Column::right("rate"),
            Column::right("limit"),
            Column::left("classes"),
        ]);
        for l in &self.limits {
            table.row([
                Cell::plain(&l.limit),
                human::or_none(l.bps, human::rate).into(),
                human::rate(l.limit_bps).into(),
                l.classes.join(", ").into(),
            ]);
        }
        table
    }

    /// The tenants as a table.
    pub fn tenant_table(&self) -> Table {
        tenant_table(&self.titled("Tenants"), &self.tenants)
    }

    /// The ports as a table.
    pub fn port_table(&self) -> Table {
        let mut table = Table::new(self.titled("Ports")).columns([
            Column::left("port"),
            Column::left("namespace"),
            Column::left("kind"),
            Column::left("hardware address"),
            Column::left("addresses"),
            Column::right("sent"),
            Column::right("received"),
            Column::right("dropped"),
            Column::left("limits"),
        ]);
        for p in &self.ports {
            // The uplink's own table has it in its title.
            let of = p.uplink.as_ref().filter(|_| self.uplink.name.is_none());
            let port = of.map_or_else(|| p.port.clone(), |name| format!("{} (uplink {name})", p.port));
            table.row([
                Cell::plain(&port),
                p.netns.as_deref().unwrap_or("(the daemon's)").into(),
                p.kind.as_str().into(),
                p.mac.as_str().into(),
                p.addresses.join(", ").into(),
                human::count(p.sent_packets).into(),
                human::count(p.received_packets).into(),
                human::count(p.dropped_packets).into(),
                p.limits().into(),
            ]);
            if let Some(counters) = p.counters.text() {
                table.note(format!("port {}: {counters}", p.port));
            }
        }
        table
    }
}

impl StatusPort {
    /// The limits as text: `sends 10 Mb/s, receives 20 Mb/s`; a dash without any.
    fn limits(&self) -> String {
        let of = |does: &str, limit: &Option<PortLimit>| {
            limit.map(|limit| format!("{does} {}", human::rate(limit.rate.get() as f64)))
        };
        let limits = [of("sends", &self.egress_limit), of("receives", &self.ingress_limit)];
        let limits: Vec<String> = limits.into_iter().flatten().collect();
        if limits.is_empty() { "-".to_owned() } else { limits.join(", ") }
    }
}

/// Drops as text: `bound 3, ring_full 1`; `0` without drops.
pub fn reasons(dropped: &impl Counters) -> String {
    dropped.text().unwrap_or_else(|| "0".to_owned())
}

impl Document for StatusReport {
    const SCHEMA: &'static str = "weft-status/1";

    fn tables(&self) -> Vec<Table> {
        let mut tables: Vec<Table> = self.status.each().into_iter().flat_map(ServiceStatus::tables).collect();
        if let (Some(steer), Some(first)) = (&self.status.steer, tables.first_mut()) {
            first.note(steer.headline());
        }
        tables
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_headline_says_whether_the_link_is_up() {
        let mut status = ServiceStatus { policy: "p".to_owned(), generation: 2, ..ServiceStatus::default() };
        status.uplink.interface = "eth0".to_owned();
        assert!(status.headline().contains("eth0 (DOWN) at its own rate"), "{}", status.headline());
        (status.uplink.up, status.uplink.rate_bps) = (true, Some(1e9));
        assert!(status.headline().contains("eth0 (up) at 1"), "{}", status.headline());
    }
}
