//! `loom-cpu --measured`: the host's processor time for a byte, in the demo's four ways to drive the NIC.
//!
//! SQ is one queue with the kernel's HTB in front of it, which enforces the policy in software; the others are queues of the
//! software NIC. The NIC's own threads do what a NIC would, so their time is taken off, as the paper does with its prototype's.
//! The doorbells of the port are measured apart: batched, and one for each packet.

use super::doorbells::{self, Doorbells};
use super::{MeasuringOptions, ReproduceError};
use crate::experiments::loom::{DemoError, DemoEvent, DemoOptions, run};
use crate::experiments::titan::measured::error::MeasuredError;
use crate::experiments::titan::measured::processors::CpuTimes;
use core::time::Duration;
use weft_facts::stats;
use weft_nic::plan::Mode;
use weft_packet::ethernet;
use weft_policy::{CompileOptions, CompiledPolicy, Source, compile};
use weft_report::judgement::Judgement;
use weft_report::profile::FOREIGN_MAX;
use weft_report::reproduce::Experiment;
use weft_report::rounds::Rounds;
use weft_units::{BitsPerSec, Nanos};

/// The experiment's id.
pub(super) const ID: &str = "loom-cpu";
/// Runs of a cell.
pub(super) const RUNS: u32 = 3;
/// The number of rows of traffic.
const ROWS: usize = 4;
/// The number of measured cells, with that of the doorbells, whose runs are short.
pub(super) const CELLS: usize = ROWS + 1;
const COLUMN: &str = "ns_per_byte";
/// The rows and the column of doorbells.
const PER_BATCH: &str = "doorbell-per-batch";
const PER_SKB: &str = "doorbell-per-skb";
const DOORBELL_COLUMN: &str = "doorbell_ns";
/// A doorbell for each packet takes at least this many times the processor time of batched ones.
const BATCHES_SAVE: f64 = 2.0;
/// The rows and their modes; as many queues as the demo has by default.
const MODES: [(&str, Mode); ROWS] =
    [("SQ", Mode::Sq), ("MQ", Mode::Mq { queues: 16 }), ("QPF", Mode::Qpf), ("Loom", Mode::Loom)];
/// The paper's tenants with bulk flows, and a link that this machine can carry.
const TENANTS: [(&str, u32); 4] = [("T1", 4), ("T2", 16), ("T3", 64), ("T4", 256)];
const LINK: BitsPerSec = BitsPerSec(200_000_000);
const POLICY: &str = "class T1 = cgroup \"T1\"\nclass T2 = cgroup \"T2\"\nclass T3 = cgroup \"T3\"\n\
                      class T4 = cgroup \"T4\"\nroot = wfq { fair of T1: 1, fair of T2: 1, fair of T3: 1, fair of T4: 1 }\n";
/// Time left out at the beginning, for connections and slow start.
const WARM_UP: Nanos = Nanos::from_secs(2);
/// The paper's statement: SQ takes at least this many times the processor time of the others, and at most that many.
const LEAST: f64 = 1.25;
const MOST: f64 = 4.0;

/// Processor time of the host and bytes in a span of a run.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
struct Seen {
    begin: Option<Clocks>,
    end: Option<Clocks>,
    /// Wire bytes between the two.
    wire: u64,
}

/// Clocks at one time: those of the machine, and this process's time in seconds, which is the NIC's.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Clocks {
    at: Nanos,
    machine: CpuTimes,
    own_s: f64,
}

impl Clocks {
    fn read(at: Nanos) -> Option<Self> {
        let own = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        let own_s = own.tv_sec as f64 + own.tv_nsec as f64 / 1e9;
        Some(Self { at, machine: CpuTimes::read().ok()?, own_s })
    }
}

impl Seen {
    /// Adds a window, which has just ended.
    fn window(&mut self, at: Nanos, wire: u64, clocks: impl FnOnce() -> Option<Clocks>) {
        if at < WARM_UP {
            return;
        }
        if self.begin.is_none() {
            self.begin = clocks();
            return;
        }
        self.wire += wire;
        self.end = clocks();
    }

    /// Nanoseconds of the host for a byte of payload.
    fn ns_per_byte(&self) -> Option<f64> {
        let (begin, end) = (self.begin?, self.end?);
        let seconds = end.at.saturating_sub(begin.at).as_secs_f64();
        let busy_s = end.machine.percent_since(begin.machine)? / 100.0 * seconds;
        let payload = self.wire as f64 * PAYLOAD as f64 / WIRE as f64;
        (payload > 0.0).then(|| (busy_s - (end.own_s - begin.own_s)).max(0.0) * 1e9 / payload)
    }
}

/// Bytes of a full frame on the wire, and of its TCP payload.
const WIRE: u64 = ethernet::wire_of(ethernet::frame_of(ethernet::MTU)).get();
const PAYLOAD: u64 = 1448;

