//! The documents of `weft steer`: NIC models, a plan, and its verification with packets.

use crate::human;
use crate::record::{Document, Host};
use crate::table::{Cell, Column, Table, Tone};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The document of `weft steer models`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SteerModels {
    /// `weft-steer-models/1`.
    pub schema: String,
    /// The host of the run.
    pub host: Host,
    /// The models.
    pub models: Vec<SteerModel>,
}

/// A NIC model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SteerModel {
    /// Its name on the command line.
    pub name: String,
    /// Its name for people.
    pub title: String,
    /// Receive queues.
    pub queues: u32,
    /// Filter tables: name and entries, in the order of the graph if the model has one.
    pub tables: Vec<SteerTable>,
    /// Entries of RSS's indirection table; null without RSS.
    pub indirection: Option<u32>,
    /// RSS contexts besides the main one.
    pub contexts: u32,
    /// Facts about the model, with sources.
    pub facts: Vec<SteerFact>,
}

/// A filter table of a model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SteerTable {
    /// Its name.
    pub name: String,
    /// Entries.
    pub entries: u32,
    /// Its interface for configuration: `ethtool ntuple rules`, `tc flower`, and so on.
    pub interface: String,
}

/// A statement with its source.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SteerFact {
    /// The statement.
    pub text: String,
    /// Its source.
    pub source: String,
}

/// The document of `weft steer plan`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SteerPlan {
    /// `weft-steer-plan/1`.
    pub schema: String,
    /// The host of the run.
    pub host: Host,
    /// Name of the NIC's model.
    pub nic: String,
    /// The policy, as written.
    pub policy: String,
    /// The plan's cost by the policy; null if the policy rejects it.
    pub cost: Option<f64>,
    /// The reason for the rejection, if rejected.
    pub rejected: Option<String>,
    /// The queues and their flows.
    pub queues: Vec<SteerQueue>,
    /// Rules of the filter tables.
    pub filters: Vec<SteerFilter>,
    /// RSS contexts; the main one is 0.
    pub contexts: Vec<SteerContext>,
    /// The compromises of the plan, in sentences.
    pub degraded: Vec<String>,
    /// Unverified facts of the model on which this plan depends, in sentences.
    #[serde(default)]
    pub unverified: Vec<String>,
    /// The changes from the previous configuration, in order, in sentences.
    pub changes: Vec<String>,
    /// The queue of each flow, in the order of the flow file.
    pub flows: Vec<SteerFlow>,
    /// The duration of the search, in seconds.
    pub wall_s: f64,
}

/// A queue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SteerQueue {
    /// Its number.
    pub queue: u32,
    /// Flows that certainly use this queue.
    pub flows: u32,
    /// The sum of their weights.
    pub weight: u64,
    /// Flows by class, without those that have no class.
    pub classes: BTreeMap<String, u32>,
}

/// A rule.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SteerFilter {
    /// The table's name.
    pub table: String,
    /// Header fields, in the syntax of model files.
    #[serde(rename = "match")]
    pub packets: String,
    /// Precedence.
    pub priority: u8,
    /// `queue 3`, `context 1`, `drop`.
    pub action: String,
}

/// An RSS context.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SteerContext {
    /// Its number.
    pub context: u32,
    /// The indirection table.
    pub indirection: Vec<u32>,
}

/// A flow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SteerFlow {
    /// Its header fields.
    #[serde(rename = "match")]
    pub packets: String,
    /// Its class.
    pub class: Option<String>,
    /// Its queue; null if its packets may use several.
    pub queue: Option<u32>,
    /// The mechanism that selects the queue: `rule`, `hash`, `spread`, `default`.
    #[schemars(extend("enum" = ["rule", "hash", "spread", "default"]))]
    pub by: String,
}

/// The document of `weft steer verify`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SteerVerify {
    /// `weft-steer-verify/1`.
    pub schema: String,
    /// The host of the run.
    pub host: Host,
    /// Name of the NIC's model.
    pub nic: String,
    /// Packets sent of each flow.
    pub packets_per_flow: u32,
    /// The flows sent.
    pub flows: Vec<VerifiedFlow>,
    /// Whether every packet of every flow arrived at the predicted queue.
    pub ok: bool,
    /// The duration, in seconds.
    pub wall_s: f64,
}

/// A flow that was sent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VerifiedFlow {
    /// Its header fields.
    #[serde(rename = "match")]
    pub packets: String,
    /// The queues that the model predicts: one, several for a flow with wildcards that is spread, none for a drop.
    pub predicted: Vec<u32>,
    /// Packets received, by queue.
    pub counted: BTreeMap<u32, u64>,
    /// Packets dropped by a rule.
    pub dropped: u64,
    /// Whether all packets arrived as predicted, and the planner agrees.
    pub ok: bool,
    /// The planner's prediction if it differs from the model's; null if they agree.
    #[serde(default)]
    pub planned_elsewhere: Option<String>,
}

