//! `weft profile fit`: the simulator's costs from profiles of this machine.

use super::document::read;
use std::path::PathBuf;
use std::process::ExitCode;
use weft_cli::output::{self, OutputTarget};
use weft_profile::fit::{self, Fitted};

/// Fit the simulator's costs to profiles of this machine.
///
/// The time of each side is fitted to bytes, segments, skbs, waits and acknowledgements by non-negative least squares. Each
/// cell is predicted by costs that were fitted without it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weft profile fit single.json incast.json outcast.json --machine machine.toml

A scenario takes the file with `costs = \"machine.toml\"`. `weft profile predict machine.toml` judges it.")]
pub(super) struct Args {
    /// Profiles, as `weft profile PATTERN --json` writes them.
    #[arg(value_name = "PROFILE", required = true)]
    profiles: Vec<PathBuf>,
    /// Write the costs to a file that `weft sim` takes (`-` for standard output).
    #[arg(long, value_name = "FILE")]
    machine: Option<PathBuf>,
}

/// Runs the command.
pub(super) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let target = OutputTarget::open(args.machine.as_deref())?;
    let reports = args.profiles.iter().map(|path| read(path)).collect::<anyhow::Result<Vec<_>>>()?;
    let fits = fit::fit(&reports)?;
    output::tables(&fit::tables(&fits), &target)?;
    let host = reports.first().map(|report| report.host.facts()).unwrap_or_default();
    let machine: Vec<String> = host.into_iter().map(|(name, value)| format!("{name} {value}")).collect();
    target.write(&fit::machine_file(&fits, &Fitted::of(&reports), &machine.join(", ")))?;
    Ok(ExitCode::SUCCESS)
}