/// Measures the four rows, and adds the paper's statements as claims.
pub(super) fn fill(
    experiment: &mut Experiment,
    how: &MeasuringOptions,
    runs: u32,
    cancelled: &(dyn Fn() -> bool + Sync),
    progress: &mut dyn FnMut(usize),
) -> Result<(), ReproduceError> {
    let policy = policy()?;
    let before = others(cancelled)?;
    let rounds = Rounds::measure(runs, &MODES, &|| false, |turn| {
        let nanos = measure(&policy, turn.variant.1, how.measure.settings.duration, cancelled)?;
        progress(turn.done as usize);
        Ok::<_, ReproduceError>(nanos)
    })?;
    let seen: [Vec<f64>; ROWS] = core::array::from_fn(|row| rounds.of(row).flatten().copied().collect());
    let refused = |reason: String| ReproduceError::Native { id: ID.to_owned(), reason };
    let rung = doorbells::measure(runs, cancelled)
        .map_err(|error| refused(error.to_string()))?
        .ok_or(ReproduceError::Stopped)?;
    progress(runs as usize * CELLS);
    let mut enter = |row: &str, column: &str, values: &[f64]| {
        let cell = experiment.cells.iter_mut().find(|cell| cell.row == row && cell.column == column);
        if let Some(cell) = cell.filter(|_| !values.is_empty()) {
            cell.take_measured(values.to_vec());
        }
    };
    MODES.iter().zip(&seen).for_each(|((row, _), values)| enter(row, COLUMN, values));
    enter(PER_BATCH, DOORBELL_COLUMN, &rung.per_batch.nanos);
    enter(PER_SKB, DOORBELL_COLUMN, &rung.per_packet.nanos);
    let others = before.max(others(cancelled)?);
    if others > FOREIGN_MAX {
        experiment
            .notes
            .push(format!("measured: LOADED: {}, and their time is in the figures", told(others)));
    }
    claims(experiment, &seen, others);
    doorbell_claim(experiment, &rung);
    experiment.notes.push(format!(
        "measured: {} bulk flows of four tenants at {LINK}, the machine's processor time without the NIC's own threads; SQ has one HTB for all, MQ 16 queues. The kernel's mq with an HTB for each queue is not measured: per-queue \
         HTBs do not share a rate",
        TENANTS.iter().map(|(_, flows)| flows).sum::<u32>()
    ));
    Ok(())
}

