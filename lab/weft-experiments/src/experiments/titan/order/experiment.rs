//! `titan-order`: checks over millions of packets on this machine that no move lets a packet overtake another, and
//! that the counts are exact.
//!
//! Two rows have Titan at the sender's port, with fair queues and with FIFO queues in the NIC. The third has it at
//! the port of the answering end, so that acknowledgements and replies are assigned. Flows pause and resume at
//! random, their threads change cores every millisecond, and both directions are busy. The fourth row has short flows
//! only, as many per second as this machine carries. The last has a policy in place of Titan, as `weft run` enforces it.

use super::policy::{self, PolicyNicError};
use super::run::{OrderReport, OrderRunError, OrderSettings, run};
use super::{OrderStage, PacketPath};
use crate::experiments::{ExperimentError, ExperimentRequest, Native};
use crate::traffic::churn::{self, ChurnError, ChurnReport, ClosingShares, ShortFlows};
use crate::traffic::ordered::Mix;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use std::time::Instant;
use weft_nic::multiqueue::{self, Multiqueue, MultiqueueError};
use weft_nic::nic::NicError;
use weft_nic::testbed::{PORT, RECEIVER, SENDER, Testbed, TestbedError};
use weft_report::judgement::Judgement;
use weft_report::reproduce::{Experiment, TableCell};
use weft_sched::queues::Inner;
use weft_titan::device::Titan;
use weft_titan::error::TitanError;
use weft_titan::settings::Settings;
use weft_units::{BitsPerSec, Nanos, Packets};

/// The experiment's id.
const ID: &str = "titan-order";
/// The experiment.
pub(crate) const NATIVE: Native = Native {
    id: ID,
    title: "Order of packets and exactness of counts on this machine",
    source: "Titan, ATC 2017, section 3.1: a flow moves only when none of its packets is queued",
    needs_rights: true,
    run: experiment,
};

/// The receiver's device.
const WIRE: &str = "wire0";
/// Packets of each row at a scale of 1: more than ten million in all.
const PACKETS: u64 = 3_500_000;
/// Packets that must be checked before the absence of late ones is evidence.
const WANTED: u64 = 10_000_000;
/// Packets of the row with a policy at a scale of 1.
const POLICY_PACKETS: u64 = 10_000_000;
/// The longest time of a row, at a scale of 1.
const MOST: Duration = Duration::from_secs(240);
/// Duration of short flows, at a scale of 1.
const CHURN: Duration = Duration::from_secs(10);
/// Time limit for the last departures.
const SETTLE: Duration = Duration::from_secs(10);
/// The link's rate: beyond two cores' capacity in small packets, so that the NIC's queues fill and drain all the
/// time.
const LINK: BitsPerSec = BitsPerSec(2_000_000_000);
/// Short flows attempted per second: the rate in the papers' measurement of churn.
const SHORT_PER_SECOND: u32 = 10_000;
/// The greatest fraction of activations that are counted out late: departures that tracing programs miss
/// (docs/titan.md).
const REPAIRED: f64 = 0.005;

/// The kinds of rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Row {
    Fair,
    Fifo,
    Answers,
    Short,
    Policy,
}

impl Row {
    const ALL: [Self; 5] = [Self::Fair, Self::Fifo, Self::Answers, Self::Short, Self::Policy];

    fn name(self) -> &'static str {
        match self {
            Self::Fair => "sender, SFQ inside",
            Self::Fifo => "sender, FIFO inside",
            Self::Answers => "answering end",
            Self::Short => "short flows",
            Self::Policy => "policy",
        }
    }

    fn packets(self) -> u64 {
        if self == Self::Policy { POLICY_PACKETS } else { PACKETS }
    }

    fn inner(self) -> Inner {
        if self == Self::Fifo { Inner::Fifo } else { Inner::Fair }
    }
}

