//! The lanes that take over the packets of lanes that are gone.

use crate::compiled::{CompiledPolicy, Rule};
use crate::validate::terms::Cgroups;
use std::collections::BTreeMap;
use weft_packet::Match;
use weft_units::{ClassId, LaneId};

/// The heir of each lane of `old` that `new`, which has its numbers, does not have: the lane of the first rule of `new` that
/// takes everything that the lane's first rule took. Only rules of the lane's own class count if it still has rules.
///
/// A rule that takes but a part does not count, however early it stands: the packets of a class would otherwise go before
/// everything if a single port of it is now urgent.
pub(super) fn heirs(old: &CompiledPolicy, new: &CompiledPolicy) -> Vec<(LaneId, LaneId)> {
    let stays = |at: usize| new.program.lanes.get(at).is_some_and(|lane| !lane.is_vacant());
    let mut gone: BTreeMap<LaneId, Option<&Rule>> = BTreeMap::new();
    for (at, lane) in old.program.lanes.iter().enumerate() {
        if !lane.is_vacant() && !stays(at) {
            gone.insert(LaneId::from_index(at), None);
        }
    }
    if gone.is_empty() {
        return Vec::new();
    }
    for rule in &old.rules {
        if let Some(first) = gone.get_mut(&rule.lane) {
            first.get_or_insert(rule);
        }
    }
    let mut cgroups = new.cgroups.clone();
    cgroups.extend(old.cgroups.iter().filter(|path| !new.cgroups.contains(path)).cloned());
    let by_class = rules_by_class(new);
    let heir = |(lane, first): (LaneId, Option<&Rule>)| {
        let row = first.map_or_else(Match::default, |rule| translated(&rule.matcher, old, &cgroups));
        let takes = |rule: &&Rule| Cgroups(&cgroups).covers(&rule.matcher, &row);
        let class = old.program.lanes[lane.index()].class;
        let own = by_class.get(&class).map(Vec::as_slice).unwrap_or_default();
        let last = own.last().copied().or(new.rules.last());
        let of_class = own.iter().copied().find(takes);
        let of_all = || if own.is_empty() { new.rules.iter().find(takes) } else { None };
        (lane, of_class.or_else(of_all).or(last).map_or(LaneId(0), |rule| rule.lane))
    };
    gone.into_iter().map(heir).collect()
}

fn rules_by_class(policy: &CompiledPolicy) -> BTreeMap<ClassId, Vec<&Rule>> {
    let mut by_class: BTreeMap<ClassId, Vec<&Rule>> = BTreeMap::new();
    for rule in &policy.rules {
        if let Some(lane) = policy.program.lanes.get(rule.lane.index()) {
            by_class.entry(lane.class).or_default().push(rule);
        }
    }
    by_class
}

/// A row of `policy` with its cgroup's number in `cgroups`.
fn translated(row: &Match, policy: &CompiledPolicy, cgroups: &[String]) -> Match {
    let path = row.cgroup.and_then(|number| policy.cgroups.get(usize::from(number)));
    let number = path.and_then(|path| cgroups.iter().position(|known| known == path));
    Match { cgroup: number.and_then(|number| u8::try_from(number).ok()), ..row.clone() }
}
