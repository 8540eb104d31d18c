//! The fewest changes from one configuration to another, in an order in which each step fits the NIC, with a rollback for every
//! prefix.
//!
//! New rules are added before old ones are removed wherever the tables have room (make before break), so that a flow that keeps
//! its queue never loses its rule in between. A context is set before rules name it and removed after the last such rule: drivers
//! refuse to delete a context in use (kernel commit 42dc431f5d0e). The main context changes between the additions and the
//! removals, when flows that need rules have them.

mod order;

use crate::nic::configuration::{Action, Configuration, ContextId, RssContext, Rule};
use crate::nic::{Nic, Order, Refusal, Usage};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use thiserror::Error;
use weft_packet::rss::RssKey;

/// A single change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change {
    /// Adds a rule after the existing ones.
    Add(Rule),
    /// Removes a rule.
    Remove(Rule),
    /// Creates or changes a context.
    SetContext {
        /// The new context.
        to: RssContext,
        /// The previous context; `None` if there was none.
        from: Option<RssContext>,
    },
    /// Removes a context.
    RemoveContext(RssContext),
    /// Sets the hash's key.
    SetKey {
        /// The new key.
        to: RssKey,
        /// The previous key.
        from: RssKey,
    },
}

impl Change {
    /// Returns the change that undoes this one.
    #[must_use]
    pub fn inverse(&self) -> Self {
        match self {
            Self::Add(rule) => Self::Remove(*rule),
            Self::Remove(rule) => Self::Add(*rule),
            Self::SetContext { to, from: Some(from) } => {
                Self::SetContext { to: from.clone(), from: Some(to.clone()) }
            }
            Self::SetContext { to, from: None } => Self::RemoveContext(to.clone()),
            Self::RemoveContext(context) => Self::SetContext { to: context.clone(), from: None },
            Self::SetKey { to, from } => Self::SetKey { to: from.clone(), from: to.clone() },
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Add(rule) => write!(f, "add {rule}"),
            Self::Remove(rule) => write!(f, "remove {rule}"),
            Self::SetContext { to, from } => {
                let verb = if from.is_some() { "set" } else { "make" };
                write!(f, "{verb} RSS context {}: {}", to.id.0, queues(to))
            }
            Self::RemoveContext(context) => write!(f, "remove RSS context {}", context.id.0),
            Self::SetKey { to, .. } => write!(f, "set the hash key, {} bytes", to.0.len()),
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in table {} at priority {} -> ", self.headers, self.table.0, self.priority)?;
        match self.action {
            Action::Queue(queue) => write!(f, "queue {}", queue.0),
            Action::Context(context) => write!(f, "RSS context {}", context.0),
            Action::Drop => f.write_str("drop"),
        }
    }
}

/// Formats entries by queue, with neighbouring queues of equal counts together: `queues 0 to 3 x32, queue 5 x1`.
fn queues(context: &RssContext) -> String {
    let mut counts: BTreeMap<u32, u32> = BTreeMap::new();
    for queue in &context.indirection {
        *counts.entry(queue.0).or_default() += 1;
    }
    let mut runs: Vec<(u32, u32, u32)> = Vec::new();
    for (queue, count) in counts {
        match runs.last_mut() {
            Some((_, last, entries)) if *last + 1 == queue && *entries == count => *last = queue,
            _ => runs.push((queue, queue, count)),
        }
    }
    let part = |(first, last, entries): &(u32, u32, u32)| match first == last {
        true => format!("queue {first} x{entries}"),
        false => format!("queues {first} to {last} x{entries}"),
    };
    runs.iter().map(part).collect::<Vec<_>>().join(", ")
}

/// The reason why one configuration cannot be changed into another.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum ChangeError {
    /// The new configuration itself does not fit.
    #[error("rule {} of the new configuration does not fit: {refusal}", index + 1)]
    Unfit {
        /// The rule's index in the configuration.
        index: usize,
        /// The reason.
        refusal: Refusal,
    },
    /// A rule names a context that is missing from the configuration.
    #[error("rule {} of the new configuration names RSS context {}, which it does not have", index + 1, context.0)]
    NoContext {
        /// The rule's index in the configuration.
        index: usize,
        /// The context.
        context: ContextId,
    },
}

/// An ordered list of changes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ChangePlan {
    /// The changes, in the order in which they are made.
    pub changes: Vec<Change>,
}

impl ChangePlan {
    /// Returns the rollback to `from` after the first `made` changes. Removed rules return in their old order, which inverting
    /// each change would not guarantee.
    pub fn rollback(&self, nic: &Nic, from: &Configuration, made: usize) -> Self {
        let mut state = from.clone();
        let done = &self.changes[..made.min(self.changes.len())];
        for change in done {
            apply(&mut state, change);
        }
        // The NIC's earlier configuration may not fit the model; then each change is inverted in turn.
        changes(nic, &state, from)
            .unwrap_or_else(|_| Self { changes: done.iter().rev().map(Change::inverse).collect() })
    }
}

