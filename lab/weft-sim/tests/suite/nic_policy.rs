//! The policy tree as a NIC's scheduler, compared with the same tree driven directly; policies with tenants, and their changes in runs.

use proptest::prelude::*;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::SeedableRng as _;
use weft_sched::{FlowError, LimitSpec, Next, PolicyTree, Program};
use weft_sim::engine_load::{figure1_program, wfq_program};
use weft_sim::nic::scheduler::policy::QUEUES_MAX;
use weft_sim::nic::scheduler::{AfterTurn, NicScheduler, Pick, PolicyQueueError, PolicyScheduler};
use weft_sim::outcome::{DropPlace, PolicyPhase, RunOutcome};
use weft_sim::run::{policy_diagnostics, simulate};
use weft_sim::scenario::{Scenario, read};
use weft_units::{BitsPerSec, Bytes, FlowId, Instant, LaneId, LimitId, Nanos, TxQueueId, Weight};

const NOW: Nanos = Nanos::ZERO;
const QUEUES: u32 = 40;

/// Loom's Figure 1 with a limit on every third lane.
fn program() -> Program {
    let mut program = figure1_program();
    program.limits.push(LimitSpec {
        name: "all".to_owned(),
        rate: BitsPerSec(2_000_000_000),
        burst: Bytes(3000),
    });
    for lane in program.lanes.iter_mut().step_by(3) {
        lane.limits.push(LimitId(0));
    }
    program
}

fn weight(weight: u32) -> Weight {
    Weight::new(weight).expect("above zero")
}

/// Returns the lane of a queue, spread over the tree.
fn lane(queue: u32) -> LaneId {
    LaneId(queue * 7 % 64)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Queue numbers differ from flow numbers, so the scheduler must translate in both directions; weights change during the run.
    #[test]
    fn it_agrees_with_the_tree_driven_by_hand(
        steps in proptest::collection::vec((0..QUEUES, 0..10_u32, 1..9000_u64, any::<bool>(), 0..5000_u64), 1..400),
        given in 0..QUEUES,
    ) {
        let number = |flow: u32| if flow < given { TxQueueId(flow) } else { TxQueueId(1000 - 3 * flow) };
        let mut tree = PolicyTree::new(&program()).expect("a sound program");
        let mut inside = PolicyTree::new(&program()).expect("a sound program");
        let flows: Vec<_> =
            (0..given).map(|queue| inside.add_flow(lane(queue), Weight::ONE).expect("a lane")).collect();
        let mut scheduler = PolicyScheduler::with_flows(inside, flows).expect("flows of the tree");
        for flow in 0..QUEUES {
            prop_assert_eq!(tree.add_flow(lane(flow), Weight::ONE), Ok(FlowId(flow)));
            if flow >= given {
                prop_assert_eq!(scheduler.add_queue(number(flow), lane(flow), Weight::ONE), Ok(()));
            }
        }
        let mut now = NOW;
        for (queue, what, len, more, pause) in steps {
            let flow = FlowId(queue);
            now += Nanos(pause);
            if what == 0 {
                scheduler.set_weight(number(queue), queue % 5);
                prop_assert_eq!(tree.set_weight(flow, weight((queue % 5).max(1))), Ok(()));
            } else if what < 4 {
                if tree.activate(flow) {
                    scheduler.activate(number(queue), now);
                }
            } else {
                match (scheduler.next(now), tree.next(Instant::after_epoch(now))) {
                    (Pick::Queue(picked), Next::Turn(turn)) => {
                        prop_assert_eq!(picked, number(turn.flow().0));
                        if flow != turn.flow() && tree.activate(flow) {
                            scheduler.activate(number(queue), now);
                        }
                        scheduler.finish(picked, Bytes(len), AfterTurn::holding(usize::from(more)), now);
                        prop_assert_eq!(tree.finish(turn, Bytes(len), more, Instant::after_epoch(now)), Ok(()));
                    }
                    (Pick::Wait(time), Next::Wait(expected)) => prop_assert_eq!(time, expected.since_epoch()),
                    (Pick::Idle, Next::Idle) => {}
                    other => prop_assert!(false, "{:?}", other),
                }
            }
        }
    }
}

