//! `weft keeper`: keeps the daemon's ports while no daemon runs.

use std::process::ExitCode;
use weft_nic::pass_through::PassThroughWorker;

/// Keep the descriptors of a daemon's ports, so that they survive it. The daemon starts it.
///
/// It listens at the socket that is its standard input, beside the daemon's control socket, and ends when a daemon is
/// stopped for good.
#[derive(Debug, clap::Args)]
#[command(
    hide = true,
    after_help = "\
Examples:
  weft keeper < SOCKET     as `weft daemon` starts it, with `hold = \"keeper\"`

docs/operating.md is the guide."
)]
pub(crate) struct Args {}

/// Runs the command.
pub(crate) fn run(_: &Args) -> anyhow::Result<ExitCode> {
    weft_host::keeper::serve_standard_input(PassThroughWorker::default())?;
    Ok(ExitCode::SUCCESS)
}
