//! `weft profile diff`: two profiles in nanoseconds per byte.

use super::document::Profile;
use std::path::PathBuf;
use std::process::ExitCode;
use weft_cli::output::{self, OutputTarget};
use weft_profile::statements;
use weft_report::profile::{attached, diff};

/// Compare two profiles in nanoseconds per byte, with 95 % confidence intervals.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weft profile diff before.json after.json
  weft profile diff 1x1.json 8x8.json           # all-to-all: do skbs shrink as flows grow?

A positive difference means that the second profile costs more. Profiles of other clocks, rates, tables of categories or
kernels are refused. Two attached profiles compare by direction; one of them and one of trials are refused.")]
pub(super) struct Args {
    /// The first profile.
    #[arg(value_name = "A")]
    a: PathBuf,
    /// The second profile.
    #[arg(value_name = "B")]
    b: PathBuf,
}

/// Runs the command.
pub(super) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let tables = match (Profile::read(&args.a)?, Profile::read(&args.b)?) {
        (Profile::Trials(a), Profile::Trials(b)) => {
            let statements = statements::between(&a, &b);
            let levels = match diff::diff(&a, &b) {
                // Profiles of different flows may have nothing else to compare.
                Err(diff::DiffError::NoLevel) if !statements.is_empty() => Vec::new(),
                other => other?,
            };
            statements.iter().for_each(|statement| output::note(&statement.to_string()));
            diff::tables(&levels)
        }
        (Profile::Attached(a), Profile::Attached(b)) => {
            attached::diff::tables(&attached::diff::diff(&a, &b)?)
        }
        _ => return Err(diff::DiffError::Mixed.into()),
    };
    output::tables(&tables, &OutputTarget::None)?;
    Ok(ExitCode::SUCCESS)
}
