//! The slides' figure of performance isolation (TRIOS'15, experiment 2), measured: memcached behind the software
//! NIC's receive side, planned for an Intel 82599 with ten queues, with and without the policy.

use super::isolation::{
    Class, ClassRecord, IsolationError, IsolationEvent, IsolationOptions, IsolationOutcome, PhaseRecord,
    PlanInForce, RunPhase, run,
};
use crate::experiments::{ExperimentError, ExperimentRequest, Native};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;
use weft_facts::stats;
use weft_packet::HeaderMatch;
use weft_report::judgement::Judgement;
use weft_report::reproduce::{Experiment, Series, TableCell};
use weft_steer::Flow;
use weft_steer::nic::{Nic, Steering, shipped_model};
use weft_steer::policy::{Balance, Isolate, PolicyFile};
use weft_steer::search::{Options, PlanError, Planner, SteeredFlowId};

/// The experiment's id.
const ID: &str = "dragonet-isolation";
/// The experiment.
pub(crate) const NATIVE: Native = Native {
    id: ID,
    title: "memcached with clients of high priority and best effort, 10 queues",
    source: "Dragonet, TRIOS'15, slides: performance isolation, panels e to h",
    needs_rights: true,
    run: experiment,
};

/// The NIC model that plans are made for.
const NIC: &str = "intel-82599";
/// Queues of the high-priority class, as on the slides.
const HP_QUEUES: u32 = 4;
/// Value sizes in bytes, as on the slides.
const VALUES: [usize; 2] = [1024, 64];
/// Default factor on the talk's two minutes: 5.5 s for each of the four runs.
const DEFAULT_SCALE: f64 = 0.05;

/// Steps of progress in each run.
const STEPS: usize = 100;

/// The policies compared.
const MODES: [&str; 2] = ["balance", "isolation"];

/// A planner for one policy that follows added and removed flows.
pub struct Replanner {
    planner: Planner,
    known: BTreeMap<HeaderMatch, SteeredFlowId>,
}

impl Replanner {
    /// Starts without flows.
    ///
    /// # Errors
    /// Fails when the policy does not fit the queues.
    pub fn new(nic: Nic, policy: impl Into<PolicyFile>, queues: u32) -> Result<Self, PlanError> {
        let options = Options { queues: Some(queues), all_tables: true, ..Options::default() };
        let planner = Planner::new(nic, policy, options)?;
        Ok(Self { planner, known: BTreeMap::new() })
    }

    /// Plans for added and removed flows.
    pub fn replan(&mut self, added: &[Flow], removed: &[Flow]) -> PlanInForce {
        let gone: Vec<SteeredFlowId> =
            removed.iter().filter_map(|flow| self.known.remove(&flow.headers)).collect();
        self.planner.remove(&gone);
        let ids = self.planner.add(added.to_vec());
        self.known.extend(added.iter().zip(ids).map(|(flow, id)| (flow.headers, id)));
        let configuration = self.planner.plan().configuration;
        let steering = Steering::new(self.planner.nic(), &configuration);
        PlanInForce { configuration, steer: Arc::new(move |packet: &HeaderMatch| steering.queue(packet)) }
    }
}

/// Runs the experiment; fails when it cannot run here, or was stopped.
fn experiment(
    given: &ExperimentRequest,
    cancelled: &(dyn Fn() -> bool + Sync),
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Experiment, ExperimentError> {
    let begin = Instant::now();
    let failed = |reason: String| ExperimentError::Failed { id: ID.to_owned(), reason };
    let scale = given.time_scale.unwrap_or(DEFAULT_SCALE);
    let mut experiment = NATIVE.record();
    let mut outcomes = BTreeMap::new();
    let mut budget = IsolationOptions::default();
    for value_bytes in VALUES {
        for mode in MODES {
            let options = IsolationOptions { value_bytes, scale, seed: given.seed, ..Default::default() };
            let nic = shipped_model(NIC).ok_or_else(|| failed(format!("there is no model {NIC}")))?;
            let policy = match mode {
                "isolation" => PolicyFile::from(Isolate {
                    class: Class::HighPriority.name().to_owned(),
                    queues: HP_QUEUES,
                }),
                _ => PolicyFile::from(Balance::default()),
            };
            let mut replanner =
                Replanner::new(nic, policy, options.queues).map_err(|error| failed(error.to_string()))?;
            let mut replan = |added: &[Flow], removed: &[Flow]| Ok(replanner.replan(added, removed));
            let done = outcomes.len();
            let mut told = |event| {
                if let IsolationEvent::Live { at, of, .. } = event {
                    let steps = (at.get() * STEPS as u64 / of.get().max(1)) as usize;
                    progress(done * STEPS + steps, VALUES.len() * MODES.len() * STEPS);
                }
            };
            let outcome =
                run(mode, &options, &mut replan, cancelled, &mut told).map_err(|error| match error {
                    IsolationError::Interrupted => ExperimentError::Stopped,
                    other => failed(other.to_string()),
                })?;
            cells(&mut experiment, mode, value_bytes, &outcome);
            series(&mut experiment, mode, value_bytes, &outcome);
            outcomes.insert((value_bytes, mode), outcome);
            budget = options;
        }
    }
    claims(&mut experiment, &outcomes);
    experiment.notes.push(format!(
        "the slides print no numbers; each queue serves {} packets/s in every mode, times are {scale} of the paper's",
        budget.budget.packets_per_s
    ));
    let conserved = outcomes.values().all(|outcome| outcome.unexplained.0 == 0);
    experiment.notes.push(format!(
        "packets of {} runs: every queue's accounting balances; {}",
        outcomes.len(),
        if conserved {
            "all packets sent reached the wire"
        } else {
            "some packets sent did NOT reach the wire"
        }
    ));
    experiment.wall_s = begin.elapsed().as_secs_f64();
    Ok(experiment.finish())
}

/// Returns a phase's name in columns.
fn phase_name(phase: RunPhase) -> &'static str {
    match phase {
        RunPhase::Before => "before",
        RunPhase::Joined(Class::HighPriority) => "with new HP",
        RunPhase::Joined(Class::BestEffort) => "with new BE",
    }
}

