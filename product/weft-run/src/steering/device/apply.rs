//! The application of a plan: changes in order; if one is refused, those before it are undone.

use super::Device;
use crate::steering::ntuple::{RxRuleError, to_rx_rule};
use std::collections::BTreeMap;
use thiserror::Error;
use weft_host::ethtool::{self, EthtoolError, RssChange};
use weft_steer::change::{Change, ChangePlan};
use weft_steer::emit::Locations;
use weft_steer::nic::Nic;
use weft_steer::{Action, Configuration, ContextId, Rule};

/// The applied changes.
#[derive(Clone, Debug, Default)]
pub struct Applied {
    /// The number of changes made.
    pub made: usize,
    /// The current locations of the rules.
    pub locations: Locations,
    /// The device's numbers of the contexts created, by the plan's numbers.
    pub contexts: BTreeMap<ContextId, ethtool::ContextId>,
}

/// A change that cannot be made, with the reason.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ChangeRefused {
    /// The table has no location for a rule of its priority.
    #[error("no location is free for its priority")]
    NoLocation,
    /// A rule that goes is not one that was found or set.
    #[error("its location is not known")]
    UnknownLocation,
    /// An RSS context that goes is not one that was found or made.
    #[error("its number is not known")]
    UnknownContext,
    /// The kernel has no such rules.
    #[error(transparent)]
    Rule(#[from] RxRuleError),
    /// The device refuses.
    #[error(transparent)]
    Device(#[from] EthtoolError),
}

/// A plan that is not in force, with the reason.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ApplyError {
    /// A change was refused, and all changes before it were undone.
    #[error("change {} of {of} was refused, and the changes before it were undone: {change}: {why}", at + 1)]
    Refused {
        /// The index of the change in the plan.
        at: usize,
        /// The number of changes in the plan.
        of: usize,
        /// The change.
        change: String,
        /// The refusal.
        why: Box<ChangeRefused>,
    },
    /// A change was refused, and so was an undo: the device is between two configurations.
    #[error(
        "change {} of {of} was refused ({why}), and undoing \"{change}\" was refused as well: {back}; check the device's settings and repair it by hand", at + 1
    )]
    Stuck {
        /// The index of the refused change.
        at: usize,
        /// The number of changes in the plan.
        of: usize,
        /// The reason of the refusal.
        why: Box<ChangeRefused>,
        /// The change that could not be undone.
        change: String,
        /// The reason of that refusal.
        back: Box<ChangeRefused>,
    },
}

/// Applies a plan to a device with the configuration `from`, whose rules are at `locations`. `told` is called before
/// each change.
///
/// # Errors
/// When a change is refused.
pub fn apply_plan(
    nic: &Nic,
    device: &mut impl Device,
    from: &Configuration,
    locations: Locations,
    plan: &ChangePlan,
    mut told: impl FnMut(usize, &Change),
) -> Result<Applied, ApplyError> {
    let contexts = from.contexts.iter().map(|c| (c.id, ethtool::ContextId(c.id.0))).collect();
    let mut state = Applied { made: 0, locations, contexts };
    for (at, change) in plan.changes.iter().enumerate() {
        told(at, change);
        let Err(why) = make(nic, device, &mut state, change) else {
            state.made += 1;
            continue;
        };
        let of = plan.changes.len();
        for back in &plan.rollback(nic, from, at).changes {
            if let Err(refusal) = make(nic, device, &mut state, back) {
                let (change, back) = (back.to_string(), Box::new(refusal));
                return Err(ApplyError::Stuck { at, of, why: Box::new(why), change, back });
            }
        }
        return Err(ApplyError::Refused { at, of, change: change.to_string(), why: Box::new(why) });
    }
    Ok(state)
}

/// Makes one change. Returns the reason when it cannot be made.
fn make(
    nic: &Nic,
    device: &mut impl Device,
    state: &mut Applied,
    change: &Change,
) -> Result<(), ChangeRefused> {
    match change {
        Change::Add(rule) => {
            let location = state.locations.add(nic, rule).ok_or(ChangeRefused::NoLocation)?;
            let wanted = to_rx_rule(&with_device_context(rule, state), location);
            let inserted = wanted.map_err(ChangeRefused::from).and_then(|rule| Ok(device.insert(&rule)?));
            match inserted {
                Ok(location) => state.locations.set(rule, location),
                Err(why) => {
                    state.locations.remove(rule);
                    return Err(why);
                }
            }
        }
        Change::Remove(rule) => {
            let location = state.locations.get(rule).ok_or(ChangeRefused::UnknownLocation)?;
            device.delete(location)?;
            state.locations.remove(rule);
        }
        Change::SetContext { to, .. } => {
            let table = RssChange::table(to.indirection.clone());
            match state.contexts.get(&to.id) {
                Some(id) => device.set_rss(*id, &table)?,
                None if to.id == ContextId::MAIN => {
                    device.set_rss(ethtool::ContextId::MAIN, &table)?;
                }
                None => {
                    let id = device.create_context(&table)?;
                    state.contexts.insert(to.id, id);
                }
            }
        }
        Change::RemoveContext(context) => {
            let id = state.contexts.get(&context.id).copied().ok_or(ChangeRefused::UnknownContext)?;
            device.delete_context(id)?;
            state.contexts.remove(&context.id);
        }
        Change::SetKey { to, .. } => {
            let key = RssChange { key: Some(to.0.clone()), ..RssChange::default() };
            device.set_rss(ethtool::ContextId::MAIN, &key)?;
        }
    }
    Ok(())
}

/// The rule with the device's number of its context in place of the plan's.
fn with_device_context(rule: &Rule, state: &Applied) -> Rule {
    let action = match rule.action {
        Action::Context(id) => Action::Context(state.contexts.get(&id).map_or(id, |id| ContextId(id.0))),
        other => other,
    };
    Rule { action, ..*rule }
}
