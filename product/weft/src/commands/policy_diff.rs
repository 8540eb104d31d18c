//! `weft policy diff`: the differences between two policies, and what their author may not have meant.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use weft_cli::control::{ControlSocket, UplinkName, told};
use weft_cli::output::{self, OutputTarget};
use weft_cli::policy_file::PolicyText;
use weft_control::interface::PolicySource;
use weft_facts::policy_diff::{PolicyDiffReport, PolicyStep, PolicyWarning};
use weft_facts::record::Document;
use weft_nic::counters::DRAIN;
use weft_policy::change::{Phase, Step, Warning};
use weft_policy::{CompileOptions, renumber};
use weft_run::host_facts;

/// Print what changes between two policies, or what loading a policy would change at a running daemon.
#[derive(Debug, clap::Args)]
#[command(override_usage = "weft policy diff [OPTIONS] <FILE>
       weft policy diff [OPTIONS] <OLD> <NEW>")]
#[command(after_help = "\
Examples:
  weft policy diff my.weft
  weft policy diff old.weft new.weft
  weft policy diff --exit-code old.weft new.weft

One file is compared with the policy that the daemon has in force; two are compared with each other, without a daemon.
The differences are in the order in which they take place; with --json each has its phase.
Nothing is changed.")]
pub(crate) struct Args {
    /// The new policy, or the one before and the one after.
    #[arg(value_name = "FILE", required = true, num_args = 1..=2)]
    files: Vec<PathBuf>,
    /// Write the differences to a file as JSON (`-` for standard output).
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Exit with code 3 if there are differences.
    #[arg(long)]
    exit_code: bool,
    #[command(flatten)]
    socket: ControlSocket,
    #[command(flatten)]
    uplink: UplinkName,
}

/// The exit code for policies that differ, on request. 1 says that one of them is refused, 2 wrong usage.
const DIFFERENT: u8 = 3;

/// Runs the command.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let json = OutputTarget::open(args.json.as_deref())?;
    let report = match &args.files[..] {
        [old, new] => between(old, new)?,
        files => against_daemon(&files[0], args)?,
    };
    if !json.is_stdout() {
        output::print(&described(&report))?;
    }
    // A question to a daemon has an answer; a comparison of files is silent like diff(1).
    if report.steps.is_empty() && args.files.len() == 1 && !json.is_stdout() {
        output::print("no difference\n")?;
    }
    json.write_json(&report)?;
    let different = args.exit_code && !report.steps.is_empty();
    Ok(if different { ExitCode::from(DIFFERENT) } else { ExitCode::SUCCESS })
}

fn report(steps: Vec<PolicyStep>, warnings: Vec<PolicyWarning>) -> PolicyDiffReport {
    let (schema, host) = (PolicyDiffReport::SCHEMA.to_owned(), host_facts::detect());
    PolicyDiffReport { schema, host, kept: None, steps, warnings }
}

/// Compares two files.
fn between(old: &Path, new: &Path) -> anyhow::Result<PolicyDiffReport> {
    let load = |path: &Path| PolicyText::read(path)?.load(&CompileOptions::default());
    let change = renumber(&load(old)?, load(new)?);
    let step = |step: &Step| PolicyStep {
        kind: Some(step.kind().into()),
        phase: Some(step.phase().word().into()),
        text: step.to_string(),
    };
    let warning = |warning: &Warning| PolicyWarning {
        kind: Some(warning.kind().into()),
        text: warning.to_string(),
        help: Some(warning.help().into()),
    };
    let mut steps: Vec<PolicyStep> = change.steps.iter().map(step).collect();
    if change.steps.iter().any(moves_flows) {
        let removed = change.steps.partition_point(|step| step.phase() < Phase::Removed);
        steps.insert(removed, drain());
    }
    let warnings = change.warnings.iter().map(warning).collect();
    Ok(PolicyDiffReport { kept: Some(change.kept), ..report(steps, warnings) })
}

/// Whether flows may belong to another class after a step.
fn moves_flows(step: &Step) -> bool {
    step.phase() == Phase::Reclassified || matches!(step, Step::ClassAdded { .. } | Step::ClassRemoved { .. })
}

/// The step in which flows of a NIC wait for what they have left in another class.
fn drain() -> PolicyStep {
    let limit = DRAIN.as_secs_f64();
    PolicyStep {
        kind: Some("drain".into()),
        phase: Some("drained".into()),
        text: format!(
            "flows that change their class wait for packets that they have left, at most {limit} s (`weft policy load --drain`)"
        ),
    }
}

/// Compares a file with the policy in force.
fn against_daemon(file: &Path, args: &Args) -> anyhow::Result<PolicyDiffReport> {
    let policy = PolicyText::read(file)?;
    let tenants = policy.tenants();
    let PolicyText { name, text } = policy;
    let reply = told(args.socket.connect_about(&args.uplink)?.diff_policy(PolicySource {
        name,
        text,
        tenants,
        uplink: None,
    }))?;
    reply.diagnostics.iter().for_each(|diagnostic| output::message(&diagnostic.to_string()));
    let step = |text| PolicyStep { kind: None, phase: None, text };
    let warning = |text| PolicyWarning { kind: None, text, help: None };
    Ok(report(reply.steps.into_iter().map(step).collect(), reply.warnings.into_iter().map(warning).collect()))
}

/// A line for what stays, one for each difference, and one for each warning with its remedy.
fn described(report: &PolicyDiffReport) -> String {
    let mut text = String::new();
    if let (Some(kept), false) = (report.kept, report.steps.is_empty()) {
        let _ = writeln!(text, "kept: {kept}");
    }
    for step in &report.steps {
        let _ = writeln!(text, "{}", step.text);
    }
    for warning in &report.warnings {
        let _ = writeln!(text, "warning: {}", warning.text);
        if let Some(help) = &warning.help {
            let _ = writeln!(text, "  help: {help}");
        }
    }
    text
}