fn class_of(record: &PhaseRecord, class: Class) -> ClassRecord {
    match class {
        Class::HighPriority => record.hp,
        Class::BestEffort => record.be,
    }
}

/// Returns the requests per second of one client of a class, among the initial clients.
fn per_client(record: &PhaseRecord, class: Class) -> f64 {
    let record = class_of(record, class);
    record.requests_per_s / f64::from(record.clients.max(1))
}

/// Adds a row for each mode, class and value size, with a column per phase.
fn cells(experiment: &mut Experiment, mode: &str, value_bytes: usize, outcome: &IsolationOutcome) {
    for class in Class::ALL {
        for record in &outcome.phases {
            let phase = phase_name(record.phase);
            let of_class = class_of(record, class);
            for (what, unit, value) in [
                ("requests/s per client", "1/s", Some(per_client(record, class))),
                ("p50", "s", of_class.latency_p50_s),
                ("p99", "s", of_class.latency_p99_s),
            ] {
                experiment.cells.push(TableCell {
                    row: format!("{mode}, {} B, {}", value_bytes, class.name()),
                    column: format!("{what} {phase}"),
                    flows: 320,
                    measured: value,
                    unit: unit.to_owned(),
                    floor: 1e-9,
                    ..TableCell::default()
                });
            }
        }
    }
}

/// Adds the panels: latency and throughput of each class's clients over time.
fn series(experiment: &mut Experiment, mode: &str, value_bytes: usize, outcome: &IsolationOutcome) {
    for class in Class::ALL {
        let clients = || outcome.clients.iter().filter(|client| client.class == class && !client.newcomer);
        let windows = clients().map(|client| client.points.len()).min().unwrap_or(0);
        let x: Vec<f64> = (0..windows).map(|i| outcome.window.as_secs_f64() * i as f64).collect();
        let mean_of = |value: &dyn Fn(usize, &super::isolation::ClientRecord) -> Option<f64>| -> Vec<f64> {
            let at = |i| {
                let values: Vec<f64> = clients().filter_map(|client| value(i, client)).collect();
                stats::mean(&values).unwrap_or(0.0)
            };
            (0..windows).map(at).collect()
        };
        let rates = mean_of(&|i, client| Some(client.points.get(i)?.requests_per_s));
        let latencies = mean_of(&|i, client| client.points.get(i)?.latency_mean_s);
        for (what, y_label, y) in
            [("Latency", "seconds", latencies), ("Throughput", "requests/s per client", rates)]
        {
            experiment.series.push(Series {
                plot: format!("{what}, {value_bytes} bytes"),
                name: format!("{}, {mode}", class.name()),
                x_label: "seconds".to_owned(),
                y_label: y_label.to_owned(),
                kind: "line".to_owned(),
                x: x.clone(),
                y,
            });
        }
    }
}

/// The greatest relative change at which a client's figure counts as kept.
const KEPT: f64 = 0.1;

fn claims(experiment: &mut Experiment, outcomes: &BTreeMap<(usize, &str), IsolationOutcome>) {
    for value_bytes in VALUES {
        let (Some(balance), Some(isolation)) =
            (outcomes.get(&(value_bytes, MODES[0])), outcomes.get(&(value_bytes, MODES[1])))
        else {
            continue;
        };
        let [before, new_hp, new_be] = isolation.phases.as_slice() else { continue };
        for (what, class, after) in [
            ("HP clients keep throughput when a BE client starts", Class::HighPriority, new_be),
            ("BE clients keep throughput when an HP client starts", Class::BestEffort, new_hp),
        ] {
            kept(experiment, what, value_bytes, per_client(before, class), per_client(after, class));
        }
        let p50 = |record: &PhaseRecord, class| class_of(record, class).latency_p50_s.unwrap_or(f64::NAN);
        for (what, after) in [
            ("HP clients keep latency when a BE client starts", new_be),
            // The slides' first event. It cannot hold where the class's four queues are as full as here: the newcomer
            // takes its share.
            ("HP clients keep latency when an HP client starts", new_hp),
        ] {
            let hp = Class::HighPriority;
            kept(experiment, what, value_bytes, p50(before, hp), p50(after, hp));
        }
        let Some(plain) = balance.phases.get(1) else { continue };
        let (with, without) = (p50(new_hp, Class::HighPriority), p50(plain, Class::HighPriority));
        let less = |p50: f64| Judgement::of(p50 < without);
        experiment.claim_judged(
            &format!("{value_bytes} B: with another HP client, HP clients wait less than without the policy"),
            "isolation p50 < balance p50",
            format!("{:.1} ms against {:.1} ms", with * 1e3, without * 1e3),
            less(with),
        );
        experiment.null_of_last("the policy makes no difference", &less(without));
    }
}

fn kept(experiment: &mut Experiment, what: &str, value_bytes: usize, before: f64, after: f64) {
    let ratio = after / before;
    experiment.claim(
        &format!("{value_bytes} B: {what}"),
        &format!("within {} % of before", KEPT * 100.0),
        format!("{ratio:.3} of before"),
        (ratio - 1.0).abs() <= KEPT,
    );
}
