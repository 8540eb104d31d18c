//! Plans of changed policies: rings, ids and uses over single changes and random sequences.

use super::*;
use crate::plan::{Mode, PortShare, Vacancies};
use proptest::prelude::*;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex};
use weft_policy::{CompileOptions, INFRASTRUCTURE, Source, compile};
use weft_units::ClassId;

const SHARE: PortShare = PortShare { rings: 64, flows: 16_384, spare: 24 };
const START: Instant = Instant::from_secs(100);

fn policy(text: &str) -> CompiledPolicy {
    let compiled = compile(Source { name: "test", text }, &CompileOptions::default());
    compiled.policy.unwrap_or_else(|| panic!("{text}: {:?}", compiled.diagnostics))
}

/// A port and the bookkeeping of its NIC, without devices.
struct Nic {
    /// The NIC's own plan, from which later ports are planned.
    base: RingPlan,
    port: RingPlan,
    uses: Vec<RingUse>,
    vacancies: Vacancies,
    now: Instant,
}

impl Nic {
    fn new(text: &str, share: PortShare) -> Self {
        let base = RingPlan::new(&policy(text), Mode::Loom, 256, &[]).expect("a plan");
        let port = base.of_port("weft0", Mode::Loom, share, &[]).expect("a port");
        let uses = port.uses();
        let nic = Self { base, port, uses, vacancies: Vacancies::default(), now: START };
        nic.check();
        nic
    }

    fn wait(&mut self, span: Nanos) {
        self.now += span;
    }

    /// Changes to `policy`. Returns the change, which is in force then.
    fn change(
        &mut self,
        policy: &CompiledPolicy,
        is_empty: impl Fn(usize) -> bool,
    ) -> Result<PlanChange, PlanError> {
        let busy = |uses: &[RingUse], rings: &[RingSpec], class: ClassId| {
            rings.iter().zip(uses).enumerate().any(|(ring, (spec, of))| {
                spec.class == Some(class) && matches!(of, RingUse::Retired(_)) && !is_empty(ring)
            })
        };
        let resting = self.vacancies.resting(self.now, |class| busy(&self.uses, &self.port.rings, class));
        let new = self.base.renumber(policy, &resting)?;
        let change = self.port.change(&new, &self.uses, &is_empty, self.now)?;
        self.vacancies.record(&self.base.whole, &new.whole, self.now);
        self.base = self.base.with_policy(&new);
        (self.port, self.uses) = (change.plan.clone(), change.uses.clone());
        self.vacancies.release(self.now, |class| busy(&self.uses, &self.port.rings, class));
        self.check();
        Ok(change)
    }

    fn to(&mut self, text: &str) -> PlanChange {
        self.change(&policy(text), |_| true).expect("a change")
    }

    fn class(&self, name: &str) -> ClassId {
        let at = self.port.whole.classes.iter().position(|class| class.name == name);
        ClassId::from_index(at.unwrap_or_else(|| panic!("{name}: {:?}", self.port.whole.classes)))
    }

    /// The lanes of the class `name`.
    fn lanes_of(&self, name: &str) -> Vec<usize> {
        let class = self.class(name);
        let lanes = self.port.whole.program.lanes.iter().enumerate();
        lanes.filter(|(_, lane)| !lane.is_vacant() && lane.class == class).map(|(at, _)| at).collect()
    }

    /// The rings of the class `name`.
    fn rings_of(&self, name: &str) -> Vec<usize> {
        let ranges = self.lanes_of(name).into_iter().map(|lane| range(&self.port.lanes[lane]));
        ranges.flatten().collect()
    }

    fn used(&self, of: impl Fn(RingUse) -> bool) -> Vec<usize> {
        (0..self.uses.len()).filter(|ring| of(self.uses[*ring])).collect()
    }

    /// Checks the invariants of the port, and of one that is added now.
    fn check(&self) {
        check_plan(&self.port, &self.uses);
        // A port that is added now has the same policy.
        let added = self.base.of_port("other", Mode::Loom, SHARE, &[]).expect("another port");
        check_plan(&added, &added.uses());
        assert_eq!(added.infrastructure, self.port.infrastructure);
    }
}

fn range(entry: &LaneEntry) -> std::ops::Range<usize> {
    let first = usize::from(entry.first_ring);
    first..first + usize::from(entry.rings)
}

