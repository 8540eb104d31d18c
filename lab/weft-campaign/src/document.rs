//! The document of `weft sim`, computed from the outcomes of runs.

use std::collections::BTreeMap;
use weft_facts::record::{Balance, Conservation, Document, Host, Stage};
use weft_report::sim::{
    SimFairness, SimFlow, SimLatency, SimPolicyChange, SimPolicyClass, SimReport, SimSpread,
};
use weft_sim::cost::CostCategory;
use weft_sim::outcome::{self, DropCounts, DropPlace, Latencies, PolicyPhase, RunOutcome};
use weft_sim::scenario::Scenario;
use weft_units::{Counted, Nanos};

/// A run with its seed.
#[derive(Debug)]
pub struct SeededRun {
    /// The seed.
    pub seed: u64,
    /// The run's outcome.
    pub outcome: RunOutcome,
}

/// Returns the document of a scenario's runs; `None` without a run. `wall_s` is the time of all runs in seconds, on `host`.
pub fn report(scenario: &Scenario, runs: &[SeededRun], wall_s: f64, host: Host) -> Option<SimReport> {
    let first = runs.first()?;
    let outcome = &first.outcome;
    let sim_s = outcome.measured.as_secs_f64();
    let groups =
        |group: u32| scenario.flows.get(group as usize).map_or_else(String::new, |group| group.name.clone());
    let flows = outcome.flows.iter().map(|flow| SimFlow {
        group: groups(flow.group),
        bytes: flow.bytes.0,
        bps: flow.bytes.0 as f64 * 8.0 / sim_s.max(1e-9),
        received_bytes: flow.received.0,
        completion_s: flow.completion.map(Nanos::as_secs_f64),
        retransmitted: flow.retransmitted,
    });
    let cpu = outcome.cpu.iter().map(|host| host.iter().map(by_category).collect());
    Some(SimReport {
        schema: SimReport::SCHEMA.to_owned(),
        host,
        seed: first.seed,
        seeds: runs.len() as u32,
        scenario: scenario.name.clone(),
        events: runs.iter().map(|run| run.outcome.events).sum(),
        wall_s,
        sim_s,
        throughput_bps: outcome.throughput().0 as f64,
        flows: flows.collect(),
        nfm: nfm(outcome),
        latency_s: latencies(scenario, outcome),
        cpu: cpu.collect(),
        spread: spread(runs),
        conservation: conservation(outcome),
        class_drops: class_drops(outcome),
        counters: counters(outcome),
        policy_changes: policy_changes(outcome),
        stopped: false,
        unbalanced_seeds: unbalanced(runs),
    })
}

/// Returns the changes of hosts' policies, each with the classes of the phases before and after it.
fn policy_changes(outcome: &RunOutcome) -> Vec<SimPolicyChange> {
    let pairs = outcome.policies.windows(2);
    let changes = pairs.filter_map(|pair| {
        let [before, after] = pair else { return None };
        // The first phase of the next host has no change.
        let change = after.change.as_ref()?;
        Some(SimPolicyChange {
            at_s: after.from.as_secs_f64(),
            host: after.host,
            what: change.what.clone(),
            refused: change.refused.clone(),
            steps: change.steps.clone(),
            warnings: change.warnings.clone(),
            classes: classes(before, after),
        })
    });
    changes.collect()
}

/// Returns the classes of two phases, first those of the later one.
fn classes(before: &PolicyPhase, after: &PolicyPhase) -> Vec<SimPolicyClass> {
    let rate = |phase: &PolicyPhase, class: &str| {
        let sent = phase.classes.iter().find(|known| known.class == class)?.sent.bytes.0;
        let time = phase.until.saturating_sub(phase.from).as_secs_f64();
        Some(if time > 0.0 { sent as f64 * 8.0 / time } else { 0.0 })
    };
    let gone = |class: &&outcome::ClassSent| after.classes.iter().all(|known| known.class != class.class);
    let names = after.classes.iter().chain(before.classes.iter().filter(gone));
    let class = |class: &outcome::ClassSent| SimPolicyClass {
        class: class.class.clone(),
        before_bps: rate(before, &class.class),
        after_bps: rate(after, &class.class),
    };
    names.map(class).collect()
}

