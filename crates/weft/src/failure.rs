//! How commands fail: what is printed and the exit code.

use std::fmt;
use std::io;
use std::process::ExitCode;

/// The exit code for wrong usage, the same as clap's.
pub(crate) const USAGE: u8 = 2;

/// Flags that are right one by one and wrong together.
#[derive(Debug)]
pub(crate) struct Usage(pub(crate) String);

/// A failure whose reason has been printed already.
#[derive(Debug)]
pub(crate) struct Reported;

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Reported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the reason was printed before")
    }
}

impl std::error::Error for Usage {}
impl std::error::Error for Reported {}

/// An error for wrong usage.
pub(crate) fn usage(message: impl Into<String>) -> anyhow::Error {
    Usage(message.into()).into()
}

/// Prints `error` in one line, unless nobody reads it or it was printed already.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    let closed = error.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe);
    if closed {
        return ExitCode::SUCCESS;
    }
    if error.is::<Reported>() {
        return ExitCode::FAILURE;
    }
    // Errors of files carry their names as text; what is left is standard output.
    let place = if error.is::<io::Error>() { "cannot write to standard output: " } else { "" };
    crate::output::message(&format!("error: {place}{error}"));
    if error.is::<Usage>() { ExitCode::from(USAGE) } else { ExitCode::FAILURE }
}
