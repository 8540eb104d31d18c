//! Random programs, scenes and numbers of workers, with rates that change, beside one engine for all.

use crate::workers::scenes::{SPAN, gigabits, scatter, shared};
use proptest::prelude::*;
use weft_sched::program::{Child, Discipline, LeafDiscipline, LeafSpec, NodeSpec};
use weft_sched::workers::Settings;
use weft_sched::{LaneSpec, LimitSpec, Program};
use weft_sim::workers::{RateChange, Scene, SimulatedBytes, Way, run};
use weft_units::{BitsPerSec, Bytes, ClassId, Instant, LeafId, LimitId, Nanos, NodeId, Packets, Weight};

/// The link of all workers together, in Gb/s.
const LINK: f64 = 10.0;
/// The span of a run, in milliseconds.
const RUN: usize = 130;

/// A class: its weight, and its limit in Mb/s if it has one.
type Class = (u32, Option<u32>);

/// Classes that share, or of which each comes before the next.
#[derive(Clone, Debug)]
struct Group {
    weight: u32,
    strict: bool,
    classes: Vec<Class>,
}

#[derive(Clone, Debug)]
struct Plan {
    groups: Vec<Group>,
    /// A limit over all classes of the first group, in Mb/s.
    over: Option<u32>,
    workers: usize,
    /// Times in milliseconds, limits (as a part of their number), rates in Mb/s.
    changes: Vec<(u64, f64, u32)>,
    seed: u64,
}

fn weight(weight: u32) -> Weight {
    Weight::new(weight).expect("a weight above zero")
}

fn megabits(rate: u32) -> BitsPerSec {
    BitsPerSec(u64::from(rate) * 1_000_000)
}

impl Plan {
    fn program(&self) -> Program {
        let (mut nodes, mut leaves, mut lanes, mut limits) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut limit = |rate: u32| {
            limits.push(LimitSpec { name: "limit".to_owned(), rate: megabits(rate), burst: Bytes(3000) });
            LimitId::from_index(limits.len() - 1)
        };
        let over = self.over.map(&mut limit);
        let mut children = Vec::new();
        for (number, group) in self.groups.iter().enumerate() {
            let mut below = Vec::new();
            for (_, rate) in &group.classes {
                let leaf = LeafId::from_index(leaves.len());
                leaves.push(LeafSpec { name: "leaf".to_owned(), discipline: LeafDiscipline::Fair });
                let above = over.filter(|_| number == 0);
                let limits = rate.map(&mut limit).into_iter().chain(above).collect();
                let class = ClassId::from_index(lanes.len());
                lanes.push(LaneSpec { class, leaf, limits, packet_bound: Packets::MAX });
                below.push(Child::Leaf(leaf));
            }
            let weights = group.classes.iter().map(|(of, _)| weight(*of)).collect();
            let discipline = if group.strict { Discipline::Priority } else { Discipline::Wfq(weights) };
            nodes.push(NodeSpec { name: "group".to_owned(), discipline, children: below });
            children.push(Child::Node(NodeId::from_index(number)));
        }
        let weights = self.groups.iter().map(|group| weight(group.weight)).collect();
        nodes.push(NodeSpec { name: "root".to_owned(), discipline: Discipline::Wfq(weights), children });
        let root = Child::Node(NodeId::from_index(nodes.len() - 1));
        Program { root, nodes, leaves, limits, lanes }
    }

    fn scene(&self) -> Scene {
        let program = self.program();
        let limits = program.limits.len();
        let change = |&(at, limit, rate): &(u64, f64, u32)| RateChange {
            at: Instant::from_millis(at),
            limit: LimitId::from_index((limit * limits as f64) as usize),
            rate: megabits(rate),
        };
        let mut changes: Vec<RateChange> =
            if limits > 0 { self.changes.iter().map(change).collect() } else { Vec::new() };
        changes.sort_by_key(|change| change.at);
        let mut scene = Scene::backlogged(program, self.workers, gigabits(LINK));
        scene.changes = changes;
        scene.span = Nanos::from_millis(RUN as u64);
        scene.seed = self.seed;
        scene
    }
}

fn groups() -> impl Strategy<Value = Vec<Group>> {
    let class = (1_u32..8, prop::option::weighted(0.4, 300_u32..3000));
    let group = (1_u32..8, any::<bool>(), prop::collection::vec(class, 1..4))
        .prop_map(|(weight, strict, classes)| Group { weight, strict, classes });
    prop::collection::vec(group, 1..4)
}

