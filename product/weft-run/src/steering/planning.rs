//! Plans for receive steering, and their documents.

use crate::host_facts;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;
use thiserror::Error;
use weft_facts::record::Document;
use weft_facts::steer::{
    SteerContext, SteerFact, SteerFilter, SteerFlow, SteerModel, SteerModels, SteerPlan, SteerQueue,
    SteerTable,
};
use weft_steer::change::{ChangeError, ChangePlan, changes};
use weft_steer::nic::Nic;
use weft_steer::policy::PolicyFile;
use weft_steer::search::{Options, Placement, Plan, PlanError, Planner};
use weft_steer::{Action, Configuration, Flow, RssContext, Rule};

/// Errors from planning.
#[derive(Debug, Error)]
pub enum PlanningError {
    /// Model, policy and options contradict each other.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The planner built a configuration that exceeds the NIC: a bug of weftline.
    #[error("the planner's configuration exceeds the NIC, which is a bug of weftline: {0}")]
    Change(#[from] ChangeError),
}

/// A plan with its inputs.
#[derive(Debug)]
pub struct Planned {
    /// The planner, for later updates.
    pub planner: Planner,
    /// The plan.
    pub plan: Plan,
    /// The changes from the previous configuration.
    pub changes: ChangePlan,
    /// The flows.
    pub flows: Vec<Flow>,
    /// The duration of the search, in seconds.
    pub wall_s: f64,
}

/// Plans for flows; `from` is the current configuration of the NIC.
///
/// # Errors
/// When model, policy and options contradict each other.
pub fn plan(
    nic: &Nic,
    policy: PolicyFile,
    flows: Vec<Flow>,
    options: Options,
    from: &Configuration,
) -> Result<Planned, PlanningError> {
    let mut planner = Planner::new(nic.clone(), policy, options)?;
    let given = flows.clone();
    let begin = Instant::now();
    planner.set(given);
    let plan = planner.plan();
    let wall_s = begin.elapsed().as_secs_f64();
    let changes = changes(nic, from, &plan.configuration)?;
    Ok(Planned { planner, plan, changes, flows, wall_s })
}

/// The text of a rule's action.
pub fn action(rule: &Rule) -> String {
    match rule.action {
        Action::Queue(queue) => format!("queue {}", queue.0),
        Action::Context(context) => format!("context {}", context.0),
        Action::Drop => "drop".to_owned(),
    }
}

impl Planned {
    /// The document of the plan.
    pub fn report(&self) -> SteerPlan {
        let nic = self.planner.nic();
        let configuration = &self.plan.configuration;
        let policy = self.planner.policy();
        let cost = self.plan.cost;
        SteerPlan {
            schema: SteerPlan::SCHEMA.to_owned(),
            host: host_facts::detect(),
            nic: nic.name.clone(),
            policy: policy.policy.name(),
            cost: cost.is_allowed().then_some(cost.value),
            rejected: (!cost.is_allowed()).then(|| cost.to_string()),
            queues: self.queues(),
            filters: configuration.rules.iter().map(|rule| filter(nic, rule)).collect(),
            contexts: configuration.contexts.iter().map(context).collect(),
            degraded: self.plan.degraded.iter().map(ToString::to_string).collect(),
            unverified: self.unverified(),
            changes: self.changes.changes.iter().map(ToString::to_string).collect(),
            flows: self.placed().map(|(flow, placement)| flow_of(policy, flow, placement)).collect(),
            wall_s: self.wall_s,
        }
    }

