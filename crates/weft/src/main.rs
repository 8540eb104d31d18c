//! The command line of weftline: one file per subcommand.
//!
//! 1. A panic hook is installed first, so that a panic in a live view restores the terminal before it prints.
//! 2. `cli` parses the flags. `values` reads their quantities; every error there is wrong usage (exit code 2), before
//!    any side effect.
//! 3. `commands` has a file per subcommand. Each turns flags into the options of a library, calls it, and shows the
//!    result. Decisions about packets, plans and figures are the libraries'.
//! 4. `output` is the only way to print: results on standard output, messages on standard error, documents in files
//!    that are opened before the work begins. `progress` shows how far long work is.
//! 5. `signals` turns Ctrl-C, SIGTERM and SIGHUP into a flag that commands poll; a second signal ends the process at
//!    once.
//! 6. `failure` prints an error once, in one line, and chooses the exit code.
//!
//! `live` owns the terminal while a view is shown, on a thread of its own; `terminal` has the state to restore it
//! from a panic or a signal.
//!
//! Exit codes: 0 done, 1 failed, 2 wrong usage, 3 not shown on this machine (with `--strict`), 130 and 143 after a
//! signal. A reader that closes standard output early is not an error.
#![forbid(unsafe_code)]

mod cli;
mod commands;
mod control;
mod failure;
mod live;
mod output;
mod policy_file;
mod progress;
mod signals;
mod terminal;
mod trace_files;
mod usage;
mod values;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    terminal::install_panic_hook();
    let cli = match cli::Cli::try_parse_from(cli::with_group(std::env::args_os())) {
        Ok(cli) => cli,
        Err(error) => {
            let error = usage::plain(error);
            // A closed pipe is no error when printing help.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { failure::USAGE } else { 0 });
        }
    };
    match cli.command.run() {
        Ok(code) => code,
        Err(error) => failure::report(&error),
    }
}
