//! The document of `weft titan status`: the queues of a multiqueue device, and the enabled parts.

use crate::human;
use crate::record::{Document, Host};
use crate::table::{Cell, Column, Table};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_units::{BitsPerSec, Bytes};

/// The document of `weft titan status`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TitanStatus {
    /// `weft-titan-status/1`.
    pub schema: String,
    /// The host of the run.
    pub host: Host,
    /// The devices with queue assignment enabled.
    pub devices: Vec<TitanDevice>,
}

/// A device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TitanDevice {
    /// Its name.
    pub device: String,
    /// Its network namespace.
    pub netns: String,
    /// The enabled parts: `dqa`, `dqwa`, `dsos`.
    pub parts: Vec<String>,
    /// The method of choosing a queue.
    pub assignment: String,
    /// The source of departures: `destructors` or `tracepoints`.
    pub departures: String,
    /// The time since it was enabled, in seconds.
    pub attached_s: f64,
    /// The window for rates and fairness, in seconds.
    pub window_s: f64,
    /// The queues.
    pub queues: Vec<TitanQueue>,
    /// Flows that sent in the window.
    pub flows: u64,
    /// Difference between the largest and the smallest rate of the flows that were active throughout, each divided by its weight,
    /// over their mean: 0 is fair. Null with fewer than two such flows.
    pub unfairness: Option<f64>,
    /// Jain's index of the same rates: 1 is fair.
    pub jain: Option<f64>,
    /// Time in weftline's programs per packet, in nanoseconds, departures included; null unless the kernel's statistics are on.
    pub program_ns: Option<f64>,
    /// The events since it was enabled.
    pub events: TitanEvents,
    /// Features that do not work here, with reasons.
    pub notes: Vec<String>,
}

/// A queue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TitanQueue {
    /// Its number.
    pub queue: u32,
    /// Active flows.
    pub flows: u64,
    /// The sum of their weights.
    pub weight: u64,
    /// Segments assigned to it so far.
    pub packets: u64,
    /// Bytes assigned to it so far.
    pub bytes: u64,
    /// The rate in the window.
    pub bps: u64,
    /// Bytes assigned to it that have not departed.
    pub standing_bytes: u64,
    /// Flows that moved to it from another queue.
    pub moves: u64,
}

/// The events at a device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TitanEvents {
    /// Flows that became active.
    pub activations: u64,
    /// Activations that moved the flow to another queue.
    pub moves: u64,
    /// Activations that kept the queue because the NIC still held a packet of the flow.
    pub kept: u64,
    /// Activations left to the device's own choice, because the limit on active flows was reached.
    pub beyond: u64,
    /// Packets without a TCP or UDP socket, left to the device's own choice.
    pub without_socket: u64,
    /// Packets of flows that were active when it was enabled, left to the device's own choice.
    pub passed: u64,
    /// Flows whose last departure was not observed, and that were counted out later.
    pub repaired: u64,
}

impl Document for TitanStatus {
    const SCHEMA: &'static str = "weft-titan-status/1";

    fn tables(&self) -> Vec<Table> {
        if self.devices.is_empty() {
            let mut table = Table::new("Queue assignment").columns([Column::left("device")]);
            table.row(["on at no device"]);
            return vec![table];
        }
        self.devices.iter().flat_map(|device| [queues(device), summary(device)]).collect()
    }
}

fn queues(device: &TitanDevice) -> Table {
    let title = format!("Queues of {}", device.device);
    let mut table = Table::new(&title).columns([
        Column::right("queue"),
        Column::right("flows"),
        Column::right("weight"),
        Column::right("now"),
        Column::right("bytes"),
        Column::right("standing"),
        Column::right("moved here"),
    ]);
    for queue in &device.queues {
        table.row([
            queue.queue.to_string(),
            queue.flows.to_string(),
            queue.weight.to_string(),
            BitsPerSec(queue.bps).to_string(),
            Bytes(queue.bytes).to_string(),
            Bytes(queue.standing_bytes).to_string(),
            human::count(queue.moves),
        ]);
    }
    table
}

fn summary(device: &TitanDevice) -> Table {
    let mut table = Table::new("Assignment").columns([Column::left("what"), Column::left("how it is")]);
    let mut line = |what: &str, how: String| table.row([Cell::plain(what), Cell::plain(how)]);
    line("parts", device.parts.join(", "));
    line("queue of a flow", device.assignment.clone());
    line("departures", format!("by {}", device.departures));
    let flows = format!("{} sent in the last {:.1} s", device.flows, device.window_s);
    line("flows", flows);
    let fairness = match (device.unfairness, device.jain) {
        (Some(unfair), Some(jain)) => {
            format!("(max - min) / mean of the flows' rates by weight: {unfair:.3}; Jain's index {jain:.3}")
        }
        _ => "fewer than two flows were active throughout".to_owned(),
    };
    line("fairness now", fairness);
    if let Some(ns) = device.program_ns {
        line("programs", format!("{ns:.0} ns a packet"));
    }
    let events = &device.events;
    line(
        "since it is on",
        format!(
            "{} activations, {} moves, {} kept in place, {} flows counted out late",
            human::count(events.activations),
            human::count(events.moves),
            human::count(events.kept),
            human::count(events.repaired)
        ),
    );
    line(
        "left to the device",
        format!(
            "{} packets without a socket, {} of flows already under way, {} activations beyond the bound",
            human::count(events.without_socket),
            human::count(events.passed),
            human::count(events.beyond)
        ),
    );
    for note in &device.notes {
        table.note(note.clone());
    }
    table
}
