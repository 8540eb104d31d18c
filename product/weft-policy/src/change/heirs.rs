//! The lanes that take over the packets of lanes that are gone.

use crate::budget::{Budget, Steps};
use crate::compiled::{CompiledPolicy, Rule};
use crate::region::Region;
use crate::validate::terms::Cgroups;
use std::collections::BTreeMap;
use weft_packet::Match;
use weft_units::{ClassId, LaneId};

/// The heir of each lane of `old` that `new`, which has its numbers, does not have: the lane of its own class for its
/// destination, if the class still has rules; otherwise that of the class whose rule, as the first, takes everything that the
/// lane's first rule took.
///
/// A rule that takes but a part does not count, however early it is: the packets of a class would otherwise go before
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
        let of = region(old, lane, class);
        let renamed = Region { port: of.port.map(|number| number_in(new, old, number)), ..of };
        if has_rules.contains_key(&class) {
            return (lane, lane_for(new, class, &renamed));
        }
        let row = firsts.get(&class).map_or_else(Match::default, |rule| narrowed(&rule.matcher, of));
        let row = translated(&row, old, &cgroups, &ports);
        let budget = Budget::new(Steps::WHOLE);
        let of = Cgroups { paths: &cgroups, budget: &budget };
        let takes = |rule: &&Rule| of.covers(&rule.matcher, &row);
        let heir = new.rules.iter().find(takes).map_or(new.default_class(), |rule| rule.class);
        (lane, lane_for(new, heir, &renamed))
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

/// The packets of `lane`, a lane of `class`; all for the lane of packets that no other takes.
fn region(policy: &CompiledPolicy, lane: LaneId, class: ClassId) -> Region {
    let rows = policy.destinations.get(class.index()).map(Vec::as_slice).unwrap_or_default();
    let row = rows.iter().find(|row| row.lane == lane);
    row.map_or_else(Region::default, |row| Region { to: row.to, port: row.port })
}

/// The lane of `new` for the packets of `lane`, a lane of both policies, at the port of that name, or at one that no rule
/// names. `new` has the numbers of `old`.
pub fn successor_at(old: &CompiledPolicy, new: &CompiledPolicy, lane: LaneId, port: Option<&str>) -> LaneId {
    let class = old.program.lanes.get(lane.index()).map_or(ClassId(0), |lane| lane.class);
    let rows = |policy: &CompiledPolicy| {
        policy.destinations_at(class, port.map_or(0, |name| policy.port_number(name)))
    };
    let to = rows(old).into_iter().find(|row| row.lane == lane).and_then(|row| row.to);
    let of = Region { to, port: None };
    let row = rows(new).into_iter().find(|row| Region { to: row.to, port: None }.covers(&of));
    row.map_or(lane, |row| row.lane)
}

/// The number in `policy` of port number `number` of `other`; one that no port has if it does not name the port.
fn number_in(policy: &CompiledPolicy, other: &CompiledPolicy, number: u16) -> u16 {
    let name = other.ports.get(usize::from(number).wrapping_sub(1));
    let here = name.map_or(0, |name| policy.port_number(name));
    if here == 0 { u16::MAX } else { here }
}

/// The lane of the packets of `class` in a region.
fn lane_for(policy: &CompiledPolicy, class: ClassId, of: &Region) -> LaneId {
    let rows = policy.destinations.get(class.index()).map(Vec::as_slice).unwrap_or_default();
    let row = rows.iter().find(|row| Region { to: row.to, port: row.port }.covers(of));
    row.map_or(LaneId(0), |row| row.lane)
}

/// The packets of `row` in a region.
fn narrowed(row: &Match, of: Region) -> Match {
    let both = match (row.dst, of.to) {
        (Some(dst), Some(to)) => dst.intersect(&to).or(Some(dst)),
        (dst, to) => dst.or(to),
    };
    Match { dst: both, port: row.port.or(of.port), ..row.clone() }
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
