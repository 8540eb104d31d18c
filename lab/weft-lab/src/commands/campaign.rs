//! `weft campaign`: a scenario over a grid of parameters and seeds, with a store of the results.

use anyhow::anyhow;
use clap::{Args as ClapArgs, Subcommand, ValueEnum};
use std::fs::File;
use std::io::{BufWriter, IsTerminal, Write};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use weft_campaign::campaign::{Campaign, CampaignError};
use weft_campaign::engines::{self, Names};
use weft_campaign::export::{self, Exported};
use weft_campaign::grid::Shard;
use weft_campaign::run::{self, CampaignEvent, ShardProgress};
use weft_campaign::store::ResultStore;
use weft_campaign::store_contents::{self, Merged};
use weft_cli::failure::{Reported, usage};
use weft_cli::output::{self, OutputTarget};
use weft_cli::progress;
use weft_cli::signals::{Removes, Stop};
use weft_facts::record::Document;
use weft_report::campaign::CampaignStatus;
use weft_run::{host_facts, tenant_files};
use weft_sim::MODEL_VERSION;

/// Simulate a scenario over a grid of parameters and seeds, and keep the results: what exists is not run again.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  weft campaign run grid.toml --out results
  weft campaign status grid.toml --out results
  weft campaign export results --format csv > results.csv
  weft campaign export results --format parquet --to results.parquet
  weft campaign run grid.toml --out results --list | parallel
  weft campaign run grid.toml --out part2 --shard 2/8
  weft campaign merge part1 part2 --out results
  weft campaign slurm grid.toml --out results --nodes 16 > job.sh
  weft campaign ray grid.toml --out results > ray.py

docs/campaigns.md describes grid files, the store and the figures.")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(RunArgs),
    Status(StatusArgs),
    Merge(MergeArgs),
    Export(ExportArgs),
    Slurm(SlurmArgs),
    Ray(RayArgs),
}

/// Make the results that are missing, on all processors.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  weft campaign run grid.toml --out results
  weft campaign run grid.toml --out results --shard 2/8 --threads 1
  weft campaign run grid.toml --out results --list --shards 64 | parallel
  weft campaign run grid.toml --out results --list > shards.txt
  hq submit --each-line shards.txt sh -c 'eval \"$HQ_ENTRY\"'

Ctrl-C ends it with what is done kept; the same command goes on.")]
struct RunArgs {
    /// The grid.
    #[arg(value_name = "GRID.toml")]
    grid: PathBuf,
    /// Folder of the results; made if it does not exist.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Make only each N-th result, from the I-th.
    #[arg(long, value_name = "I/N", default_value_t = Shard::ALL)]
    shard: Shard,
    /// Concurrent runs [default: one per processor].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: Option<u32>,
    /// Run nothing; print one command per line, each for a shard on one thread, for GNU parallel, HyperQueue and others.
    #[arg(long, conflicts_with_all = ["shard", "threads"])]
    list: bool,
    /// Number of shards that --list prints [default: one for 100 runs, at most 1000].
    #[arg(long, value_name = "N", requires = "list", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    shards: Option<u64>,
}

/// Count the results that are there and those that are missing.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  weft campaign status grid.toml --out results
  weft campaign status grid.toml --out results --json -")]
