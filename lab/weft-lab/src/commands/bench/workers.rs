//! `weft bench workers`: several workers with one policy.

use std::path::PathBuf;
use std::process::ExitCode;
use weft_cli::failure::usage;
use weft_cli::output::{self, OutputTarget};
use weft_cli::policy_file::PolicyText;
use weft_cli::values;
use weft_experiments::bench::engine::SEED;
use weft_experiments::bench::workers::{WorkerLoad, WorkersOptions, simulate, speed};
use weft_facts::human;
use weft_facts::record::Document;
use weft_policy::CompileOptions;
use weft_report::bench::workers::{WorkersError, WorkersReport, WorkersSpeed};
use weft_run::host_facts;
use weft_units::{BitsPerSec, Bytes};

/// Measure several workers with one policy, beside one worker, one lock around one engine, and engines that share nothing.
///
/// Each worker is a thread with a separate engine, which runs Figure 1's policy, or yours: its limits bind as on its link, of which workers
/// that share the policy have equal parts. Each run measures all four ways, in an order that rotates; engines that share nothing are the most that this machine gives as many threads. With --errors nothing is measured: two to 64 workers are simulated, and the largest errors of shares and limits in any
/// 100 ms are found, also of a class that moves between workers and of a limit whose rate changes, beside those of one lock and of an
/// equal part for each worker.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weft bench workers
  weft bench workers --workers 4 --runs 9 --json workers.json
  weft bench workers --policy my.weft --packet 594  # a policy of your own
  weft bench workers --errors --svg errors.svg")]
pub(crate) struct Args {
    /// Number of workers beside one.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(2..=1024))]
    workers: u32,
    /// Number of flows of each engine.
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    flows: u32,
    /// Number of runs.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// Measure this policy instead of Figure 1's. It must not define algorithms.
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// Length of the packets in bytes.
    #[arg(long, value_name = "BYTES", default_value_t = 64, requires = "policy", value_parser = clap::value_parser!(u16).range(64..=9018))]
    packet: u16,
    /// The link's rate, such as 40gbps [default: the policy's `link`, or 100gbps]
    #[arg(long, requires = "policy", value_parser = values::rate)]
    rate: Option<BitsPerSec>,
    /// Simulate the errors of 2, 4, 8 ... 64 workers instead.
    #[arg(long, conflicts_with_all = ["workers", "flows", "runs", "policy"])]
    errors: bool,
    /// The largest number of workers to simulate.
    #[arg(long, value_name = "N", default_value_t = 64, requires = "errors", value_parser = clap::value_parser!(u32).range(2..=64))]
    up_to: u32,
    /// Draw the growth of the errors with the number of workers (`-` for standard output).
    #[arg(long, value_name = "FILE", requires = "errors")]
    svg: Option<PathBuf>,
    /// Write the figures to a file as JSON (`-` for standard output).
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Runs the command.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let json = OutputTarget::open(args.json.as_deref())?;
    let svg = OutputTarget::open(args.svg.as_deref())?;
    if json.is_stdout() && svg.is_stdout() {
        return Err(usage("--json and --svg cannot both be standard output; name a file for one"));
    }
    let (speed, errors) =
        if args.errors { (None, simulated(args.up_to)?) } else { (Some(measured(args)?), Vec::new()) };
    let report = WorkersReport {
        schema: WorkersReport::SCHEMA.to_owned(),
        host: host_facts::detect(),
        seed: SEED,
        speed,
        errors,
    };
    output::tables(&report.tables(), if svg.is_stdout() { &svg } else { &json })?;
    if args.svg.is_some() {
        svg.write(&report.chart())?;
    }
    json.write_json(&report)?;
    Ok(ExitCode::SUCCESS)
}

/// The policy to measure with.
fn load(args: &Args) -> anyhow::Result<WorkerLoad> {
    let Some(file) = &args.policy else { return Ok(WorkerLoad::Figure1) };
    let options = CompileOptions { link: args.rate, ..CompileOptions::default() };
    let policy = PolicyText::read(file)?.load(&options)?;
    Ok(WorkerLoad::of_policy(&file.display().to_string(), &policy, Bytes(args.packet.into())))
}

fn measured(args: &Args) -> anyhow::Result<WorkersSpeed> {
    let load = load(args)?;
    if cfg!(debug_assertions) {
        output::warn("this is a debug build: its speed says nothing about the released program");
    }
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    if args.workers as usize > processors {
        output::warn(&format!(
            "{} workers share {processors} processors, so their speed says little about as many processors",
            args.workers
        ));
    }
    let options = WorkersOptions { workers: args.workers, flows: args.flows, runs: args.runs };
    let mut number = 0;
    let heard = |speeds: [f64; 4]| {
        number += 1;
        let [one, shared, lock, apart] = speeds.map(human::pps);
        output::note(&format!(
            "run {number} of {}: one {one}, one policy {shared}, one lock {lock}, nothing shared {apart}",
            args.runs
        ));
    };
    Ok(speed(&load, options, heard)?)
}

fn simulated(most: u32) -> anyhow::Result<Vec<WorkersError>> {
    let heard = |row: &WorkersError| {
        output::note(&format!(
            "{}, {} workers: share {}, below the limit {}",
            row.way,
            row.workers,
            human::percent(row.share_error),
            human::percent(row.limit_below.max(0.0))
        ));
    };
    Ok(simulate(most, heard)?)
}
