//! Several workers with one policy: the error's growth with their number, in virtual time, and the speed of two beside one.
//!
//! `workers error [--svg=FILE]` prints a line of JSON for each way and number of workers, and draws them. `workers speed [--runs=N]`
//! prints one line: packets per second of one worker, of two, and of two that share one lock, measured in turns.
#![allow(clippy::disallowed_methods, reason = "it measures time")]

use std::fmt::Write as _;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant as Clock};
use weft_sched::workers::simulation::{Outcome, Presence, Scene, Way, run};
use weft_sched::workers::{Settings, Shared, Worker};
use weft_sched::workload::{ClosedLoop, Refill, figure1_program, limit_lanes, wfq_program};
use weft_units::{BitsPerSec, Nanos};

type Failure = Box<dyn std::error::Error>;

/// The numbers of workers.
const WORKERS: [usize; 6] = [2, 4, 8, 16, 32, 64];
/// The span of a promise, in milliseconds.
const SPAN: usize = 100;
/// The beginning that is left out.
const BEGIN: usize = 5;
/// The period of `cake_mq`.
const SPLIT: Nanos = Nanos::from_micros(200);
/// The time that a lock is held for a packet: what the engine takes for one.
const HOLD: Nanos = Nanos(100);
/// The links of all workers together.
const LINK: BitsPerSec = BitsPerSec(40_000_000_000);
const LIMIT: BitsPerSec = BitsPerSec(2_000_000_000);

