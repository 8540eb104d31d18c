//! The demo of Figure 9 in the simulator: for machines without network rights, and for comparison with measured runs.

use super::DemoOptions;
use super::scenario::LoomScenario as Timeline;
use crate::simulate::conservation;
use std::collections::BTreeMap;
use weft_facts::record::Document;
use weft_nic::plan;
use weft_packet::ethernet;
use weft_report::demo::{Cost, DemoReport, LATENCY_TENANT, LatencySummary, Mode, ModeReport, Sample};
use weft_run::host_facts;
use weft_sim::outcome::{ClassSample, RunOutcome};
use weft_sim::run::{RunError, simulate};
use weft_sim::scenario::{
    ByteQueueLimit, FlowGroup, FlowTraffic, HostSpec, QdiscKind, Scenario, SchedulerKind,
};
use weft_units::{BitsPerSec, Bytes, Nanos};

/// The default rate of the link: the one that the demo chooses on a machine with two cores (docs/measuring.md).
pub const RATE: BitsPerSec = BitsPerSec(300_000_000);
/// Length of the throughput windows, as in the demo.
const WINDOW: Nanos = Nanos::from_millis(500);
/// One-way delay through veth, software NIC and receiver without load: half of the demo's least round trip.
const DELAY: Nanos = Nanos::from_micros(40);
/// Packets that a ring of the port holds (`product/weft-nic`: the macvtap's queue).
const RING: u32 = 2000;
/// HTB's rate as a fraction of the link's in mode SQ.
const HTB_SHARE: (u64, u64) = (98, 100);

/// A policy with the files of its tenants.
#[derive(Clone, Debug)]
pub struct PolicyFiles {
    /// The name of the policy's own text among the texts.
    pub name: String,
    /// The texts by name: that of the policy, and those of its tenants, whose names are relative to the file that names them.
    pub texts: BTreeMap<String, String>,
}

/// Runs the modes of `options` in the simulator. The classes of `policy` are the tenants.
///
/// # Errors
/// Fails when the scenario cannot run, for example because of the policy.
pub fn report(policy: &PolicyFiles, options: &DemoOptions, seed: u64) -> Result<DemoReport, RunError> {
    let timeline = &options.scenario;
    let rate = options.rate.unwrap_or(RATE);
    let modes: Result<Vec<ModeReport>, RunError> =
        options.modes.iter().map(|&mode| mode_report(policy, options, rate, mode, seed)).collect();
    let mut flows: BTreeMap<String, u32> =
        timeline.bulk.iter().map(|b| (b.name.to_owned(), b.flows)).collect();
    flows.extend(timeline.latency.map(|name| (name.to_owned(), 1)));
    let mut report = DemoReport {
        schema: DemoReport::SCHEMA.to_owned(),
        host: host_facts::detect(),
        seed: Some(seed),
        started: None,
        command: None,
        figure: timeline.figure as u8,
        link_bps: rate.get(),
        link_bps_source: "simulated; no packet was sent".to_owned(),
        rate_trial: None,
        flows,
        congestion_control: options.congestion.clone(),
        duration_s: timeline.duration.as_secs_f64(),
        modes: modes?,
        samples: Vec::new(),
        limits: Vec::new(),
    };
    report.summarise();
    Ok(report)
}

fn mode_report(
    policy: &PolicyFiles,
    options: &DemoOptions,
    rate: BitsPerSec,
    mode: plan::Mode,
    seed: u64,
) -> Result<ModeReport, RunError> {
    let timeline = &options.scenario;
    let mut scenario = scenario(policy, options, rate, mode);
    let whole = simulate(&scenario, seed)?;
    let (name, description) = describe(mode);
    let mut report = ModeReport::new(name, description);
    report.samples = whole.samples.iter().map(|window| sample(window, timeline, &scenario.classes)).collect();
    report.conservation = conservation(&whole);
    report.cost = Cost { doorbells: Some(whole.counters.doorbells), ..Cost::default() };
    if let Some((from, to)) = timeline.full_load() {
        report.latency_s = LatencySummary::from_seconds(&requests(&whole, from, to));
        // Standing bytes are averages over the measured part of a run: here full load.
        (scenario.warm_up, scenario.duration) = (from, to.saturating_sub(from));
        let loaded = simulate(&scenario, seed)?;
        let standing = scenario.classes.iter().zip(&loaded.counters.backlog_bytes);
        report.standing_queue_bytes =
            standing.map(|(name, bytes)| (name.clone(), bytes.get() as f64)).collect();
    }
    report.notes.push("simulated".to_owned());
    Ok(report)
}

fn describe(mode: plan::Mode) -> (Mode, String) {
    match mode {
        plan::Mode::OneRing => (Mode::Sq, "simulated: one transmit queue behind HTB".to_owned()),
        plan::Mode::HashedRings { queues } | plan::Mode::Multiqueue { queues, .. } => {
            (Mode::Mq, format!("simulated: {queues} transmit queues, flows spread by hash, round robin"))
        }
        plan::Mode::RingPerFlow => {
            (Mode::Qpf, "simulated: a transmit queue for each flow, round robin".to_owned())
        }
        plan::Mode::Loom => (Mode::Loom, "simulated: the policy in the NIC".to_owned()),
    }
}

