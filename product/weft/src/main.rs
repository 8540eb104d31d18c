//! `weft`: policies on this host. One file per subcommand; see [`weft_cli`] for what they share.
//!
//! 1. `cli` parses the flags. [`weft_cli::values`] reads their quantities; every error there is wrong usage (exit code 2), before
//!    any side effect.
//! 2. `commands` has a file per subcommand. Each turns flags into the options of a library, calls it, and shows the
//!    result. Decisions about packets, plans and figures are the libraries'.
//! 3. `live` has the views that a terminal shows while a command runs.
#![forbid(unsafe_code)]

mod cli;
mod commands;
mod live;

use std::process::ExitCode;

fn main() -> ExitCode {
    weft_cli::run(cli::with_group(std::env::args_os()), |cli: cli::Cli| cli.command.run())
}