/// Counts each of two queues' turns.
fn turns(scheduler: &mut PolicyScheduler, count: usize) -> [u32; 2] {
    let mut had = [0; 2];
    for _ in 0..count {
        let Pick::Queue(queue) = scheduler.next(NOW) else { panic!("both are active") };
        had[queue.index()] += 1;
        scheduler.finish(queue, Bytes(1000), AfterTurn::Backlogged, NOW);
    }
    had
}

fn empty() -> PolicyScheduler {
    let tree = PolicyTree::new(&wfq_program(2)).expect("a sound program");
    PolicyScheduler::new(tree)
}

#[test]
fn a_weight_counts_from_the_next_charge_on() {
    let mut scheduler = empty();
    for queue in [0, 1].map(TxQueueId) {
        scheduler.add_queue(queue, LaneId(0), Weight::ONE).expect("room");
        scheduler.activate(queue, NOW);
    }
    assert_eq!(turns(&mut scheduler, 20), [10, 10]);
    scheduler.set_weight(TxQueueId(1), 4);
    // One turn each at the old tags, then 1:4.
    let [low, high] = turns(&mut scheduler, 50);
    assert!((9..=11).contains(&low) && (39..=41).contains(&high), "{low} {high}");
}

#[test]
fn queues_come_and_go() {
    let mut scheduler = empty();
    let queue = TxQueueId(5);
    assert_eq!(scheduler.remove_queue(queue), Err(PolicyQueueError::Unknown { given: queue }));
    assert_eq!(scheduler.add_queue(queue, LaneId(1), Weight::ONE), Ok(()));
    assert_eq!(
        scheduler.add_queue(queue, LaneId(1), Weight::ONE),
        Err(PolicyQueueError::Exists { given: queue })
    );
    scheduler.activate(queue, NOW);
    let flow = scheduler.flow_of(queue).expect("added");
    let backlogged = PolicyQueueError::Tree(FlowError::Backlogged { given: flow });
    assert_eq!(scheduler.remove_queue(queue), Err(backlogged));
    assert_eq!(scheduler.next(NOW), Pick::Queue(queue));
    scheduler.finish(TxQueueId(4), Bytes(1), AfterTurn::Empty, NOW);
    scheduler.finish(queue, Bytes(1), AfterTurn::Empty, NOW);
    assert_eq!(scheduler.next(NOW), Pick::Idle);
    assert_eq!(scheduler.remove_queue(queue), Ok(()));
    scheduler.activate(queue, NOW);
    assert_eq!(scheduler.next(NOW), Pick::Idle, "it is gone");
    assert_eq!(scheduler.add_queue(TxQueueId(0), LaneId(0), Weight::ONE), Ok(()), "on the flow that is free");
    assert_eq!(scheduler.flow_of(TxQueueId(0)), Some(flow));
    let high = TxQueueId(QUEUES_MAX);
    assert_eq!(
        scheduler.add_queue(high, LaneId(0), Weight::ONE),
        Err(PolicyQueueError::NumberTooHigh { given: high })
    );
    let unknown = PolicyQueueError::Tree(FlowError::UnknownLane { given: LaneId(9), count: 2 });
    assert_eq!(scheduler.add_queue(TxQueueId(1), LaneId(9), Weight::ONE), Err(unknown));
    assert_eq!(scheduler.tree().active_flows(), 0);
}