/// The ways that are compared.
fn ways() -> [(&'static str, Way); 3] {
    [
        ("shared", Way::Shared(Settings::default())),
        ("one-lock", Way::OneLock(HOLD)),
        ("equal-split", Way::EqualSplit(SPLIT)),
    ]
}

/// Eight classes of weights 1 to 8. Workers with even numbers lack the heaviest, the others the two lightest.
fn shares(workers: usize) -> Scene {
    let mut scene = Scene::backlogged(wfq_program(8), workers, LINK);
    scene.span = Nanos::from_millis(150);
    for (worker, of) in scene.presence.iter_mut().enumerate() {
        let lacks: &[usize] = if worker % 2 == 0 { &[7] } else { &[0, 1] };
        lacks.iter().for_each(|lane| of[*lane] = Presence::Never);
    }
    scene
}

/// Four classes, of which one has a limit, and comes and goes at all workers but one.
fn limits(workers: usize) -> Scene {
    let mut program = wfq_program(4);
    limit_lanes(&mut program, 1, LIMIT);
    let mut scene = Scene::backlogged(program, workers, LINK);
    scene.span = Nanos::from_millis(150);
    scene.stall = Nanos::from_micros(200);
    for of in scene.presence.iter_mut().skip(1) {
        of[0] = Presence::OnAndOff(Nanos::from_micros(500));
    }
    scene
}

/// The largest error of a share in any 100 ms, in percent of the share.
fn error_of_shares(outcome: &Outcome) -> f64 {
    let error = |lanes: Vec<u64>| {
        let all: u64 = lanes.iter().sum();
        let due = |lane: usize| all as f64 * (lane + 1) as f64 / 36.0;
        (0..8).map(|lane| (lanes[lane] as f64 / due(lane) - 1.0).abs()).fold(0.0, f64::max)
    };
    outcome.windows(SPAN, BEGIN).map(error).fold(0.0, f64::max) * 100.0
}

/// The most and the least of the limit's bytes in any 100 ms, in percent of the limit, less 100.
fn errors_of_limit(outcome: &Outcome) -> (f64, f64) {
    let allowed = LIMIT.bytes_in(Nanos::from_millis(SPAN as u64)).get() as f64;
    let percent = |bytes: u64| (bytes as f64 / allowed - 1.0) * 100.0;
    let sums = || outcome.windows(SPAN, BEGIN).map(|lanes| lanes[0]);
    (percent(sums().max().unwrap_or(0)), percent(sums().min().unwrap_or(0)))
}

/// One way with one number of workers.
struct Row {
    way: &'static str,
    workers: usize,
    share: f64,
    above: f64,
    below: f64,
}

fn error(svg: Option<&str>) -> Result<(), Failure> {
    let mut rows = Vec::new();
    for (name, way) in ways() {
        for workers in WORKERS {
            let outcome = run(&shares(workers), way)?;
            let share = error_of_shares(&outcome);
            let sent: u64 = (0..8).map(|lane| outcome.bytes(lane, BEGIN, SPAN)).sum();
            let gigabits = sent as f64 * 8.0 / (SPAN as f64 * 1e6);
            let (above, below) = errors_of_limit(&run(&limits(workers), way)?);
            println!(
                "{{\"way\":\"{name}\",\"workers\":{workers},\"share_error_percent\":{share:.4},\
                 \"limit_above_percent\":{above:.4},\"limit_below_percent\":{below:.4},\"gbps\":{gigabits:.2}}}"
            );
            rows.push(Row { way: name, workers, share, above, below });
        }
    }
    if let Some(file) = svg {
        std::fs::write(file, plot(&rows)).map_err(|error| format!("writing {file}: {error}"))?;
    }
    Ok(())
}

/// The least error that the plot shows.
const FLOOR: f64 = 0.001;

/// Draws the errors over the number of workers, both logarithmic.
fn plot(rows: &[Row]) -> String {
    let x = |workers: usize| 70.0 + (workers as f64).log2() * 80.0;
    let y = |percent: f64| 40.0 + (100.0 / percent.clamp(FLOOR, 100.0)).log10() * 60.0;
    let mut out = String::from(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"820\" height=\"400\" font-family=\"sans-serif\" font-size=\"12\">\
         <rect width=\"820\" height=\"400\" fill=\"white\"/>\
         <text x=\"70\" y=\"20\">largest error in any 100 ms, in percent, over the number of workers</text>",
    );
    for percent in [100.0, 10.0, 1.0, 0.1, 0.01, FLOOR] {
        let at = y(percent);
        let _ = write!(
            out,
            "<path d=\"M70 {at}H560\" stroke=\"#ddd\"/><text x=\"20\" y=\"{at}\">{percent}</text>"
        );
    }
    for workers in WORKERS {
        let _ = write!(out, "<text x=\"{}\" y=\"365\">{workers}</text>", x(workers) - 5.0);
    }
    let colours = ["#1b6ca8", "#c0392b", "#7f8c8d"];
    for (at, (name, _)) in ways().into_iter().enumerate() {
        for (kind, dash, of) in [
            ("share", "", Box::new(|row: &Row| row.share) as Box<dyn Fn(&Row) -> f64>),
            ("above the limit", "6 3", Box::new(|row: &Row| row.above)),
            ("below the limit", "2 3", Box::new(|row: &Row| -row.below)),
        ] {
            let points = rows.iter().filter(|row| row.way == name);
            let points: Vec<String> =
                points.map(|row| format!("{:.1},{:.1}", x(row.workers), y(of(row)))).collect();
            let colour = colours[at];
            let _ = write!(
                out,
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" stroke-dasharray=\"{dash}\"/>",
                points.join(" ")
            );
            let line = 40 + at * 66 + ["", "6 3", "2 3"].iter().position(|d| *d == dash).unwrap_or(0) * 20;
            let _ = write!(
                out,
                "<path d=\"M580 {line}h30\" stroke=\"{colour}\" stroke-width=\"2\" stroke-dasharray=\"{dash}\"/>\
                 <text x=\"616\" y=\"{}\">{name}: {kind}</text>",
                line + 4
            );
        }
    }
    out.push_str("</svg>\n");
    out
}

/// The length of a measurement, and the packets between two looks at the clock.
const LENGTH: Duration = Duration::from_millis(500);
const STEP: u64 = 4096;
const FLOWS: u32 = 10_000;
/// Packets between two exchanges: about 20 us at the speed of the engine.
const BETWEEN: u64 = 160;

/// One worker that runs until it is told to end. Returns its packets.
fn worker(mut engine: ClosedLoop, shared: Option<&Arc<Shared>>, end: &AtomicBool) -> Result<u64, Failure> {
    let mut packets = 0;
    if let Some(shared) = shared {
        let now = engine.now();
        let mut handle = Worker::join(shared, engine.scheduler_mut(), now)?;
        while !end.load(Ordering::Relaxed) {
            for _ in 0..STEP / BETWEEN {
                packets += engine.run(BETWEEN);
                let now = engine.now();
                handle.exchange(engine.scheduler_mut(), now);
            }
        }
    } else {
        while !end.load(Ordering::Relaxed) {
            packets += engine.run(STEP);
        }
    }
    Ok(packets)
}

fn engine(seed: u64) -> Result<ClosedLoop, Failure> {
    let mut engine = ClosedLoop::new(&figure1_program(), FLOWS, Refill::Shuffled, seed)?;
    engine.run(u64::from(FLOWS));
    Ok(engine)
}

/// Packets per second of `threads` workers.
fn speed_of(threads: u64, shares: bool) -> Result<f64, Failure> {
    let shared =
        shares.then(|| Shared::new(&figure1_program(), Settings::default())).transpose()?.map(Arc::new);
    let engines: Vec<ClosedLoop> = (0..threads).map(engine).collect::<Result<_, _>>()?;
    let end = AtomicBool::new(false);
    let begin = Clock::now();
    let packets = std::thread::scope(|scope| {
        let (shared, end) = (shared.as_ref(), &end);
        let spawn =
            |engine| scope.spawn(move || worker(engine, shared, end).map_err(|error| error.to_string()));
        let threads: Vec<_> = engines.into_iter().map(spawn).collect();
        std::thread::sleep(LENGTH);
        end.store(true, Ordering::Relaxed);
        threads
            .into_iter()
            .map(|thread| thread.join().map_err(|_| "a worker panicked")?)
            .sum::<Result<u64, String>>()
    })?;
    Ok(packets as f64 / begin.elapsed().as_secs_f64())
}

/// Packets per second of two threads that take turns with one engine, a burst each.
fn speed_of_lock() -> Result<f64, Failure> {
    let engine = Mutex::new(engine(0)?);
    let (end, packets) = (AtomicBool::new(false), AtomicU64::new(0));
    let begin = Clock::now();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !end.load(Ordering::Relaxed) {
                    let sent = engine.lock().unwrap_or_else(PoisonError::into_inner).run(32);
                    packets.fetch_add(sent, Ordering::Relaxed);
                }
            });
        }
        std::thread::sleep(LENGTH);
        end.store(true, Ordering::Relaxed);
    });
    Ok(packets.load(Ordering::Relaxed) as f64 / begin.elapsed().as_secs_f64())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

