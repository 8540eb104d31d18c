//! `weft bench`: our speed, next to a peer's where one exists.

pub(crate) mod cost;
mod engine;
mod roofline;
mod workers;

use crate::commands::demo::FIGURE_9_POLICY;
use clap::ValueEnum;
use core::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;
use weft_cli::failure::usage;
use weft_cli::output::{self, OutputTarget};
use weft_cli::policy_file::PolicyText;
use weft_cli::signals::{Removes, Stop};
use weft_experiments::bench;
use weft_experiments::bench::assignment::AssignmentError;
use weft_facts::record::Document;
use weft_host::{cleanup_stale, require_network_rights};
use weft_policy::CompileOptions;
use weft_report::bench::{BenchCase, BenchReport};
use weft_run::host_facts;

/// Measure speeds on this machine.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "\
Examples:
  weft bench engine
  weft bench engine --policy my.weft # a policy of your own: Gb/s at three packet sizes
  weft bench port
  weft bench port --workers 1,2      # one worker, and two that share the policy, through two ports
  weft bench sim-hold sim-udp sim-tcp
  weft bench engine --runs 9 --json bench.json
  weft bench cost                    # processor time beside HTB: see weft bench cost --help
  weft bench roofline                # what limits the engine: see weft bench roofline --help
  weft bench workers                 # several workers with one policy: see weft bench workers --help")]
pub(crate) struct Args {
    /// A measurement with separate options.
    #[command(subcommand)]
    command: Option<Command>,
    /// The case to measure; all of them without it.
    #[arg(value_name = "CASE")]
    cases: Vec<Case>,
    /// Number of runs of each case.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// Write the figures to a file as JSON (`-` for standard output).
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Measure the port with these numbers of workers instead, in turns; each number has as many ports as the largest.
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = clap::value_parser!(u8).range(1..=16))]
    workers: Vec<u8>,
    #[command(flatten)]
    engine: engine::Options,
}

/// Measurements with separate options.
#[derive(Debug, clap::Subcommand)]
enum Command {
    Cost(cost::Args),
    Roofline(roofline::Args),
    Workers(workers::Args),
}

/// The cases.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Case {
    /// The engine in memory: Figure 1's policy with 10 to 1,000,000 flows.
    Engine,
    /// A port with real TCP: 340 flows in MTU-size segments, and 4 flows in whole super-packets. Needs root and iperf3.
    Port,
    /// Queue assignment at a port: nanoseconds of its programs per packet, with 10 to 100,000 flows. Needs root.
    Titan,
    /// The simulator's event queue: the hold model with 100 to 100,000 pending events. Results are in events per
    /// second.
    SimHold,
    /// The simulator: 9 Gb/s of datagrams through `fq_codel`.
    SimUdp,
    /// The simulator with its whole host model: twelve TCP flows.
    SimTcp,
}

/// Runs the command.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.command {
        Some(Command::Cost(args)) => return cost::run(args),
        Some(Command::Roofline(args)) => return roofline::run(&args),
        Some(Command::Workers(args)) => return workers::run(&args),
        None => {}
    }
    args.engine.check(&args.cases)?;
    if !args.workers.is_empty() && args.cases != [Case::Port] {
        return Err(usage("--workers is for the case port; run weft bench port --workers 1,2"));
    }
    let json = OutputTarget::open(args.json.as_deref())?;
    let cases = if args.cases.is_empty() { Case::value_variants().to_vec() } else { args.cases };
    let mut measured = Vec::new();
    for case in cases {
        match case {
            Case::Engine => args.engine.measure(args.runs, &mut measured)?,
            Case::Port if args.workers.is_empty() => port(args.runs, &mut measured)?,
            Case::Port => port_workers(&args.workers, args.runs, &mut measured)?,
            Case::Titan => titan(args.runs, &mut measured)?,
            Case::SimHold => {
                measured.extend(bench::sim::PENDING.map(|pending| bench::sim::hold(pending, args.runs)))
            }
            Case::SimUdp => measured.push(bench::sim::udp(args.runs)?),
            Case::SimTcp => measured.push(bench::sim::tcp(args.runs)?),
        }
    }
    let report = BenchReport {
        schema: BenchReport::SCHEMA.to_owned(),
        host: host_facts::detect(),
        seed: Some(bench::engine::SEED),
        cases: measured,
    };
    output::tables(&report.tables(), &json)?;
    json.write_json(&report)?;
    Ok(ExitCode::SUCCESS)
}

fn titan(runs: u32, measured: &mut Vec<BenchCase>) -> anyhow::Result<()> {
    require_network_rights()?;
    cleanup_stale();
    let stop = Stop::install(Removes::Made)?;
    for burst in bench::assignment::BURSTS {
        for flows in bench::assignment::FLOWS {
            let case = match bench::assignment::run(flows, burst, runs, &|| stop.asked()) {
                Ok(case) => case,
                // More sockets than a process may have here: the cases measured so far are kept.
                Err(AssignmentError::Failed(why)) if !measured.is_empty() => {
                    output::warn(&why);
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            output::note(&format!("{}: {}", case.case, case.limited_by.clone().unwrap_or_default()));
            measured.push(case);
        }
    }
    Ok(())
}

fn port_workers(workers: &[u8], runs: u32, measured: &mut Vec<BenchCase>) -> anyhow::Result<()> {
    require_network_rights()?;
    cleanup_stale();
    let policy =
        PolicyText::built_in("policies/tenants.weft", FIGURE_9_POLICY).load(&CompileOptions::default())?;
    let stop = Stop::install(Removes::Made)?;
    let workers: Vec<NonZeroUsize> = workers.iter().filter_map(|n| NonZeroUsize::new((*n).into())).collect();
    let heard = |workers, pps: f64| output::note(&format!("{workers} workers: {pps:.0} frames/s"));
    let cases = bench::port_workers::run(&workers, runs, &policy, &|| stop.asked(), heard)?;
    measured.extend(cases);
    Ok(())
}

fn port(runs: u32, measured: &mut Vec<BenchCase>) -> anyhow::Result<()> {
    require_network_rights()?;
    cleanup_stale();
    let policy =
        PolicyText::built_in("policies/tenants.weft", FIGURE_9_POLICY).load(&CompileOptions::default())?;
    let stop = Stop::install(Removes::Made)?;
    for case in bench::port::PortCase::ALL {
        let heard = |number: u32, speed| {
            output::note(&format!("{}: run {} of {runs}: {speed}", case.name(), number + 1));
        };
        measured.push(bench::port::run(case, runs, &policy, &|| stop.asked(), heard)?);
    }
    Ok(())
}
