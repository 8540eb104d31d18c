//! `weft demo`: Loom's isolation experiment on real packets.

mod options;
mod watch;

use anyhow::anyhow;
use clap::ValueEnum;
pub(crate) use options::FIGURE_9_POLICY;
use std::path::PathBuf;
use std::process::ExitCode;
use watch::Watch;
use weft_cli::failure;
use weft_cli::output::{self, OutputTarget};
use weft_cli::policy_file::PolicyText;
use weft_cli::signals::{Removes, Stop};
use weft_cli::terminal;
use weft_cli::values;
use weft_experiments::bench::port::{DEMO_REQUEST_BYTES, DEMO_REQUESTS_PER_S};
use weft_experiments::experiments::loom::simulated::PolicyFiles;
use weft_experiments::experiments::loom::{self, DemoEvent, DemoOptions, ModeOutcome};
use weft_facts::record::Document;
use weft_host::{cleanup_stale, programs, require_network_rights};
use weft_nic::worker::SegmentsPerTurn;
use weft_policy::{CompileOptions, CompiledPolicy, Tenant};
use weft_report::demo::{DemoReport, RateTrial, demo_html, verdicts};
use weft_report::judgement::Judgement;
use weft_units::{BitsPerSec, Nanos};

/// The default file of the page.
const PAGE: &str = "weft-demo.html";

/// Show that a policy holds on real traffic, compared with NICs without one (Loom's Figures 9, 10 and 11).
///
/// Makes separate network namespaces, starts real TCP applications in cgroups, and puts the software NIC between
/// them. Needs root, iperf3 and, for Figure 9, sockperf.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weft demo
  weft demo --modes qpf,loom --duration 30 --rate 200mbps
  weft demo --figure 11 --json figure11.json
  weft demo --simulated
  weft demo --strict --modes qpf,loom --duration 10
  weft demo --json - --no-html | jq '.modes[] | {mode, share_error_p95}'")]
pub(crate) struct Args {
    /// The figure of the paper to repeat.
    #[arg(long, default_value = "9", value_parser = ["9", "11"])]
    figure: String,
    /// Modes of the NIC, run one after the other [default: all four; for figure 11 loom]
    #[arg(long, value_delimiter = ',', value_name = "MODES")]
    modes: Vec<ModeName>,
    /// Length of each mode's run (a bare number is seconds).
    #[arg(long, default_value = "10", value_parser = values::span)]
    duration: Nanos,
    /// Stretch the time line by this factor.
    #[arg(long, value_name = "X", default_value = "1", value_parser = values::factor)]
    time_scale: f64,
    /// The link's rate, such as 200mbps [default: one below what this machine carries]
    #[arg(long, value_parser = values::rate)]
    rate: Option<BitsPerSec>,
    /// Figure 11: the limit of tenant T1's traffic to destination 2 [default: a quarter of the link]
    #[arg(long, value_parser = values::rate)]
    limit: Option<BitsPerSec>,
    /// Number of TCP flows of each sender [default: 4,16,64,256; for figure 11 12,4,4,16,64,64]
    #[arg(long, value_delimiter = ',', value_name = "N,...", value_parser = clap::value_parser!(u32).range(1..=4096))]
    flows: Vec<u32>,
    /// TCP congestion control of the bulk flows.
    #[arg(long, default_value = "cubic")]
    congestion: String,
    /// Segments of a super-packet that are sent per turn: a number, or `whole`.
    #[arg(long, alias = "grain", default_value = "1", value_parser = values::segments_per_turn)]
    segments_per_turn: SegmentsPerTurn,
    /// Requests per second of the latency tenant.
    #[arg(long, value_name = "N", default_value_t = DEMO_REQUESTS_PER_S, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    requests_per_second: u32,
    /// Bytes per request.
    #[arg(long, value_name = "BYTES", default_value_t = DEMO_REQUEST_BYTES, value_parser = clap::value_parser!(u32).range(14..=65_000))]
    request_size: u32,
    /// The most that the link's clock may lag behind the wall clock.
    #[arg(long, default_value = "50ms", value_parser = values::span)]
    catch_up: Nanos,
    /// Queues of mode mq.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=256))]
    mq_queues: u16,
    /// Mode sq: keep the queue first in first out, without the kernel's HTB in front of it.
    #[arg(long)]
    sq_fifo: bool,
    /// A policy to use instead of the built-in one, with the same classes.
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// Write the figures to a file as JSON (`-` for standard output).
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// File for the page with the plots.
    #[arg(long, value_name = "FILE", default_value = PAGE, conflicts_with = "no_html")]
    html: PathBuf,
    /// Write no page.
    #[arg(long)]
    no_html: bool,
    /// Exit with 1 when a verdict fails, and with 3 when none fails but this machine cannot show one.
    #[arg(long)]
    strict: bool,
    /// Print plain lines instead of the live view.
    #[arg(long)]
    plain: bool,
    /// Simulate instead of sending packets: needs no rights and no programs (Figure 9 only).
    #[arg(long)]
    simulated: bool,
    /// Seed of the simulation.
    #[arg(long, default_value_t = 1, requires = "simulated")]
    seed: u64,
}

/// The names of the modes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum ModeName {
    /// One queue.
    Sq,
    /// Several queues, with flows spread by hash.
    Mq,
    /// A queue per flow.
    Qpf,
    /// The policy in the NIC.
    Loom,
}

