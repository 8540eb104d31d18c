//! Progress of long work on standard error: a bar on a terminal, elsewhere a line each half minute.

use crate::output;
use indicatif::{HumanDuration, ProgressBar, ProgressStyle};
use std::cell::Cell;
use std::io::IsTerminal;
use std::time::Duration;

/// Time between two lines.
const BETWEEN: Duration = Duration::from_secs(30);

/// Returns a bar with indicatif's template, hidden when standard error is not a terminal.
pub fn bar(template: &str, length: u64) -> ProgressBar {
    let bar = ProgressBar::new(length);
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// Progress of runs.
pub struct Runs {
    bar: ProgressBar,
    /// When the last line was written, since the bar's begin; `None` on a terminal.
    said: Option<Cell<Duration>>,
}

impl Default for Runs {
    /// Begins with no run done.
    fn default() -> Self {
        let bar = bar("{bar:30} {pos} of {len} runs, {per_sec}, {eta} left", 0);
        let said = (!std::io::stderr().is_terminal()).then(Cell::default);
        Self { bar, said }
    }
}

impl Runs {
    /// Shows the runs done and the runs in all.
    pub fn set(&self, done: u64, of: u64) {
        self.bar.set_length(of);
        self.bar.set_position(done);
        let Some(said) = &self.said else { return };
        let elapsed = self.bar.elapsed();
        if elapsed.saturating_sub(said.get()) >= BETWEEN {
            said.set(elapsed);
            output::message(&line(done, of, elapsed));
        }
    }

    /// Writes a message above the bar.
    pub fn suspend(&self, write: impl FnOnce()) {
        self.bar.suspend(write);
    }

    /// Removes the bar.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// Such as `12 of 48 runs, 3 minutes left`, if the others take as long as those that are done.
fn line(done: u64, of: u64, elapsed: Duration) -> String {
    let left = of.saturating_sub(done);
    match done {
        0 => format!("0 of {of} runs"),
        _ => {
            let seconds = elapsed.as_secs_f64() * left as f64 / done as f64;
            // A machine that sleeps in the middle makes this as long as it likes.
            let left = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
            format!("{done} of {of} runs, {} left", HumanDuration(left))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_estimates_the_time_left_from_the_runs_done() {
        assert_eq!(line(12, 48, Duration::from_secs(60)), "12 of 48 runs, 3 minutes left");
        assert_eq!(line(48, 48, Duration::from_secs(60)), "48 of 48 runs, 0 seconds left");
        assert_eq!(line(0, 48, Duration::from_secs(60)), "0 of 48 runs");
        // More done than was known of.
        assert_eq!(line(2, 1, Duration::from_secs(1)), "2 of 1 runs, 0 seconds left");
    }
}
