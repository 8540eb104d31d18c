//! The document of `weft run`: the traffic of each class of a policy while the software NIC ran.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_units::{BitsPerSec, Bytes, Nanos};

use crate::human;
use crate::record::{Conservation, Document, Host};
use crate::table::{Cell, Column, Table};

/// The document of `weft run`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunReport {
    /// `weft-run/1`.
    pub schema: String,
    /// The host of the run.
    pub host: Host,
    /// The duration, in seconds.
    pub duration_s: f64,
    /// The classes in the policy's order.
    pub classes: Vec<RunClass>,
    /// Packets dropped, by reason.
    #[serde(default)]
    pub dropped: RunDrops,
    /// Packets of rare events at the ports, by counter.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counters: BTreeMap<String, u64>,
    /// The largest lag of each leaf of the policy without a rate limit behind the fluid schedule.
    #[serde(default)]
    pub lags: Vec<RunLag>,
    /// The uplink's device.
    #[serde(default)]
    pub uplink: RunUplink,
    /// The receive direction, from the uplink to the port. Absent in documents of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receive: Option<RunReceive>,
    /// Whether every packet and byte is accounted for.
    pub conservation: Conservation,
}

/// The largest lag of a class, or of classes that share a queue, behind the fluid schedule of the backlogged ones.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunLag {
    /// The name of the class or of the leaf of the policy.
    pub class: String,
    /// The part of its due that it did not have at that time, in bytes on the wire.
    pub lag_bytes: u64,
    /// The time of these bytes at the rate of the bottleneck; null without a known rate.
    pub lag_s: Option<f64>,
    /// The largest lag that the schedule may cause with the chunks that were sent, in bytes on the wire.
    pub bound_bytes: u64,
}

/// The treatment of the uplink's device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunUplink {
    /// The rate that the device last showed by its back-pressure; null if it was not the bottleneck at the end.
    pub observed_bps: Option<f64>,
    /// Waits for room in the device.
    pub waits: u64,
    /// Turns of urgent classes that began although the link's clock was ahead.
    pub overdrawn_turns: u64,
    /// The furthest that the link's clock was ahead when such a turn began.
    pub ahead_max_s: f64,
}

/// The carrier of received packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ReceivedBy {
    /// The kernel, by redirect. The thread carries what the redirect leaves.
    Kernel,
    /// The thread.
    #[default]
    Thread,
}

/// Received packets, by carrier.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunReceive {
    /// The carrier.
    pub by: ReceivedBy,
    /// The reason for the thread, if it is the thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Packets redirected by the kernel.
    pub redirected_packets: u64,
    /// Their bytes.
    pub redirected_bytes: u64,
    /// Packets read by the thread.
    pub thread_packets: u64,
    /// Their bytes.
    pub thread_bytes: u64,
    /// Packets that did not reach the port: it was down, they were above its MTU, or its receive backlog was full.
    pub dropped_packets: u64,
}

/// Packets dropped during the run, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunDrops {
    /// The uplink refused them: it is down, or does not support such packets. A full uplink is waited for.
    pub refused: u64,
    /// Their ring was full.
    pub ring_full: u64,
    /// A qdisc at the port dropped them: one that a user has installed, or the FIFOs of a TAP.
    pub qdisc: u64,
    /// The receive backlog between the ends of the port was full.
    pub backlog: u64,
    /// Their class had reached its bound.
    pub bound: u64,
    /// Their flow was changing its class, and its old ring still had packets.
    #[serde(default)]
    pub moving: u64,
    /// No doorbell announced them, or their class could not be determined.
    pub stray: u64,
    /// The uplink's device dropped them after accepting them.
    pub uplink: u64,
    /// Their doorbell was posted, they never arrived, and no counter of the kernel records them. The accounting does not balance.
    pub lost: u64,
}

impl RunDrops {
    /// The sum of all reasons.
    pub fn total(&self) -> u64 {
        self.by_reason().iter().map(|(_, packets)| packets).sum()
    }

    /// Each reason in one or two words, and its number of packets.
    pub fn by_reason(&self) -> [(&'static str, u64); 9] {
        [
            ("refused", self.refused),
            ("ring full", self.ring_full),
            ("qdisc", self.qdisc),
            ("backlog", self.backlog),
            ("bound", self.bound),
            ("moving", self.moving),
            ("stray", self.stray),
            ("uplink", self.uplink),
            ("lost", self.lost),
        ]
    }
}

impl core::fmt::Display for RunDrops {
    /// `12 dropped (ring full 10, stray 2)`.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} dropped", self.total())?;
        human::named_counts(self.by_reason()).map_or(Ok(()), |reasons| write!(f, " ({reasons})"))
    }
}

/// The counters of one class.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunClass {
    /// Its name.
    pub class: String,
    /// Packets sent.
    pub packets: u64,
    /// Bytes sent.
    pub bytes: u64,
    /// Packets dropped.
    pub dropped_packets: u64,
    /// Bytes dropped.
    pub dropped_bytes: u64,
    /// Packets of rare events of the class, by counter.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counters: BTreeMap<String, u64>,
}

impl Document for RunReport {
    const SCHEMA: &'static str = "weft-run/1";

    fn tables(&self) -> Vec<Table> {
        let title = format!("Classes over {}", human::time(self.duration_s));
        let mut table = Table::new(title).columns([
            Column::left("class"),
            Column::right("packets"),
            Column::right("bytes"),
            Column::right("mean rate"),
            Column::right("dropped"),
        ]);
        let span = Nanos((self.duration_s * 1e9) as u64);
        for c in &self.classes {
            table.row([
                Cell::plain(&c.class),
                human::count(c.packets).into(),
                human::bytes(c.bytes as f64).into(),
                BitsPerSec::from_bytes_over(Bytes(c.bytes), span).to_string().into(),
                format!("{} pkt, {}", human::count(c.dropped_packets), human::bytes(c.dropped_bytes as f64))
                    .into(),
            ]);
        }
        let counted = |name: &str, counters: &BTreeMap<String, u64>| {
            Some(format!("{name}: {}", human::of_counters(counters)?))
        };
        let classes = self.classes.iter().filter_map(|c| counted(&c.class, &c.counters));
        classes.chain(counted("counted", &self.counters)).for_each(|note| table.note(note));
        let lags = (!self.lags.is_empty()).then(|| lag_table(&self.lags));
        [table].into_iter().chain(lags).chain([self.conservation.table("Conservation")]).collect()
    }
}

fn lag_table(lags: &[RunLag]) -> Table {
    let mut table = Table::new("Largest lag behind the fluid schedule").columns([
        Column::left("class"),
        Column::right("lag"),
        Column::right("time"),
        Column::right("bound"),
    ]);
    for lag in lags {
        table.row([
            Cell::plain(&lag.class),
            human::bytes(lag.lag_bytes as f64).into(),
            lag.lag_s.map_or_else(|| "no rate known".to_owned(), human::time).into(),
            human::bytes(lag.bound_bytes as f64).into(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_are_told_with_their_reasons() {
        assert_eq!(RunDrops::default().to_string(), "0 dropped");
        let drops = RunDrops { ring_full: 10, stray: 2, ..RunDrops::default() };
        assert_eq!((drops.total(), drops.to_string()), (12, "12 dropped (ring full 10, stray 2)".into()));
    }
}