struct StatusArgs {
    /// The grid.
    #[arg(value_name = "GRID.toml")]
    grid: PathBuf,
    /// Folder of the results.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Write the numbers to a file as JSON (`-` for standard output).
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Take the results of folders over into one.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  weft campaign merge part1 part2 --out results")]
struct MergeArgs {
    /// Folders of results.
    #[arg(required = true, value_name = "DIR")]
    from: Vec<PathBuf>,
    /// Folder that gets them; made if it does not exist.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

/// Write all results as a table: a row per run, with its parameters and figures.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  weft campaign export results > results.csv
  weft campaign export results --format json --to results.json
  weft campaign export results --format parquet --to results.parquet")]
struct ExportArgs {
    /// Folder of the results.
    #[arg(value_name = "DIR")]
    from: PathBuf,
    /// Form of the table.
    #[arg(long, value_enum, default_value_t = Format::Csv)]
    format: Format,
    /// Write to a file instead of standard output.
    #[arg(long, value_name = "FILE")]
    to: Option<PathBuf>,
}

/// The form of a table.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// Comma-separated values with a line of names.
    Csv,
    /// A JSON document.
    Json,
    /// Apache Parquet, with typed columns.
    Parquet,
}

/// Print a script for Slurm: an array of jobs, each with a shard.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  weft campaign slurm grid.toml --out results --nodes 16 > job.sh && sbatch job.sh")]
struct SlurmArgs {
    /// The grid.
    #[arg(value_name = "GRID.toml")]
    grid: PathBuf,
    /// Folder of the results, which all nodes see.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Number of jobs.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    nodes: u64,
}

/// Print a program in Python for Ray: a task for each shard, which returns the path of the results.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  weft campaign ray grid.toml --out results > ray.py && python3 ray.py
  RAY_ADDRESS=head:6379 python3 ray.py")]
struct RayArgs {
    /// The grid.
    #[arg(value_name = "GRID.toml")]
    grid: PathBuf,
    /// Folder of the results, which all nodes see.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Number of tasks [default: one for 100 runs, at most 1000].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    shards: Option<u64>,
}

/// Runs the command.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.command {
        Command::Run(args) if args.list => list(&args),
        Command::Run(args) => make(&args),
        Command::Status(args) => status(&args),
        Command::Merge(args) => merge(&args),
        Command::Export(args) => table(&args),
        Command::Slurm(args) => {
            read(&args.grid)?;
            if args.nodes > engines::SLURM_ARRAY_MAX {
                output::note(&format!(
                    "an array of {} jobs needs a site with a larger MaxArraySize than Slurm's default, 1001; `scontrol show config` tells it",
                    args.nodes
                ));
            }
            output::print(&names(&args.grid, &args.out)?.slurm(args.nodes))?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Ray(args) => {
            let shards = args.shards.unwrap_or(engines::shards(read(&args.grid)?.grid().count()));
            output::print(&names(&args.grid, &args.out)?.ray(shards))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Reads a campaign; its errors are shown as a scenario's are.
fn read(grid: &Path) -> anyhow::Result<Campaign> {
    Campaign::read(grid, tenant_files::read).map_err(told)
}

/// Shows the error of a text with its place, once.
fn told(error: CampaignError) -> anyhow::Error {
    match error {
        CampaignError::Text(error) => {
            let pretty = std::io::stderr().is_terminal();
            output::message(&if pretty { error.render(output::stderr_style()) } else { error.to_string() });
            Reported.into()
        }
        other => other.into(),
    }
}

fn make(args: &RunArgs) -> anyhow::Result<ExitCode> {
    let campaign = read(&args.grid)?;
    let store = ResultStore::create(&args.out)?;
    let stop = Stop::install(Removes::Nothing)?;
    let threads = args.threads.map_or_else(processors, |threads| threads as usize);
    let runs = progress::Runs::default();
    let done =
        run::run(&campaign, &store, (args.shard, threads), &|| stop.asked(), &mut |event| match event {
            CampaignEvent::Progress(progress) => {
                runs.set(progress.made, progress.runs.saturating_sub(progress.there));
            }
            CampaignEvent::Broken(path, error) => {
                runs.suspend(|| output::warn(&format!("{}: {error}; it is made again", path.display())));
            }
            _ => {}
        });
    runs.finish();
    let ShardProgress { runs, there, made, stopped, .. } = done.map_err(told)?;
    let left = if stopped {
        format!(", {} are missing: give the same command again", runs - there - made)
    } else {
        String::new()
    };
    output::message(&format!("{runs} runs: {made} made, {there} were there{left}"));
    Ok(if stopped { stop.exit_code() } else { ExitCode::SUCCESS })
}

fn list(args: &RunArgs) -> anyhow::Result<ExitCode> {
    let campaign = read(&args.grid)?;
    let shards = args.shards.unwrap_or_else(|| engines::shards(campaign.grid().count()));
    let names = names(&args.grid, &args.out)?;
    for index in 1..=shards {
        output::print(&format!("{}\n", names.command(Shard::new(index, shards)?)))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns what commands of other programs name: this program by its path, if it was started by one.
fn names(grid: &Path, out: &Path) -> anyhow::Result<Names> {
    let text = |path: &Path| {
        let text = path.to_str().map(str::to_owned);
        text.ok_or_else(|| {
            usage(format!("{} is not UTF-8, which a list of commands cannot name", path.display()))
        })
    };
    let program = std::env::args().next().unwrap_or_else(|| "weft".to_owned());
    Ok(Names { program, grid: text(grid)?, out: text(out)? })
}

fn status(args: &StatusArgs) -> anyhow::Result<ExitCode> {
    let campaign = read(&args.grid)?;
    let store = ResultStore::open(&args.out)?;
    let json = OutputTarget::open(args.json.as_deref())?;
    let stop = Stop::install(Removes::Nothing)?;
    let status = store_contents::status(&campaign, &store, &|| stop.asked()).map_err(told)?;
    if stop.asked() {
        return Ok(stop.exit_code());
    }
    let report = CampaignStatus {
        schema: CampaignStatus::SCHEMA.to_owned(),
        host: host_facts::detect(),
        grid: args.grid.display().to_string(),
        model: MODEL_VERSION,
        runs: status.runs,
        done: status.there,
        broken: status.broken,
        missing: status.runs - status.there - status.broken,
    };
    output::tables(&report.tables(), &json)?;
    json.write_json(&report)?;
    Ok(ExitCode::SUCCESS)
}

fn merge(args: &MergeArgs) -> anyhow::Result<ExitCode> {
    let from: Vec<ResultStore> =
        args.from.iter().map(|from| ResultStore::open(from)).collect::<Result<_, _>>()?;
    let into = ResultStore::create(&args.out)?;
    let stop = Stop::install(Removes::Nothing)?;
    let mut all = Merged::default();
    for from in &from {
        let merged = store_contents::merge(from, &into, &|| stop.asked(), &mut |path, error| {
            output::warn(&format!("{}: {error}; it was left out", path.display()));
        })?;
        all.taken += merged.taken;
        all.there += merged.there;
        all.broken += merged.broken;
    }
    output::message(&format!("{} results taken over, {} were there", all.taken, all.there));
    Ok(if all.broken > 0 && !stop.asked() { ExitCode::FAILURE } else { stop.exit_code() })
}

fn table(args: &ExportArgs) -> anyhow::Result<ExitCode> {
    let store = ResultStore::open(&args.from)?;
    let format = match args.format {
        Format::Csv => export::ExportFormat::Csv,
        Format::Json => export::ExportFormat::Json,
        Format::Parquet if args.to.is_none() && std::io::stdout().is_terminal() => {
            return Err(usage("Parquet is no text for a terminal: give a file with --to results.parquet"));
        }
        Format::Parquet => export::ExportFormat::Parquet,
    };
    let mut out: Box<dyn Write + Send> = match &args.to {
        Some(path) => {
            let file =
                File::create(path).map_err(|error| anyhow!("cannot write to {}: {error}", path.display()))?;
            Box::new(BufWriter::new(file))
        }
        None => Box::new(BufWriter::new(std::io::stdout())),
    };
    let exported = export::export(&store, format, &mut *out).map_err(|error| match (error, &args.to) {
        (export::CampaignExportError::Write(error), None) => error.into(),
        (export::CampaignExportError::Write(error), Some(path)) => {
            anyhow!("cannot write to {}: {error}", path.display())
        }
        (export::CampaignExportError::Table(error), Some(path)) => {
            anyhow!("cannot write to {}: {error}", path.display())
        }
        (error, _) => error.into(),
    })?;
    let Exported { other_models, broken, .. } = exported;
    if other_models > 0 {
        output::note(&format!("{other_models} results of other versions of the model are left out"));
    }
    if broken > 0 {
        output::warn(&format!(
            "{broken} files are no results and are left out: `weft campaign run` makes them again"
        ));
    }
    Ok(ExitCode::SUCCESS)
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get)
}
