//! `weft policy`: inspects policies, and replaces that of a running daemon.

mod check;
mod cost;
mod draw;
mod explain;
mod export;
mod fmt;
#[cfg(feature = "lsp")]
mod serve;
mod test;

use super::{policy_change, policy_diff};
use std::path::PathBuf;
use std::process::ExitCode;
use weft_cli::output;
use weft_cli::policy_file::PolicyText;
use weft_policy::{CompileOptions, describe, describe_infrastructure};

/// Check, format, explain, draw, compare or export policies, or replace that of a running daemon.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weft policy check policies/*.weft
  weft policy check my.weft --for daemon
  weft policy fmt my.weft
  weft policy show policies/figure1.weft
  weft policy explain my.weft --packet 'tcp 192.0.2.1:1234 > 192.0.2.2:80'
  weft policy draw policies/figure11.weft -o figure11.svg
  weft policy cost my.weft
  weft policy test mine.wefttest
  weft policy export my.weft --to tc --dev eth0
  weft policy diff old.weft new.weft
  weft policy diff my.weft
  weft policy load my.weft
  weft policy restore

`weft check` and `weft explain` are short for `weft policy check` and `weft policy explain`.")]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

/// The action.
#[derive(Debug, clap::Subcommand)]
enum What {
    Check(check::Args),
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
    Diff(policy_diff::Args),
    Load(policy_change::LoadArgs),
    Restore(policy_change::RestoreArgs),
}

/// Runs the command.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.what {
        What::Check(args) => check::run(&args),
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
        What::Diff(args) => policy_diff::run(&args),
        What::Load(args) => policy_change::load(&args),
        What::Restore(args) => policy_change::restore(&args),
    }
}
