//! The cost of sharing one policy: instructions per packet of a worker's path, by valgrind, and packets per second of threads.
//!
//! `sharing [--packets=N] [--flows=N]` prints a line of JSON for each way: an engine alone, one with a handle, and two with one policy.
//! All run in one thread, so the load of the machine changes nothing. `sharing --times=RUNS` measures threads in turns.
#![allow(clippy::disallowed_methods, reason = "it measures time")]

use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use weft_sched::workers::{Settings, Shared, Worker};
use weft_sim::engine_load::{ClosedLoop, Refill, figure1_program};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Packets between two exchanges, as in `weft bench workers`: about 20 us at the speed of the engine.
const BETWEEN: u64 = 160;
/// The length of a measurement of threads.
const SPAN: Duration = Duration::from_millis(300);
const SEED: u64 = 1;

/// A way of running the policy: its name, its engines, and whether they have handles.
type Way = (&'static str, u64, bool);

const WAYS: [Way; 4] = [("alone", 1, false), ("handle", 1, true), ("two", 2, true), ("apart", 2, false)];

struct Options {
    packets: u64,
    flows: u32,
    times: u64,
    /// The way to run under valgrind, in the process that counts.
    way: Option<Way>,
}

fn options() -> Option<Options> {
    let mut options = Options { packets: 100_000, flows: 10_000, times: 0, way: None };
    for argument in std::env::args().skip(1) {
        match argument.split_once('=')? {
            ("--packets", value) => options.packets = value.parse().ok()?,
            ("--flows", value) => options.flows = value.parse().ok().filter(|flows| *flows > 0)?,
            ("--times", value) => options.times = value.parse().ok()?,
            ("--way", value) => options.way = Some(*WAYS.iter().find(|(name, ..)| *name == value)?),
            _ => return None,
        }
    }
    Some(options)
}

/// An engine, with its handle if it shares the policy.
struct Engine {
    packets: ClosedLoop,
    handle: Option<Worker>,
}

impl Engine {
    fn new(flows: u32, seed: u64, shared: Option<&Arc<Shared>>) -> Result<Self, Failure> {
        let mut packets = ClosedLoop::new(&figure1_program(), flows, Refill::Shuffled, seed)?;
        packets.run(u64::from(flows));
        let now = packets.now();
        let handle = shared.map(|shared| Worker::join(shared, packets.scheduler_mut(), now)).transpose()?;
        Ok(Self { packets, handle })
    }

    /// Sends the packets of one period, and exchanges.
    fn turn(&mut self) -> u64 {
        let sent = self.packets.run(BETWEEN);
        let now = self.packets.now();
        if let Some(handle) = &mut self.handle {
            handle.exchange(self.packets.scheduler_mut(), now);
        }
        sent
    }
}

fn engines((_, workers, shares): Way, flows: u32) -> Result<Vec<Engine>, Failure> {
    let shared =
        shares.then(|| Shared::new(&figure1_program(), Settings::default())).transpose()?.map(Arc::new);
    (0..workers).map(|worker| Engine::new(flows, SEED + worker, shared.as_ref())).collect()
}

/// Sends `packets` in one thread, the engines in turns.
fn run(way: Way, options: &Options) -> Result<(), Failure> {
    let mut engines = engines(way, options.flows)?;
    let mut sent = 0;
    while sent < options.packets {
        sent += engines.iter_mut().map(Engine::turn).sum::<u64>();
    }
    Ok(())
}

/// The instructions of this program when it sends `packets` in a way.
fn count((name, ..): Way, packets: u64, flows: u32) -> Result<u64, Failure> {
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(std::env::current_exe()?);
    valgrind.args([format!("--way={name}"), format!("--packets={packets}"), format!("--flows={flows}")]);
    let output = valgrind.output().map_err(|error| format!("valgrind: {error}; install it to count"))?;
    let text = String::from_utf8_lossy(&output.stderr);
    let collected = text.lines().find_map(|line| line.split_once("Collected : ")?.1.trim().parse().ok());
    collected.ok_or_else(|| format!("valgrind counted nothing of `--way={name}`: {text}").into())
}

fn instructions(options: &Options) -> Result<(), Failure> {
    for way in WAYS.into_iter().filter(|(name, ..)| *name != "apart") {
        // What both have is the engines' construction.
        let [less, more] =
            [options.packets, 2 * options.packets].map(|packets| count(way, packets, options.flows));
        let each = more?.saturating_sub(less?) as f64 / options.packets.max(1) as f64;
        println!("{{\"way\":\"{}\",\"instructions_per_packet\":{each:.1}}}", way.0);
    }
    Ok(())
}

/// Packets per second of threads with an engine each.
fn speed(way: Way, flows: u32) -> Result<f64, Failure> {
    let engines = engines(way, flows)?;
    let end = AtomicBool::new(false);
    let begin = Instant::now();
    let sent: u64 = thread::scope(|scope| {
        let end = &end;
        let work = |mut engine: Engine| {
            scope.spawn(move || {
                let mut sent = 0;
                while !end.load(Ordering::Relaxed) {
                    sent += engine.turn();
                }
                sent
            })
        };
        let threads: Vec<_> = engines.into_iter().map(work).collect();
        thread::sleep(SPAN);
        end.store(true, Ordering::Relaxed);
        threads.into_iter().map(|thread| thread.join().map_err(|_| "a worker panicked")).sum::<Result<_, _>>()
    })?;
    Ok(sent as f64 / begin.elapsed().as_secs_f64())
}

fn times(options: &Options) -> Result<(), Failure> {
    for run in 0..options.times {
        let mut speeds = [0.0; WAYS.len()];
        for turn in 0..WAYS.len() {
            let way = (turn + run as usize) % WAYS.len();
            speeds[way] = speed(WAYS[way], options.flows)? / 1e6;
        }
        let named: Vec<String> = WAYS
            .iter()
            .zip(speeds)
            .map(|((name, ..), speed)| format!("\"{name}_mpps\":{speed:.2}"))
            .collect();
        println!("{{{}}}", named.join(","));
    }
    Ok(())
}

fn main() -> ExitCode {
    let Some(options) = options() else {
        eprintln!("usage: sharing [--packets=N] [--flows=N] [--times=RUNS] [--way=alone|handle|two|apart]");
        return ExitCode::FAILURE;
    };
    let done = match options.way {
        Some(way) => run(way, &options),
        None if options.times > 0 => times(&options),
        None => instructions(&options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("sharing: {error}");
            ExitCode::FAILURE
        }
    }
}
