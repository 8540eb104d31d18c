//! `weft bench cost`: processor time and latency of a port, beside HTB, the port as it was, and the floor.

use clap::ValueEnum;
use clap::builder::PossibleValue;
use std::path::PathBuf;
use std::process::ExitCode;
use weft_cli::output::{self, OutputTarget};
use weft_cli::signals::{Removes, Stop};
use weft_cli::values;
use weft_experiments::bench::cost::{self, CostCase, CostError, CostOptions, PortCount};
use weft_facts::human;
use weft_facts::record::Document;
use weft_host::cleanup_stale;
use weft_report::bench::cost::{CostReport, Sample};
use weft_report::judgement::Judgement;
use weft_run::host_facts;
use weft_units::Nanos;

/// Measure what a port costs, beside the kernel's HTB in the same rounds.
///
/// Real TCP between two network namespaces, through: the port of `weft run`; the port as it was; HTB without weftline;
/// a plain eBPF redirect; and the floor, a forwarder in user space without a policy. Each round measures all of them,
/// in an order that rotates. Needs root and iperf3, two idle cores, and about 12 minutes for all cases.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weft bench cost --json cost.json
  weft bench cost cost-8-flows-1g latency-priority-1g
  weft bench cost receive-inbound --runs 9 --strict
  weft bench cost cost-8-flows-1g --ports 64     # four ports are busy, the others idle

With --strict the exit code is 1 when a goal is missed, and 3 when none is but this machine cannot show one: it has
fewer than two cores, a program is missing, or other processes disturbed half of the rounds.")]
pub(crate) struct Args {
    /// The case to measure; all of them without it.
    #[arg(value_name = "CASE")]
    cases: Vec<Case>,
    /// Number of rounds of each case.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// Measured time of a sample (a bare number is seconds) [default: 3s for cost, 2s for others]
    #[arg(long, value_parser = values::span)]
    span: Option<Nanos>,
    /// Time before it, for TCP to settle.
    #[arg(long, default_value = "1s", value_parser = values::span)]
    warm_up: Nanos,
    /// Number of ports of the session measured. The flows leave through four of them. With more, the others are idle, and the
    /// peer is a session of the four: the goal is at most 1.05 times its cost.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    ports: u32,
    /// Exit with 1 when a goal is missed, and with 3 when none is but this machine cannot show one.
    #[arg(long)]
    strict: bool,
    /// Write the figures to a file as JSON (`-` for standard output).
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// A case by its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Case(CostCase);

impl ValueEnum for Case {
    fn value_variants<'a>() -> &'a [Self] {
        const ALL: [Case; CostCase::ALL.len()] = {
            let mut all = [Case(CostCase::ALL[0]); CostCase::ALL.len()];
            let mut i = 0;
            while i < all.len() {
                all[i] = Case(CostCase::ALL[i]);
                i += 1;
            }
            all
        };
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.0.name()).help(self.0.about()))
    }
}

/// Runs the command.
pub(super) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let json = OutputTarget::open(args.json.as_deref())?;
    let stop = Stop::install(Removes::Made)?;
    cleanup_stale();
    if cfg!(debug_assertions) {
        output::warn("this is a debug build: its cost says nothing about the released program");
    }
    let measured = measure(&args, &stop);
    if stop.asked() {
        output::message("interrupted; everything was removed");
        return Ok(stop.exit_code());
    }
    let report = match measured {
        Err(error) if args.strict && error.is_missing_program() => {
            output::message(&format!("error: {error}"));
            let unseen = Judgement::NotShown(error.to_string());
            return Ok(ExitCode::from(Judgement::strict_exit_code([&unseen])));
        }
        measured => measured?,
    };
    output::tables(&report.tables(), &json)?;
    json.write_json(&report)?;
    let judged: Vec<Judgement> = report.cases.iter().map(|case| case.judgement()).collect();
    Ok(ExitCode::from(if args.strict { Judgement::strict_exit_code(&judged) } else { 0 }))
}

fn measure(args: &Args, stop: &Stop) -> Result<CostReport, CostError> {
    let options =
        CostOptions { runs: args.runs, warm_up: args.warm_up, span: args.span, ports: PortCount(args.ports) };
    let cases = if args.cases.is_empty() { Case::value_variants() } else { &args.cases };
    let measure = |Case(case): &Case| {
        let heard = |sample: &Sample| output::note(&line(*case, sample, args.runs));
        cost::run(*case, &options, &|| stop.asked(), heard)
    };
    Ok(CostReport {
        schema: CostReport::SCHEMA.to_owned(),
        host: host_facts::detect(),
        runs: args.runs,
        cases: cases.iter().map(measure).collect::<Result<_, _>>()?,
    })
}

/// Formats a sample in a line.
fn line(case: CostCase, sample: &Sample, runs: u32) -> String {
    let Sample { round, variant, .. } = sample;
    let cost = human::or_none(sample.cores_per_gbps(), |cores| format!("{cores:.3}"));
    let mut line = format!(
        "{}: round {round} of {runs}, {}: {}, {cost} cores per Gb/s",
        case.name(),
        variant.name(),
        human::rate(sample.bps()),
    );
    if let Some(trips) = sample.requests {
        line.push_str(&format!(", p50 {}, p99 {}", human::time(trips.p50_s), human::time(trips.p99_s)));
    }
    if sample.disturbed {
        line.push_str(&format!(", disturbed: others used {:.2} cores", sample.disturbance()));
    }
    line
}
