//! `weft policy serve`: the language server.

use std::io::{stdin, stdout};
use std::process::ExitCode;
use weft_lsp::SourceHost;
use weft_run::tenant_files::Beside;
use weft_titan::host_users::host_users;

/// Serve an editor by the Language Server Protocol on standard input and output: diagnostics, corrections, hover, completion, rename.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  weft policy serve

An editor starts it; docs/editors.md has the configuration.")]
pub(crate) struct Args {}

/// Runs the command.
pub(crate) fn run(_: &Args) -> anyhow::Result<ExitCode> {
    let host = SourceHost { files: &Beside, users: host_users() };
    weft_lsp::serve(stdin().lock(), stdout().lock(), &host)?;
    Ok(ExitCode::SUCCESS)
}