/// The document of `weft steer import`: a device's current configuration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SteerImport {
    /// `weft-steer-import/1`.
    pub schema: String,
    /// The host of the run.
    pub host: Host,
    /// The interface.
    pub device: String,
    /// Name of the NIC's model.
    pub nic: String,
    /// Rules that the model supports.
    pub filters: Vec<SteerFilter>,
    /// The location of each of them, in the same order; null if unknown.
    pub locations: Vec<Option<u32>>,
    /// Rules that the model does not support, which are left alone.
    pub foreign: Vec<ForeignRule>,
    /// RSS contexts; the main one is 0.
    pub contexts: Vec<SteerContext>,
    /// Settings that could not be read, in sentences.
    pub notes: Vec<String>,
}

/// A rule that a model does not support.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ForeignRule {
    /// Its location.
    pub location: u32,
    /// The rule in ethtool's syntax.
    pub rule: String,
    /// The reason why the model does not support it.
    pub reason: String,
}

/// The document of `weft steer probe`: the rules that a driver accepts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SteerProbe {
    /// `weft-steer-probe/1`.
    pub schema: String,
    /// The host of the run.
    pub host: Host,
    /// The interface.
    pub device: String,
    /// Name of the NIC's model.
    pub nic: String,
    /// The attempted rules.
    pub probes: Vec<ProbedRule>,
    /// Locations of rules that could not be deleted afterwards.
    pub left: Vec<u32>,
}

/// An attempted rule.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProbedRule {
    /// The table's name.
    pub table: String,
    /// The rule in words.
    pub what: String,
    /// Whether the model predicts that it works.
    pub expected: bool,
    /// Whether the driver accepted it.
    pub taken: bool,
    /// The driver's refusal.
    pub refusal: Option<String>,
}

impl Document for SteerModels {
    const SCHEMA: &'static str = "weft-steer-models/1";

    fn tables(&self) -> Vec<Table> {
        let mut table = Table::new("NIC models").columns([
            Column::left("name"),
            Column::left("NIC"),
            Column::right("queues"),
            Column::left("filter tables"),
            Column::right("RSS entries"),
            Column::right("contexts"),
        ]);
        for model in &self.models {
            let tables: Vec<String> =
                model.tables.iter().map(|table| format!("{} {}", table.name, table.entries)).collect();
            table.row([
                model.name.clone(),
                model.title.clone(),
                model.queues.to_string(),
                if tables.is_empty() { "-".to_owned() } else { tables.join(", ") },
                human::or_none(model.indirection, |entries| entries.to_string()),
                model.contexts.to_string(),
            ]);
        }
        vec![table]
    }
}

/// The most rules that a table shows; the document has all.
const SHOWN: usize = 20;

impl Document for SteerPlan {
    const SCHEMA: &'static str = "weft-steer-plan/1";

    fn tables(&self) -> Vec<Table> {
        let mut tables = vec![self.overview(), self.queue_table()];
        tables.extend(
            [self.filter_table(), self.context_table()].into_iter().filter(|table| !table.is_empty()),
        );
        tables
    }
}

impl SteerPlan {
    fn overview(&self) -> Table {
        let mut table = Table::new(format!("{}: {}", self.nic, self.policy))
            .columns([Column::left("what"), Column::right("value")]);
        match (&self.rejected, self.cost) {
            (Some(reason), _) => {
                table.row([
                    Cell::plain("rejected by the policy"),
                    Cell { text: reason.clone(), tone: Tone::Bad },
                ]);
            }
            (None, Some(cost)) => {
                table.row(["cost".to_owned(), format!("{cost:.4}")]);
            }
            (None, None) => {}
        }
        let by = |kind: &str| self.flows.iter().filter(|flow| flow.by == kind).count();
        table.row(["flows".to_owned(), human::count(self.flows.len() as u64)]);
        for (kind, text) in [
            ("rule", "by a rule"),
            ("hash", "by RSS's hash"),
            ("spread", "spread over several queues"),
            ("default", "to the default queue"),
        ] {
            if by(kind) > 0 {
                table.row([format!("  {text}"), human::count(by(kind) as u64)]);
            }
        }
        table.row(["rules".to_owned(), human::count(self.filters.len() as u64)]);
        table.row(["changes".to_owned(), human::count(self.changes.len() as u64)]);
        table.row(["search took".to_owned(), human::time(self.wall_s)]);
        for sentence in &self.degraded {
            table.note(format!("given up: {sentence}"));
        }
        for sentence in &self.unverified {
            table.note(format!("assumed, not verified: {sentence}"));
        }
        table
    }

    fn queue_table(&self) -> Table {
        let mut table = Table::new("Queues").columns([
            Column::right("queue"),
            Column::right("flows"),
            Column::right("weight"),
            Column::left("classes"),
        ]);
        for queue in &self.queues {
            let classes: Vec<String> =
                queue.classes.iter().map(|(class, flows)| format!("{class} {flows}")).collect();
            table.row([
                queue.queue.to_string(),
                human::count(queue.flows.into()),
                human::count(queue.weight),
                classes.join(", "),
            ]);
        }
        table
    }

