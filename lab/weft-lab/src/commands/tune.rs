//! `weft tune`: advice on a host's transmit settings.

use anyhow::Context;
use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressStyle};
use std::num::NonZero;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use weft_cli::failure::usage;
use weft_cli::output::{self, OutputTarget};
use weft_cli::signals::{Removes, Stop};
use weft_cli::values;
use weft_experiments::catalogue::overlay::KeyedValue;
use weft_experiments::predict::Machine;
use weft_experiments::tune::{self, QDISCS, TrialPeer, TryOptions, TuneError, TuneOptions, TuneStep, Tuned};
use weft_facts::human;
use weft_facts::record::Document;
use weft_host::life::Life;
use weft_host::perf_event::SampleRate;
use weft_host::process::guard::{self, Guard};
use weft_host::transmit::{Facts, Tree, default_device};
use weft_host::{NetNs, RunId, cleanup_stale};
use weft_profile::categories::Categories;
use weft_profile::error::ProfileError;
use weft_profile::hosts::HostPort;
use weft_profile::session::{self, TrialPlan, WhenBusy};
use weft_report::tune::Wish;
use weft_run::host_facts;
use weft_units::{BitsPerSec, Nanos};

/// Advise on this host's transmit settings for a wish.
///
/// Reads how a device transmits (queues, qdiscs, limits, segments, interrupts), simulates other settings on this host's scenario, ranks
/// them, and says whether one is better than the present setting, and which commands set it. Changes nothing but with --to. Facts that only root may
/// read are unknown to others. With --try the best settings are measured too, by real traffic between namespaces of the run;
/// this needs root and iperf3.
/// With --to they are measured at the device itself, which is restored, also if the run is killed.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  sudo weft tune --for fairness
  sudo weft tune --for latency --device eth0 --rate 10gbps --flows 48
  sudo weft tune --for processor --machine machine.toml --json tune.json
  sudo weft tune --for latency --try
  sudo weft tune --for throughput --device eth0 --try --to server1
  weft tune --for fairness --rate 10gbps --set host.stack.qdisc=pfifo_fast --scenario host.toml

Exit codes: 0 advice, 1 nothing is better (or an error), 2 wrong usage, 3 does not know.
docs/tune.md has the candidates, what each wish's figure is, and the limits.")]
pub(crate) struct Args {
    /// The purpose.
    #[arg(long = "for", value_name = "WISH", required_unless_present = "guard")]
    wish: Option<WishName>,
    /// The device [default: that of the default route]
    #[arg(long, value_name = "DEV")]
    device: Option<String>,
    /// Its network namespace, as `ip netns` names it [default: this one]
    #[arg(long, value_name = "NAME")]
    netns: Option<String>,
    /// The rate of the link, in place of the driver's.
    #[arg(long, value_name = "RATE", value_parser = values::rate)]
    rate: Option<BitsPerSec>,
    /// Number of bulk flows [default: three for every two transmit queues]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    flows: Option<u32>,
    /// Give a value of the scenario, such as network.delay=100us.
    #[arg(long, value_name = "KEY=VALUE", value_parser = KeyedValue::parse)]
    set: Vec<KeyedValue>,
    /// The costs of this machine's work, as `weft profile fit --machine` writes them.
    #[arg(long, value_name = "FILE")]
    machine: Option<PathBuf>,
    /// Seeds of each setting; the best has as many more.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(2..=10_000))]
    seeds: u32,
    /// The first seed.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(0..=u64::from(u32::MAX)))]
    seed: u64,
    /// Write the scenario of the present setting to a file, for `weft sim` (`-` for standard output).
    #[arg(long, value_name = "FILE")]
    scenario: Option<PathBuf>,
    /// Write the figures to a file as JSON (`-` for standard output).
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[command(flatten)]
    trials: TrialArgs,
    /// Wait until standard input ends, then remove what a killed run has left. A run starts its guard so.
    #[arg(long, value_name = "RUN", hide = true)]
    guard: Option<String>,
}