fn check_plan(plan: &RingPlan, uses: &[RingUse]) {
    let lanes = &plan.whole.program.lanes;
    assert!(plan.whole.classes.len() <= CLASSES && lanes.len() <= LANES);
    assert_eq!((plan.lanes.len(), plan.rings.len()), (lanes.len(), uses.len()));
    let mut owners = vec![None; uses.len()];
    let here = plan.lanes_here();
    for (at, (lane, entry)) in lanes.iter().zip(&plan.lanes).enumerate() {
        if !here[at] {
            // Its rings are retired, or another lane of its class has them.
            let class = Some(ClassId::from_index(usize::from(entry.class)));
            let rests = |ring: usize| match uses[ring] {
                RingUse::Retired(_) => true,
                RingUse::Lane => plan.rings[ring].class == class,
                RingUse::Spare => false,
            };
            assert!(range(entry).all(rests), "lane {at} is gone and has {:?}: {uses:?}", range(entry));
            continue;
        }
        assert_eq!(usize::from(entry.class), lane.class.index());
        assert!(!range(entry).is_empty(), "lane {at} has no ring");
        for ring in range(entry) {
            assert_eq!(owners[ring].replace(at), None, "ring {ring} of two lanes");
            let spec = RingSpec { lane: LaneId::from_index(at), class: Some(lane.class) };
            assert_eq!(plan.rings[ring], spec, "ring {ring}");
        }
    }
    for (ring, of) in uses.iter().enumerate() {
        assert_eq!(owners[ring].is_some(), *of == RingUse::Lane, "ring {ring}: {of:?}, {:?}", owners[ring]);
        // The engine has each ring in a lane that exists.
        assert!(!lanes[plan.rings[ring].lane.index()].is_vacant(), "ring {ring} is in a vacant lane");
    }
    check_infrastructure(plan);
}

fn check_infrastructure(plan: &RingPlan) {
    let Some(lane) = plan.infrastructure else { return };
    let spec = &plan.whole.program.lanes[lane.index()];
    assert_eq!(plan.whole.classes[spec.class.index()].name, INFRASTRUCTURE);
    let entry = plan.lanes[lane.index()];
    assert_eq!((entry.spread, entry.flow_bound), (Spread::Hash, 0), "its flows are not tracked");
}

const TWO: &str = "class a = tcp\nclass b = udp\nroot = wfq { fair of a: 1, fair of b: 1, default: 1 }";
const THREE: &str = "class c = udp and dport 53\nclass a = tcp\nclass b = udp\nroot = wfq { fair of c: 5, fair of a: 2, fair of b: 1, default: 1 }";

#[test]
fn lanes_that_stay_keep_their_rings_and_new_ones_get_spare_rings_in_a_row() {
    let mut nic = Nic::new(TWO, SHARE);
    let kept = ["a", "b", "default", INFRASTRUCTURE];
    let before = kept.map(|name| (nic.class(name), nic.lanes_of(name), nic.rings_of(name)));
    let spare = nic.used(|of| of == RingUse::Spare);
    assert_eq!(spare.len(), 24);
    let change = nic.to(THREE);
    assert_eq!(kept.map(|name| (nic.class(name), nic.lanes_of(name), nic.rings_of(name))), before);
    let new = nic.rings_of("c");
    assert_eq!(new, spare[..12], "half of the spare rings");
    let changed: Vec<usize> = change.rings.iter().map(|(ring, _)| *ring).collect();
    assert_eq!(changed, new, "no other ring changes");
    assert!(nic.to(THREE).rings.is_empty(), "an equal policy changes nothing");
}

#[test]
fn rings_of_a_gone_lane_are_spare_after_the_rest_and_when_empty() {
    let mut nic = Nic::new(THREE, SHARE);
    let (rings, class) = (nic.rings_of("c"), nic.class("c"));
    let change = nic.change(&policy(TWO), |ring| ring != rings[3]).expect("a change");
    let heir = LaneId::from_index(nic.lanes_of("b")[0]);
    assert_eq!(change.rings.len(), rings.len());
    for (ring, spec) in &change.rings {
        assert!(rings.contains(ring));
        assert_eq!(*spec, RingSpec { lane: heir, class: Some(class) }, "to the heir, in the class that was");
    }
    let retired = |nic: &Nic| nic.used(|of| matches!(of, RingUse::Retired(_)));
    assert_eq!(retired(&nic), rings);
    nic.wait(REST);
    let busy = rings[3];
    nic.change(&policy(TWO), |ring| ring != busy).expect("a change");
    assert_eq!(retired(&nic), rings, "the time has not passed");
    nic.wait(Nanos(1));
    nic.change(&policy(TWO), |ring| ring != busy).expect("a change");
    assert_eq!(retired(&nic), [busy], "it has packets");
    let number = nic.vacancies.resting(nic.now, |of| of == class);
    assert!(number.classes.contains(&class), "nor is its class's number given away");
    nic.change(&policy(TWO), |_| true).expect("a change");
    assert_eq!(retired(&nic), [0; 0]);
}