    fn filter_table(&self) -> Table {
        let mut table = Table::new("Rules").columns([
            Column::left("table"),
            Column::left("packets"),
            Column::right("priority"),
            Column::left("action"),
        ]);
        for filter in self.filters.iter().take(SHOWN) {
            table.row([
                filter.table.clone(),
                filter.packets.clone(),
                filter.priority.to_string(),
                filter.action.clone(),
            ]);
        }
        if self.filters.len() > SHOWN {
            table.note(format!("and {} more; --json has all", self.filters.len() - SHOWN));
        }
        table
    }

    fn context_table(&self) -> Table {
        let mut table =
            Table::new("RSS").columns([Column::right("context"), Column::left("entries by queue")]);
        for context in &self.contexts {
            let mut counts: BTreeMap<u32, u32> = BTreeMap::new();
            for queue in &context.indirection {
                *counts.entry(*queue).or_default() += 1;
            }
            let text: Vec<String> =
                counts.iter().map(|(queue, entries)| format!("{queue}: {entries}")).collect();
            table.row([context.context.to_string(), text.join(", ")]);
        }
        table
    }
}

impl Document for SteerVerify {
    const SCHEMA: &'static str = "weft-steer-verify/1";

    fn tables(&self) -> Vec<Table> {
        let mut table = Table::new(format!("{}: {} packets of each flow", self.nic, self.packets_per_flow))
            .columns([
                Column::left("flow"),
                Column::right("predicted"),
                Column::left("counted"),
                Column::left("verdict"),
            ]);
        let wrong = self.flows.iter().filter(|flow| !flow.ok);
        let right = self.flows.iter().filter(|flow| flow.ok);
        for flow in wrong.chain(right).take(SHOWN) {
            let counted: Vec<String> =
                flow.counted.iter().map(|(queue, packets)| format!("queue {queue}: {packets}")).collect();
            let tone = if flow.ok { Tone::Good } else { Tone::Bad };
            table.row([
                Cell::plain(flow.packets.clone()),
                Cell::plain(predicted(&flow.predicted)),
                Cell::plain(if counted.is_empty() { "none".to_owned() } else { counted.join(", ") }),
                Cell { text: if flow.ok { "ok" } else { "WRONG" }.to_owned(), tone },
            ]);
        }
        let ok = self.flows.iter().filter(|flow| flow.ok).count();
        table.note(format!("{ok} of {} flows went where the model says", self.flows.len()));
        vec![table]
    }
}

fn predicted(queues: &[u32]) -> String {
    match queues {
        [] => "dropped".to_owned(),
        [queue] => format!("queue {queue}"),
        [first, .., last] => format!("{} of queues {first} to {last}", queues.len()),
    }
}

impl Document for SteerImport {
    const SCHEMA: &'static str = "weft-steer-import/1";

    fn tables(&self) -> Vec<Table> {
        let mut rules = Table::new(format!("{}: rules", self.device)).columns([
            Column::right("location"),
            Column::left("table"),
            Column::left("packets"),
            Column::left("action"),
        ]);
        for (filter, location) in self.filters.iter().zip(&self.locations) {
            rules.row([
                human::or_none(*location, |location| location.to_string()),
                filter.table.clone(),
                filter.packets.clone(),
                filter.action.clone(),
            ]);
        }
        for foreign in &self.foreign {
            rules.row([
                foreign.location.to_string(),
                human::NONE.to_owned(),
                foreign.rule.clone(),
                format!("left alone: {}", foreign.reason),
            ]);
        }
        for note in &self.notes {
            rules.note(note);
        }
        let mut contexts = Table::new(format!("{}: RSS", self.device))
            .columns([Column::right("context"), Column::left("indirection table")]);
        for context in &self.contexts {
            let queues: Vec<String> = context.indirection.iter().map(u32::to_string).collect();
            contexts.row([context.context.to_string(), queues.join(" ")]);
        }
        vec![rules, contexts]
    }
}

impl Document for SteerProbe {
    const SCHEMA: &'static str = "weft-steer-probe/1";

    fn tables(&self) -> Vec<Table> {
        let mut table = Table::new(format!("{}: what the driver takes", self.device)).columns([
            Column::left("table"),
            Column::left("rule"),
            Column::left("model"),
            Column::left("driver"),
        ]);
        for probe in &self.probes {
            let driver = match &probe.refusal {
                Some(refusal) => format!("no: {refusal}"),
                None => "yes".to_owned(),
            };
            let tone = if probe.expected == probe.taken { Tone::Good } else { Tone::Bad };
            table.row([
                Cell::plain(probe.table.clone()),
                Cell::plain(probe.what.clone()),
                Cell::plain(if probe.expected { "yes" } else { "no" }),
                Cell { text: driver, tone },
            ]);
        }
        for location in &self.left {
            table.note(format!(
                "the rule at location {location} could not be deleted; delete it by ethtool -N"
            ));
        }
        vec![table]
    }
}
