//! Running applications of one side of the traffic.

use weft_host::Process;
use weft_host::process::Signal;

/// Running applications of one side. They are killed when the value is dropped.
#[derive(Debug)]
pub(crate) struct Applications {
    pub(crate) program: &'static str,
    pub(crate) processes: Vec<Process>,
}

impl Applications {
    /// No application yet of this program.
    pub(crate) const fn none(program: &'static str) -> Self {
        Self { program, processes: Vec::new() }
    }

    /// The processes.
    pub(crate) fn pids(&self) -> Vec<u32> {
        let raw = self.processes.iter().map(|process| process.pid().as_raw_nonzero().get());
        raw.filter_map(|pid| u32::try_from(pid).ok()).collect()
    }
}

impl Drop for Applications {
    fn drop(&mut self) {
        // All are signalled before any is waited for: otherwise each would take its grace period in turn.
        for process in &self.processes {
            let _ = process.signal(Signal::KILL);
        }
    }
}