#[test]
fn rings_pass_on_when_the_heir_goes_too() {
    let mut nic = Nic::new(THREE, SHARE);
    let rings = nic.rings_of("c");
    let class = nic.class("c");
    nic.to(TWO);
    nic.wait(Nanos::from_millis(100));
    let change = nic.to("class a = tcp\nroot = wfq { fair of a: 1, default: 1 }");
    let heir = LaneId::from_index(nic.lanes_of("default")[0]);
    for ring in rings {
        assert!(change.rings.contains(&(ring, RingSpec { lane: heir, class: Some(class) })), "{ring}");
    }
}

#[test]
fn a_class_without_a_spare_ring_is_named() {
    let mut nic = Nic::new(TWO, PortShare { spare: 0, ..SHARE });
    let before = (nic.port.clone(), nic.uses.clone());
    let error = nic.change(&policy(THREE), |_| true).expect_err("no ring");
    assert_eq!(error, PlanError::NoSpareRing { class: "c".to_owned(), retired: RetiredRings::default() });
    assert_eq!((nic.port.clone(), nic.uses.clone()), before);
    // A class that goes makes room, after the rest.
    nic.to("class a = tcp\nroot = wfq { fair of a: 1, default: 1 }");
    let retired = nic.used(|of| matches!(of, RingUse::Retired(_))).len();
    nic.wait(Nanos::from_millis(400));
    let error = nic.change(&policy(THREE), |_| true).expect_err("too soon").to_string();
    let words =
        format!("wait 600 ms, in which the first of {retired} rings of removed classes becomes free, or");
    assert!(error.contains(&words), "{error}");
    nic.wait(REST);
    let error = nic.change(&policy(THREE), |_| false).expect_err("packets are left").to_string();
    let words = format!("wait until the packets in {retired} rings of removed classes have left, or");
    assert!(error.contains(&words), "{error}");
    nic.to(THREE);
}

#[test]
fn more_numbers_than_the_tables_have_are_refused() {
    let mut nic = Nic::new("root = fair of default", PortShare { rings: 256, spare: 250, ..SHARE });
    let classes = |first: usize| {
        let names: Vec<String> = (first..first + 60).map(|n| format!("c{n}")).collect();
        let classes: String =
            names.iter().enumerate().map(|(n, name)| format!("class {name} = dport {}\n", n + 1)).collect();
        policy(&format!("{classes}root = wfq {{ {}: 1, default: 1 }}", names.join(": 1, ")))
    };
    let mut refused = None;
    for round in 0..5 {
        match nic.change(&classes(round * 60), |_| true) {
            Ok(_) => {}
            Err(error) => refused = Some(error),
        }
    }
    let PlanError::Numbers { what: "classes", given, most: CLASSES } = refused.clone().expect("refused")
    else {
        panic!("{refused:?}")
    };
    assert!(given > CLASSES, "{given}");
    nic.wait(REST + Nanos(1));
    nic.change(&classes(900), |_| true).expect("the numbers are free again");
}

#[test]
fn a_policy_may_take_infrastructure_over_and_give_it_back() {
    let own = "class infrastructure = icmp\nclass a = tcp\nclass b = udp\nroot = priority { infrastructure, rest }\n\
               rest = wfq { fair of a: 1, fair of b: 1, default: 1 }";
    let mut nic = Nic::new(TWO, SHARE);
    let class = nic.class(INFRASTRUCTURE);
    assert!(nic.port.infrastructure.is_some());
    nic.to(own);
    assert_eq!((nic.port.infrastructure, nic.class(INFRASTRUCTURE)), (None, class));
    let lane = nic.lanes_of(INFRASTRUCTURE)[0];
    let entry = nic.port.lanes[lane];
    assert!(entry.spread == Spread::RoundRobin && entry.flow_bound > 0, "its flows are tracked: {entry:?}");
    nic.to(TWO);
    assert!(nic.port.infrastructure.is_some() && nic.class(INFRASTRUCTURE) == class);
}

