//! `weft policy`: inspects policies, and replaces that of a running daemon.

mod cost;
mod draw;
mod explain;
mod export;
mod fmt;
mod import;
#[cfg(feature = "lsp")]
mod serve;
mod test;

use super::{policy_change, policy_diff};
use crate::output::{self, Target};
use crate::policy_file::PolicyText;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use weft_policy::{CompileOptions, describe, describe_infrastructure};
use weft_report::policy_check::PolicyCheckReport;
use weft_report::record::Document;
use weft_run::host_facts;

/// Check, format, explain, draw, compare or export policies, or replace that of a running daemon.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weft policy check policies/*.weft
  weft policy fmt my.weft
  weft policy show policies/figure1.weft
  weft policy explain my.weft --packet 'tcp 192.0.2.1:1234 > 192.0.2.2:80'
  weft policy draw policies/figure11.weft -o figure11.svg
  weft policy cost my.weft
  weft policy test mine.wefttest
  weft policy export my.weft --to tc --dev eth0
  weft policy import old.policy
  weft policy diff old.weft new.weft
  weft policy diff my.weft
  weft policy load my.weft
  weft policy restore")]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

/// The action.
#[derive(Debug, clap::Subcommand)]
enum What {
    /// Check policies: a line per finding, exit code 1 if one is refused.
    #[command(after_help = "\
Examples:
  weft policy check policies/tenants.weft
  weft policy check --json - my.weft")]
    Check {
        /// The policies.
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
        /// Write the findings to a file as JSON (`-` for standard output).
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
        /// Print nothing; only set the exit code.
        #[arg(long, short)]
        quiet: bool,
    },
    /// Print what a policy would enforce: tree, limits, lanes, rules.
    #[command(after_help = "Example:\n  weft policy show policies/figure1.weft")]
    Show {
        /// The policy.
        file: PathBuf,
    },
    Draw(draw::Args),
    Fmt(fmt::Args),
    Explain(Box<explain::Args>),
    Cost(cost::Args),
    Test(test::Args),
    #[cfg(feature = "lsp")]
    Serve(serve::Args),
    Export(export::Args),
    Import(import::Args),
    Diff(policy_diff::Args),
    Load(policy_change::LoadArgs),
    Restore(policy_change::RestoreArgs),
}

/// Runs the command.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.what {
        What::Check { files, json, quiet } => check(&files, json, quiet),
        What::Show { file } => {
            let policy = PolicyText::read(&file)?.load(&CompileOptions::default())?;
            output::print(&(describe(&policy) + describe_infrastructure(&policy)))?;
            Ok(ExitCode::SUCCESS)
        }
        What::Draw(args) => draw::run(&args),
        What::Fmt(args) => fmt::run(&args),
        What::Explain(args) => explain::run(&args),
        What::Cost(args) => cost::run(&args),
        What::Test(args) => test::run(&args),
        #[cfg(feature = "lsp")]
        What::Serve(args) => serve::run(&args),
        What::Export(args) => export::run(&args),
        What::Import(args) => import::run(&args),
        What::Diff(args) => policy_diff::run(&args),
        What::Load(args) => policy_change::load(&args),
        What::Restore(args) => policy_change::restore(&args),
    }
}

fn check(files: &[PathBuf], json: Option<PathBuf>, quiet: bool) -> anyhow::Result<ExitCode> {
    let json = Target::open(json.as_deref())?;
    let texts = files.iter().map(|f| PolicyText::read(f)).collect::<anyhow::Result<Vec<_>>>()?;
    let pretty = std::io::stdout().is_terminal();
    let mut diagnostics = Vec::new();
    let mut refused = 0;
    for text in &texts {
        let compilation = text.compile(&CompileOptions::default());
        refused += usize::from(compilation.has_errors());
        if !quiet && !json.is_stdout() {
            output::print(&text.diagnostics(&compilation, pretty, output::stdout_style()))?;
        }
        for diagnostic in &compilation.diagnostics {
            diagnostics.push(serde_json::to_value(diagnostic)?);
        }
    }
    if pretty && !quiet && !json.is_stdout() {
        let count = texts.len();
        let files = if count == 1 { "policy" } else { "policies" };
        output::print(&match refused {
            0 => format!("{count} {files} checked: no errors\n"),
            _ => format!("{count} {files} checked: {refused} refused\n"),
        })?;
    }
    let schema = PolicyCheckReport::SCHEMA.to_owned();
    json.write_json(&PolicyCheckReport { schema, host: host_facts::detect(), diagnostics })?;
    Ok(if refused == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
