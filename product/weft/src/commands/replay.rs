//! `weft replay`: a capture through a policy, in virtual time.

use anyhow::anyhow;
use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use weft_cli::output::{self, OutputTarget};
use weft_cli::policy_file::PolicyText;
use weft_cli::progress;
use weft_cli::values;
use weft_facts::human;
use weft_facts::record::Document;
use weft_facts::replay::ReplayReport;
use weft_policy::CompileOptions;
use weft_replay::{Progress, ReplayError, ReplayOptions, ReplayOutcome, replay};
use weft_run::host_facts;
use weft_units::BitsPerSec;

/// Schedule a capture in virtual time, without any rights.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weft replay my.weft in.pcap out.pcap --rate 100mbps
  weft replay my.weft in.pcap /dev/null --json -

Each packet of IN arrives at its timestamp and is written to OUT with the time at which the link has sent it.")]
pub(crate) struct Args {
    /// The policy.
    policy: PathBuf,
    /// The capture to read (pcap or pcapng).
    #[arg(value_name = "IN.pcap")]
    input: PathBuf,
    /// The capture to write.
    #[arg(value_name = "OUT.pcap")]
    output: PathBuf,
    /// The link's rate, such as 100mbps; without it the policy's `link`.
    #[arg(long, value_parser = values::rate)]
    rate: Option<BitsPerSec>,
    /// The port at which the packets leave, for policies that test it.
    #[arg(long, value_name = "NAME", default_value = "")]
    port: String,
    /// Write the counts to a file as JSON (`-` for standard output).
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Runs the command.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let json = OutputTarget::open(args.json.as_deref())?;
    let options = CompileOptions { link: args.rate, ..CompileOptions::default() };
    let policy = PolicyText::read(&args.policy)?.load(&options)?;
    if policy.link.is_none() {
        return Err(ReplayError::NoRate.into());
    }
    let name = args.input.display();
    let input = File::open(&args.input).map_err(|e| anyhow!("cannot read the capture {name}: {e}"))?;
    if same_file(&args.input, &args.output) {
        return Err(anyhow!("{name} would be overwritten while it is read; give OUT.pcap another name"));
    }
    let length = input.metadata().map_or(0, |m| m.len());
    let output =
        File::create(&args.output).map_err(|e| anyhow!("cannot write to {}: {e}", args.output.display()))?;
    let bar = progress::bar("{bar:30} {bytes} of {total_bytes}, {msg} packets, {eta} left", length);
    let mut show = |progress: Progress| {
        bar.set_position(progress.input_bytes);
        bar.set_message(human::count(progress.packets));
    };
    let options = ReplayOptions { port: &args.port, progress: Some(&mut show), ..ReplayOptions::default() };
    let result = replay(&policy, BufReader::new(input), BufWriter::new(output), options);
    bar.finish_and_clear();
    match result {
        Ok(outcome) => {
            let broken = finish(&outcome, json)?;
            broken.iter().for_each(|of| output::warn(&format!("the accounting is broken: {of}")));
            Ok(if broken.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        Err(ReplayError::Input { source, report: Some(outcome) }) => {
            finish(&outcome, json)?;
            let written = human::count(outcome.conservation.total.out_packets);
            let error = format!("{name}: {source}; {written} packets before it were written");
            Err(anyhow!(error))
        }
        Err(ReplayError::Input { source, report: None }) => Err(anyhow!("{name}: {source}")),
        Err(ReplayError::Output(source)) => Err(anyhow!("{}: {source}", args.output.display())),
        Err(other) => Err(other.into()),
    }
}

fn same_file(a: &Path, b: &Path) -> bool {
    let whole = |path: &Path| path.canonicalize().ok();
    whole(a).is_some_and(|a| whole(b) == Some(a))
}

/// Writes the results. Returns the violations of the balance.
fn finish(outcome: &ReplayOutcome, json: OutputTarget) -> anyhow::Result<Vec<String>> {
    let report = document(outcome);
    output::tables(&report.tables(), &json)?;
    for (count, what) in [
        (outcome.unreadable, "packets had unreadable headers and were scheduled as packets that are not IP"),
        (outcome.late_timestamps, "packets had a timestamp before that of the packet before them"),
        (outcome.overflow_packets, "packets shared a queue because their class had too many flows"),
    ] {
        if count > 0 {
            output::note(&format!("{} {what}", human::count(count)));
        }
    }
    json.write_json(&report)?;
    Ok(report.conservation.imbalances())
}

fn document(outcome: &ReplayOutcome) -> ReplayReport {
    ReplayReport {
        schema: ReplayReport::SCHEMA.to_owned(),
        host: host_facts::detect(),
        classes: outcome.classes.clone(),
        conservation: outcome.conservation.clone(),
    }
}
