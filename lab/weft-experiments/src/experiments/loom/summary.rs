//! The report, computed from the outcomes of runs.

use super::run::{LinkWindow, ModeOutcome};
use super::scenario::LoomScenario;
use super::{DemoOptions, TimedRequest, segments_per_turn_in_words};
use std::collections::BTreeMap;
use weft_facts::record::Document;
use weft_facts::stats;
use weft_nic::plan;
use weft_policy::CompiledPolicy;
use weft_report::demo::{
    Cost, DemoReport, LatencySample, LatencySummary, LimitReport, Mode, ModeReport, QueueSample, RateTrial,
    Sample, limit_report,
};
use weft_run::accounting::conservation;
use weft_run::host_facts;
use weft_units::{BitsPerSec, Nanos};

/// Loom's Figure 10 shows a 90th percentile for each interval of 250 ms.
const LATENCY_INTERVAL_S: f64 = 0.25;
/// Length of the windows in which a rate limit is judged, in seconds.
const LIMIT_WINDOW_S: f64 = 1.0;

pub(super) fn mode_of(mode: plan::Mode) -> Mode {
    match mode {
        plan::Mode::OneRing => Mode::Sq,
        // The demo runs only the first; both have queues filled by hash.
        plan::Mode::HashedRings { .. } | plan::Mode::Multiqueue { .. } => Mode::Mq,
        plan::Mode::RingPerFlow => Mode::Qpf,
        plan::Mode::Loom => Mode::Loom,
    }
}

/// Returns the report of a demo. `trial` is the measurement that chose the link's rate; `None` when the user gave it.
pub fn report(
    policy: &CompiledPolicy,
    options: &DemoOptions,
    outcomes: &[ModeOutcome],
    trial: Option<RateTrial>,
) -> DemoReport {
    let scenario = &options.scenario;
    let mut flows: BTreeMap<String, u32> =
        scenario.bulk.iter().map(|b| (b.name.to_owned(), b.flows)).collect();
    flows.extend(scenario.latency.map(|name| (name.to_owned(), 1)));
    let mut report = DemoReport {
        schema: DemoReport::SCHEMA.to_owned(),
        host: host_facts::detect(),
        seed: None,
        started: None,
        command: None,
        figure: scenario.figure as u8,
        link_bps: outcomes.first().map_or(0, |o| o.rate.get()),
        link_bps_source: trial.as_ref().map_or_else(|| "--rate".to_owned(), RateTrial::sentence),
        rate_trial: trial,
        flows,
        congestion_control: options.congestion.clone(),
        duration_s: scenario.duration.as_secs_f64(),
        modes: outcomes.iter().map(|o| mode_report(policy, options, o)).collect(),
        samples: Vec::new(),
        limits: Vec::new(),
    };
    report.summarise();
    report
}

/// Describes a mode in a sentence.
fn description(options: &DemoOptions, outcome: &ModeOutcome) -> String {
    let segments_per_turn = segments_per_turn_in_words(options.segments_per_turn);
    match (outcome.mode, outcome.qdisc.as_deref()) {
        (plan::Mode::OneRing, Some(qdisc)) => {
            format!("one transmit queue; the policy as the kernel's qdisc in front of it: {qdisc}")
        }
        (plan::Mode::OneRing, None) => "one transmit queue, first in first out".to_owned(),
        (plan::Mode::HashedRings { queues }, _) => {
            format!("{queues} transmit queues, flows spread by hash, round robin, {segments_per_turn}")
        }
        (plan::Mode::Multiqueue { queues, .. }, _) => {
            format!("{queues} transmit queues, flows spread by hash, super-packets whole")
        }
        (plan::Mode::RingPerFlow, _) => {
            let rings = "as far as the port's 256 go: the tenant with the most flows shares what is left";
            format!("a transmit queue for each flow, {rings}; round robin, {segments_per_turn}")
        }
        (plan::Mode::Loom, _) => format!("the policy in the NIC, {segments_per_turn}"),
    }
}

fn seconds(t: Nanos) -> f64 {
    t.as_secs_f64()
}