#[test]
fn flows_that_do_not_fit_are_refused() {
    let tree = || {
        let mut tree = PolicyTree::new(&wfq_program(2)).expect("a sound program");
        let flow = tree.add_flow(LaneId(0), Weight::ONE).expect("a lane");
        (tree, flow)
    };
    let (with, flow) = tree();
    let taken = PolicyQueueError::FlowTaken { flow, other: TxQueueId(0) };
    assert_eq!(PolicyScheduler::with_flows(with, vec![flow, flow]).err(), Some(taken));
    let (with, _) = tree();
    let unknown = PolicyQueueError::Tree(FlowError::UnknownFlow { given: FlowId(u32::MAX) });
    assert_eq!(PolicyScheduler::with_flows(with, vec![FlowId(u32::MAX)]).err(), Some(unknown));
    let (mut with, flow) = tree();
    with.activate(flow);
    let backlogged = PolicyQueueError::Tree(FlowError::Backlogged { given: flow });
    assert_eq!(PolicyScheduler::with_flows(with, vec![flow]).err(), Some(backlogged));
    // A backlogged flow without a queue never gets a turn.
    let (mut with, flow) = tree();
    with.activate(flow);
    let mut scheduler = PolicyScheduler::new(with);
    assert_eq!(scheduler.next(NOW), Pick::Idle);
}

/// Two hosts, each with a NIC that runs a policy with two tenants. Both send.
const TENANTS: &str = r#"
warm_up = "0s"
duration = "60ms"
classes = ["vm1/web", "/vm1/db", "vm2", "other"]

[network]
rate = "1gbps"

[host.stack]
policy_file = "h/host.weft"
[host.nic]
transmit_queues = "per-flow"
scheduler = "policy"

[[flows]]
class = "vm1/web"
count = 2
[[flows]]
class = "/vm1/db"
[[flows]]
class = "vm2"
traffic = { udp = { rate = "400mbps" } }
[[flows]]
class = "other"
[[flows]]
from = 1
to = 0
class = "vm2"
count = 3

[files]
"h/host.weft" = """
vm1  = tenant "vm1.weft" of cgroup "/vm1" { classes 2 }
vm2  = tenant "t/vm2.weft" of cgroup "vm2" and udp
root = wfq { vm1: 2, vm2: 1, default: 1 }
"""
"h/vm1.weft" = """
class db = cgroup "db"
class all = from 192.0.2.0/24 and tcp
root = wfq { db: 1, all: 1, default: 1 }
"""
"h/t/vm2.weft" = """
class mine = udp
root = priority { mine, default }
"""
"new.weft" = """
class db = cgroup "/db"
root = priority { default, db }
"""
"broken.weft" = """
class db = cgroup "db"

root = priority { bd, default }
"""
"large.weft" = """
class a = cgroup "a"
class b = cgroup "b"
class c = cgroup "c"
root = fifo { a, b, c, default }
"""
"h/other.weft" = """
vm1  = tenant "../broken.weft" of cgroup "/vm1"
root = wfq { vm1: 1, vm2: 1, default: 1 }
vm2  = tenant "t/vm2.weft" of cgroup "vm2" and udp
"""
"h/../broken.weft" = "root = nothing"
"#;

fn tenants(changes: &str) -> Scenario {
    let text = format!("{TENANTS}{changes}");
    let scenario = read(&text, "a.toml", &mut |path| Err(weft_policy::FileError::Missing(path.to_owned())));
    scenario.unwrap_or_else(|error| panic!("{error}"))
}

fn ran(scenario: &Scenario, seed: u64) -> RunOutcome {
    let outcome = simulate(scenario, seed).unwrap_or_else(|error| panic!("{error}"));
    outcome.balances.iter().for_each(|stage| assert!(stage.balance.is_balanced(), "{stage:?}"));
    // The classes of all phases have what left the hosts' NICs, which other counters have.
    let mut sent = (0, 0);
    for class in outcome.policies.iter().flat_map(|phase| &phase.classes) {
        sent = (sent.0 + class.sent.packets.0, sent.1 + class.sent.bytes.0);
    }
    let wire =
        outcome.balances.iter().find(|stage| stage.name == "network").expect("the network").balance.entered();
    assert_eq!(sent, (wire.packets.0, wire.bytes.0), "{:#?}", outcome.policies);
    assert_eq!(outcome.counters.reordered, 0, "a change lets no packet overtake another of its flow");
    outcome
}