/// The share of the processors that other processes have, over a second without traffic of the experiment.
fn others(cancelled: &(dyn Fn() -> bool + Sync)) -> Result<f64, ReproduceError> {
    let failed =
        |error: MeasuredError| ReproduceError::Native { id: ID.to_owned(), reason: error.to_string() };
    let before = CpuTimes::read().map_err(failed)?;
    for _ in 0..10 {
        if cancelled() {
            return Err(ReproduceError::Stopped);
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    let percent = CpuTimes::read().map_err(failed)?.percent_since(before).unwrap_or(0.0);
    Ok(percent / 100.0 / std::thread::available_parallelism().map_or(1.0, |cores| cores.get() as f64))
}

fn told(others: f64) -> String {
    format!("other processes had {:.1} % of the processors", others * 100.0)
}

fn policy() -> Result<CompiledPolicy, ReproduceError> {
    let compilation = compile(Source { name: "tenants", text: POLICY }, &CompileOptions::default());
    let first = compilation.diagnostics.first().map(ToString::to_string).unwrap_or_default();
    compilation.policy.ok_or_else(|| ReproduceError::Native { id: ID.to_owned(), reason: first })
}

fn measure(
    policy: &CompiledPolicy,
    mode: Mode,
    duration: Nanos,
    cancelled: &(dyn Fn() -> bool + Sync),
) -> Result<Option<f64>, ReproduceError> {
    let options = DemoOptions {
        modes: vec![mode],
        sq_qdisc: true,
        ..DemoOptions::figure2(&TENANTS, LINK, WARM_UP + duration)
    };
    let mut seen = Seen::default();
    let mut heard = |event: DemoEvent<'_>| {
        if let DemoEvent::Live(live) = event {
            let wire = live.sample.wire.iter().map(|bytes| bytes.get()).sum();
            let end = live.at + live.sample.window;
            seen.window(live.at, wire, || Clocks::read(end));
        }
    };
    run(policy, &options, &|| cancelled(), &mut heard).map_err(|error| match error {
        DemoError::Interrupted => ReproduceError::Stopped,
        other => ReproduceError::Native { id: ID.to_owned(), reason: other.to_string() },
    })?;
    Ok(seen.ns_per_byte())
}

/// Adds the statements about measured values, each also on rows that are alike. Where others use the machine they cannot be shown.
fn claims(experiment: &mut Experiment, seen: &[Vec<f64>; ROWS], others: f64) {
    let means = [0, 1, 2, 3].map(|row: usize| stats::mean(&seen[row]));
    let [Some(sq), ..] = means else { return };
    for ((row, _), other) in MODES.iter().zip(means).skip(1) {
        let Some(other) = other else { continue };
        let holds = |sq: f64| Judgement::of(sq > LEAST * other && sq < MOST * other);
        experiment.claim_judged(
            &format!("Measured: SQ takes 25-300 % more processor time than {row}"),
            &format!("from {LEAST} to {MOST} times as much"),
            format!("{sq:.3} against {other:.3} ns for a byte"),
            if others > FOREIGN_MAX { Judgement::NotShown(told(others)) } else { holds(sq) },
        );
        experiment.null_of_last(&format!("SQ is as {row}"), &holds(other));
    }
}

/// Adds the statement about the port's doorbells, also on batches of one packet.
fn doorbell_claim(experiment: &mut Experiment, rung: &Doorbells) {
    let (batched, single) = (&rung.per_batch, &rung.per_packet);
    let means = [&batched.nanos, &single.nanos, &batched.doorbells, &single.doorbells];
    let [Some(batch_ns), Some(single_ns), Some(batch_rung), Some(single_rung)] =
        means.map(|values| stats::mean(values))
    else {
        return;
    };
    let holds = |batched: f64| Judgement::of(batched * BATCHES_SAVE < single_ns);
    experiment.claim_judged(
        &format!("Measured: a doorbell for each of {} packets takes more than one for all", doorbells::BATCH),
        &format!("at least {BATCHES_SAVE} times the processor time"),
        format!(
            "{batch_ns:.1} against {single_ns:.1} ns for a packet, with {batch_rung:.3} and {single_rung:.3} doorbells"
        ),
        holds(batch_ns),
    );
    experiment.null_of_last("a batch is one packet", &holds(single_ns));
    experiment.notes.push(
        "measured: doorbells are runs of the port's program, which adds to shared words and wakes a NIC that sleeps, with the classification \
         of the skb; a write over PCIe, which the simulator prices, is dearer or cheaper"
            .to_owned(),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(means: [f64; ROWS], others: f64) -> Vec<Judgement> {
        let mut experiment = Experiment::new(ID, "", "");
        claims(&mut experiment, &means.map(|mean| vec![mean, mean]), others);
        experiment.claims.iter().map(weft_report::reproduce::Claim::judgement).collect()
    }

    /// The null models of the claims: none holds where the rows are alike.
    #[test]
    fn each_claim_fails_where_the_rows_are_alike() {
        use Judgement::{Fails, Holds};
        assert_eq!(judged([2.0, 1.0, 1.0, 1.1], 0.0), [Holds, Holds, Holds]);
        assert_eq!(judged([1.0; ROWS], 0.0), [Fails, Fails, Fails]);
        assert_eq!(judged([5.0, 1.0, 2.0, 4.5], 0.0), [Fails, Holds, Fails]);
        let loaded = judged([2.0, 1.0, 1.0, 1.1], 0.5);
        assert!(loaded.iter().all(|judgement| matches!(judgement, Judgement::NotShown(_))), "{loaded:?}");
        let mut experiment = Experiment::new(ID, "", "");
        claims(&mut experiment, &Default::default(), 0.0);
        assert!(experiment.claims.is_empty(), "nothing was seen");
    }

    /// The null model of the doorbells' claim: batches of one packet.
    #[test]
    fn batches_that_save_nothing_fail_the_claim() {
        use crate::reproduce::doorbells::Rung;
        let judged = |batch: f64, single: f64| {
            let rung = |nanos: f64| Rung { nanos: vec![nanos; 3], doorbells: vec![1.0; 3] };
            let mut experiment = Experiment::new(ID, "", "");
            doorbell_claim(&mut experiment, &Doorbells { per_batch: rung(batch), per_packet: rung(single) });
            experiment.claims.iter().map(weft_report::reproduce::Claim::judgement).collect::<Vec<_>>()
        };
        assert_eq!(judged(10.0, 300.0), [Judgement::Holds]);
        assert_eq!(judged(300.0, 300.0), [Judgement::Fails]);
        let mut experiment = Experiment::new(ID, "", "");
        doorbell_claim(&mut experiment, &Doorbells::default());
        assert!(experiment.claims.is_empty(), "nothing was seen");
    }

    #[test]
    fn the_policy_has_a_class_for_each_tenant() {
        let policy = policy().expect("a policy");
        assert!(TENANTS.iter().all(|(name, _)| policy.classes.iter().any(|class| class.name == *name)));
    }

    /// Windows of the warm-up do not count; the first one after it only starts the clocks.
    #[test]
    fn time_and_bytes_are_of_the_same_windows() {
        let mut seen = Seen::default();
        let second = Nanos::from_secs(1);
        for (at, wire) in [(0, 7), (1, 7), (2, 7), (3, 100), (4, 100)] {
            let clocks =
                Clocks { at: Nanos::from_secs(at) + second, machine: CpuTimes::default(), own_s: at as f64 };
            seen.window(Nanos::from_secs(at), wire, || Some(clocks));
        }
        let ends = [seen.begin, seen.end].map(|clocks| clocks.map(|clocks| clocks.at));
        assert_eq!(ends, [Some(Nanos::from_secs(3)), Some(Nanos::from_secs(5))]);
        assert_eq!((seen.wire, seen.ns_per_byte()), (200, None), "no tick has passed");
    }
}
