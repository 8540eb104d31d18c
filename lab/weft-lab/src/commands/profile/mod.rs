//! `weft profile`: processor time of the network stack, by side and category.

mod attach;
mod class_usage;
mod diff;
mod document;
mod fit;
mod predict;
mod restore;
mod run;
mod server;
mod symbols;

pub(super) use restore::GUARD;

use clap::ValueEnum;
use clap::builder::PossibleValue;
use std::path::PathBuf;
use std::process::ExitCode;
use weft_cli::values;
use weft_host::perf_event::{Clock, SampleRate};
use weft_profile::hosts::HostPort;
use weft_profile::level::Level;
use weft_profile::pattern::{FlowCount, Pattern};
use weft_units::{Bytes, Nanos};

/// Show where this host's processor time goes when it talks.
///
/// Real traffic in namespaces of the run, at levels of optimisation that take turns. Samples of all processors get
/// a side and one of the eight categories of the SIGCOMM'21 host-stack study. No setting of the host is changed but with --device,
/// and that is restored. Needs root, and
/// iperf3 or sockperf. With --to this host sends, and the named one, which runs `weft profile server`, receives. With --attach it makes no traffic: what runs on the host now is profiled by task and direction.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "\
Examples:
  sudo weft profile single
  sudo weft profile outcast --flows 8 --json outcast.json --html outcast.html
  sudo weft profile all-to-all --flows 4x4 --levels noopt,tso-gro
  sudo weft profile single --rpc 4kb --repeats 5
  sudo weft profile single --levels noopt --repeats 5 --try
  sudo weft profile incast --flows 4 --to server1 --json incast.json
  sudo weft profile single --to server1 --device eth0 --levels noopt,tso-gro
  sudo weft profile restore
  sudo weft profile server --listen 192.0.2.2
  sudo weft profile --attach --span 30s --html now.html
  sudo weft profile --attach --cgroup /system.slice/nginx.service --json nginx.json
  weft profile diff before.json after.json
  weft profile fit outcast.json single.json --machine machine.toml
  sudo weft profile predict machine.toml --measured
  weft profile symbols --missing

`tool costs` is the loss of throughput by the whole instrument; `probes alone` is the time of
the programs at the tracepoints, as a share of the processor time of the traffic.")]
pub(crate) struct Args {
    /// A command on profiles.
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: RunArgs,
}

/// Commands on profiles.
#[derive(Debug, clap::Subcommand)]
enum Command {
    Diff(diff::Args),
    Fit(fit::Args),
    Predict(predict::Args),
    Restore(restore::Args),
    Server(server::Args),
    Symbols(symbols::Args),
}

/// The options of a run.
#[derive(Debug, clap::Args)]
struct RunArgs {
    /// The pattern of traffic.
    #[arg(value_name = "PATTERN", required_unless_present = "attach")]
    pattern: Option<PatternName>,
    /// Number of flows: N sending and N receiving cores, as far as the pattern has them, or AxB of them.
    #[arg(long, default_value = "1", value_name = "N|AxB")]
    flows: FlowCount,
    /// Requests and responses of this size, one outstanding per flow, instead of bulk data.
    #[arg(long, value_name = "SIZE")]
    rpc: Option<Bytes>,
    /// Send to this host, where `weft profile server` runs; its port if not 5200.
    #[arg(long, value_name = "HOST[:PORT]")]
    to: Option<HostPort>,
    /// With --to: set the levels at this device and restore it. With --attach: only its packets, whose bytes divide the time.
    #[arg(long, value_name = "DEV", conflicts_with_all = ["pid", "cgroup"])]
    device: Option<String>,
    /// Levels of optimisation, in the order of the table [default: noopt,tso-gro,jumbo,arfs; with --to devices stay as they are, and
    /// with --device noopt,tso-gro,jumbo]
    #[arg(long, value_delimiter = ',')]
    levels: Option<Vec<LevelName>>,
    /// Repeats of each level; levels take turns.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    repeats: u32,
    /// Time measured without samples, and again with them (a bare number is seconds); 10s with --attach.
    #[arg(
        long,
        default_value = "3s",
        default_value_if("attach", clap::builder::ArgPredicate::IsPresent, "10s"),
        value_parser = values::span
    )]
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
    /// Try what the remarks propose: trials without and with it in turns, --repeats of each, in separate namespaces.
    #[arg(long = "try", conflicts_with_all = ["to", "attach"])]
    try_remarks: bool,
    /// A file of rules to read over the table of categories.
    #[arg(long, value_name = "FILE")]
    categories: Option<PathBuf>,
    /// Run although other processes use this machine, and label the figures.
    #[arg(long)]
    loaded: bool,
    #[command(flatten)]
    outputs: Outputs,
    #[command(flatten)]
    attach: attach::AttachArgs,
}

/// The files that a run writes.
#[derive(Debug, clap::Args)]
struct Outputs {
    /// Write the figures to a file as JSON (`-` for standard output).
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write tables, bars, distributions and flame graphs to one HTML file.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write folded stacks, as FlameGraph's scripts read them.
    #[arg(long, value_name = "FILE")]
    folded: Option<PathBuf>,
    /// Write stacks in speedscope's format.
    #[arg(long, value_name = "FILE")]
    speedscope: Option<PathBuf>,
}

/// A pattern by its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct PatternName(Pattern);

impl ValueEnum for PatternName {
    fn value_variants<'a>() -> &'a [Self] {
        const ALL: [PatternName; Pattern::ALL.len()] = {
            let mut all = [PatternName(Pattern::Single); Pattern::ALL.len()];
            let mut i = 0;
            while i < all.len() {
                all[i] = PatternName(Pattern::ALL[i]);
                i += 1;
            }
            all
        };
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.0.name()))
    }
}

/// A level by its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct LevelName(Level);

impl ValueEnum for LevelName {
    fn value_variants<'a>() -> &'a [Self] {
        const ALL: [LevelName; Level::ALL.len()] = {
            let mut all = [LevelName(Level::NoOpt); Level::ALL.len()];
            let mut i = 0;
            while i < all.len() {
                all[i] = LevelName(Level::ALL[i]);
                i += 1;
            }
            all
        };
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.0.name()))
    }
}

/// A clock by its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum ClockName {
    /// Processor cycles, counted by hardware.
    Cycles,
    /// The kernel's timer: late in sections with interrupts off.
    CpuClock,
}

impl From<ClockName> for Clock {
    fn from(name: ClockName) -> Self {
        match name {
            ClockName::Cycles => Self::Cycles,
            ClockName::CpuClock => Self::CpuClock,
        }
    }
}

fn sample_rate(text: &str) -> Result<SampleRate, values::ValueError> {
    let error = || values::ValueError::SampleRate(text.to_owned());
    text.parse().ok().and_then(SampleRate::new).ok_or_else(error)
}

/// Runs the command.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.command {
        Some(Command::Diff(args)) => diff::run(args),
        Some(Command::Fit(args)) => fit::run(args),
        Some(Command::Predict(args)) => predict::run(args),
        Some(Command::Restore(args)) => restore::run(&args),
        Some(Command::Server(args)) => server::run(&args),
        Some(Command::Symbols(args)) => symbols::run(&args),
        None if args.run.attach.attach => attach::run(&args.run),
        None => run::run(args.run),
    }
}