/// The classes that sent anything in a phase, with their shares in percent.
fn shares(phase: &PolicyPhase) -> Vec<(&str, u64)> {
    let all: u64 = phase.classes.iter().map(|class| class.sent.bytes.0).sum();
    let of = |class: &'_ weft_sim::outcome::ClassSent| (100 * class.sent.bytes.0 + all / 2) / all.max(1);
    let used = phase.classes.iter().filter(|class| class.sent.bytes.0 > 0);
    used.map(|class| (class.class.as_str(), of(class))).collect()
}

#[test]
fn tenants_have_their_places_conditions_and_cgroups() {
    let outcome = ran(&tenants(""), 1);
    let [first, second] = &outcome.policies[..] else { panic!("{:?}", outcome.policies) };
    assert_eq!((first.host, second.host, &first.change), (0, 1, &None));
    let of = |name: &str| {
        let class = first.classes.iter().find(|class| class.class == name);
        class.unwrap_or_else(|| panic!("{name}: {first:?}")).sent.bytes.0
    };
    // Acknowledgements of the other host's flows are of class `default`, since they are not UDP.
    let names = ["vm1.db", "vm1.all", "vm2.mine", "default"].map(of);
    assert!(names.iter().all(|sent| *sent > 500_000), "{first:?}");
    assert_eq!(["vm1.default", "vm2.default"].map(of), [0, 0]);
    let ratio = names[0] as f64 / names[1] as f64;
    assert!((0.9..1.1).contains(&ratio), "vm1 shares equally: {first:?}");
}

#[test]
fn what_is_wrong_in_a_tenants_file_is_said_with_its_place() {
    let mut scenario = tenants("");
    let large = scenario.files["large.weft"].clone();
    for (file, text, said) in [
        (
            "h/vm1.weft",
            "class db = cgroup \"db\"\nroot = priority { bd, default }",
            "h/vm1.weft:2:19: error[E0",
        ),
        ("h/t/vm2.weft", "class a = any\n class b = a", "h/t/vm2.weft:2:12: error[E0"),
        ("h/vm1.weft", large.as_str(), "h/vm1.weft:3:7: error[E0606]"),
    ] {
        let right = scenario.files.insert(file.to_owned(), text.to_owned()).expect("a text");
        let error = simulate(&scenario, 1).expect_err(text).to_string();
        assert!(error.starts_with(said), "{error}");
        let found = policy_diagnostics(&scenario);
        let first = found.iter().find(|of| of.diagnostic.is_error()).expect("an error");
        assert_eq!((first.diagnostic.file.as_str(), first.text.as_str()), (file, text));
        scenario.files.insert(file.to_owned(), right);
    }
    scenario.files.remove("h/t/vm2.weft");
    let said: Vec<String> = policy_diagnostics(&scenario).iter().map(|of| of.diagnostic.one_line()).collect();
    assert!(said.iter().any(|line| line.starts_with("h/host.weft:2:15: warning[W0005]")), "{said:?}");
    assert!(simulate(&scenario, 1).is_ok(), "it is a FIFO");
}