/// Returns the seeds of runs whose accounting does not balance, at a stage, over the whole path, or in its drops by reason.
fn unbalanced(runs: &[SeededRun]) -> Vec<u64> {
    let balanced = |run: &&SeededRun| conservation(&run.outcome).imbalances().is_empty();
    runs.iter().filter(|run| !balanced(run)).map(|run| run.seed).collect()
}

fn by_category(core: &[f64; 8]) -> BTreeMap<String, f64> {
    CostCategory::ALL
        .iter()
        .zip(core)
        .map(|(category, nanos)| (category.name().to_owned(), nanos * 1e-9))
        .collect()
}

fn nfm(outcome: &RunOutcome) -> BTreeMap<String, SimFairness> {
    let fairness = outcome.fairness.iter().map(|fairness| {
        let value = SimFairness { mean: fairness.mean, max: fairness.max, windows: fairness.windows };
        (fairness.interval.to_string().replace(' ', ""), value)
    });
    fairness.collect()
}

fn latencies(scenario: &Scenario, outcome: &RunOutcome) -> BTreeMap<String, SimLatency> {
    let seconds =
        |all: &Latencies| all.samples.iter().map(|sample| sample.as_secs_f64()).collect::<Vec<f64>>();
    let mut named: Vec<(String, Vec<f64>)> = scenario
        .probes
        .iter()
        .zip(&outcome.probes)
        .map(|(probe, latencies)| (probe.name.clone(), seconds(latencies)))
        .collect();
    for (index, group) in scenario.flows.iter().enumerate() {
        let here = outcome.flows.iter().filter(|flow| flow.group as usize == index);
        named.push((
            format!("{} requests", group.name),
            here.flat_map(|flow| seconds(&flow.requests)).collect(),
        ));
    }
    named.into_iter().filter_map(|(name, samples)| Some((name, SimLatency::of(&samples)?))).collect()
}

/// Returns mean and range over the seeds of each figure that is one number per run.
fn spread(runs: &[SeededRun]) -> BTreeMap<String, SimSpread> {
    let mut values: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for run in runs {
        values.entry("throughput_bps".to_owned()).or_default().push(run.outcome.throughput().0 as f64);
        for (interval, fairness) in nfm(&run.outcome) {
            values.entry(format!("nfm {interval}")).or_default().extend(fairness.mean);
        }
        for host in 0..run.outcome.cpu.len() {
            values.entry(format!("busy processors, host {host}")).or_default().push(run.outcome.busy(host));
        }
    }
    values.into_iter().filter_map(|(name, values)| Some((name, SimSpread::of(&values)?))).collect()
}

/// Stages on a packet's path, in order, by the ends of their names; switch ports are inside the network.
const PATH: [&str; 4] = [" qdiscs", " rings", "network", " receive rings"];

/// Returns the accounting of a run for reports. The total is the whole path, from the qdiscs to the receivers'
/// stacks.
pub fn conservation(outcome: &RunOutcome) -> Conservation {
    let stages = outcome.balances.clone();
    let mut sums = [Balance::default(); PATH.len()];
    let mut ports = Counted::ZERO;
    for Stage { name, balance } in &stages {
        match place(name) {
            Some(place) => sums[place].add(balance),
            None => ports += balance.dropped(),
        }
    }
    let [qdiscs, rings, network, receive] = sums;
    let mut drops: BTreeMap<String, Counted> = BTreeMap::new();
    for (reason, dropped) in [
        (DropPlace::Qdiscs, qdiscs.dropped()),
        // Nothing but a dropper of the policy drops from a ring.
        (DropPlace::Dropper, rings.dropped()),
        (DropPlace::SwitchBuffers, ports),
        (DropPlace::Links, network.dropped().saturating_sub(ports)),
        (DropPlace::ReceiveRings, receive.dropped()),
    ] {
        if dropped != Counted::ZERO {
            drops.insert(reason.name().to_owned(), dropped);
        }
    }
    Conservation { total: path(sums), drops, stages, ..Conservation::default() }
}

/// Returns the drops by class and reason, without zeros.
fn class_drops(outcome: &RunOutcome) -> BTreeMap<String, BTreeMap<String, Counted>> {
    let by_reason = |dropped: DropCounts| {
        let all = DropPlace::ALL.into_iter().map(|place| (place.name().to_owned(), dropped.at(place)));
        all.filter(|(_, dropped)| *dropped != Counted::ZERO).collect()
    };
    outcome
        .drops_by_class()
        .into_iter()
        .map(|(class, dropped)| (class.to_owned(), by_reason(dropped)))
        .collect()
}