/// The results of a row.
#[derive(Debug)]
struct Seen {
    row: Row,
    figures: Vec<(&'static str, &'static str, f64)>,
    /// Late packets at all stages.
    late: u64,
    packets: u64,
    moves: u64,
    /// Flows and packets that remain in the counts after the traffic.
    standing: u64,
    repaired: f64,
}

/// The reason that a row could not be measured.
#[derive(Debug, thiserror::Error)]
enum RowError {
    #[error(transparent)]
    Testbed(#[from] TestbedError),
    #[error(transparent)]
    Multiqueue(#[from] MultiqueueError),
    #[error(transparent)]
    Policy(#[from] PolicyNicError),
    #[error(transparent)]
    Titan(#[from] TitanError),
    #[error(transparent)]
    Nic(#[from] NicError),
    #[error(transparent)]
    Order(#[from] OrderRunError),
    #[error(transparent)]
    Churn(#[from] ChurnError),
    #[error("a thread panicked, which is a bug; please report it")]
    Panicked,
}

/// Runs the experiment; fails when it cannot run here, or was stopped.
fn experiment(
    given: &ExperimentRequest,
    cancelled: &(dyn Fn() -> bool + Sync),
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Experiment, ExperimentError> {
    let failed = |reason: String| ExperimentError::Failed { id: ID.to_owned(), reason };
    let begin = Instant::now();
    let mut seen = Vec::new();
    for (done, row) in Row::ALL.into_iter().enumerate() {
        let mut told = |share: f64| {
            progress(done * 100 + (share.min(1.0) * 100.0) as usize, Row::ALL.len() * 100);
        };
        let one = measure(row, given, cancelled, &mut told);
        if cancelled() {
            return Err(ExperimentError::Stopped);
        }
        seen.push(one.map_err(|error| failed(format!("{}: {error}", row.name())))?);
    }
    let mut experiment = conclude(&seen);
    experiment.wall_s = begin.elapsed().as_secs_f64();
    Ok(experiment)
}

/// Measures a row: a NIC with Titan or a policy, its traffic, and the counts that remain after it.
fn measure(
    row: Row,
    given: &ExperimentRequest,
    cancelled: &(dyn Fn() -> bool + Sync),
    told: &mut dyn FnMut(f64),
) -> Result<Seen, RowError> {
    match row {
        Row::Policy => under_policy(given, cancelled, told),
        _ => under_titan(row, given, cancelled, told),
    }
}

/// Measures the row of the policy. A packet that was posted and neither left nor was counted remains standing.
fn under_policy(
    given: &ExperimentRequest,
    cancelled: &(dyn Fn() -> bool + Sync),
    told: &mut dyn FnMut(f64),
) -> Result<Seen, RowError> {
    let bed = Testbed::create("tor")?;
    let nic = policy::start(&bed, LINK)?;
    let scale = given.time_scale.unwrap_or(1.0);
    let report = ordered(Row::Policy, given, &bed, scale, cancelled, told);
    let totals = nic.stop(Nanos::from_secs(5))?;
    let report = report?;
    let gone = totals.sum(|c| c.sent + c.refused + c.held);
    let dropped = totals.drops.total();
    let standing = totals.sum(|c| c.posted).packets.get().abs_diff(gone.packets.get() + dropped);
    let mut figures = stages(&report);
    figures.push(("standing", "", standing as f64));
    let late = report.stages.iter().map(|s| s.counts.late.get()).sum();
    let packets = report.packets().get();
    Ok(Seen { row: Row::Policy, figures, late, packets, moves: 0, standing, repaired: 0.0 })
}

/// Measures a row with Titan.
fn under_titan(
    row: Row,
    given: &ExperimentRequest,
    cancelled: &(dyn Fn() -> bool + Sync),
    told: &mut dyn FnMut(f64),
) -> Result<Seen, RowError> {
    let bed = Testbed::create("tor")?;
    let wanted = Multiqueue { inner: row.inner(), ..Multiqueue::new(LINK) };
    let nic = multiqueue::start(&bed, &wanted)?;
    let titan = Titan::attach(&bed.sender, PORT, &Settings::default())?;
    let scale = given.time_scale.unwrap_or(1.0);
    let traffic = match row {
        Row::Short => short(given, &bed, scale, cancelled, told).map(Traffic::Short),
        _ => ordered(row, given, &bed, scale, cancelled, told).map(Traffic::Ordered).map_err(RowError::from),
    };
    let seen = traffic.map(|traffic| traffic.seen(row, &titan));
    titan.detach()?;
    nic.stop(Nanos::from_secs(1))?;
    seen
}

/// Counts of a row's traffic.
enum Traffic {
    Ordered(OrderReport),
    Short(ChurnReport),
}

fn short_flows(given: &ExperimentRequest, per_second: u32) -> ShortFlows {
    let how_closed = ClosingShares { orderly: 4, reset: 3, abandoned: 1 };
    ShortFlows {
        how_closed,
        per_second,
        patience: Nanos::from_secs(2),
        seed: given.seed,
        ..ShortFlows::default()
    }
}

fn ordered(
    row: Row,
    given: &ExperimentRequest,
    bed: &Testbed,
    scale: f64,
    cancelled: &(dyn Fn() -> bool + Sync),
    told: &mut dyn FnMut(f64),
) -> Result<OrderReport, OrderRunError> {
    let default = Mix::default();
    let packets = Packets((row.packets() as f64 * scale) as u64);
    let settings = OrderSettings {
        packets,
        most: MOST.mul_f64(scale.max(0.1)),
        mix: Mix {
            change_core: Nanos::from_millis(1),
            connections: given.flows.unwrap_or(default.connections),
            seed: given.seed,
            ..default
        },
        short: Some(short_flows(given, 300)),
    };
    let (port, wire) = ((&bed.sender, PORT), (&bed.receiver, WIRE));
    let far = format!("{PORT}-nic");
    let path = match row {
        Row::Answers => PacketPath { sender: wire, far: None, receiver: port, server: SENDER },
        _ => {
            PacketPath { sender: port, far: Some((&bed.nic, far.as_str())), receiver: wire, server: RECEIVER }
        }
    };
    let stop = AtomicBool::new(false);
    let look = |now: &super::run::OrderProgress| {
        told(now.sent.packets.get() as f64 / packets.get().max(1) as f64);
        stop.store(cancelled(), Ordering::Relaxed);
    };
    run(&path, &settings, look, &stop)
}

fn short(
    given: &ExperimentRequest,
    bed: &Testbed,
    scale: f64,
    cancelled: &(dyn Fn() -> bool + Sync),
    told: &mut dyn FnMut(f64),
) -> Result<ChurnReport, RowError> {
    let (stop, begin, time) = (AtomicBool::new(false), Instant::now(), CHURN.mul_f64(scale.max(0.1)));
    let flows = short_flows(given, SHORT_PER_SECOND);
    std::thread::scope(|scope| {
        let work = || churn::run(&flows, &bed.sender, &bed.receiver, RECEIVER, time, &stop);
        let thread = scope.spawn(work);
        while !thread.is_finished() {
            std::thread::sleep(Duration::from_millis(50));
            told(begin.elapsed().as_secs_f64() / time.as_secs_f64());
            stop.store(cancelled(), Ordering::Relaxed);
        }
        Ok(thread.join().map_err(|_| RowError::Panicked)??)
    })
}

impl Traffic {
    fn seen(&self, row: Row, titan: &Titan) -> Seen {
        let (standing, repaired) = (standing(titan), repaired(titan));
        let moves = titan.page().moves();
        let kept = titan.totals().kept.load(Ordering::Relaxed);
        let mut figures = match self {
            Self::Ordered(report) => stages(report),
            Self::Short(report) => vec![("short_per_s", "1/s", report.per_second())],
        };
        figures.push(("activations", "flows", titan.page().activations() as f64));
        figures.push(("moves", "flows", moves as f64));
        figures.push(("kept", "flows", kept as f64));
        figures.push(("standing", "", standing as f64));
        figures.push(("repaired_share", "", repaired));
        let (packets, late) = match self {
            Self::Ordered(report) => {
                (report.packets().get(), report.stages.iter().map(|s| s.counts.late.get()).sum())
            }
            Self::Short(_) => (0, 0),
        };
        Seen { row, figures, late, packets, moves, standing, repaired }
    }
}

fn stages(report: &OrderReport) -> Vec<(&'static str, &'static str, f64)> {
    let late = |column, stage| report.late(stage).map(|late| (column, "packets", late.get() as f64));
    let mut figures = vec![("packets", "packets", report.packets().get() as f64)];
    figures.extend(late("late_egress", OrderStage::Egress));
    figures.extend(late("late_port", OrderStage::FarEnd));
    figures.extend(late("late_receiver", OrderStage::Receiver));
    figures.extend(report.short.as_ref().map(|short| ("short_per_s", "1/s", short.per_second())));
    figures
}

/// Returns the sum of all queues' counts once they are stable: flows, weights, and packets and bytes that have not
/// left.
fn standing(titan: &Titan) -> u64 {
    let begin = Instant::now();
    loop {
        let get = |count: &AtomicU64| count.load(Ordering::SeqCst);
        let of = |queue: &weft_titan::page::Queue| {
            let (packets, bytes) = (&queue.packets, &queue.bytes);
            let left_packets = get(&queue.left_packets) + get(&queue.unseen_packets);
            let left_bytes = get(&queue.left_bytes).wrapping_add(get(&queue.unseen_bytes));
            get(packets).abs_diff(left_packets) + get(bytes).abs_diff(left_bytes)
        };
        let loads = titan.page().loads.iter().map(|load| load.get().flows + load.get().weight);
        let sum = loads.chain(titan.page().queues.iter().map(of)).sum();
        if sum == 0 || begin.elapsed() > SETTLE {
            return sum;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Returns flows counted out late, as a fraction of activations.
fn repaired(titan: &Titan) -> f64 {
    let repaired = titan.totals().repaired.load(Ordering::Relaxed);
    repaired as f64 / titan.page().activations().max(1) as f64
}

/// Whether flows must change queues for the absence of late packets to be evidence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Moves {
    Wanted,
    None,
}

/// Claims that no packet of `rows` was late.
fn claim_order(experiment: &mut Experiment, claim: &str, rows: &[&Seen], wanted: Moves) {
    let sum = |of: fn(&Seen) -> u64| rows.iter().map(|one| of(one)).sum::<u64>();
    let (packets, late, moves) = (sum(|s| s.packets), sum(|s| s.late), sum(|s| s.moves));
    let moved = wanted == Moves::None || moves > 0;
    let judgement = match (late == 0 && moved, packets >= WANTED) {
        (true, false) => Judgement::NotShown(format!("{packets} packets are fewer than {WANTED}")),
        (holds, _) => Judgement::of(holds),
    };
    let (and_moved, seen) = match wanted {
        Moves::Wanted => (", and flows moved", format!("{late} of {packets} late, {moves} moves")),
        Moves::None => ("", format!("{late} of {packets} late")),
    };
    let expected = format!("none late at any stage, of at least {WANTED}{and_moved}");
    experiment.claim_judged(claim, &expected, seen, judgement);
}

/// Builds table and claims.
fn conclude(seen: &[Seen]) -> Experiment {
    let mut experiment = NATIVE.record();
    for one in seen {
        for (column, unit, value) in &one.figures {
            let (row, column, unit) = (one.row.name().to_owned(), (*column).to_owned(), (*unit).to_owned());
            let mut cell = TableCell { row, column, unit, ..TableCell::default() };
            cell.take_measured(vec![*value]);
            experiment.cells.push(cell);
        }
    }
    let sum = |of: fn(&Seen) -> u64| seen.iter().map(of).sum::<u64>();
    let (moved, policy): (Vec<&Seen>, Vec<&Seen>) = seen.iter().partition(|s| s.row != Row::Policy);
    claim_order(&mut experiment, "No packet is overtaken when flows change queues", &moved, Moves::Wanted);
    let name = "No packet is overtaken under a policy, whatever cores its flow is sent from";
    claim_order(&mut experiment, name, &policy, Moves::None);
    let standing = sum(|s| s.standing);
    experiment.claim(
        "After the traffic every queue reads zero",
        "flows, weights, packets and bytes: 0",
        format!("{standing} standing"),
        standing == 0,
    );
    let repaired = seen.iter().map(|s| s.repaired).fold(0.0, f64::max);
    experiment.claim(
        "Departures are seen when they happen",
        &format!("at most {:.1} % of the flows counted out late", REPAIRED * 100.0),
        format!("{:.3} %", repaired * 100.0),
        repaired <= REPAIRED,
    );
    experiment.notes.push(
        "packets are segments, in both directions of lasting and short flows, whose threads change cores; of the short flows three \
         of eight are reset and one is abandoned; `late_port` is the NIC's end of the port, before its rings, `late_receiver` behind the wire; `kept`: \
         became active while the NIC read from their queue"
            .to_owned(),
    );
    experiment.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(late: u64, standing: u64, moves: u64, repaired: f64) -> Seen {
        let figures = vec![("packets", "packets", 1000.0)];
        Seen { row: Row::Fair, figures, late, packets: WANTED, moves, standing, repaired }
    }

    /// A row of a policy in which all is well.
    fn policy() -> Seen {
        Seen { row: Row::Policy, ..seen(0, 0, 0, 0.0) }
    }

    fn holds(seen: &[Seen]) -> Vec<bool> {
        conclude(seen).claims.iter().map(|claim| claim.holds).collect()
    }

    #[test]
    fn one_late_packet_one_standing_flow_or_no_move_is_enough_to_fail() {
        assert_eq!(holds(&[seen(0, 0, 5, 0.001), seen(0, 0, 0, 0.0), policy()]), [true; 4]);
        assert_eq!(holds(&[seen(0, 0, 5, 0.0), seen(1, 0, 5, 0.0), policy()]), [false, true, true, true]);
        assert_eq!(holds(&[seen(0, 1, 5, 0.0), policy()]), [true, true, false, true]);
        assert_eq!(holds(&[seen(0, 0, 0, 0.0), policy()]), [false, true, true, true]);
        assert_eq!(holds(&[seen(0, 0, 5, 0.006), policy()]), [true, true, true, false]);
        let late = Seen { late: 1, ..policy() };
        assert_eq!(holds(&[seen(0, 0, 5, 0.0), late]), [true, false, true, true]);
    }

    #[test]
    fn fewer_than_ten_million_packets_show_nothing_and_a_late_one_among_them_fails() {
        let few = |late| {
            let few = Seen { packets: WANTED - 1, ..seen(late, 0, 5, 0.0) };
            conclude(&[few]).claims[0].judgement()
        };
        assert!(matches!(few(0), Judgement::NotShown(_)));
        assert_eq!(few(1), Judgement::Fails);
    }

    #[test]
    fn rows_are_in_the_table_with_their_units() {
        let experiment = conclude(&[seen(0, 0, 1, 0.0)]);
        let cell = &experiment.cells[0];
        assert_eq!(
            (cell.row.as_str(), cell.unit.as_str(), cell.measured),
            (Row::Fair.name(), "packets", Some(1000.0))
        );
        assert!(experiment.notes[0].contains("segments"));
    }
}