/// Returns the indices of the classes of the scenario's senders.
fn classes<'a>(
    policy: &'a CompiledPolicy,
    scenario: &'a LoomScenario,
) -> impl Iterator<Item = (&'static str, usize)> + 'a {
    let number = |name: &&'static str| policy.classes.iter().position(|c| c.name == **name);
    scenario.names().into_iter().filter_map(move |name| Some((name, number(&name)?)))
}

fn mode_report(policy: &CompiledPolicy, options: &DemoOptions, outcome: &ModeOutcome) -> ModeReport {
    let scenario = &options.scenario;
    let named: Vec<(&str, usize)> = classes(policy, scenario).collect();
    let mut report = ModeReport::new(mode_of(outcome.mode), description(options, outcome));
    report.samples = outcome.fine.samples();
    report.fine = Some(outcome.fine.clone());
    report.core_waits = outcome.core_waits;
    report.latency_samples = latency_over_time(&outcome.requests);
    let all_wait = |load: &(f64, f64, u32)| load.2 as usize == scenario.bulk.len();
    if let Some((from, to, _)) = outcome.fine.full_load().filter(all_wait) {
        let (from, to) = (Nanos((from * 1e9) as u64), Nanos((to * 1e9) as u64));
        let loaded = outcome.requests.iter().filter(|r| r.at >= from && r.at < to);
        let loaded: Vec<f64> = loaded.map(|r| r.round_trip_s).collect();
        report.latency_s = LatencySummary::from_seconds(&loaded);
        standing(&mut report, outcome, &named, from, to);
    }
    let bytes = |name: &str, w: &LinkWindow, class: usize| (name.to_owned(), w.standing[class].get() as f64);
    report.queue_samples = outcome
        .windows
        .iter()
        .map(|w| QueueSample {
            t_s: seconds(w.at),
            bytes: named.iter().map(|&(n, c)| bytes(n, w, c)).collect(),
        })
        .collect();
    report.conservation = conservation(&outcome.totals);
    report.cost = cost(outcome);
    report.notes = notes(outcome);
    if scenario.figure == 11 {
        report.limits = limits(policy, scenario, outcome, &report.samples);
    }
    report
}

fn latency_over_time(requests: &[TimedRequest]) -> Vec<LatencySample> {
    let interval = |r: &TimedRequest| (seconds(r.at) / LATENCY_INTERVAL_S) as usize;
    let mut by_interval: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
    for request in requests {
        by_interval.entry(interval(request)).or_default().push(request.round_trip_s);
    }
    let p90 = |(i, values): (usize, Vec<f64>)| {
        Some(LatencySample { t_s: i as f64 * LATENCY_INTERVAL_S, p90_s: stats::percentile(&values, 90.0)? })
    };
    by_interval.into_iter().filter_map(p90).collect()
}

/// Adds the standing queues at full load: median and largest of the windows.
fn standing(report: &mut ModeReport, outcome: &ModeOutcome, named: &[(&str, usize)], from: Nanos, to: Nanos) {
    let loaded: Vec<&LinkWindow> =
        outcome.windows.iter().filter(|w| w.at >= from && w.at + w.span <= to).collect();
    for &(name, class) in named {
        let bytes: Vec<f64> = loaded.iter().map(|w| w.standing[class].get() as f64).collect();
        if let (Some(median), Some(most)) = (stats::median(&bytes), stats::max(&bytes)) {
            report.standing_queue_bytes.insert(name.to_owned(), median);
            report.standing_queue_max_bytes.insert(name.to_owned(), most);
        }
    }
}

/// Bytes that the engine reads for a doorbell of a known flow: the ring's count (8) and, for the first packet since
/// the NIC last read it, the word with the ring's bit (8). The byte counts beside them are accounting, which the
/// engine does not read.
const BELL_BYTES: u64 = 16;
/// Bytes of a metadata record (`struct weft_record`).
const RECORD_BYTES: u64 = 64;

fn cost(outcome: &ModeOutcome) -> Cost {
    let t = &outcome.totals;
    let doorbells = t.bpf.runs;
    let mut cost = Cost {
        bpf_ns_per_packet: t.bpf.nanos_per_run(),
        bpf_runs: (doorbells > 0).then_some(doorbells),
        nic_cpu_share: Some(outcome.worker_share),
        doorbells: (doorbells > 0).then_some(doorbells),
        doorbell_bytes: (doorbells > 0).then_some(doorbells * BELL_BYTES + t.records * RECORD_BYTES),
        wakeups: Some(t.wakeups),
        ..Cost::default()
    };
    let packets = t.uplink_writes.packets.get().max(1);
    let other = [
        ("metadata records", t.records),
        ("flows", t.flows),
        ("scheduling decisions", t.turns),
        ("doorbells ahead of their packet", t.doorbell_ahead),
        ("packets posted and lost", t.lost),
        ("packets without a doorbell", t.events.strays.get()),
        ("worker ns per chunk sent", t.worker_cpu.get() / packets),
        ("worker sleeps waiting for a doorbell", t.sleeps),
    ];
    cost.other = other.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
    cost
}

fn notes(outcome: &ModeOutcome) -> Vec<String> {
    let mut notes = outcome.notes.clone();
    if outcome.totals.link_lost > Nanos::ZERO {
        notes.push(format!(
            "{} of link time were lost because the worker was kept from running for longer than the catch-up",
            outcome.totals.link_lost
        ));
    }
    let untracked: u64 = outcome.totals.classes.iter().map(|c| c.events.untracked.get()).sum();
    if untracked > 0 {
        notes.push(format!("{untracked} packets were of flows beyond the flow bound of their lane"));
    }
    notes
}

/// Returns Figure 11's limits: for each rate limit of the policy, the classes under it.
fn limits(
    policy: &CompiledPolicy,
    scenario: &LoomScenario,
    outcome: &ModeOutcome,
    samples: &[Sample],
) -> Vec<LimitReport> {
    let mut reports = Vec::new();
    for (number, limit) in policy.program.limits.iter().enumerate() {
        let under = |name: &str| {
            policy.program.lanes.iter().any(|lane| {
                lane.limits.iter().any(|l| l.index() == number)
                    && policy.classes[lane.class.index()].name == name
            })
        };
        // A limit by destination covers the senders to that destination: those whose bytes pass the limited lane.
        let far = scenario.bulk.iter().map(|b| b.destination).max();
        let jobs: Vec<&str> = scenario
            .bulk
            .iter()
            .filter(|b| under(b.name) && Some(b.destination) == far)
            .map(|b| b.name)
            .collect();
        let limit_bps = limit.rate.get() as f64;
        let binding = |s: &Sample| due_without_limit(s, &jobs, outcome.rate) >= limit_bps * 1.02;
        reports.push(limit_report(&limit.name, &jobs, limit_bps, LIMIT_WINDOW_S, samples, binding));
    }
    reports
}

/// Returns the bytes per second due to the limited jobs by Figure 11's policy without the limit: tenants share
/// equally, and T1's jobs share its part equally.
fn due_without_limit(sample: &Sample, limited: &[&str], link: BitsPerSec) -> f64 {
    let jobs = sample.active.iter().filter(|name| name.starts_with('J')).count();
    let others = sample.active.iter().filter(|name| name.starts_with('T')).count();
    let active = sample.active.iter().filter(|name| limited.contains(&name.as_str())).count();
    if jobs == 0 || active < limited.len() {
        return 0.0;
    }
    link.get() as f64 / (others + 1) as f64 * active as f64 / jobs as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_binds_as_long_as_t1_has_more_than_its_jobs_may_have() {
        let link = BitsPerSec(1_000_000_000);
        let sample = |active: &[&str]| Sample {
            active: active.iter().map(|s| (*s).to_owned()).collect(),
            ..Sample::default()
        };
        let due = |active: &[&str]| due_without_limit(&sample(active), &["J1", "J2"], link);
        assert!((due(&["J0", "J1", "J2"]) - 666_666_666.7).abs() < 1.0);
        assert!((due(&["J0", "J1", "J2", "T2", "T3", "T4"]) - 166_666_666.7).abs() < 1.0);
        assert!(due(&["J0"]).abs() < f64::EPSILON);
    }

    #[test]
    fn latency_is_cut_into_quarter_seconds() {
        let request = |ms: u64, s: f64| TimedRequest { at: Nanos::from_millis(ms), round_trip_s: s };
        let samples = latency_over_time(&[request(10, 0.001), request(249, 0.003), request(250, 0.005)]);
        assert_eq!(samples.len(), 2);
        assert!((samples[0].p90_s - 0.003).abs() < 1e-12);
        assert!((samples[1].t_s - 0.25).abs() < 1e-12);
    }
}