/// Returns the changes from one configuration to another.
///
/// # Errors
/// The new configuration does not fit the NIC, or a rule names a context that it does not have.
pub fn changes(nic: &Nic, from: &Configuration, to: &Configuration) -> Result<ChangePlan, ChangeError> {
    Usage::of(nic, to).map_err(|(index, refusal)| ChangeError::Unfit { index, refusal })?;
    for (index, rule) in to.rules.iter().enumerate() {
        if let Action::Context(context) = rule.action
            && to.context(context).is_none()
        {
            return Err(ChangeError::NoContext { index, context });
        }
    }
    let kept = order::kept(nic, &from.rules, &to.rules);
    let mut changes = Vec::new();
    if from.key != to.key {
        changes.push(Change::SetKey { to: to.key.clone(), from: from.key.clone() });
    }
    let beside = |context: &&RssContext| context.id != ContextId::MAIN;
    changes.extend(to.contexts.iter().filter(beside).filter_map(|context| set_context(from, context)));
    let adds: Vec<Rule> = to.rules.iter().filter(|rule| !kept.contains(rule)).copied().collect();
    let removes: Vec<Rule> = from.rules.iter().filter(|rule| !kept.contains(rule)).copied().collect();
    let (early, late) = rules(nic, from, adds, removes);
    changes.extend(early);
    changes.extend(to.context(ContextId::MAIN).and_then(|context| set_context(from, context)));
    changes.extend(late);
    let gone = |context: &&RssContext| to.context(context.id).is_none();
    changes.extend(from.contexts.iter().filter(gone).cloned().map(Change::RemoveContext));
    Ok(ChangePlan { changes })
}

fn set_context(from: &Configuration, to: &RssContext) -> Option<Change> {
    let old = from.context(to.id);
    (old != Some(to)).then(|| Change::SetContext { to: to.clone(), from: old.cloned() })
}

/// Orders the changes of rules: those up to the last addition, and the removals after it.
fn rules(nic: &Nic, from: &Configuration, adds: Vec<Rule>, removes: Vec<Rule>) -> (Vec<Change>, Vec<Change>) {
    // The NIC holds its rules even if the model refuses them: such rules are left out of the usage.
    let mut usage = Usage::new(nic);
    for rule in &from.rules {
        let _ = usage.add(nic, rule);
    }
    let mut out = Vec::new();
    // Removals by table, in order: the rule to remove first is in the same table, if there is one.
    let mut waiting: BTreeMap<_, Vec<Rule>> = BTreeMap::new();
    for rule in removes.iter().rev() {
        waiting.entry(rule.table).or_default().push(*rule);
    }
    let mut gone: BTreeSet<Rule> = BTreeSet::new();
    let replaced: BTreeMap<_, Rule> =
        removes.iter().map(|rule| ((rule.table, rule.headers, rule.priority), *rule)).collect();
    for add in adds {
        // A rule for the same packets is removed just before its successor is added: no table takes both.
        if let Some(old) = replaced.get(&(add.table, add.headers, add.priority))
            && gone.insert(*old)
        {
            usage.remove(old);
            out.push(Change::Remove(*old));
        }
        while let Err(refusal) = usage.admits(nic, &add) {
            let Some(old) = next_to_go(nic, &mut waiting, &add, &refusal, &gone) else { break };
            gone.insert(old);
            usage.remove(&old);
            out.push(Change::Remove(old));
        }
        // Cannot fail: all pending removals are done, and the new configuration as a whole fits.
        let _ = usage.add(nic, &add);
        out.push(Change::Add(add));
    }
    let late = removes.into_iter().filter(|rule| !gone.contains(rule)).map(Change::Remove).collect();
    (out, late)
}

/// Returns a rule to remove early to make room: one of the same table, or of a table that excludes it or shares its entries.
fn next_to_go(
    nic: &Nic,
    waiting: &mut BTreeMap<crate::nic::TableId, Vec<Rule>>,
    add: &Rule,
    refusal: &Refusal,
    gone: &BTreeSet<Rule>,
) -> Option<Rule> {
    let name = |id| nic.table(id).map(|table| table.name.clone());
    let first = match refusal {
        Refusal::Excluded { other, .. } => {
            waiting.keys().copied().find(|id| name(*id).as_ref() == Some(other)).unwrap_or(add.table)
        }
        _ => add.table,
    };
    let tables: Vec<_> =
        [first].into_iter().chain(waiting.keys().copied().filter(|id| *id != first)).collect();
    for table in tables {
        let Some(list) = waiting.get_mut(&table) else { continue };
        while let Some(rule) = list.pop() {
            if !gone.contains(&rule) {
                return Some(rule);
            }
        }
    }
    None
}

/// Applies a change to a configuration as drivers do, as far as the usage is concerned.
pub fn apply(configuration: &mut Configuration, change: &Change) {
    match change {
        Change::Add(rule) => configuration.rules.push(*rule),
        Change::Remove(rule) => {
            if let Some(index) = configuration.rules.iter().position(|other| other == rule) {
                configuration.rules.remove(index);
            }
        }
        Change::SetContext { to, .. } => match configuration.contexts.iter_mut().find(|c| c.id == to.id) {
            Some(context) => *context = to.clone(),
            None => {
                configuration.contexts.push(to.clone());
                configuration.contexts.sort_by_key(|context| context.id);
            }
        },
        Change::RemoveContext(context) => configuration.contexts.retain(|other| other.id != context.id),
        Change::SetKey { to, .. } => configuration.key = to.clone(),
    }
}

/// Whether precedence among a table's overlapping rules depends on their age.
const fn by_age(order: Order) -> bool {
    matches!(order, Order::Priority | Order::Newest | Order::Location)
}

#[cfg(test)]
mod tests;
