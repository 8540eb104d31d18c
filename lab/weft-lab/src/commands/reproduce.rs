//! `weft reproduce`: the papers' tables and figures: published, simulated and measured values side by side.

use anyhow::Context;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;
use weft_campaign::store::ResultStore;
use weft_cli::output::{self, OutputTarget};
use weft_cli::progress;
use weft_cli::signals::{Removes, Stop};
use weft_experiments::experiments::titan::measured::experiment::MeasureSettings;
use weft_experiments::experiments::titan::measured::nic;
use weft_experiments::experiments::titan::measured::settings::{InnerQdisc, RunSettings, SenderSettings};
use weft_experiments::reproduce::{self, MeasuringOptions, ReproduceError, ReproduceOptions, ResultCache};
use weft_facts::record::Document;
use weft_facts::table::{Column, Table};
use weft_report::judgement::Judgement;
use weft_report::reproduce::{Experiment, ReproduceReport, reproduce_html};
use weft_run::host_facts;
use weft_units::{BitsPerSec, Bytes, Nanos};

/// Reproduce the papers' tables and figures, in the simulator or on real packets, next to the published values.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weft reproduce --list
  weft reproduce titan-tr-table3
  weft reproduce titan-tr-table3 --flows 20 --seeds 40
  weft reproduce titan --store runs
  weft reproduce --html report.html --json report.json
  weft reproduce titan --measured --html titan.html
  weft reproduce --cross --json cross.json
  weft reproduce titan --measured --flows 24 --seeds 3 --no-simulated
  weft reproduce titan-tr-table3 --seeds 2 --strict
  sudo weft reproduce loom-cpu --measured --costs machine.toml

Without an id all experiments are run; `titan` names all of Titan's, and with --measured its tables. In a cell, `=` marks a
published value within the band that has the mean of as many runs as the paper's in 90 of 100 cases, `~` a simulated mean
within 25 % of the published value, `x` neither.")]
pub(crate) struct Args {
    /// Fit the parameters of Titan's tables on one paper and score them on the other, and leave out one flow count at
    /// a time.
    #[arg(long, conflicts_with_all = ["ids", "list", "flows", "costs", "transfer", "time_scale", "measured", "html", "store"])]
    cross: bool,
    /// Experiments; all without any.
    #[arg(value_name = "ID", value_parser = clap::builder::PossibleValuesParser::new(reproduce::names()), hide_possible_values = true)]
    ids: Vec<String>,
    /// List the experiments and exit.
    #[arg(long)]
    list: bool,
    /// Runs of each cell, each with its own seed [default: 200, fewer for long runs, 5 with --measured].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    seeds: Option<u32>,
    /// Number of flows (of hosts, for shuffles) in place of the paper's.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    flows: Option<u32>,
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Bytes that each pair of a shuffle transfers, such as 10MB, in place of the paper's 1 GB.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    transfer: Option<String>,
    /// Concurrent runs [default: one per processor].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: Option<u32>,
    /// Factor on the times of experiments that run here in real time (dragonet-isolation, titan-order); 1 is the
    /// paper's.
    #[arg(long, value_name = "FACTOR", value_parser = weft_cli::values::factor)]
    time_scale: Option<f64>,
    /// A file of costs, such as `weft profile fit` writes, in place of the experiments'; stored scores are not compared then.
    #[arg(long, value_name = "FILE", requires = "ids")]
    costs: Option<PathBuf>,
    /// Folder that keeps the metrics of each simulated run; those that are there are not made again.
    #[arg(long, value_name = "DIR")]
    store: Option<PathBuf>,
    /// Exit with 1 when a claim fails or a stored score has fallen, with 3 when something cannot be shown here.
    #[arg(long)]
    strict: bool,
    #[command(flatten)]
    measured: MeasuredArgs,
    /// Write the figures to a file as JSON (`-` for standard output).
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a page with the papers' plots to a file.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Options for Titan's experiment on real packets.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Measuring Titan on real packets")]
struct MeasuredArgs {
    /// Measure Titan's configurations through the software NIC, next to published and simulated values.
    #[arg(long)]
    measured: bool,
    /// Rate of the link, such as 500mbps.
    #[arg(long, value_name = "RATE", requires = "measured", default_value = "1gbps", value_parser = rate)]
    rate: BitsPerSec,
    /// Measured time of each run.
    #[arg(long, value_name = "TIME", requires = "measured", default_value = "10s", value_parser = span)]
    duration: Nanos,
    /// Time from the last connection to the measured time: slow start must be over.
    #[arg(long, value_name = "TIME", requires = "measured", default_value = "10s", value_parser = warm_up)]
    warm_up: Nanos,
    /// Queue discipline inside the NIC's queues: with sfq the hash is row C6 of the papers' tables, with pfifo row
    /// C1.
    #[arg(long, value_enum, requires = "measured", default_value_t = InnerArg::Sfq)]
    inner: InnerArg,
    /// The sender's net.ipv4.tcp_tso_rtt_log, in place of the kernel's (9).
    #[arg(long, value_name = "LOG", requires = "measured", value_parser = clap::value_parser!(u32).range(0..=31))]
    tso_rtt_log: Option<u32>,
    /// The sender's net.ipv4.tcp_limit_output_bytes, such as 40KB, in place of the kernel's.
    #[arg(long, value_name = "SIZE", requires = "measured", value_parser = bytes)]
    limit_output: Option<Bytes>,
    /// Flows with small segments in T3 and TX3: those of all queues while any is shared, as in the papers'
    /// implementation, or of shared queues only.
    #[arg(long, value_name = "all|shared", requires = "measured", default_value = "all", value_parser = ["all", "shared"])]
    segment_scope: String,
    /// Least time between updates of queue weights in the NIC; 0s applies each at once.
    #[arg(long, value_name = "TIME", requires = "measured", default_value = "0s", value_parser = warm_up)]
    update_interval: Nanos,
    /// Do not simulate the cells.
    #[arg(long, requires = "measured")]
    no_simulated: bool,
}

/// The queue discipline inside a queue.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum InnerArg {
    /// Stochastic fair queueing.
    Sfq,
    /// First in, first out.
    Pfifo,
}

