//! The application of a plan to a device with rules of others: only weftline's earlier rules are replaced, and all of
//! them can be removed again.

use super::record::{OpenRecord, Recorded};
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

/// The wanted steering of a device.
#[derive(Debug)]
pub struct WantedSteering {
    /// The policy.
    pub policy: PolicyFile,
    /// The flows.
    pub flows: Vec<Flow>,
    /// The search options. The device bounds the key and the number of queues.
    pub options: Options,
}

/// A plan for a device, with the device's contents.
#[derive(Debug)]
pub struct PreparedDevice {
    /// The changes.
    pub changes: ChangePlan,
    /// The degradations that the planner accepted, as sentences.
    pub degraded: Vec<String>,
    /// Unreadable properties, and obstacles by rules of others, as sentences.
    pub notes: Vec<String>,
    nic: Nic,
    imported: Imported,
}

/// Errors from applying a plan to a device.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BringError {
    /// The device cannot be read.
    #[error(transparent)]
    Read(#[from] EthtoolError),
    /// Planning failed.
    #[error(transparent)]
    Plan(#[from] PlanningError),
    /// The plan does not fit beside the rules of others.
    #[error("beside the rules of others, which stay, the plan does not fit: {0}")]
    Beside(#[from] ChangeError),
    /// A change was refused.
    #[error(transparent)]
    Apply(#[from] ApplyError),
    /// The record cannot be written.
    #[error(transparent)]
    Record(#[from] OsError),
}

/// Plans for a device with rules of others.
///
/// # Errors
/// When the device cannot be read, or no plan fits.
pub fn prepare(
    nic: &Nic,
    device: &mut impl Device,
    kept: &mut OpenRecord,
    wanted: WantedSteering,
) -> Result<PreparedDevice, BringError> {
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
    Ok(PreparedDevice { changes, degraded, notes, nic, imported })
}

impl PreparedDevice {
    /// Makes the changes. Returns their number. `told` is called before each change.
    ///
    /// # Errors
    /// When a change is refused; those before it are undone.
    pub fn apply(
        self,
        device: &mut impl Device,
        kept: &mut OpenRecord,
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

/// Removes our settings: our rules that are still at their locations, and the main table unless another process has set
/// it since. Returns the changes made and the settings left, as sentences.
///
/// # Errors
/// When the device cannot be read, or refuses.
pub fn undo(device: &mut impl Device, kept: &mut OpenRecord) -> Result<Vec<String>, BringError> {
    let mut said = Vec::new();
    // A killed run may have recorded a rule that it did not insert.
    if !kept.record.rules.is_empty() {
        for rule in device.rules()?.rules {
            let ethtool::Location::At(location) = rule.location else { continue };
            if kept.is_ours(location, &rule.to_string()) {
                Recorded { device: &mut *device, kept: &mut *kept }.delete(location)?;
                said.push(format!("removed the rule at location {location}"));
            }
        }
        for location in std::mem::take(&mut kept.record.rules).into_keys() {
            said.push(format!("the rule at location {location} was deleted or replaced by another"));
        }
    }
    if let Some(before) = kept.record.table_before.clone() {
        let now: Vec<u32> = device.rss(ethtool::ContextId::MAIN)?.table.iter().map(|queue| queue.0).collect();
        if kept.record.table.as_ref() == Some(&now) {
            let table = before.iter().copied().map(RxQueueId).collect();
            device.set_rss(ethtool::ContextId::MAIN, &RssChange::table(table))?;
            said.push("the main table is restored".to_owned());
        } else if now != before {
            said.push("the main table was set by another process since and is kept".to_owned());
        }
        kept.record.table_before = None;
        kept.record.table = None;
    }
    kept.write()?;
    Ok(said)
}

/// Rules known to the model that we did not set.
fn others(imported: &Imported, kept: &OpenRecord) -> Vec<Rule> {
    let ours = |rule: &Rule| {
        let location = imported.locations.get(rule)?;
        Some(kept.is_ours(location, imported.held.get(&location)?))
    };
    let rules = imported.configuration.rules.iter();
    rules.filter(|rule| ours(rule) != Some(true)).copied().collect()
}

/// The model with the entries left beside the rules of others. The table of a rule that the model does not have is
/// unknown, so it counts in each.
fn with_room(nic: &Nic, others: &[Rule], unknown: usize) -> Nic {
    let mut nic = nic.clone();
    for (index, table) in nic.tables.iter_mut().enumerate() {
        let known = others.iter().filter(|rule| usize::from(rule.table.0) == index).count();
        let unknown = if table.interface == Interface::Ntuple { unknown } else { 0 };
        table.capacity = table.capacity.saturating_sub((known + unknown) as u32);
    }
    nic
}

/// The configuration of the plan with the rules and contexts of others unchanged. Rules of others come first, since
/// they are older.
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
                "a rule that weft did not set matches the packets of: {rule}; it is kept, and this one is not set"
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
    // The key is kept, since a new key would move every hashed flow.
    Configuration { rules, contexts, key: held.key.clone() }
}

/// Clears our ownership of a table that equals the one before.
fn forget_the_same(kept: &mut OpenRecord) {
    if kept.record.table == kept.record.table_before {
        kept.record.table = None;
        kept.record.table_before = None;
    }
}
