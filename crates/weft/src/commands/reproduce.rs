//! `weft reproduce`: the papers' tables and figures, published beside simulated beside measured.

use crate::output::{self, Target};
use crate::signals::Stop;
use indicatif::{ProgressBar, ProgressStyle};
use std::num::NonZero;
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;
use weft_lab::host_facts;
use weft_lab::reproduce::{self, Options, ReproduceError};
use weft_report::record::Document;
use weft_report::reproduce::{Experiment, ReproduceReport, reproduce_html};
use weft_report::table::{Column, Table};
use weft_units::Bytes;

/// Reproduce the papers' tables and figures in the simulator, beside what was published.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weft reproduce --list
  weft reproduce titan-tr-table3
  weft reproduce titan-tr-table3 --flows 20 --seeds 40
  weft reproduce --html report.html --json report.json

Without an id all experiments are run. In a cell, `=` says that the published value lies in the band in which the mean of
as many runs as the paper made would lie 90 times of 100, `~` that it is within 25 % of the simulated mean, `x` neither.")]
pub(crate) struct Args {
    /// Which experiments; all without any.
    #[arg(value_name = "ID", value_parser = clap::builder::PossibleValuesParser::new(reproduce::ids()), hide_possible_values = true)]
    ids: Vec<String>,
    /// List the experiments and end.
    #[arg(long)]
    list: bool,
    /// Runs of each cell, each with a seed of its own; without it 200, fewer where runs are long.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    seeds: Option<u32>,
    /// Number of flows (of hosts, for shuffles) instead of those of the paper.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    flows: Option<u32>,
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// What each pair of a shuffle transfers, such as 10MB, instead of the paper's 1 GB.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    transfer: Option<String>,
    /// Runs at a time; without it one for each processor.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: Option<u32>,
    /// Factor of the times of experiments that run here in real time (dragonet-isolation); 1 is the paper's.
    #[arg(long, value_name = "FACTOR", value_parser = crate::values::factor)]
    time_scale: Option<f64>,
    /// Write the figures to a file as JSON (`-` for standard output).
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a page with the papers' plots to a file.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

fn size(text: &str) -> Result<String, String> {
    match Bytes::from_str(text) {
        Ok(Bytes(0)) => Err("nothing would be sent".to_owned()),
        Ok(_) => Ok(text.to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Runs the command.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    if args.list {
        output::print(&list().render(output::stdout_color()))?;
        return Ok(ExitCode::SUCCESS);
    }
    let json = Target::open(args.json.as_deref())?;
    let html = Target::open(args.html.as_deref())?;
    let stop = Stop::install()?;
    let threads = args.threads.map_or_else(processors, |threads| threads as usize);
    let options = Options {
        ids: args.ids,
        seeds: args.seeds,
        flows: args.flows,
        seed: args.seed,
        transfer: args.transfer,
        threads,
        time_scale: args.time_scale,
    };
    let bar = progress_bar();
    let outcome = reproduce::run(&options, &|| stop.asked(), |done, of| {
        bar.set_length(of as u64);
        bar.set_position(done as u64);
    });
    bar.finish_and_clear();
    match outcome {
        Ok(experiments) => finish(experiments, &options, json, html),
        Err(ReproduceError::Stopped) => Ok(stop.exit_code()),
        Err(error) => Err(error.into()),
    }
}

fn finish(
    experiments: Vec<Experiment>,
    options: &Options,
    json: Target,
    html: Target,
) -> anyhow::Result<ExitCode> {
    let report = ReproduceReport {
        schema: ReproduceReport::SCHEMA.to_owned(),
        host: host_facts::detect(),
        seed: options.seed,
        experiments,
    };
    output::tables(&report.tables(), &json)?;
    html.write(&reproduce_html(&report))?;
    json.write_json(&report)?;
    Ok(ExitCode::SUCCESS)
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get)
}

fn list() -> Table {
    let mut table =
        Table::new("Experiments").columns([Column::left("id"), Column::left("what"), Column::left("source")]);
    for &id in reproduce::ids() {
        let (title, source) = reproduce::title(id).unwrap_or_default();
        table.row([id.to_owned(), title, source]);
    }
    table
}

/// Silent when standard error is not a terminal.
fn progress_bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {pos} of {len} runs, {per_sec}, {eta} left");
    let bar = ProgressBar::new(0);
    match style {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
