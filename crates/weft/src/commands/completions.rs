//! `weft completions`: completions for a shell.

use crate::output;
use clap_complete::Shell;
use std::process::ExitCode;

/// Print completions for a shell.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weft completions bash > /etc/bash_completion.d/weft
  weft completions zsh > \"${fpath[1]}/_weft\"
  weft completions fish > ~/.config/fish/completions/weft.fish")]
pub(crate) struct Args {
    /// The shell.
    shell: Shell,
}

/// Runs the command; `command` is the definition of the whole command line.
pub(crate) fn run(args: Args, mut command: clap::Command) -> anyhow::Result<ExitCode> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut command, "weft", &mut text);
    output::print(&String::from_utf8_lossy(&text))?;
    Ok(ExitCode::SUCCESS)
}