/// Options of the trials.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Trials with real traffic")]
struct TrialArgs {
    /// Measure the present setting and the best candidates, in turns.
    #[arg(long = "try")]
    try_best: bool,
    /// Try them at the device of this host, towards this host, where `weft profile server` runs; the device is restored.
    #[arg(long, value_name = "HOST[:PORT]", requires = "try_best", conflicts_with = "netns")]
    to: Option<HostPort>,
    /// Candidates to try, the best first.
    #[arg(long, value_name = "N", requires = "try_best", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=20))]
    most: u32,
    /// Repeats of each setting.
    #[arg(long, value_name = "N", requires = "try_best", default_value_t = 5, value_parser = clap::value_parser!(u32).range(2..=100))]
    repeats: u32,
    /// Time measured without samples, and again with them (a bare number is seconds).
    #[arg(long, value_name = "TIME", requires = "try_best", default_value = "2s", value_parser = values::span)]
    span: Nanos,
    /// Time before it, for TCP to settle.
    #[arg(long, value_name = "TIME", requires = "try_best", default_value = "1s", value_parser = values::span)]
    warm_up: Nanos,
    /// Run although other processes use this machine, and label the figures.
    #[arg(long, requires = "try_best")]
    loaded: bool,
}

/// A wish by its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum WishName {
    /// Equal shares of flows.
    Fairness,
    /// Short round trips of small messages.
    Latency,
    /// Payload per second.
    Throughput,
    /// Processor time of the sender per byte.
    Processor,
}

impl From<WishName> for Wish {
    fn from(name: WishName) -> Self {
        match name {
            WishName::Fairness => Self::Fairness,
            WishName::Latency => Self::Latency,
            WishName::Throughput => Self::Throughput,
            WishName::Processor => Self::Processor,
        }
    }
}

/// The arguments of a guard, before the run.
const GUARD: [&str; 2] = ["tune", "--guard"];
/// Samples per second and processor, as `weft profile` has by default.
const SAMPLE_RATE: u32 = 999;
/// The time that a guard waits for a killed run to be gone, and between two looks.
const PATIENCE: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(20);

/// Runs the command.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    if let Some(run) = &args.guard {
        return stand_guard(run);
    }
    let Some(wish) = args.wish else { return Err(usage("for which wish?")) };
    if args.json.is_some() && args.json == args.scenario {
        return Err(usage("--json and --scenario go to the same place; give two files"));
    }
    let (json, scenario) =
        (OutputTarget::open(args.json.as_deref())?, OutputTarget::open(args.scenario.as_deref())?);
    let machine = args.machine.as_deref().map(Machine::read).transpose()?;
    let ns = match &args.netns {
        Some(name) => NetNs::named(name)?,
        None => NetNs::current()?,
    };
    let device = device(&args, &ns)?;
    let stop = Stop::install(Removes::Nothing)?;
    let facts = Facts::read(&ns, &device, &QDISCS)?;
    let options = TuneOptions {
        wish: wish.into(),
        rate: args.rate,
        flows: args.flows,
        sets: args.set,
        machine,
        seeds: args.seeds,
        seed: args.seed,
        threads: std::thread::available_parallelism().map_or(1, NonZero::get),
        try_best: trials(&args.trials)?,
    };
    // At a device, the guard of its settings is enough.
    let own = options.try_best.as_ref().is_some_and(|options| options.peer.is_none());
    let _guard = own.then(start_guard).transpose()?;
    let mut shown = Shown::new();
    let tuned =
        tune::run(&facts, &options, host_facts::detect(), &|| stop.asked(), &mut |step| shown.step(&step));
    shown.finish();
    if stop.asked() || matches!(tuned, Err(TuneError::Stopped)) {
        output::message("interrupted; this host's settings are as they were");
        return Ok(stop.exit_code());
    }
    let Tuned { report, scenario: text } = tuned?;
    let quiet = if scenario.is_stdout() { &scenario } else { &json };
    output::tables(&report.tables(), quiet)?;
    if let Some(text) = text {
        scenario.write(&text)?;
    }
    let code = report.verdict.conclusion.exit_code();
    json.write_json(&report)?;
    Ok(ExitCode::from(code))
}

