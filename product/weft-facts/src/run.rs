//! The document of `weft run`: the traffic of each class of a policy while the software NIC ran.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_units::{BitsPerSec, Bytes, Nanos};

use crate::counters::{ClassEvents, Counters, PathDrops, PortEvents};
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
    pub dropped: PathDrops,
    /// Packets of rare events at the ports, by counter.
    pub counters: PortEvents,
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
    pub counters: ClassEvents,
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
        let classes =
            self.classes.iter().filter_map(|c| Some(format!("{}: {}", c.class, c.counters.text()?)));
        let all = self.counters.text().map(|counters| format!("counted: {counters}"));
        classes.chain(all).for_each(|note| table.note(note));
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