/// Returns a stage's position on the path.
fn place(name: &str) -> Option<usize> {
    // " receive rings" also ends with " rings", so the search runs backwards.
    (0..PATH.len()).rev().find(|place| name.ends_with(PATH[*place]))
}

/// Returns the whole path as one stage.
fn path(sums: [Balance; PATH.len()]) -> Balance {
    let mut all = Balance::default();
    for sum in &sums {
        all.add(sum);
    }
    let [qdiscs, rings, network, receive] = sums;
    // A ring holds a segment until its last packet is fetched, so its earlier packets are also in the network's
    // accounting.
    let twice = (
        network.in_packets.saturating_sub(rings.out_packets),
        network.in_bytes.saturating_sub(rings.out_bytes),
    );
    Balance {
        in_packets: qdiscs.in_packets,
        in_bytes: qdiscs.in_bytes,
        out_packets: receive.out_packets,
        out_bytes: receive.out_bytes,
        held_packets: all.held_packets.saturating_sub(twice.0),
        held_bytes: all.held_bytes.saturating_sub(twice.1),
        ..all
    }
}

fn counters(outcome: &RunOutcome) -> BTreeMap<String, u64> {
    let counters = &outcome.counters;
    let named = [
        ("segments", counters.segments),
        ("packets", counters.packets),
        ("doorbells", counters.doorbells),
        ("doorbells_unbatched", counters.doorbells_unbatched),
        ("weight_updates", counters.weight_updates),
        ("interrupts", counters.interrupts),
        ("resegmented", counters.resegmented),
        ("acknowledgements", counters.acknowledgements),
        ("socket_drops", counters.socket_drops),
        ("reordered", counters.reordered),
        ("retransmission_timeouts", counters.retransmission_timeouts),
        ("tail_loss_probes", counters.tail_loss_probes),
    ];
    named.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_sim::run::simulate;

    fn scenario(text: &str) -> Scenario {
        let no_file = weft_policy::FileError::Unreadable("no file".to_owned());
        let scenario = weft_sim::scenario::read(text, "a.toml", &mut |_| Err(no_file.clone()));
        scenario.unwrap_or_else(|error| panic!("{error}"))
    }

    /// The drops by reason, summed over the classes.
    fn of_all_classes(outcome: &RunOutcome) -> BTreeMap<String, Counted> {
        let mut sums: BTreeMap<String, Counted> = BTreeMap::new();
        for (reason, dropped) in class_drops(outcome).into_values().flatten() {
            *sums.entry(reason).or_default() += dropped;
        }
        sums
    }

    /// A policy with a dropper for one class, on links that lose packets.
    fn with_policy(dropper: &str, traffic: &str) -> RunOutcome {
        let text = format!(
            r#"
warm_up = "0s"
duration = "400ms"
classes = ["web", "bulk"]
[network]
rate = "100mbps"
delay = "100us"
loss = 0.01
[host.stack]
policy = """
dropper all() {{ fetched {{ drop }} }}
class web = cgroup "web"
class bulk = cgroup "bulk"
root = priority {{ {dropper} of web, bulk, default }}
"""
[host.nic]
transmit_queues = "per-flow"
scheduler = "policy"
[[flows]]
class = "web"
{traffic}
[[flows]]
class = "bulk"
{traffic}
"#
        );
        simulate(&scenario(&text), 1).expect("runs")
    }

    #[test]
    fn each_drop_is_of_the_class_whose_packet_it_was() {
        let outcome = with_policy("all", "traffic = { udp = { rate = \"40mbps\" } }");
        let drops = class_drops(&outcome);
        let reasons = |class: &str| drops[class].keys().map(String::as_str).collect::<Vec<_>>();
        assert_eq!(drops.keys().collect::<Vec<_>>(), ["bulk", "web"]);
        assert_eq!((reasons("web"), reasons("bulk")), (vec!["dropper"], vec!["links"]));
        assert!(drops["web"]["dropper"].packets.get() > 300, "{drops:?}");
        assert_eq!(of_all_classes(&outcome), conservation(&outcome).drops);
        // Of segments with several packets a dropper may take some, and the run ends between them.
        let outcome = with_policy("codel target 1ms interval 10ms", "count = 24");
        let accounting = conservation(&outcome);
        assert_eq!(accounting.violations(), [""; 0]);
        assert_eq!(accounting.drops.keys().collect::<Vec<_>>(), ["dropper", "links"]);
        assert_eq!(of_all_classes(&outcome), accounting.drops);
    }

    #[test]
    fn without_a_policy_drops_are_of_the_classes_of_flows() {
        let text = "warm_up = \"0s\"\nduration = \"15ms\"\nclasses = [\"a\", \"b\"]\n[network]\nloss = 0.01\n\
                    [host.nic]\nreceive_ring = 4\n[[flows]]\nclass = \"b\"\ncount = 8\n";
        let outcome = simulate(&scenario(text), 1).expect("runs");
        let accounting = conservation(&outcome);
        assert_eq!(accounting.drops.keys().collect::<Vec<_>>(), ["links", "receive rings"]);
        assert_eq!(class_drops(&outcome), BTreeMap::from([("b".to_owned(), accounting.drops)]));
    }

    /// Scenarios with drops at each kind of place: links, a switch's small buffer, a shaper's full queue.
    #[test]
    fn the_whole_path_balances_and_drops_have_reasons() {
        let short = "warm_up = \"0s\"\nduration = \"15ms\"\n";
        for (text, reasons) in [
            ("[[flows]]\ncount = 12\n[[probes]]\n", &[][..]),
            ("[network]\nloss = 0.01\n[[flows]]\ncount = 4\n", &["links"]),
            (
                "hosts = 5\n[network]\ntopology = \"star\"\n[network.switch]\nbuffer = \"60KB\"\n\
                 [[flows]]\nto = 4\n[[flows]]\nfrom = 1\nto = 4\n[[flows]]\nfrom = 2\nto = 4\n",
                &["switch buffers"],
            ),
            (
                "[host.stack]\nqdisc = { tbf = { rate = \"1gbps\", burst = \"10KB\" } }\n\
                 [[flows]]\ncount = 3\ntraffic = { udp = { rate = \"3gbps\" } }\n",
                &["qdiscs"],
            ),
        ] {
            let outcome = simulate(&scenario(&format!("{short}{text}")), 1).expect("runs");
            let accounting = conservation(&outcome);
            assert_eq!(accounting.violations(), [""; 0], "{text}");
            assert_eq!(of_all_classes(&outcome), accounting.drops, "{text}");
            assert_eq!(accounting.drops.keys().collect::<Vec<_>>(), reasons, "{text}");
            assert!(
                accounting.total.out_packets > 1000
                    && accounting.total.out_packets < accounting.total.in_packets
            );
        }
    }

    #[test]
    fn a_packet_or_a_byte_that_one_stage_has_lost_is_an_unbalanced_seed() {
        let scenario = scenario("warm_up = \"0s\"\nduration = \"5ms\"\n[[flows]]\ncount = 4\n");
        let run = |edit: &dyn Fn(&mut RunOutcome)| {
            let mut outcome = simulate(&scenario, 1).expect("runs");
            edit(&mut outcome);
            unbalanced(&[SeededRun { seed: 7, outcome }])
        };
        assert_eq!(run(&|_| ()), [0; 0]);
        let stages = simulate(&scenario, 1).expect("runs").balances.len();
        assert!(stages > 3);
        for stage in 0..stages {
            let name = &simulate(&scenario, 1).expect("runs").balances[stage].name;
            let used = run(&|outcome| outcome.balances[stage].balance.dropped_packets += 1);
            assert_eq!(used, [7], "{name} dropped a packet more than is missing");
            assert_eq!(run(&|outcome| outcome.balances[stage].balance.in_packets += 1), [7], "{name}");
            assert_eq!(run(&|outcome| outcome.balances[stage].balance.in_bytes += 1), [7], "{name}");
        }
    }

    #[test]
    fn stages_have_their_place() {
        let names =
            ["host 10 qdiscs", "host 1 rings", "network", "host 3 receive rings", "switch 0 port to host 1"];
        assert_eq!(names.map(place), [Some(0), Some(1), Some(2), Some(3), None]);
    }
}
