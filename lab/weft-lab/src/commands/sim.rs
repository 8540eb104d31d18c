//! `weft sim`: a scenario in the simulator.

mod traces;

use anyhow::anyhow;
use clap::builder::PossibleValuesParser;
use std::io::IsTerminal;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use traces::{Traces, Wanted};
use weft_cli::failure::{Reported, usage};
use weft_cli::output::{self, OutputTarget};
use weft_cli::progress;
use weft_cli::signals::{Removes, Stop};
use weft_cli::trace_files::check_departures;
use weft_experiments::catalogue::overlay::KeyedValue;
use weft_experiments::simulate::{self, ScenarioReadError, SeededRun, sweep};
use weft_facts::record::Document;
use weft_policy::{Severity, render};
use weft_sim::outcome::RunOutcome;
use weft_sim::run::{DiagnosticInText, RunError, policy_diagnostics, simulate, simulate_observed};
use weft_sim::scenario::{self, Scenario};

/// Simulate the hosts, NICs and network of a scenario file.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weft sim experiments/scenarios/titan-12-flows.toml
  weft sim experiments/scenarios/titan.toml --set flows.0.count=48 --set host.stack.queue_assignment=dqa
  weft sim experiments/scenarios/incast.toml --seeds 20 --json -
  weft sim experiments/scenarios/incast.toml --set duration=20ms --trace way.pftrace --departures departures.parquet
  weft sim experiments/scenarios/incast.toml --set duration=20ms --trace events.csv --pcap packets.pcap
  weft sim --example incast > my.toml

All keys of a scenario are listed in docs/scenario-files.md. docs/traces.md has the columns and tracks of traces, and how to open them.")]
pub(crate) struct Args {
    /// The scenario.
    #[arg(value_name = "SCENARIO.toml", required_unless_present = "example")]
    scenario: Option<PathBuf>,
    /// Print one of the shipped scenarios, as a start for your own, and exit.
    #[arg(long, value_name = "NAME", exclusive = true,
          value_parser = PossibleValuesParser::new(simulate::examples()))]
    example: Option<String>,
    /// Number of runs, each with its own seed.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    seeds: u32,
    /// The first seed, in place of the scenario's.
    #[arg(long)]
    seed: Option<u64>,
    /// Replace a value of the scenario, such as host.stack.qdisc=fq_codel or flows.0.count=48.
    #[arg(long, value_name = "KEY=VALUE", value_parser = KeyedValue::parse)]
    set: Vec<KeyedValue>,
    /// Print the whole scenario, including defaults, and exit.
    #[arg(long)]
    show: bool,
    /// Write each event of the first run to a file: as a Perfetto trace (.pftrace), as Parquet (.parquet), otherwise as CSV. May be
    /// repeated.
    #[arg(long, value_name = "FILE")]
    trace: Vec<PathBuf>,
    /// Write a row for each packet that left a host in the first run: as Parquet (.parquet), otherwise as CSV.
    #[arg(long, value_name = "FILE")]
    departures: Option<PathBuf>,
    /// Write the packets of the first run, as they leave the senders, to a capture.
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
    /// Write the figures to a file as JSON (`-` for standard output).
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Interval between polls for Ctrl-C and updates of the progress.
const LOOK: Duration = Duration::from_millis(100);

/// Runs the command.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    if let Some(text) = args.example.as_deref().and_then(simulate::example) {
        output::print(&text)?;
        return Ok(ExitCode::SUCCESS);
    }
    let Some(path) = &args.scenario else { return Err(usage("which scenario?")) };
    let scenario = read(path, &args.set)?;
    if args.show {
        output::print(&scenario::write(&scenario))?;
        return Ok(ExitCode::SUCCESS);
    }
    tell_of_policies(path, &scenario)?;
    let seed = args.seed.unwrap_or(scenario.seed);
    if seed.checked_add(u64::from(args.seeds)).is_none() {
        return Err(usage(format!(
            "{} seeds from {seed} exceed the greatest seed, {}",
            args.seeds,
            u64::MAX
        )));
    }
    let json = OutputTarget::open(args.json.as_deref())?;
    check_departures(args.departures.as_ref())?;
    let wanted = Wanted {
        events: args.trace.clone(),
        departures: args.departures.clone(),
        packets: args.pcap.clone(),
    };
    let traces = Traces::open(&wanted, &scenario)?;
    let stop = Stop::install(Removes::Nothing)?;
    let begin = Instant::now();
    let all = Job { scenario: scenario.clone(), seed, seeds: args.seeds, traces }.run(&stop)?;
    let stopped = all.runs.len() < args.seeds as usize;
    if stopped {
        output::warn(&format!("stopped after {} of {} runs", all.runs.len(), args.seeds));
    }
    match all.traces {
        Some(traces) => traces.finish(seed)?,
        None if wanted.any() => {
            output::warn(&format!("the run with seed {seed} had not ended: its trace is incomplete"));
        }
        None => {}
    }
    let Some(mut report) = simulate::report(&scenario, &all.runs, begin.elapsed().as_secs_f64()) else {
        return Ok(stop.exit_code());
    };
    report.stopped = stopped;
    output::tables(&report.tables(), &json)?;
    let wrong = !report.unbalanced_seeds.is_empty();
    json.write_json(&report)?;
    Ok(if wrong { ExitCode::FAILURE } else { stop.exit_code() })
}

