//! The document of `weft policy explain --json`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::human;
use crate::record::{Document, Host};
use crate::table::{Cell, Column, Table};

/// The document of `weft policy explain`: the fate of one packet under a policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PolicyExplainReport {
    /// `weft-policy-explain/1`.
    pub schema: String,
    /// The host of the explanation.
    pub host: Host,
    /// The policy's file.
    pub file: String,
    /// The packet, as it can be given again.
    pub packet: String,
    /// The class that takes it.
    pub class: String,
    /// The line of the class's definition; `None` if the policy does not write it.
    pub line: Option<usize>,
    /// The tenant's file that defines the class; `None` for the policy's own text.
    #[serde(default)]
    pub definition_file: Option<String>,
    /// The class's definition on one line.
    pub definition: Option<String>,
    /// The number of the deciding row, from 1.
    pub row: usize,
    /// The tests of the row.
    pub tests: String,
    /// The destination of the class that decides on the lane; `None` for that of all other packets.
    pub to: Option<String>,
    /// The number of the lane.
    pub lane: usize,
    /// The nodes from the root to the leaf.
    pub path: Vec<ExplainedStep>,
    /// The leaf.
    pub leaf: String,
    /// Whether the leaf shares between its flows.
    pub fair: bool,
    /// The other classes in the leaf.
    pub beside: Vec<String>,
    /// The ranks that algorithms give the packet.
    #[serde(default)]
    pub ranks: Vec<ExplainedRank>,
    /// The limits that apply.
    pub limits: Vec<ExplainedLimit>,
    /// The link's rate, if it is known.
    pub link_bps: Option<u64>,
    /// The leaf's rate while every class sends, if the link's rate is known.
    pub guaranteed_bps: Option<u64>,
    /// The most packets of the lane that wait.
    pub bound_packets: u64,
    /// Additional facts.
    pub notes: Vec<String>,
    /// The packets of the class that wait at the daemon, with `--live`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<ExplainedWaiting>,
}

/// The packets of a class that wait at the daemon, and why.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExplainedWaiting {
    /// The bytes that wait.
    pub backlog_bytes: u64,
    /// The rate on the wire over the last second.
    pub bps: f64,
    /// The rate that the policy guarantees, if it is known.
    pub entitled_bps: Option<f64>,
    /// The time within which 99 of 100 packets left; null before the first.
    pub sojourn_p99_s: Option<f64>,
    /// The reasons, the nearest to the class first.
    pub reasons: Vec<String>,
}

/// A node on the path, and the turn of the packet's branch there: its place under strict priority, its weight otherwise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExplainedStep {
    /// The node's name.
    pub node: String,
    /// The place of the branch among the children, from 1.
    pub place: Option<usize>,
    /// The number of children.
    pub children: Option<usize>,
    /// The weight of the branch.
    pub weight: Option<u32>,
    /// The sum of the children's weights.
    pub weights: Option<u64>,
    /// The algorithm of one's own, with the branch's parameters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub algorithm: Option<String>,
}

/// The rank of the packet at an algorithm, as the first one of an idle child.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExplainedRank {
    /// The node or leaf.
    pub node: String,
    /// The algorithm.
    pub algorithm: String,
    /// The component that is compared first; null for a shaper.
    pub first: Option<u64>,
    /// The component that decides between equal first ones.
    pub second: Option<u64>,
    /// The time before which it is not picked, in nanoseconds after the arrival.
    pub from_ns: Option<u64>,
    /// The virtual time before which it is not picked.
    pub from_virtual: Option<u64>,
    /// Whether the algorithm sees the packet.
    pub sees_packet: bool,
}

/// A limit that applies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExplainedLimit {
    /// Its name.
    pub name: String,
    /// Its rate.
    pub limit_bps: u64,
    /// The bytes that may leave at once after a pause.
    pub burst_bytes: u64,
}

impl Document for PolicyExplainReport {
    const SCHEMA: &'static str = "weft-policy-explain/1";

    fn tables(&self) -> Vec<Table> {
        let mut facts = Table::new("Packet").columns(["fact", "value"].map(Column::left));
        let rate =
            |rate: Option<u64>| rate.map_or_else(|| human::NONE.to_owned(), |bps| human::rate(bps as f64));
        for (name, value) in [
            ("packet", self.packet.clone()),
            ("class", self.class.clone()),
            ("row", format!("{}: {}", self.row, self.tests)),
            ("leaf", self.leaf.clone()),
            ("link", rate(self.link_bps)),
            ("guaranteed", rate(self.guaranteed_bps)),
        ] {
            facts.row([Cell::plain(name), Cell::plain(value)]);
        }
        let mut limits = Table::new("Limits").columns(["limit", "rate"].map(Column::left));
        for limit in &self.limits {
            limits.row([Cell::plain(&limit.name), Cell::plain(rate(Some(limit.limit_bps)))]);
        }
        vec![facts, limits]
    }
}
