//! `weft profile diff`: two profiles in nanoseconds per byte.

use crate::output::{self, Target};
use anyhow::Context;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use weft_report::json::from_json;
use weft_report::profile::{ProfileReport, diff};

/// Compare two profiles in nanoseconds per byte, with 95 % confidence intervals.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weft profile diff before.json after.json

A positive difference means that the second profile costs more. Profiles of other clocks, rates, tables of categories or
kernels are refused.")]
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
    let (a, b) = (read(&args.a)?, read(&args.b)?);
    let levels = diff::diff(&a, &b)?;
    output::tables(&diff::tables(&levels), &Target::None)?;
    Ok(ExitCode::SUCCESS)
}

/// Reads a profile.
pub(super) fn read(path: &Path) -> anyhow::Result<ProfileReport> {
    let name = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
    from_json(&text).with_context(|| format!("{name} is no profile"))
}
