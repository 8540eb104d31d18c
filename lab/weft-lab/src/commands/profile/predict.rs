//! `weft profile predict`: configurations to which no cost was fitted, simulated and measured.

use super::{ClockName, sample_rate};
use std::path::PathBuf;
use std::process::ExitCode;
use weft_cli::output::{self, OutputTarget};
use weft_cli::signals::{Removes, Stop};
use weft_cli::values;
use weft_experiments::predict::{self, Machine, PredictError, PredictOptions};
use weft_host::cleanup_stale;
use weft_host::perf_event::{Clock, SampleRate};
use weft_profile::categories::Categories;
use weft_profile::error::ProfileError;
use weft_profile::session::{self, TrialPlan, WhenBusy};
use weft_report::judgement::Judgement;
use weft_run::host_facts;
use weft_units::Nanos;

/// Predict configurations that were not fitted, and compare them with real traffic.
///
/// The simulator runs other patterns, flow counts and levels than those fitted, and the Titan papers' configurations on a link
/// of 1 Gb/s, with the machine's costs: processor time of sender and receiver, busy cores, throughput. With --measured the same
/// runs on real traffic in namespaces of the run; this needs root and iperf3.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weft profile predict machine.toml
  sudo weft profile predict machine.toml --measured --json predicted.json --html predicted.html
  sudo weft profile predict machine.toml --measured --only \"3 flows\" --repeats 1 --span 1s

`weft profile fit` writes the file. With --measured the exit code is 0 if the median relative error is at most 15 %, 1 if it is
larger, and 3 if that shows nothing, because the means of the fitted cells predict as well.")]
pub(super) struct Args {
    /// The machine's costs.
    #[arg(value_name = "MACHINE")]
    machine: PathBuf,
    /// Measure the configurations too, and judge the predictions.
    #[arg(long)]
    measured: bool,
    /// Repeats of each configuration.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    repeats: u32,
    /// Time measured without samples, and again with them (a bare number is seconds).
    #[arg(long, default_value = "3s", value_parser = values::span)]
    span: Nanos,
    /// Time before it, for TCP to settle.
    #[arg(long, default_value = "1s", value_parser = values::span)]
    warm_up: Nanos,
    /// Samples per second and processor.
    #[arg(long, default_value = "999", value_parser = sample_rate)]
    rate: SampleRate,
    /// The event that takes samples [default: cycles where a real machine counts them, otherwise cpu-clock]
    #[arg(long)]
    clock: Option<ClockName>,
    /// Only configurations whose names contain this text.
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    only: String,
    /// Run although other processes use this machine, and label the figures.
    #[arg(long)]
    loaded: bool,
    /// Write the figures to a file as JSON (`-` for standard output).
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the tables to one HTML file.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Runs the command.
pub(super) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let (json, html) = (OutputTarget::open(args.json.as_deref())?, OutputTarget::open(args.html.as_deref())?);
    let machine = Machine::read(&args.machine)?;
    let options = PredictOptions {
        measured: args.measured,
        trials: TrialPlan {
            repeats: args.repeats,
            span: args.span,
            warm_up: args.warm_up,
            clock: args.clock.map(Clock::from),
            rate: args.rate,
            loaded: if args.loaded { WhenBusy::Label } else { WhenBusy::Refuse },
            processors: session::processors()?,
        },
        only: args.only,
    };
    let stop = Stop::install(if options.measured { Removes::Made } else { Removes::Nothing })?;
    if options.measured {
        weft_host::require_network_rights().map_err(ProfileError::from)?;
        cleanup_stale();
    }
    let categories = Categories::shipped()?;
    let report =
        predict::run(&options, &machine, &categories, host_facts::detect(), &|| stop.asked(), output::note);
    if stop.asked() || matches!(report, Err(PredictError::Stopped)) {
        output::message("interrupted; everything was removed");
        return Ok(stop.exit_code());
    }
    let report = report?;
    output::tables(&weft_facts::record::Document::tables(&report), &json)?;
    html.write(&report.html())?;
    let code = Judgement::strict_exit_code(&report.judgement());
    json.write_json(&report)?;
    Ok(ExitCode::from(code))
}