/// Reads the scenario; its errors are shown as a policy's are.
fn read(path: &Path, settings: &[KeyedValue]) -> anyhow::Result<Scenario> {
    simulate::read(path, settings).map_err(|error| match error {
        ScenarioReadError::Scenario(error) => {
            let pretty = std::io::stderr().is_terminal();
            output::message(&if pretty { error.render(output::stderr_style()) } else { error.to_string() });
            Reported.into()
        }
        other => other.into(),
    })
}

/// Prints errors and warnings of the hosts' policies, as `weft policy check` does. Fails if there is an error.
fn tell_of_policies(path: &Path, scenario: &Scenario) -> anyhow::Result<()> {
    let pretty = std::io::stderr().is_terminal();
    let folder = path.parent().unwrap_or(Path::new(""));
    let mut failed = false;
    for DiagnosticInText { mut diagnostic, text } in policy_diagnostics(scenario) {
        if scenario.files.contains_key(&diagnostic.file) {
            diagnostic.file = folder.join(&diagnostic.file).display().to_string();
        }
        failed |= diagnostic.is_error();
        if diagnostic.severity != Severity::Note {
            let drawn = || render(&diagnostic, &text, output::stderr_style());
            output::message(&if pretty { drawn() } else { diagnostic.one_line() });
        }
    }
    if failed { Err(Reported.into()) } else { Ok(()) }
}

/// Runs of a scenario, on all processors.
struct Job {
    scenario: Scenario,
    seed: u64,
    seeds: u32,
    /// Traces of the first run.
    traces: Option<Traces>,
}

/// Results of the runs.
struct Done {
    /// Completed runs, by seed.
    runs: Vec<SeededRun>,
    /// Traces, once the first run has ended.
    traces: Option<Traces>,
}

impl Job {
    /// Runs all seeds until they have ended or the user asks to stop. A run cannot be interrupted, so running ones
    /// are then abandoned: they hold nothing that must be removed, and end with the process.
    fn run(self, stop: &Stop) -> anyhow::Result<Done> {
        let begin = Instant::now();
        let bar = progress::bar(
            "{bar:30} {pos} of {len} runs, {msg} simulated seconds per second, {elapsed}",
            self.seeds.into(),
        )
        .with_message("-");
        let warm_up = self.scenario.warm_up;
        let Self { scenario, seed, seeds, traces } = self;
        let (sender, receiver) = mpsc::channel();
        let told = stop.clone();
        let workers = std::thread::Builder::new().name("weft-sim".to_owned()).spawn(move || {
            let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
            let traces = Mutex::new(traces);
            let one = |job: usize| {
                let seed = seed + job as u64;
                let traces = traces.lock().unwrap_or_else(PoisonError::into_inner).take_if(|_| job == 0);
                // After Ctrl-C the receiver may be closed.
                let _ = sender.send((seed, simulate_traced(&scenario, seed, traces)));
            };
            sweep(seeds as usize, threads, &|| told.asked(), one, |_| ());
        });
        let workers = workers.map_err(|e| anyhow!("the simulator's thread could not be started: {e}"))?;
        let mut done = Done { runs: Vec::new(), traces: None };
        let mut simulated = 0.0;
        let ended = loop {
            match receiver.recv_timeout(LOOK) {
                Ok((seed, result)) => {
                    let (outcome, traces) = result?;
                    simulated += (warm_up + outcome.measured).as_secs_f64();
                    done.traces = done.traces.or(traces);
                    done.runs.push(SeededRun { seed, outcome });
                    bar.inc(1);
                    bar.set_message(format!("{:.2}", simulated / begin.elapsed().as_secs_f64()));
                }
                Err(RecvTimeoutError::Timeout) if stop.asked() => break false,
                Err(RecvTimeoutError::Timeout) => bar.tick(),
                Err(RecvTimeoutError::Disconnected) => break true,
            }
        };
        bar.finish_and_clear();
        if ended && let Err(panic) = workers.join() {
            std::panic::resume_unwind(panic);
        }
        done.runs.sort_by_key(|run| run.seed);
        Ok(done)
    }
}

fn simulate_traced(
    scenario: &Scenario,
    seed: u64,
    traces: Option<Traces>,
) -> Result<(RunOutcome, Option<Traces>), RunError> {
    match traces {
        None => simulate(scenario, seed).map(|outcome| (outcome, None)),
        Some(traces) => {
            simulate_observed(scenario, seed, traces).map(|(outcome, traces)| (outcome, Some(traces)))
        }
    }
}