    /// The facts of the model that are not verified and on which this plan depends, as sentences.
    pub fn unverified(&self) -> Vec<String> {
        let nic = self.planner.nic();
        let rules = &self.plan.configuration.rules;
        let used: BTreeSet<&str> =
            rules.iter().filter_map(|rule| Some(nic.table(rule.table)?.name.as_str())).collect();
        let mut placements = self.placed().map(|(_, placement)| placement);
        let hashed = placements.any(|placement| matches!(placement, Placement::Hash(_) | Placement::Spread));
        let matters = |about: &String| match about.as_str() {
            "hash" => hashed,
            // Rules precede the hash and the default queue, and the rules of one table those of another.
            "order" => !rules.is_empty(),
            "queues" => !self.flows.is_empty(),
            "contexts" | "none" => false,
            table => used.contains(table),
        };
        let facts = nic.facts.iter().filter(|fact| fact.is_unverified());
        let facts = facts.filter(|fact| fact.about.is_empty() || fact.about.iter().any(matters));
        facts.map(|fact| format!("{} ({})", fact.text, fact.source)).collect()
    }

    /// The flows, each with its placement by the planner.
    pub fn placed(&self) -> impl Iterator<Item = (&Flow, Placement)> {
        self.flows.iter().zip(self.plan.placements.iter().map(|(_, placement)| *placement))
    }

    fn queues(&self) -> Vec<SteerQueue> {
        let mut queues: BTreeMap<u32, SteerQueue> = BTreeMap::new();
        for queue in self.planner.tally().queues() {
            queues.insert(queue.0, SteerQueue { queue: queue.0, ..SteerQueue::default() });
        }
        for (flow, placement) in self.placed() {
            let Some(queue) = placement.queue() else { continue };
            let entry = queues
                .entry(queue.0)
                .or_insert_with(|| SteerQueue { queue: queue.0, ..SteerQueue::default() });
            entry.flows += 1;
            entry.weight += u64::from(flow.weight);
            let class = self.planner.policy().classes.of(flow);
            if !class.is_empty() {
                *entry.classes.entry(class.to_owned()).or_default() += 1;
            }
        }
        queues.into_values().collect()
    }
}

/// The document of a rule.
pub(super) fn filter(nic: &Nic, rule: &Rule) -> SteerFilter {
    SteerFilter {
        table: nic.table(rule.table).map_or_else(String::new, |table| table.name.clone()),
        packets: rule.headers.to_string(),
        priority: rule.priority,
        action: action(rule),
    }
}

/// An RSS context, for a document.
pub(super) fn context(context: &RssContext) -> SteerContext {
    SteerContext {
        context: context.id.0,
        indirection: context.indirection.iter().map(|queue| queue.0).collect(),
    }
}

fn flow_of(policy: &PolicyFile, flow: &Flow, placement: Placement) -> SteerFlow {
    let class = policy.classes.of(flow);
    let by = match placement {
        Placement::Rule(_) => "rule",
        Placement::Hash(_) => "hash",
        Placement::Spread => "spread",
        Placement::Default(_) => "default",
    };
    SteerFlow {
        packets: flow.headers.to_string(),
        class: (!class.is_empty()).then(|| class.to_owned()),
        queue: placement.queue().map(|queue| queue.0),
        by: by.to_owned(),
    }
}

/// The document of the built-in models.
pub fn models<'a>(models: impl IntoIterator<Item = &'a Nic>) -> SteerModels {
    let model = |nic: &Nic| SteerModel {
        name: nic.name.clone(),
        title: nic.title.clone(),
        queues: nic.queues,
        tables: nic
            .tables
            .iter()
            .map(|table| SteerTable {
                name: table.name.clone(),
                entries: table.capacity,
                interface: table.interface.name().to_owned(),
            })
            .collect(),
        indirection: nic.rss.as_ref().map(|rss| rss.indirection),
        contexts: nic.rss.as_ref().map_or(0, |rss| rss.contexts),
        facts: nic
            .facts
            .iter()
            .map(|fact| SteerFact { text: fact.text.clone(), source: fact.source.clone() })
            .collect(),
    };
    SteerModels {
        schema: SteerModels::SCHEMA.to_owned(),
        host: host_facts::detect(),
        models: models.into_iter().map(model).collect(),
    }
}