const CAPPED: &str = "class a = tcp\nclass b = udp\nroot = limit by port { \"weft0\": 9mbps } of all\nall = wfq { fair of a: 1, fair of b: 1, default: 1 }";

/// The lanes of a limit that is added take the rings of their classes with the packets in them, and give them back.
#[test]
fn rings_pass_to_the_lanes_of_a_limit_of_the_port_and_back() {
    let plain = "class a = tcp\nclass b = udp\nroot = priority { all }\nall = wfq { fair of a: 1, fair of b: 1, default: 1 }";
    let other = CAPPED.replace("weft0", "other");
    for (before, after) in [(plain, CAPPED), (CAPPED, plain), (CAPPED, other.as_str())] {
        let mut nic = Nic::new(before, SHARE);
        let rings = |nic: &Nic| {
            let here = nic.port.lanes_here();
            ["a", "b"].map(|name| {
                let lanes = nic.lanes_of(name).into_iter().filter(|lane| here[*lane]);
                lanes.map(|lane| (lane, range(&nic.port.lanes[lane]))).collect::<Vec<_>>()
            })
        };
        let (was, spare) = (rings(&nic), nic.used(|of| of == RingUse::Spare));
        let change = nic.change(&policy(after), |_| false).expect("a change");
        let is = rings(&nic);
        for (was, is) in was.iter().zip(&is) {
            assert_eq!((was.len(), is.len()), (1, 1));
            assert!(was[0].0 != is[0].0 && was[0].1 == is[0].1, "{was:?} {is:?}");
            for ring in is[0].1.clone() {
                assert!(change.rings.iter().any(|(of, spec)| *of == ring && spec.lane.index() == is[0].0));
            }
        }
        assert_eq!(nic.used(|of| of == RingUse::Spare), spare, "no spare ring is needed");
    }
}

/// The lanes of other ports need no rings.
#[test]
fn a_port_has_rings_for_its_own_lanes_only() {
    let limits: Vec<String> = (0..60).map(|port| format!("\"p{port}\": 1gbps")).collect();
    let text = CAPPED.replace("\"weft0\": 9mbps", &limits.join(", "));
    let base = RingPlan::new(&policy(&text), Mode::Loom, 256, &[]).expect("a plan");
    assert!(base.whole.program.lanes.len() > 180);
    for name in ["p7", "weft0"] {
        let port = base.of_port(name, Mode::Loom, PortShare { rings: 8, ..SHARE }, &[]).expect("a port");
        assert_eq!(port.lanes.iter().filter(|lane| lane.rings > 0).count(), 4, "and infrastructure");
        check_plan(&port, &port.uses());
        assert!(port.check_port(name).is_ok());
        assert_eq!(port.check_port("p8"), Err(PlanError::OtherPort { name: "p8".to_owned() }));
    }
}

/// A policy of some of six classes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Draft {
    classes: u8,
    fair: u8,
    limited: u8,
    names_infrastructure: bool,
    limits_default: bool,
    limits_port: Option<u8>,
}

impl Draft {
    fn text(self) -> String {
        let has = |bits: u8, at: u8| bits & (1 << at) != 0;
        let (mut head, mut children, mut tail) = (String::new(), Vec::new(), String::new());
        if self.names_infrastructure {
            head += "class infrastructure = icmp\n";
            children.push("infrastructure: 1".to_owned());
        }
        for at in (0..6).filter(|at| has(self.classes, *at)) {
            head += &format!("class c{at} = udp and dport {}\n", at + 1);
            let inner = if has(self.fair, at) { format!("fair of c{at}") } else { format!("c{at}") };
            if has(self.limited, at) {
                tail += &format!(
                    "l{at} = limit by destination {{ 10.0.1.0/24: 8mbps, 10.0.2.0/24: 9mbps }} of f{at}\nf{at} = {inner}\n"
                );
                children.push(format!("l{at}: {}", at + 1));
            } else {
                children.push(format!("{inner}: {}", at + 1));
            }
        }
        if self.limits_default {
            tail += "capped = limit 50mbps of default\n";
        }
        children.push(if self.limits_default { "capped: 1" } else { "default: 1" }.to_owned());
        let limit = match self.limits_port {
            Some(port) => format!("limit by port {{ \"weft{port}\": 30mbps }} of "),
            None => String::new(),
        };
        let root = match children.as_slice() {
            [only] => format!("root = {limit}wfq {{ {only}, fair of spare: 1 }}\n"),
            all => format!("root = {limit}wfq {{ {} }}\n", all.join(", ")),
        };
        if children.len() == 1 {
            head += "class spare = udp and dport 99\n";
        }
        head + &root + &tail
    }

