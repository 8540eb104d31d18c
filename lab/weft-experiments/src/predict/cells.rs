//! The configurations: patterns and flow counts of `weft profile`, its requests, and Titan's configurations on a link of 1 Gb/s.

use weft_profile::fit::cell_name;
use weft_profile::level::Level;
use weft_profile::pattern::{FlowCount, FlowLayout, Pattern};
use weft_profile::setup::{LinkQdisc, RatedLink, Setup};
use weft_profile::traffic::TrafficLoad;
use weft_units::{BitsPerSec, Bytes};

/// The rate of Titan's link here; the papers have ten times as much.
pub(crate) const LINK: BitsPerSec = BitsPerSec(1_000_000_000);
/// More than a flow ever has outstanding: TCP small queues are off.
const NO_SMALL_QUEUES: Bytes = Bytes(1 << 30);
/// Titan's smaller segments (technical report, Table 2, C9).
const SMALL_SEGMENT: Bytes = Bytes(16 << 10);

/// A configuration.
#[derive(Clone, Debug)]
pub(super) struct One {
    pub(super) name: String,
    pub(super) level: Level,
    /// The configuration of `experiments/veth.toml`.
    pub(super) config: &'static str,
}

/// Configurations that a session measures together.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) pattern: Pattern,
    pub(super) flows: FlowCount,
    pub(super) layout: FlowLayout,
    pub(super) load: TrafficLoad,
    pub(super) setup: Setup,
    pub(super) cells: Vec<One>,
    /// The reason that no veth can have them.
    pub(super) not_here: Option<&'static str>,
}

/// Patterns, flows and levels. `weft profile`'s guide fits `single`, `incast` and `outcast` at their default of one flow.
const PATTERNS: [(Pattern, FlowCount, &[Level]); 6] = [
    (Pattern::OneToOne, FlowCount::Each(2), &[Level::NoOpt, Level::TsoGro, Level::Jumbo, Level::Arfs]),
    (Pattern::OneToOne, FlowCount::Each(6), &[Level::TsoGro, Level::Arfs]),
    (Pattern::Incast, FlowCount::Each(4), &[Level::Tso, Level::Gro, Level::TsoGro]),
    (Pattern::Outcast, FlowCount::Each(4), &[Level::Tso, Level::Gro, Level::TsoGro]),
    (Pattern::AllToAll, FlowCount::Each(2), &[Level::NoOpt, Level::TsoGro]),
    (Pattern::AllToAll, FlowCount::Each(4), &[Level::TsoGro, Level::Arfs]),
];

/// Patterns and flows of requests, at the level with all that a veth has but jumbo frames.
const REQUESTS: [(Pattern, FlowCount); 2] =
    [(Pattern::OneToOne, FlowCount::Each(2)), (Pattern::Incast, FlowCount::Each(4))];
/// Bytes of a request and of its answer, the least of the study.
const REQUEST: Bytes = Bytes(4 << 10);

const NO_BQL: &str = "a veth has no byte queue limits, by which these differ from C4";
const NO_INTERRUPTS: &str = "a veth has neither byte queue limits nor interrupts";
const NO_QUEUES: &str =
    "a veth serves no queues in turn; `weft reproduce titan --measured` runs it on the software NIC";

/// Titan's configurations, with the reason that a veth cannot have one.
const TITAN: [(&str, Option<&str>); 12] = [
    ("C1", None),
    ("C2", None),
    ("C3", Some(NO_BQL)),
    ("C4", None),
    ("C5", Some(NO_BQL)),
    ("C6", Some(NO_INTERRUPTS)),
    ("C7", Some(NO_INTERRUPTS)),
    ("C8", None),
    ("C9", None),
    ("T1", Some(NO_QUEUES)),
    ("T2", Some(NO_QUEUES)),
    ("T3", Some(NO_QUEUES)),
];
/// The flow counts of the technical report's Tables 3 and 5.
const TITAN_FLOWS: [u32; 3] = [3, 12, 48];

