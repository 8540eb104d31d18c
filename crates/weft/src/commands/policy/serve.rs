//! `weft policy serve`: the language server.

use std::io::{stdin, stdout};
use std::process::ExitCode;

/// Serve an editor by the Language Server Protocol on standard input and output: diagnostics, corrections, hover, completion, rename.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  weft policy serve

An editor starts it; docs/editors.md has the configuration.")]
pub(crate) struct Args {}

/// Runs the command.
pub(crate) fn run(_: &Args) -> anyhow::Result<ExitCode> {
    weft_lsp::serve(stdin().lock(), stdout().lock())?;
    Ok(ExitCode::SUCCESS)
}