fn plans(workers: impl Strategy<Value = usize>) -> impl Strategy<Value = Plan> {
    let changes = prop::collection::vec((1_u64..RUN as u64, 0.0..1.0, 300_u32..3000), 0..4);
    let over = prop::option::weighted(0.3, 500_u32..3000);
    (groups(), over, workers, changes, 1_u64..1000).prop_map(|(groups, over, workers, changes, seed)| Plan {
        groups,
        over,
        workers,
        changes,
        seed,
    })
}

/// The bytes that `limit` allows in the `buckets` milliseconds from `first` on, with the rates in force.
fn allowed(scene: &Scene, limit: usize, first: usize, buckets: usize) -> f64 {
    let of = |change: &&RateChange| change.limit.index() == limit;
    let nanos = |ms: usize| ms as u64 * 1_000_000;
    let (begin, end) = (nanos(first), nanos(first + buckets));
    let mut sum = 0.0;
    let mut rate = scene.program.limits[limit].rate;
    let mut from = begin;
    for change in scene.changes.iter().filter(of) {
        let at = change.at.as_nanos().clamp(begin, end);
        sum += rate.get() as f64 / 8e9 * (at - from) as f64;
        (rate, from) = (change.rate, at);
    }
    sum + rate.get() as f64 / 8e9 * (end - from) as f64
}

/// The largest rate that a limit ever has.
fn largest(scene: &Scene, limit: usize) -> BitsPerSec {
    let changes = scene.changes.iter().filter(|change| change.limit.index() == limit);
    changes.map(|change| change.rate).fold(scene.program.limits[limit].rate, BitsPerSec::max)
}

/// The bytes of `rate` in `span`.
fn bytes_in(rate: BitsPerSec, span: Nanos) -> f64 {
    rate.bytes_in(span).get() as f64
}

impl Plan {
    /// The largest difference in bytes between what a class sends in a span and the `due` of one engine, where no other class has
    /// its turns while it waits for a lease:
    /// * a thousandth, as shares are promised, and two packets at each worker: one that is just sent, and one more in an exchange;
    /// * the most that a limit may be exceeded by. A class may be that much behind its limit too, and others then have these bytes;
    /// * after a change of a rate, the change of it until the workers have charged each other for it: twice as many exchanges as there
    ///   are workers, each of which may wait for a packet.
    fn slack(&self, scene: &Scene, due: f64) -> f64 {
        let (settings, workers) = (Settings::default(), self.workers as u64);
        let packets = 2.0 * settings.segment.get() as f64 * workers as f64;
        let limits = 0..scene.program.limits.len();
        let excess = limits.map(|limit| settings.excess(largest(scene, limit), Bytes(3000)).get());
        let settling = (settings.period + scene.links[0].time_for(settings.segment)).get() * 2 * workers;
        let change = |at: usize| {
            let RateChange { limit, rate, .. } = scene.changes[at];
            let before = scene.changes[..at].iter().rev().find(|before| before.limit == limit);
            let before = before.map_or(scene.program.limits[limit.index()].rate, |before| before.rate);
            bytes_in(BitsPerSec(before.get().abs_diff(rate.get())), Nanos(settling))
        };
        let changes: f64 = (0..scene.changes.len()).map(change).sum();
        due * 0.001 + packets + excess.max().unwrap_or(0) as f64 + changes
    }

    /// Whether classes of a group have turns that are meant for one that waits for a lease. Such turns are given back only as far as
    /// the class has more turns than its limit allows. A class of the group has a limit, and
    /// * others come behind it by strict priority, or they pass one more limit; or
    /// * its turns at a worker are rarer than the four exchanges after which an unused lease is given back. An exchange may wait for a packet.
    fn loses_turns(&self, scene: &Scene, number: usize, due: &[f64]) -> bool {
        let Group { strict, classes, .. } = &self.groups[number];
        let first: usize = self.groups[..number].iter().map(|group| group.classes.len()).sum();
        let settings = Settings::default();
        let exchanges = (settings.period + scene.links[0].time_for(settings.segment)).get() * 4;
        let rare = |bytes: f64| {
            let span = SPAN as f64 * 1e6;
            (settings.segment.get() * self.workers as u64) as f64 * span > exchanges as f64 * bytes
        };
        let mut limited = classes.iter().zip(&due[first..]).filter(|((_, limit), _)| limit.is_some());
        let layers = *strict || (number == 0 && self.over.is_some());
        limited.any(|(_, due)| layers || rare(*due))
    }

