//! `weft bench roofline`: the cost of a packet in the engine, and what limits it.

use clap::ValueEnum;
use std::path::PathBuf;
use std::process::ExitCode;
use weft_cli::failure::usage;
use weft_cli::output::{self, OutputTarget};
use weft_experiments::bench::engine::SEED;
use weft_experiments::bench::roofline::{self, RooflineOptions, RooflineSeries};
use weft_facts::record::Document;
use weft_report::bench::roofline::{Point, RooflineReport};
use weft_run::host_facts;

/// Measure how the engine's cost grows with flows, levels, limits that bind and bursts, and name what limits it.
///
/// Beside each cost are the size of the records, the cache into which they fit, and the time of a packet's loads from it, one after the
/// other, as a chase of pointers measures them here. Where the processor counts instructions, these are beside it too.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weft bench roofline --json roofline.json --svg roofline.svg
  weft bench roofline flows burst
  weft bench roofline flows --flows-max 10000000   # needs 2 GB")]
pub(crate) struct Args {
    /// The series to measure; all of them without it.
    #[arg(value_name = "SERIES")]
    series: Vec<Wanted>,
    /// Number of runs of each point.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// The most flows of the series over flows.
    #[arg(long, value_name = "N", default_value_t = 10_000_000, value_parser = clap::value_parser!(u32).range(10..=10_000_000))]
    flows_max: u32,
    /// Draw the series over flows (`-` for standard output).
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Write the figures to a file as JSON (`-` for standard output).
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// A series by its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Wanted {
    /// Figure 1's policy with 10 to 10,000,000 flows.
    Flows,
    /// 1 to 10 levels of fair queueing.
    Depth,
    /// 10,000 classes, of which 0 to all have a limit that binds.
    Limits,
    /// Bursts of 1 to 256 packets, with 100,000 flows.
    Burst,
}

impl From<Wanted> for RooflineSeries {
    fn from(wanted: Wanted) -> Self {
        match wanted {
            Wanted::Flows => Self::Flows,
            Wanted::Depth => Self::Depth,
            Wanted::Limits => Self::Limits,
            Wanted::Burst => Self::Burst,
        }
    }
}

/// Runs the command.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let json = OutputTarget::open(args.json.as_deref())?;
    let svg = OutputTarget::open(args.svg.as_deref())?;
    if json.is_stdout() && svg.is_stdout() {
        return Err(usage("--json and --svg cannot both be standard output; name a file for one"));
    }
    if cfg!(debug_assertions) {
        output::warn("this is a debug build: its speed says nothing about the released program");
    }
    let all: Vec<RooflineSeries> = match args.series.as_slice() {
        [] => RooflineSeries::ALL.to_vec(),
        wanted => wanted.iter().copied().map(RooflineSeries::from).collect(),
    };
    let options = RooflineOptions { runs: args.runs, flows_max: args.flows_max };
    let memory = roofline::memories();
    let heard = |point: &Point| {
        output::note(&format!("{} {}: {:.1} ns", point.series, point.value, point.packet_s * 1e9));
    };
    let mut points = Vec::new();
    for series in all {
        points.extend(roofline::measure(series, options, &memory, heard)?);
    }
    let report = RooflineReport {
        schema: RooflineReport::SCHEMA.to_owned(),
        host: host_facts::detect(),
        seed: SEED,
        memory,
        points,
    };
    output::tables(&report.tables(), if svg.is_stdout() { &svg } else { &json })?;
    if args.svg.is_some() {
        svg.write(&report.chart())?;
    }
    json.write_json(&report)?;
    Ok(ExitCode::SUCCESS)
}
