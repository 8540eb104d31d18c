//! `weft policy diff`: the differences between two policies, and what their author may not have meant.

use crate::output::{self, Target};
use crate::policy_file::PolicyText;
use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use weft_policy::{CompileOptions, Renumbered, renumber};
use weft_report::policy_diff::{PolicyDiffReport, PolicyStep, PolicyWarning};
use weft_report::record::Document;
use weft_run::host_facts;

/// The arguments of `weft policy diff`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The policy before.
    #[arg(value_name = "OLD")]
    old: PathBuf,
    /// The policy after.
    #[arg(value_name = "NEW")]
    new: PathBuf,
    /// Write the differences to a file as JSON (`-` for standard output).
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Exit with code 3 if there are differences.
    #[arg(long)]
    exit_code: bool,
}

/// The exit code for policies that differ, on request. 1 says that one of them is refused, 2 wrong usage.
const DIFFERENT: u8 = 3;

/// Runs the command.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let json = Target::open(args.json.as_deref())?;
    let load = |path: &PathBuf| PolicyText::read(path)?.load(&CompileOptions::default());
    let change = renumber(&load(&args.old)?, load(&args.new)?);
    report(&change, json)?;
    let different = args.exit_code && !change.steps.is_empty();
    Ok(if different { ExitCode::from(DIFFERENT) } else { ExitCode::SUCCESS })
}

/// Prints a change, and writes its document.
pub(crate) fn report(change: &Renumbered, json: Target) -> anyhow::Result<()> {
    if !json.is_stdout() {
        output::print(&described(change))?;
    }
    let steps =
        change.steps.iter().map(|step| PolicyStep { kind: step.kind().into(), text: step.to_string() });
    let warnings = change.warnings.iter().map(|warning| PolicyWarning {
        kind: warning.kind().into(),
        text: warning.to_string(),
        help: warning.help().into(),
    });
    json.write_json(&PolicyDiffReport {
        schema: PolicyDiffReport::SCHEMA.to_owned(),
        host: host_facts::detect(),
        steps: steps.collect(),
        warnings: warnings.collect(),
    })?;
    Ok(())
}

/// A line for each difference, and two for each warning.
fn described(change: &Renumbered) -> String {
    let mut text = String::new();
    for step in &change.steps {
        let _ = writeln!(text, "{step}");
    }
    for warning in &change.warnings {
        let _ = writeln!(text, "warning: {warning}\n  help: {}", warning.help());
    }
    text
}