fn speed(runs: usize) -> Result<(), Failure> {
    let (mut one, mut two, mut lock) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..runs.max(1) {
        one.push(speed_of(1, false)?);
        two.push(speed_of(2, true)?);
        lock.push(speed_of_lock()?);
    }
    let ratio = |of: &[f64]| median(of.iter().zip(&one).map(|(of, one)| of / one).collect());
    let (two_ratio, lock_ratio) = (ratio(&two), ratio(&lock));
    println!(
        "{{\"runs\":{runs},\"flows\":{FLOWS},\"one_pps\":{:.0},\"two_pps\":{:.0},\"lock_pps\":{:.0},\
         \"ratio_median\":{two_ratio:.3},\"lock_ratio_median\":{lock_ratio:.3}}}",
        median(one.clone()),
        median(two),
        median(lock)
    );
    Ok(())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments[..] {
        ["error"] => error(None),
        ["error", option] if option.starts_with("--svg=") => error(option.strip_prefix("--svg=")),
        ["speed"] => speed(5),
        ["speed", option] => match option.strip_prefix("--runs=").and_then(|runs| runs.parse().ok()) {
            Some(runs) => speed(runs),
            None => Err("usage: workers speed [--runs=N]".into()),
        },
        _ => Err("usage: workers error [--svg=FILE] | workers speed [--runs=N]".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("workers: {error}");
            ExitCode::FAILURE
        }
    }
}
