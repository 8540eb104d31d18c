//! Shared parts of weftline's commands: how they print, fail, stop, and read their options.
//!
//! | module | contents |
//! |---|---|
//! | [`output`] | the only way to print: results on standard output, messages on standard error, documents in files that are opened before the work begins |
//! | [`failure`] | an error, printed once in one line, and the exit code |
//! | [`signals`] | Ctrl-C, SIGTERM and SIGHUP as a flag that commands poll; a second signal ends the process at once |
//! | [`progress`], [`screen`], [`terminal`] | how far long work is, live views, and the terminal's state, which a panic or a signal restores |
//! | [`values`], [`usage`], [`policy_file`], [`steering`], [`trace_files`], [`control`] | quantities, wrong usage in plain words, policies, plans of receive queues, traces and the daemon's socket, as options name them |
//! | [`manual`] | completions and manual pages, from the description of a command |
//!
//! Exit codes: 0 done, 1 failed, 2 wrong usage, 3 not shown on this machine (with `--strict`), 130 and 143 after a
//! signal. A reader that closes standard output early is not an error.
#![forbid(unsafe_code)]

pub mod control;
pub mod failure;
pub mod manual;
pub mod output;
pub mod policy_file;
pub mod progress;
pub mod screen;
pub mod signals;
pub mod steering;
pub mod terminal;
#[doc(hidden)]
pub mod testing;
pub mod trace_files;
pub mod usage;
pub mod values;

use clap::Parser;
use std::ffi::OsString;
use std::process::ExitCode;

/// Runs a command: parses `args` and does what they say. Prints errors, and returns the exit code.
pub fn run<C: Parser>(args: Vec<OsString>, command: impl FnOnce(C) -> anyhow::Result<ExitCode>) -> ExitCode {
    // First, so that a panic in a live view restores the terminal before it prints.
    terminal::install_panic_hook();
    let parsed = match C::try_parse_from(args) {
        Ok(parsed) => parsed,
        Err(error) => {
            let error = usage::plain(error, &C::command());
            // A closed pipe is no error when printing help.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { failure::USAGE } else { 0 });
        }
    };
    match command(parsed) {
        Ok(code) => code,
        Err(error) => failure::report(&error),
    }
}
