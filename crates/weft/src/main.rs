//! The command line of weftline: one file for each subcommand, which reads its flags, calls the laboratory and shows what
//! came of it.
#![forbid(unsafe_code)]

mod cli;
mod commands;
mod failure;
mod live;
mod output;
mod policy_file;
mod signals;
mod terminal;
mod values;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    terminal::install_panic_hook();
    let cli = match cli::Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // A closed pipe is no reason to complain about help that nobody reads.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { failure::USAGE } else { 0 });
        }
    };
    match cli.command.run() {
        Ok(code) => code,
        Err(error) => failure::report(&error),
    }
}