    /// The policy, which is compiled once.
    fn policy(self) -> Arc<CompiledPolicy> {
        static KNOWN: LazyLock<Mutex<HashMap<Draft, Arc<CompiledPolicy>>>> = LazyLock::new(Mutex::default);
        let mut known = KNOWN.lock().expect("no panic");
        Arc::clone(known.entry(self).or_insert_with(|| Arc::new(policy(&self.text()))))
    }
}

fn draft() -> impl Strategy<Value = Draft> {
    let bits = (0..64u8, 0..64u8, prop_oneof![Just(0u8), 0..64u8]);
    let port = prop::option::weighted(0.3, 0..2u8);
    (bits, prop::bool::weighted(0.2), prop::bool::weighted(0.2), port).prop_map(
        |((classes, fair, limited), names_infrastructure, limits_default, limits_port)| {
            let (fair, limited) = (fair & classes, limited & classes);
            Draft { classes, fair, limited, names_infrastructure, limits_default, limits_port }
        },
    )
}

/// A change: its policy, the time before it, and the rings with packets.
fn step() -> impl Strategy<Value = (Draft, Nanos, u64)> {
    let span = prop_oneof![Just(0u64), 1..50u64, 300..900u64, 1001..1100u64];
    let busy = prop_oneof![Just(0u64), any::<u64>()];
    (draft(), span.prop_map(Nanos::from_millis), busy)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    #[test]
    fn random_sequences_of_policies_keep_the_plan_consistent(
        first in draft(),
        steps in prop::collection::vec(step(), 1..8),
    ) {
        let mut nic = Nic::new(&first.text(), SHARE);
        for (draft, span, busy) in steps {
            nic.wait(span);
            let before = (nic.port.infrastructure, nic.port.clone(), nic.uses.clone());
            let resting = nic.vacancies.resting(nic.now, |_| false);
            match nic.change(&draft.policy(), |ring| busy & (1 << (ring % 64)) == 0) {
                Ok(change) => {
                    check_step(&before.1, &change, &resting);
                    if let (Some(old), Some(new)) = (before.0, nic.port.infrastructure) {
                        prop_assert_eq!(old, new, "infrastructure keeps its lane");
                    }
                }
                Err(PlanError::NoSpareRing { class, .. }) => {
                    prop_assert!(draft.text().contains(&class) || class == "default" || class == INFRASTRUCTURE);
                    prop_assert_eq!((before.1, before.2), (nic.port.clone(), nic.uses.clone()));
                }
                Err(other) => prop_assert!(false, "{}", other),
            }
        }
    }
}

/// Checks the parts that a change keeps: rings of lanes of both policies, and resting numbers.
fn check_step(old: &RingPlan, change: &PlanChange, resting: &Resting) {
    let (before, after) = (&old.whole, &change.plan.whole);
    let here = change.plan.lanes_here();
    for (at, lane) in after.program.lanes.iter().enumerate().filter(|(_, lane)| !lane.is_vacant()) {
        let known = before.program.lanes.get(at).is_some_and(|lane| !lane.is_vacant());
        // A lane that packets of the port reach before and after.
        if known && here[at] && old.lanes_here()[at] {
            assert_eq!(range(&old.lanes[at]), range(&change.plan.lanes[at]), "lane {at} stays");
            assert_eq!(before.program.lanes[at].class, lane.class);
        } else if !known {
            assert!(!resting.lanes.contains(&LaneId::from_index(at)), "lane {at} rests");
        }
    }
    for (at, class) in after.classes.iter().enumerate().filter(|(_, class)| !class.is_vacant()) {
        let known = before.classes.get(at).filter(|class| !class.is_vacant());
        match known {
            Some(known) => assert_eq!(known.name, class.name),
            None => assert!(!resting.classes.contains(&ClassId::from_index(at)), "class {at} rests"),
        }
    }
}
