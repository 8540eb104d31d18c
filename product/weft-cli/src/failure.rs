//! Failures of commands: messages and exit codes.

use std::fmt;
use std::io;
use std::process::ExitCode;

/// The exit code for wrong usage, the same as clap's.
pub const USAGE: u8 = 2;

/// Flags that are valid one by one but not together.
#[derive(Debug)]
pub struct FlagConflict(pub String);

/// A failure whose reason has already been printed.
#[derive(Debug)]
pub struct Reported;

impl fmt::Display for FlagConflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Reported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the reason was printed before")
    }
}

impl std::error::Error for FlagConflict {}
impl std::error::Error for Reported {}

/// An error for wrong usage.
pub fn usage(message: impl Into<String>) -> anyhow::Error {
    FlagConflict(message.into()).into()
}

/// Prints `error` in one line, unless it was printed already or standard output was closed.
pub fn report(error: &anyhow::Error) -> ExitCode {
    let closed = error.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe);
    if closed {
        return ExitCode::SUCCESS;
    }
    if error.is::<Reported>() {
        return ExitCode::FAILURE;
    }
    // Errors of files include their names; any other I/O error is of standard output.
    let place = if error.is::<io::Error>() { "cannot write to standard output: " } else { "" };
    crate::output::message(&format!("error: {place}{error}"));
    if error.is::<FlagConflict>() { ExitCode::from(USAGE) } else { ExitCode::FAILURE }
}