/// The device to examine.
fn device(args: &Args, ns: &NetNs) -> anyhow::Result<String> {
    if let Some(device) = &args.device {
        return Ok(device.clone());
    }
    let found = match &args.netns {
        Some(_) => ns.run(|| default_device(&Tree::of_this_host()))?,
        None => default_device(&Tree::of_this_host()),
    };
    found.ok_or_else(|| {
        usage("no route leads out of this namespace, so no device is the usual one; name one with --device")
    })
}

/// The options of the trials, once the rights are there.
fn trials(args: &TrialArgs) -> anyhow::Result<Option<TryOptions>> {
    if !args.try_best {
        return Ok(None);
    }
    weft_host::require_network_rights().map_err(ProfileError::from)?;
    cleanup_stale();
    let rate = SampleRate::new(SAMPLE_RATE).context("no such rate of samples")?;
    Ok(Some(TryOptions {
        most: args.most,
        trials: TrialPlan {
            repeats: args.repeats,
            span: args.span,
            warm_up: args.warm_up,
            clock: None,
            rate,
            loaded: if args.loaded { WhenBusy::Label } else { WhenBusy::Refuse },
            processors: session::processors()?,
        },
        categories: Categories::shipped()?,
        peer: args.to.clone().map(|to| TrialPeer { to, guard: super::profile::GUARD }),
    }))
}

/// Starts the process that removes the namespaces if this one is killed.
fn start_guard() -> anyhow::Result<Guard> {
    let run = RunId::current().to_string();
    Guard::start(GUARD.into_iter().chain([run.as_str()]))
        .context("start the process that cleans up after a kill")
}

/// Waits for the end of a run, and removes what it has left.
fn stand_guard(run: &str) -> anyhow::Result<ExitCode> {
    guard::wait_for_end().context("wait for the end of standard input")?;
    let deadline = Instant::now() + PATIENCE;
    // The process gives back its pipe before the lock that proves that it lives.
    while run.parse::<RunId>().is_ok_and(|run| run.life() == Life::Alive) && Instant::now() < deadline {
        std::thread::sleep(LOOK);
    }
    let removed = cleanup_stale();
    if !removed.is_empty() {
        output::note(&format!("removed after a killed run: {}", removed.namespaces.join(", ")));
    }
    Ok(ExitCode::SUCCESS)
}

/// The progress on a terminal, and lines for the trials elsewhere.
struct Shown {
    bar: ProgressBar,
    /// When the trials began.
    trials: Option<Instant>,
}

impl Shown {
    fn new() -> Self {
        let style = ProgressStyle::with_template("{bar:30} {pos} of {len} runs, {eta} left");
        let bar = ProgressBar::new(0);
        let bar = match style {
            Ok(style) => bar.with_style(style),
            Err(_) => bar,
        };
        Self { bar, trials: None }
    }

    fn step(&mut self, step: &TuneStep) {
        match step {
            TuneStep::Simulated { done, of } => {
                self.bar.set_length((*of).into());
                self.bar.set_position((*done).into());
            }
            TuneStep::Tried { done, of, what } => {
                self.bar.finish_and_clear();
                // The first trial begins before it is reported.
                let begin = *self.trials.get_or_insert_with(Instant::now);
                let known = done.saturating_sub(1);
                let left = (known > 0)
                    .then(|| begin.elapsed().as_secs_f64() / f64::from(known) * f64::from(of - done));
                let left = left.map(|left| format!(", {} left", human::time(left.round())));
                output::note(&format!("{done} of {of}: {what}{}", left.unwrap_or_default()));
            }
        }
    }

    fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