#[test]
fn a_tenants_file_is_replaced_refused_and_taken_away() {
    let change = |at: u32, what: &str| format!("[[changes]]\nat = \"{at}ms\"\n{what}\n");
    let text = [
        change(30, "tenant = \"vm1\"\nfile = \"broken.weft\""),
        change(15, "tenant = \"vm1\"\nfile = \"new.weft\""),
        change(35, "tenant = \"vm1\"\nfile = \"large.weft\""),
        change(40, "tenant = \"vm1\"\nfile = \"off\""),
        change(40, "tenant = \"vm1\"\nfile = \"off\""),
        change(45, "tenant = \"vm3\"\nfile = \"new.weft\""),
        change(50, "tenant = \"vm1\"\nfile = \"h/vm1.weft\""),
    ];
    let outcome = ran(&tenants(&text.concat()), 1);
    let phases: Vec<_> = outcome.policies.iter().filter(|phase| phase.host == 0).collect();
    let times: Vec<u64> = phases.iter().map(|phase| phase.from.0 / 1_000_000).collect();
    assert_eq!(times, [0, 15, 30, 35, 40, 40, 45, 50], "in the order of time");
    let refused = |at: usize| {
        let change = phases[at].change.as_ref().expect("a change");
        change.refused.clone().unwrap_or_default()
    };
    assert_eq!([1, 4, 7].map(refused), ["", "", ""]);
    assert!(refused(2).starts_with("broken.weft:3:19: error[E0"), "{}", refused(2));
    assert!(refused(3).starts_with("large.weft:3:7: error[E0606]"), "{}", refused(3));
    assert_eq!(refused(5), "tenant vm1 has no file that could be taken away");
    assert_eq!(refused(6), "the policy has no tenant vm3; it has: vm1, vm2");
    let of_vm1 = |at: usize| -> Vec<&str> {
        shares(phases[at]).into_iter().map(|(name, _)| name).filter(|name| name.starts_with("vm1")).collect()
    };
    assert_eq!(of_vm1(0), ["vm1.db", "vm1.all"]);
    // The new file has the web flows, in its `default`, before the db's.
    assert_eq!([1, 2, 3].map(|at| of_vm1(at).contains(&"vm1.default")), [true; 3], "{phases:#?}");
    assert_eq!((of_vm1(4), of_vm1(6)), (vec![], vec!["vm1.default"]), "a FIFO; nothing is sent in no time");
    assert_eq!(of_vm1(7), ["vm1.db", "vm1.all"]);
    let share =
        |at: usize, name: &str| shares(phases[at]).iter().find(|of| of.0 == name).map_or(0, |of| of.1);
    assert!(share(2, "vm1.default") > 4 * share(2, "vm1.db"), "strict: {phases:#?}");
}

#[test]
fn a_new_policy_does_without_a_broken_file_and_keeps_what_was_given() {
    let text = "[[changes]]\nat = \"20ms\"\npolicy_file = \"h/other.weft\"\n\
                [[changes]]\nat = \"30ms\"\ntenant = \"vm1\"\nfile = \"new.weft\"\n\
                [[changes]]\nat = \"40ms\"\npolicy_file = \"h/host.weft\"\n\
                [[changes]]\nat = \"50ms\"\npolicy = \"root = nothing\"\n";
    let outcome = ran(&tenants(text), 2);
    let phases: Vec<_> = outcome.policies.iter().filter(|phase| phase.host == 0).collect();
    let change = |at: usize| phases[at].change.as_ref().expect("a change");
    let said = &change(1).warnings[0];
    assert!(said.starts_with("tenant vm1 does without the file: h/../broken.weft:1:8: error["), "{said}");
    let names = |at: usize| phases[at].classes.iter().map(|of| of.class.as_str()).collect::<Vec<_>>();
    assert_eq!(change(1).refused, None);
    assert!(names(1).contains(&"vm1.all"), "the last good one: {:?}", names(1));
    assert!(!names(2).contains(&"vm1.all") && !names(3).contains(&"vm1.all"), "{:?}", names(3));
    assert!(change(4).refused.as_ref().is_some_and(|of| of.starts_with("policy:1:8: error[")));
    assert_eq!(names(4), names(3));
}