    /// The first class that differs from what one engine gives it by more than it may, if there is one.
    fn difference(&self, scene: &Scene, ours: &SimulatedBytes) -> Option<String> {
        let one = run(scene, Way::OneLock(Nanos::ZERO)).expect("a valid scene");
        let link = bytes_in(gigabits(LINK), Nanos::from_millis(SPAN as u64));
        let groups = self.groups.iter().enumerate();
        let of_lane: Vec<usize> = groups.flat_map(|(at, group)| vec![at; group.classes.len()]).collect();
        let due: Vec<f64> = (0..of_lane.len()).map(|lane| one.bytes(lane, 20, SPAN) as f64).collect();
        (0..of_lane.len()).find_map(|lane| {
            let (mine, slack) = (ours.bytes(lane, 20, SPAN) as f64, self.slack(scene, due[lane]));
            let loses_turns = self.loses_turns(scene, of_lane[lane], &due);
            let (most, due) = (if loses_turns { slack.max(link * 0.05) } else { slack }, due[lane]);
            let differs = (mine - due).abs() > most;
            differs
                .then(|| format!("lane {lane}: {mine} and {due}, {:.0} above {most:.0}", (mine - due).abs()))
        })
    }
}

/// A plan without changes: two groups, and a class with a limit that no other comes behind.
fn plain(workers: usize) -> Plan {
    let group = |classes: &[Class]| Group { weight: 1, strict: false, classes: classes.to_vec() };
    let groups = vec![group(&[(50, None), (50, Some(2000))]), group(&[(50, None), (50, None)])];
    Plan { groups, over: None, workers, changes: Vec::new(), seed: 1 }
}

/// An error of a fiftieth is noticed: in a limit, and in a weight.
#[test]
fn planted_errors_are_noticed() {
    for workers in [2, 8, 23] {
        let right = plain(workers);
        let scene = right.scene();
        assert_eq!(right.difference(&scene, &shared(&scene)), None, "{workers} workers");
        let mut limit = right.clone();
        limit.groups[0].classes[1].1 = Some(2040);
        let mut weight = right.clone();
        weight.groups[1].classes[0].0 = 51;
        for wrong in [limit, weight] {
            let found = right.difference(&scene, &shared(&wrong.scene()));
            assert!(found.is_some(), "{workers} workers: {wrong:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// All classes are backlogged at all workers: each has what one engine gives it, while rates change, up to what the design says
    /// ([`Plan::slack`]), and up to a twentieth of the link where classes wait for leases while others have their turns.
    #[test]
    fn classes_have_what_one_engine_gives_them(plan in plans(2_usize..24)) {
        let scene = plan.scene();
        let difference = plan.difference(&scene, &shared(&scene));
        prop_assert!(difference.is_none(), "{}", difference.unwrap_or_default());
    }

    /// Classes come and go, workers stall, rates change: no limit is exceeded in any 100 ms by more than is promised.
    #[test]
    fn no_limit_is_exceeded(plan in plans(2_usize..=64), stall in 0_u64..500) {
        let mut scene = plan.scene();
        scatter(&mut scene, plan.seed, &[50, 300, 5000]);
        scene.stall = Nanos::from_micros(stall);
        let outcome = shared(&scene);
        let settings = Settings::default();
        for limit in 0..scene.program.limits.len() {
            let id = LimitId::from_index(limit);
            let passes = |lane: &usize| scene.program.lanes[*lane].limits.contains(&id);
            let lanes: Vec<usize> = (0..scene.program.lanes.len()).filter(passes).collect();
            let excess = settings.excess(largest(&scene, limit), Bytes(3000)).get() as f64;
            for (first, sent) in outcome.windows(SPAN, 0).enumerate() {
                let sent: u64 = lanes.iter().map(|lane| sent[*lane]).sum();
                let most = allowed(&scene, limit, first, SPAN) + excess;
                prop_assert!(sent as f64 <= most, "limit {limit}, from {first} ms: {sent} of {most}");
            }
        }
    }
}