/// All configurations whose names contain `only` and that were not fitted; and the names of those that were.
pub(super) fn groups(processors: &[u32], fitted: &[String], only: &str) -> (Vec<Group>, Vec<String>) {
    let mut groups: Vec<Group> = PATTERNS.iter().map(|pattern| of_pattern(pattern, processors)).collect();
    groups.extend(REQUESTS.iter().map(|(pattern, flows)| requests(*pattern, *flows, processors)));
    for flows in TITAN_FLOWS {
        groups.extend(TITAN.iter().map(|(config, not_here)| titan(config, *not_here, flows, processors)));
    }
    let mut left_out = Vec::new();
    for group in &mut groups {
        group.cells.retain(|cell| {
            let is_fitted = fitted.contains(&cell.name);
            if is_fitted {
                left_out.push(cell.name.clone());
            }
            !is_fitted && cell.name.contains(only)
        });
    }
    groups.retain(|group| !group.cells.is_empty());
    (groups, left_out)
}

fn of_pattern(
    (pattern, flows, levels): &(Pattern, FlowCount, &'static [Level]),
    processors: &[u32],
) -> Group {
    let layout = FlowLayout::new(*pattern, *flows, processors);
    let one = |level: &Level| One {
        name: cell_name(pattern.name(), layout.flows.len() as u32, level.name()),
        level: *level,
        config: level.name(),
    };
    let cells = levels.iter().map(one).collect();
    let (load, setup) = (TrafficLoad::Bulk, Setup::default());
    Group { pattern: *pattern, flows: *flows, layout, load, setup, cells, not_here: None }
}

fn requests(pattern: Pattern, flows: FlowCount, processors: &[u32]) -> Group {
    let layout = FlowLayout::new(pattern, flows, processors);
    let name = format!("{} {}x, requests of 4 KiB", pattern.name(), layout.flows.len());
    let cells = vec![One { name, level: Level::TsoGro, config: Level::TsoGro.name() }];
    let (load, setup) = (TrafficLoad::Requests(REQUEST), Setup::default());
    Group { pattern, flows, layout, load, setup, cells, not_here: None }
}

fn titan(config: &'static str, not_here: Option<&'static str>, flows: u32, processors: &[u32]) -> Group {
    let flow_count = FlowCount::Each(flows);
    let qdisc = if config == "C4" { LinkQdisc::Sfq } else { LinkQdisc::Fifo };
    let setup = Setup {
        link: Some(RatedLink { rate: LINK, qdisc }),
        limit_output: (config == "C2").then_some(NO_SMALL_QUEUES),
        segment: (config == "C9").then_some(SMALL_SEGMENT),
    };
    let level = if config == "C8" { Level::Gro } else { Level::TsoGro };
    let cells = vec![One { name: format!("{config}, {flows} flows"), level, config }];
    let layout = FlowLayout::new(Pattern::OneToOne, flow_count, processors);
    let load = TrafficLoad::Bulk;
    Group { pattern: Pattern::OneToOne, flows: flow_count, layout, load, setup, cells, not_here }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_fitted_ones_are_left_out() {
        let (groups_all, none) = groups(&[0, 1, 2, 3], &[], "");
        let names: Vec<&str> = groups_all.iter().flat_map(super::super::names).collect();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "{names:?}");
        assert!(none.is_empty() && names.contains(&"C1, 12 flows"), "{names:?}");
        let fitted = vec!["one-to-one 2x noopt".to_owned(), "single 1x noopt".to_owned()];
        let (rest, left_out) = groups(&[0, 1, 2, 3], &fitted, "");
        assert_eq!(left_out, ["one-to-one 2x noopt"]);
        assert_eq!(rest.iter().flat_map(super::super::names).count(), names.len() - 1);
        assert_eq!(groups(&[0, 1], &[], "C9, ").0.len(), 3);
        assert_eq!(groups(&[0, 1], &[], "requests").0.len(), 2);
    }

    /// The patterns differ in more than their names: a machine of two processors has flows of other numbers than were fitted.
    #[test]
    fn a_small_machine_has_all_configurations() {
        let (of_two, _) = groups(&[0, 1], &[], "");
        assert_eq!(of_two.len(), groups(&[0, 1, 2, 3, 4, 5, 6, 7], &[], "").0.len());
        assert!(of_two.iter().all(|group| group.layout.flows.len() >= 2));
    }
}