/// The NIC sleeps until a limit permits the next packet; a policy without the limit wakes it.
#[test]
fn a_change_wakes_a_nic_that_a_limit_holds_back() {
    let text = "warm_up = \"0s\"\nduration = \"40ms\"\n[network]\nrate = \"1gbps\"\n[host.nic]\nscheduler = \"policy\"\n\
                transmit_queues = \"per-flow\"\n[host.stack]\npolicy = \"root = limit 10kbps burst 1600b of default\"\n\
                [[flows]]\ntraffic = { udp = { rate = \"900mbps\" } }\n\
                [[changes]]\nat = \"20ms\"\npolicy = \"root = default\"\n";
    let scenario = read(text, "a.toml", &mut |path| Err(weft_policy::FileError::Missing(path.to_owned())));
    let outcome = ran(&scenario.expect("a scenario"), 1);
    let sent = |at: usize| outcome.policies[at].classes.iter().map(|of| of.sent.bytes.0).sum::<u64>();
    assert!(sent(0) < 10_000 && sent(1) > 1_500_000, "{:#?}", outcome.policies);
}

/// Conservation and order through random changes at random times, with TCP and datagrams.
#[test]
fn random_changes_lose_nothing() {
    let mut random = Pcg64Mcg::seed_from_u64(7);
    let mut refused = 0;
    let mut pick = |of: &[&'static str]| of[random.next_u64() as usize % of.len()];
    for seed in 0..12 {
        let mut text = String::new();
        for _ in 0..8 {
            let at = pick(&["1ms", "3ms", "7ms", "7001us", "20ms", "33ms", "50ms"]);
            let what = match pick(&["policy", "file", "file", "off"]) {
                "policy" => {
                    format!("policy_file = \"{}\"", pick(&["h/host.weft", "h/other.weft", "new.weft"]))
                }
                "off" => format!("tenant = \"{}\"\nfile = \"off\"", pick(&["vm1", "vm2"])),
                _ => {
                    let file = pick(&["h/vm1.weft", "new.weft", "large.weft", "broken.weft", "h/t/vm2.weft"]);
                    format!("tenant = \"{}\"\nfile = \"{file}\"", pick(&["vm1", "vm2"]))
                }
            };
            text += &format!("[[changes]]\nat = \"{at}\"\nhost = {}\n{what}\n", pick(&["0", "0", "1"]));
        }
        let outcome = ran(&tenants(&text), seed);
        assert_eq!(outcome.policies.len(), 10, "all changes come in the run");
        let changes = outcome.policies.iter().filter_map(|phase| phase.change.as_ref());
        refused += changes.filter(|change| change.refused.is_some()).count();
    }
    assert!((10..80).contains(&refused), "{refused} of 96");
}

/// The run of a sender to one receiver, at 100 Mb/s, whose NIC has `dropper` in front of class `web`: its text, and its use. Both hosts
/// have `stack` in addition, and the flows of the class are `flows`.
fn web((dropper, used): (&str, &str), stack: &str, flows: &str) -> RunOutcome {
    let text = format!(
        r#"
warm_up = "0s"
duration = "400ms"
classes = ["web"]
[network]
rate = "100mbps"
delay = "100us"
[host.stack]
{stack}
policy = """
{dropper}
class web = cgroup "web"
root = priority {{ {used} web, default }}
"""
[host.nic]
transmit_queues = "per-flow"
scheduler = "policy"
[[flows]]
class = "web"
{flows}
"#
    );
    let scenario = read(&text, "a.toml", &mut |path| Err(weft_policy::FileError::Missing(path.to_owned())));
    ran(&scenario.unwrap_or_else(|error| panic!("{error}")), 1)
}

const NONE: (&str, &str) = ("", "");
const ALL: (&str, &str) = ("dropper all() { fetched { drop } }", "all of");
const CODEL: (&str, &str) = ("", "codel target 1ms interval 10ms of");
const MARKS: (&str, &str) = ("dropper late() { fetched { if now - p.arrived > 200us { mark } } }", "late of");

/// The packets of class `web` that were sent, and those that were dropped.
fn of_web(outcome: &RunOutcome) -> (u64, u64) {
    let class = outcome.policies[0].classes.iter().find(|class| class.class == "web").expect("the class");
    let rings = outcome.balances.iter().find(|stage| stage.name == "host 0 rings").expect("the rings");
    let dropped = class.dropped.at(DropPlace::Dropper);
    assert_eq!(dropped, rings.balance.dropped(), "the class has all drops of the rings");
    (class.sent.packets.get(), dropped.packets.get())
}

/// The mean number of bytes that wait in the sender.
fn backlog(outcome: &RunOutcome) -> u64 {
    outcome.counters.backlog_bytes[0].get()
}

#[test]
fn a_dropper_of_all_packets_lets_none_through() {
    let datagrams = "traffic = { udp = { rate = \"10mbps\" } }";
    let (sent, dropped) = of_web(&web(NONE, "", datagrams));
    assert!(sent > 300 && dropped == 0, "{sent} {dropped}");
    let outcome = web(ALL, "", datagrams);
    assert_eq!((of_web(&outcome), outcome.flows[0].received), ((0, sent), Bytes::ZERO));
    // A connection that never gets through tries again.
    let outcome = web(ALL, "", "");
    let (none, all) = of_web(&outcome);
    assert_eq!((none, outcome.flows[0].received), (0, Bytes::ZERO));
    assert!(all > 10 && outcome.counters.tail_loss_probes > 0, "{all} {:?}", outcome.counters);
}

#[test]
fn codel_drops_where_packets_wait_too_long() {
    // Senders of TCP retransmit what was dropped.
    let outcome = web(CODEL, "", "count = 4");
    let retransmitted: u64 = outcome.flows.iter().map(|flow| flow.retransmitted).sum();
    let (sent, dropped) = of_web(&outcome);
    assert!(dropped > 0 && sent > 2_000 && retransmitted >= dropped, "{sent} {dropped} {retransmitted}");
}

#[test]
fn marks_slow_down_senders_that_see_them_and_lose_nothing() {
    let dctcp = "congestion_control = \"dctcp\"";
    let (without, with) = (web(NONE, dctcp, "count = 4"), web(MARKS, dctcp, "count = 4"));
    assert_eq!(of_web(&with).1, 0);
    assert!(with.flows.iter().all(|flow| flow.retransmitted == 0), "{:?}", with.flows);
    assert!(backlog(&with) * 2 < backlog(&without), "{} and {}", backlog(&with), backlog(&without));
    // The senders of CUBIC are not capable of ECN: a mark has no effect on them.
    assert_eq!(of_web(&web(MARKS, "", "count = 4")), of_web(&web(NONE, "", "count = 4")));
}

#[test]
fn a_dropper_that_comes_with_a_change_knows_what_waits() {
    let text = format!(
        "{TENANTS}\"drops.weft\" = \"\"\"\ndropper crowd() {{ fetched {{ if queued.packets > 1 {{ drop }} }} }}\n\
         class all = any\nroot = crowd of all\n\"\"\"\n[[changes]]\nat = \"30ms\"\npolicy_file = \"drops.weft\"\n"
    );
    let scenario = read(&text, "a.toml", &mut |path| Err(weft_policy::FileError::Missing(path.to_owned())));
    let outcome = ran(&scenario.unwrap_or_else(|error| panic!("{error}")), 1);
    let phases: Vec<_> = outcome.policies.iter().filter(|phase| phase.host == 0).collect();
    let dropped = |phase: &PolicyPhase| {
        let of_classes = phase.classes.iter().map(|class| class.dropped.at(DropPlace::Dropper).packets.get());
        of_classes.sum::<u64>()
    };
    assert_eq!((phases.len(), dropped(phases[0])), (2, 0));
    assert!(dropped(phases[1]) > 100, "{:#?}", phases[1]);
}
