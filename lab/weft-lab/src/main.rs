//! `weft-lab`: experiments, simulations and measurements. One file or folder per subcommand; see [`weft_cli`] for what they share.
#![forbid(unsafe_code)]

mod cli;
mod commands;
mod live;

use std::process::ExitCode;

fn main() -> ExitCode {
    weft_cli::run(std::env::args_os().collect(), |cli: cli::Cli| cli.command.run())
}
