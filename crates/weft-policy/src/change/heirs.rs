//! The lanes that take over the packets of lanes that are gone.

use crate::compiled::{CompiledPolicy, Rule};
use crate::validate::terms::Cgroups;
use std::collections::BTreeMap;
use weft_packet::{Match, Prefix};
use weft_units::{ClassId, LaneId};

/// The heir of each lane of `old` that `new`, which has its numbers, does not have: the lane of its own class for its
/// destination, if the class still has rules; otherwise that of the class whose rule, as the first, takes everything that the
/// lane's first rule took.
///
/// A rule that takes but a part does not count, however early it stands: the packets of a class would otherwise go before
/// everything if a single port of it is now urgent.
pub(super) fn heirs(old: &CompiledPolicy, new: &CompiledPolicy) -> Vec<(LaneId, LaneId)> {
    let stays = |at: usize| new.program.lanes.get(at).is_some_and(|lane| !lane.is_vacant());
    let lanes = old.program.lanes.iter().enumerate();
    let gone: Vec<(LaneId, ClassId)> = lanes
        .filter(|(at, lane)| !lane.is_vacant() && !stays(*at))
        .map(|(at, lane)| (LaneId::from_index(at), lane.class))
        .collect();
    if gone.is_empty() {
        return Vec::new();
    }
    let firsts = first_rules(old);
    let has_rules = first_rules(new);
    let mut cgroups = new.cgroups.clone();
    cgroups.extend(old.cgroups.iter().filter(|path| !new.cgroups.contains(path)).cloned());
    let mut ports = new.ports.clone();
    ports.extend(old.ports.iter().filter(|name| !new.ports.contains(name)).cloned());
    let heir = |(lane, class): (LaneId, ClassId)| {
        let to = destination(old, lane, class);
        if has_rules.contains_key(&class) {
            return (lane, lane_for(new, class, to));
        }
        let row = firsts.get(&class).map_or_else(Match::default, |rule| narrowed(&rule.matcher, to));
        let row = translated(&row, old, &cgroups, &ports);
        let takes = |rule: &&Rule| Cgroups(&cgroups).covers(&rule.matcher, &row);
        let heir = new.rules.iter().find(takes).map_or(new.default_class(), |rule| rule.class);
        (lane, lane_for(new, heir, to))
    };
    gone.into_iter().map(heir).collect()
}

/// The first rule of each class that has one.
fn first_rules(policy: &CompiledPolicy) -> BTreeMap<ClassId, &Rule> {
    let mut firsts = BTreeMap::new();
    for rule in &policy.rules {
        firsts.entry(rule.class).or_insert(rule);
    }
    firsts
}

/// The destination of the packets of `lane`, a lane of `class`; `None` for all others.
fn destination(policy: &CompiledPolicy, lane: LaneId, class: ClassId) -> Option<Prefix> {
    let rows = policy.destinations.get(class.index()).map(Vec::as_slice).unwrap_or_default();
    rows.iter().find(|row| row.lane == lane).and_then(|row| row.to)
}

/// The lane of packets of `class` to all of `to`.
fn lane_for(policy: &CompiledPolicy, class: ClassId, to: Option<Prefix>) -> LaneId {
    let rows = policy.destinations.get(class.index()).map(Vec::as_slice).unwrap_or_default();
    let takes = |covers: Prefix| to.is_some_and(|to| covers.covers(&to));
    let row = rows.iter().find(|row| row.to.is_none_or(takes));
    row.map_or(LaneId(0), |row| row.lane)
}

/// The packets of `row` to `to`.
fn narrowed(row: &Match, to: Option<Prefix>) -> Match {
    let both = match (row.dst, to) {
        (Some(dst), Some(to)) => dst.intersect(&to).or(Some(dst)),
        (dst, to) => dst.or(to),
    };
    Match { dst: both, ..row.clone() }
}

/// A row of `policy` with the numbers of its cgroup in `cgroups` and of its port in `ports`.
fn translated(row: &Match, policy: &CompiledPolicy, cgroups: &[String], ports: &[String]) -> Match {
    let path = row.cgroup.and_then(|number| policy.cgroups.get(usize::from(number)));
    let cgroup = path.and_then(|path| cgroups.iter().position(|known| known == path));
    let name = row.port.and_then(|number| policy.ports.get(usize::from(number).wrapping_sub(1)));
    let port = name.and_then(|name| ports.iter().position(|known| known == name));
    Match {
        cgroup: cgroup.and_then(|number| u8::try_from(number).ok()),
        port: port.and_then(|number| u16::try_from(number + 1).ok()),
        ..row.clone()
    }
}
