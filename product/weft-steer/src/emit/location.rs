//! Locations in a device's list of rules: ethtool's `loc` and tc's `pref`. The lowest one has precedence.

use crate::nic::configuration::{Configuration, Rule};
use crate::nic::{Interface, Nic, TableId};
use std::collections::{BTreeMap, BTreeSet};
use weft_packet::header_match::HeaderMatch;

/// The locations of a device's rules. Each table has its own block, divided by priority, the highest first.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Locations {
    of: BTreeMap<(TableId, HeaderMatch, u8), u32>,
    used: BTreeSet<u32>,
}

impl Locations {
    /// Assigns locations to a configuration's rules, added one after the other.
    pub fn of(nic: &Nic, configuration: &Configuration) -> Self {
        let mut locations = Self::default();
        for rule in &configuration.rules {
            locations.add(nic, rule);
        }
        locations
    }

    /// Records the known location of a rule, such as one read from a device.
    pub fn set(&mut self, rule: &Rule, location: u32) {
        self.used.insert(location);
        self.of.insert((rule.table, rule.headers, rule.priority), location);
    }

    /// Reserves a location whose rule the model does not have.
    pub fn reserve(&mut self, location: u32) {
        self.used.insert(location);
    }

    /// Returns a rule's location.
    pub fn get(&self, rule: &Rule) -> Option<u32> {
        self.of.get(&(rule.table, rule.headers, rule.priority)).copied()
    }

    /// Returns a location for a new rule: free, in its priority's block, and after older overlapping rules of its priority.
    /// `None` if there is no such location.
    pub fn add(&mut self, nic: &Nic, rule: &Rule) -> Option<u32> {
        let (first, last) = block(nic, rule.table, rule.priority)?;
        let overlapping = self.of.iter().filter(|((table, headers, priority), _)| {
            *table == rule.table && *priority == rule.priority && !headers.is_disjoint(&rule.headers)
        });
        // Most rules share a mask and do not overlap, so only a table with several masks is searched.
        let least = if one_mask(&self.of, rule) {
            first
        } else {
            overlapping.map(|(_, location)| location + 1).max().unwrap_or(first).max(first)
        };
        let location = (least..=last).find(|location| !self.used.contains(location))?;
        self.set(rule, location);
        Some(location)
    }

    /// Returns the priority of a table's rule from the block of its location.
    pub fn priority(nic: &Nic, table: TableId, location: u32) -> Option<u8> {
        let (low, high) = nic.table(table)?.priorities;
        (low..=high).find(|priority| {
            block(nic, table, *priority).is_some_and(|(first, last)| (first..=last).contains(&location))
        })
    }

    /// Frees a rule's location.
    pub fn remove(&mut self, rule: &Rule) -> Option<u32> {
        let location = self.of.remove(&(rule.table, rule.headers, rule.priority))?;
        self.used.remove(&location);
        Some(location)
    }
}

/// Whether all rules in the rule's table have its mask.
fn one_mask(of: &BTreeMap<(TableId, HeaderMatch, u8), u32>, rule: &Rule) -> bool {
    of.keys()
        .filter(|(table, _, _)| *table == rule.table)
        .all(|(_, headers, _)| headers.mask_only() == rule.headers.mask_only())
}

/// Returns the first and last location of a rule's table and priority. Tables of one interface share a list.
fn block(nic: &Nic, id: TableId, priority: u8) -> Option<(u32, u32)> {
    let table = nic.table(id)?;
    let capacity = |table: &crate::nic::Table| {
        let pool = table.pool.and_then(|pool| nic.pools.get(usize::from(pool.0)));
        table.capacity.saturating_add(pool.map_or(0, |pool| pool.capacity))
    };
    // tc's preferences start at 1.
    let base = u32::from(table.interface == Interface::Flower);
    let before: u32 = nic
        .tables()
        .take_while(|(other, _)| *other != id)
        .filter(|(_, other)| other.interface == table.interface)
        .map(|(_, other)| capacity(other))
        .sum();
    let (low, high) = table.priorities;
    let levels = u32::from(high.saturating_sub(low)) + 1;
    let level = u32::from(high.saturating_sub(priority.clamp(low, high)));
    let size = capacity(table);
    let start = |level: u32| (u64::from(size) * u64::from(level) / u64::from(levels)) as u32;
    let first = base + before + start(level);
    let next = base + before + start(level + 1);
    (next > first).then(|| (first, next - 1))
}
