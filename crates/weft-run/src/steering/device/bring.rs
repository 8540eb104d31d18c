//! A plan brought to a device beside what is there: only what we set before is replaced, and all of ours can be taken back.

use super::record::{Kept, Recorded};
use super::{ApplyError, Device, Imported, apply_plan, import};
use crate::steering::planning::{self, PlanningError};
use std::collections::BTreeSet;
use thiserror::Error;
use weft_host::OsError;
use weft_host::ethtool::{self, EthtoolError, RssChange};
use weft_steer::change::{Change, ChangeError, ChangePlan, changes};
use weft_steer::nic::{Interface, Nic};
use weft_steer::policy::PolicyFile;
use weft_steer::search::Options;
use weft_steer::{Configuration, ContextId, Flow, Rule};
use weft_units::RxQueueId;

/// What is wanted of a device.
#[derive(Debug)]
pub struct Wanted {
    /// The policy.
    pub policy: PolicyFile,
    /// The flows.
    pub flows: Vec<Flow>,
    /// How to search. Key and number of queues are bounded by what the device has.
    pub options: Options,
}

/// A plan for a device, and what it holds.
#[derive(Debug)]
pub struct Prepared {
    /// The changes.
    pub changes: ChangePlan,
    /// What the planner gave up, in sentences.
    pub degraded: Vec<String>,
    /// What could not be read, and what of others stands in the way, in sentences.
    pub notes: Vec<String>,
    nic: Nic,
    imported: Imported,
}