/// Runs the command.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut options = args.options()?;
    let text = args.policy_text()?;
    // Checked before anything is set up.
    let (mut policy, tenants) = text.load_whole(&CompileOptions::default())?;
    let json = OutputTarget::open(args.json.as_deref())?;
    let html = OutputTarget::open((!args.no_html).then_some(args.html.as_path()))?;
    if args.simulated {
        return simulate(&args, &options, &policy_files(text, tenants), json, html);
    }
    require_host(&options)?;
    let stop = Stop::install(Removes::Made)?;
    let cleaned = cleanup_stale();
    if !cleaned.is_empty() {
        output::note(&cleaned.to_string());
    }
    let live = !args.plain && !json.is_stdout() && terminal::possible();
    let mut watch = Watch::open(live, &policy, &options, &stop)?;
    let asked = || stop.asked();
    let result = measured_rate(&mut options, &policy, &asked, &mut watch).and_then(|trial| {
        if args.figure == "11" {
            policy = text.load(&args.limited(&options))?;
        }
        let outcomes = loom::run(&policy, &options, &asked, &mut |event| watch.event(&event))?;
        Ok((outcomes, trial))
    });
    // The terminal must be restored before anything is printed.
    drop(watch);
    if stop.asked() {
        output::message("interrupted; everything was removed");
        return Ok(stop.exit_code());
    }
    let (outcomes, trial) = result?;
    let mut report = loom::report(&policy, &options, &outcomes, trial);
    report.command = Some(std::env::args().collect::<Vec<_>>().join(" "));
    finish(&report, &outcomes, json, html)?;
    Ok(args.exit_code(&report))
}

/// Chooses the rate by a trial unless one is given. Figure 11's limit depends on the rate, so its policy is compiled
/// later.
fn measured_rate(
    options: &mut DemoOptions,
    policy: &CompiledPolicy,
    asked: &dyn Fn() -> bool,
    watch: &mut Watch,
) -> anyhow::Result<Option<RateTrial>> {
    if options.rate.is_some() {
        return Ok(None);
    }
    let trial = loom::trial(policy, options, asked, &mut |event| watch.event(&event))?;
    let rate = BitsPerSec(trial.rate_bps());
    watch.event(&DemoEvent::Rate { rate, trial: Some(&trial) });
    options.rate = Some(rate);
    Ok(Some(trial))
}

/// Checks that this host has the demo's requirements.
fn require_host(options: &DemoOptions) -> anyhow::Result<()> {
    let latency = options.scenario.latency.map(|_| "sockperf");
    for program in ["iperf3"].into_iter().chain(latency) {
        if programs::find(program).is_none() {
            let package = programs::package_of(program).unwrap_or(program);
            return Err(anyhow!(
                "the program {program} is not installed; on Debian it is in the package {package}: apt-get install {package}"
            ));
        }
    }
    require_network_rights()?;
    Ok(())
}

fn simulate(
    args: &Args,
    options: &DemoOptions,
    policy: &PolicyFiles,
    json: OutputTarget,
    html: OutputTarget,
) -> anyhow::Result<ExitCode> {
    if args.figure == "11" {
        return Err(failure::usage(
            "--simulated supports Figure 9 only; `weft reproduce loom-fig11` simulates Figure 11",
        ));
    }
    let mut report = loom::simulated::report(policy, options, args.seed)?;
    report.command = Some(std::env::args().collect::<Vec<_>>().join(" "));
    finish(&report, &[], json, html)?;
    Ok(args.exit_code(&report))
}

/// The policy's text with those of its tenants' files.
fn policy_files(policy: PolicyText, tenants: Vec<Tenant>) -> PolicyFiles {
    let files = tenants.into_iter().filter_map(|tenant| tenant.file).map(|file| (file.name, file.text));
    let texts = files.chain([(policy.name.clone(), policy.text)]).collect();
    PolicyFiles { name: policy.name, texts }
}

fn finish(
    report: &DemoReport,
    outcomes: &[ModeOutcome],
    json: OutputTarget,
    html: OutputTarget,
) -> anyhow::Result<()> {
    output::tables(&report.tables(), &json)?;
    for outcome in outcomes {
        outcome.notes.iter().for_each(|note| output::note(&format!("{}: {note}", outcome.mode.name())));
    }
    let page = html.write(&demo_html(report))?;
    let document = json.write_json(report)?;
    for (what, path) in [("plots", page), ("figures", document)] {
        if let Some(path) = path {
            output::message(&format!("{what}: {}", path.display()));
        }
    }
    Ok(())
}

impl Args {
    fn policy_text(&self) -> anyhow::Result<PolicyText> {
        match &self.policy {
            Some(path) => PolicyText::read(path),
            None if self.figure == "11" => {
                Ok(PolicyText::built_in("policies/figure11.weft", options::FIGURE_11_POLICY))
            }
            None => Ok(PolicyText::built_in("policies/tenants.weft", options::FIGURE_9_POLICY)),
        }
    }

    /// Returns 0, unless `--strict` requires the verdicts' code.
    fn exit_code(&self, report: &DemoReport) -> ExitCode {
        let judged: Vec<Judgement> = verdicts(report).into_iter().map(|v| v.judgement).collect();
        ExitCode::from(if self.strict { Judgement::strict_exit_code(&judged) } else { 0 })
    }

    /// Returns the limit of Figure 11: the given one, or a quarter of the link's rate.
    fn limited(&self, options: &DemoOptions) -> CompileOptions {
        let rate = options.rate.unwrap_or(BitsPerSec::ZERO);
        let limit = self.limit.unwrap_or(BitsPerSec(rate.get() / 4));
        CompileOptions { overrides: vec![(options::LIMIT.to_owned(), limit)], ..CompileOptions::default() }
    }
}