impl MeasuredArgs {
    fn read(self) -> Option<MeasuringOptions> {
        let inner = match self.inner {
            InnerArg::Sfq => InnerQdisc::Sfq,
            InnerArg::Pfifo => InnerQdisc::Pfifo,
        };
        let settings = RunSettings {
            inner,
            rate: self.rate,
            duration: self.duration,
            warm_up: self.warm_up,
            segment_all: self.segment_scope == "all",
            update_interval: self.update_interval,
            sender: SenderSettings { tso_rtt_log: self.tso_rtt_log, limit_output: self.limit_output },
            ..RunSettings::default()
        };
        // Runs and seed come from the options beside it.
        let measure = MeasureSettings { settings, runs: reproduce::MEASURED_RUNS, seed: 0, open: nic::open };
        self.measured.then_some(MeasuringOptions { measure, simulate: !self.no_simulated })
    }
}

fn rate(text: &str) -> Result<BitsPerSec, String> {
    match BitsPerSec::from_str(text) {
        Ok(rate) if rate < BitsPerSec(1_000_000) => Err("a rate below 1 Mb/s carries no flows".to_owned()),
        other => other.map_err(|error| error.to_string()),
    }
}

fn span(text: &str) -> Result<Nanos, String> {
    match Nanos::from_str(text) {
        Ok(span) if span < Nanos::from_secs(1) => {
            Err("fairness is measured over a second: give at least 1s".to_owned())
        }
        other => other.map_err(|error| error.to_string()),
    }
}

fn warm_up(text: &str) -> Result<Nanos, String> {
    Nanos::from_str(text).map_err(|error| error.to_string())
}

fn bytes(text: &str) -> Result<Bytes, String> {
    Bytes::from_str(text).map_err(|error| error.to_string())
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
    if args.cross {
        let threads = args.threads.map_or_else(processors, |threads| threads as usize);
        return super::reproduce_cross::run(args.seeds, args.seed, threads, args.json.as_deref());
    }
    let json = OutputTarget::open(args.json.as_deref())?;
    let html = OutputTarget::open(args.html.as_deref())?;
    let stop = Stop::install(if args.measured.measured { Removes::Made } else { Removes::Nothing })?;
    let threads = args.threads.map_or_else(processors, |threads| threads as usize);
    let options = ReproduceOptions {
        ids: args.ids,
        seeds: args.seeds,
        flows: args.flows,
        seed: args.seed,
        transfer: args.transfer,
        threads,
        time_scale: args.time_scale,
        measured: args.measured.read(),
        costs: args.costs.as_deref().map(costs).transpose()?,
        cache: args.store.as_deref().map(cache).transpose()?,
    };
    let runs = progress::Runs::default();
    let outcome = reproduce::run(&options, &|| stop.asked(), |done, of| runs.set(done as u64, of as u64));
    runs.finish();
    match outcome {
        // What was measured before an interruption is shown.
        Ok(experiments) if stop.asked() => {
            finish(experiments, &options, false, json, html)?;
            Ok(stop.exit_code())
        }
        Ok(experiments) => finish(experiments, &options, args.strict, json, html),
        Err(ReproduceError::Stopped) => Ok(stop.exit_code()),
        Err(error @ ReproduceError::NotHere { .. }) if args.strict => {
            output::message(&format!("error: {error}"));
            let reason = Judgement::NotShown(error.to_string());
            Ok(ExitCode::from(Judgement::strict_exit_code(&[reason])))
        }
        Err(error) => Err(error.into()),
    }
}

/// Opens the store of the runs.
fn cache(folder: &Path) -> anyhow::Result<ResultCache> {
    Ok(ResultCache { store: ResultStore::create(folder)?, tell: output::warn })
}

/// Reads a file of costs: its name and its text.
fn costs(path: &Path) -> anyhow::Result<(String, String)> {
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
    Ok((name, text))
}

fn finish(
    experiments: Vec<Experiment>,
    options: &ReproduceOptions,
    strict: bool,
    json: OutputTarget,
    html: OutputTarget,
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
    if !strict {
        return Ok(ExitCode::SUCCESS);
    }
    let mut judgements = report.judgements();
    if judgements.is_empty() {
        let reason = "these runs have neither claims nor stored scores for their settings";
        output::message(&format!("nothing can be judged: {reason}"));
        judgements.push(Judgement::NotShown(reason.to_owned()));
    }
    Ok(ExitCode::from(Judgement::strict_exit_code(&judgements)))
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get)
}

fn list() -> Table {
    let mut table =
        Table::new("Experiments").columns([Column::left("id"), Column::left("what"), Column::left("source")]);
    for id in reproduce::ids() {
        let (title, source) = reproduce::title(id).unwrap_or_default();
        table.row([id.to_owned(), title, source]);
    }
    table
}