/// Why a plan is not in force.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BringError {
    /// The device cannot be read.
    #[error(transparent)]
    Read(#[from] EthtoolError),
    /// There is no plan.
    #[error(transparent)]
    Plan(#[from] PlanningError),
    /// The plan does not fit beside what is there.
    #[error("beside the rules of others, which stay, the plan does not fit: {0}")]
    Beside(#[from] ChangeError),
    /// A change was refused.
    #[error(transparent)]
    Apply(#[from] ApplyError),
    /// The record cannot be kept.
    #[error(transparent)]
    Record(#[from] OsError),
}

/// Plans for a device beside what others set in it.
///
/// # Errors
/// The device cannot be read, or no plan fits.
pub fn prepare(
    nic: &Nic,
    device: &mut impl Device,
    kept: &mut Kept,
    wanted: Wanted,
) -> Result<Prepared, BringError> {
    let queues = device.queues()?;
    let mut imported = import(nic, device)?;
    let main = imported.configuration.context(ContextId::MAIN).map(|context| context.indirection.clone());
    kept.settle(&imported.held, main.as_deref());
    for (location, _, _) in &imported.foreign {
        imported.locations.reserve(*location);
    }
    let nic = imported.fitted(nic);
    let others = others(&imported, kept);
    let mut options = wanted.options;
    options.key = imported.key.clone();
    options.queues = Some(options.queues.map_or(queues, |most| most.min(queues)));
    let room = with_room(&nic, &others, imported.foreign.len());
    let planned = planning::plan(&room, wanted.policy, wanted.flows, options, &Configuration::default())?;
    let mut notes = imported.notes.clone();
    let to = beside(&imported.configuration, &others, &planned.plan.configuration, &mut notes);
    let changes = changes(&nic, &imported.configuration, &to)?;
    let degraded = planned.plan.degraded.iter().map(ToString::to_string).collect();
    Ok(Prepared { changes, degraded, notes, nic, imported })
}

impl Prepared {
    /// Makes the changes; how many. `told` hears of each before it is made.
    ///
    /// # Errors
    /// A change is refused; those before it are taken back.
    pub fn apply(
        self,
        device: &mut impl Device,
        kept: &mut Kept,
        told: impl FnMut(usize, &Change),
    ) -> Result<usize, BringError> {
        let mut recorded = Recorded { device, kept };
        let from = &self.imported.configuration;
        let done = apply_plan(&self.nic, &mut recorded, from, self.imported.locations, &self.changes, told);
        forget_the_same(kept);
        kept.write()?;
        Ok(done?.made)
    }
}

/// Takes back what we set: our rules that still stand where we put them, and the main table unless it is another's now. Returns what was
/// done and what was left, in sentences.
///
/// # Errors
/// The device cannot be read, or refuses.
pub fn undo(device: &mut impl Device, kept: &mut Kept) -> Result<Vec<String>, BringError> {
    let mut said = Vec::new();
    // A killed run may have been about to set what is not there.
    if !kept.record.rules.is_empty() {
        for rule in device.rules()?.rules {
            let ethtool::Location::At(location) = rule.location else { continue };
            if kept.is_ours(location, &rule.to_string()) {
                Recorded { device: &mut *device, kept: &mut *kept }.delete(location)?;
                said.push(format!("removed the rule at location {location}"));
            }
        }
        for location in std::mem::take(&mut kept.record.rules).into_keys() {
            said.push(format!("the rule at location {location} is not there any more, or another's"));
        }
    }
    if let Some(before) = kept.record.table_before.clone() {
        let now: Vec<u32> = device.rss(ethtool::ContextId::MAIN)?.table.iter().map(|queue| queue.0).collect();
        if kept.record.table.as_ref() == Some(&now) {
            let table = before.iter().copied().map(RxQueueId).collect();
            device.set_rss(ethtool::ContextId::MAIN, &RssChange::table(table))?;
            said.push("the main table is what it was before".to_owned());
        } else if now != before {
            said.push("the main table was set by somebody else since, and stays".to_owned());
        }
        kept.record.table_before = None;
        kept.record.table = None;
    }
    kept.write()?;
    Ok(said)
}

/// Rules that the model knows and that we did not set.
fn others(imported: &Imported, kept: &Kept) -> Vec<Rule> {
    let ours = |rule: &Rule| {
        let location = imported.locations.get(rule)?;
        Some(kept.is_ours(location, imported.held.get(&location)?))
    };
    let rules = imported.configuration.rules.iter();
    rules.filter(|rule| ours(rule) != Some(true)).copied().collect()
}

/// The model with the entries that are left beside the rules of others. In which table one stands that the model does not know is open,
/// so that it counts in each.
fn with_room(nic: &Nic, others: &[Rule], unknown: usize) -> Nic {
    let mut nic = nic.clone();
    for (index, table) in nic.tables.iter_mut().enumerate() {
        let known = others.iter().filter(|rule| usize::from(rule.table.0) == index).count();
        let unknown = if table.interface == Interface::Ntuple { unknown } else { 0 };
        table.capacity = table.capacity.saturating_sub((known + unknown) as u32);
    }
    nic
}

/// The configuration that the plan asks for, with the rules and contexts of others as they are. Rules of others count first: they are
/// older.
fn beside(
    held: &Configuration,
    others: &[Rule],
    planned: &Configuration,
    notes: &mut Vec<String>,
) -> Configuration {
    let taken: BTreeSet<_> = others.iter().map(|rule| (rule.table, rule.headers, rule.priority)).collect();
    let mut rules = others.to_vec();
    for rule in &planned.rules {
        if taken.contains(&(rule.table, rule.headers, rule.priority)) {
            notes.push(format!(
                "a rule that weft did not set has the packets of: {rule}; it stays, and this one is not set"
            ));
        } else {
            rules.push(*rule);
        }
    }
    let mut contexts = held.contexts.clone();
    if let Some(main) = planned.context(ContextId::MAIN) {
        contexts.retain(|context| context.id != ContextId::MAIN);
        contexts.insert(0, main.clone());
    }
    // The key stays what it is: changing it would move every flow that is hashed.
    Configuration { rules, contexts, key: held.key.clone() }
}

/// A table that is what it was before is not ours.
fn forget_the_same(kept: &mut Kept) {
    if kept.record.table == kept.record.table_before {
        kept.record.table = None;
        kept.record.table_before = None;
    }
}