/// Returns the demo's time line as a scenario.
fn scenario(policy: &PolicyFiles, options: &DemoOptions, rate: BitsPerSec, mode: plan::Mode) -> Scenario {
    let timeline = &options.scenario;
    let classes: Vec<String> = timeline.names().into_iter().map(str::to_owned).collect();
    let mut scenario = Scenario {
        name: "demo".to_owned(),
        warm_up: Nanos::ZERO,
        duration: timeline.duration,
        sample_interval: WINDOW,
        fairness_intervals: Vec::new(),
        flows: Vec::new(),
        files: policy.texts.clone(),
        ..Scenario::default()
    };
    scenario.network.rate = rate;
    scenario.network.delay = DELAY;
    for host in &mut scenario.hosts {
        set_up(host, policy, options, rate, mode);
    }
    let class = |name: &str| classes.iter().position(|class| class == name).unwrap_or(0) as u16;
    let bulk = timeline.bulk.iter().map(|bulk| FlowGroup {
        name: bulk.name.to_owned(),
        count: bulk.flows,
        class: class(bulk.name),
        start: bulk.start,
        // iperf3 opens its flows one after the other.
        start_spread: Nanos(u64::from(bulk.flows) * 300_000),
        stop: bulk.stop,
        ..FlowGroup::default()
    });
    scenario.flows.extend(bulk);
    let think = Nanos(1_000_000_000 / u64::from(options.requests_per_s.max(1)));
    let request = Bytes(u64::from(options.request_bytes));
    scenario.flows.extend(timeline.latency.map(|name| FlowGroup {
        name: name.to_owned(),
        class: class(name),
        band: 0,
        traffic: FlowTraffic::RequestResponse { request, response: request, outstanding: 1, think },
        ..FlowGroup::default()
    }));
    scenario.classes = classes;
    scenario
}

/// Configures the simulated NIC as the software NIC.
fn set_up(
    host: &mut HostSpec,
    policy: &PolicyFiles,
    options: &DemoOptions,
    rate: BitsPerSec,
    mode: plan::Mode,
) {
    host.stack.congestion_control.clone_from(&options.congestion);
    host.stack.xps = false;
    // A macvtap has no byte queue limits and no on-chip buffer: only TCP small queues bound its backlog.
    host.stack.byte_queue_limit = ByteQueueLimit::Off;
    host.nic.transmit_ring = RING;
    host.nic.transmit_buffer = Bytes(1);
    match mode {
        plan::Mode::OneRing => {
            host.nic.transmit_queues = 1;
            let (part, of) = HTB_SHARE;
            host.stack.qdisc = QdiscKind::Htb { rate: BitsPerSec(rate.get() / of * part) };
        }
        plan::Mode::HashedRings { queues } | plan::Mode::Multiqueue { queues, .. } => {
            host.nic.transmit_queues = u32::from(queues)
        }
        plan::Mode::RingPerFlow => host.nic.transmit_queues = 0,
        plan::Mode::Loom => {
            host.nic.transmit_queues = 0;
            host.nic.scheduler = SchedulerKind::PolicyTree;
            host.stack.policy_file = Some(policy.name.clone());
        }
    }
}

fn sample(window: &ClassSample, timeline: &Timeline, classes: &[String]) -> Sample {
    let from = window.at.saturating_sub(window.window);
    let bps = |bytes: &Bytes| bytes.get() as f64 * 8.0 / window.window.as_secs_f64();
    let mut active: Vec<String> = timeline.active(from, window.at).into_iter().map(str::to_owned).collect();
    if timeline.latency.is_some() {
        active.insert(0, LATENCY_TENANT.to_owned());
    }
    // The demo's rates count wire bytes: frames with check sequence, preamble and gap.
    let frame = ethernet::frame_of(ethernet::MTU);
    let wire = ethernet::wire_of(frame).get() as f64 / frame.get() as f64;
    Sample {
        t_s: from.as_secs_f64(),
        window_s: window.window.as_secs_f64(),
        bps: classes
            .iter()
            .zip(&window.bytes)
            .map(|(name, bytes)| (name.clone(), bps(bytes) * wire))
            .collect(),
        active,
        steady: timeline.steady(from, window.at),
    }
}

/// Returns the round trips, in seconds, of requests that ended in a span.
fn requests(outcome: &RunOutcome, from: Nanos, to: Nanos) -> Vec<f64> {
    let timed = outcome.flows.iter().flat_map(|flow| flow.requests.at.iter().zip(&flow.requests.samples));
    timed.filter(|(at, _)| **at >= from && **at < to).map(|(_, sample)| sample.as_secs_f64()).collect()
}
