//! Requests to stop: Ctrl-C, SIGTERM, SIGHUP, or a key in a live view.

use crate::terminal;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

/// Whether the user has asked to stop, and by which signal.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stop(Arc<AtomicI32>);

impl Stop {
    /// Starts to listen for signals. The first asks to stop; the second ends the process at once, with the terminal
    /// restored.
    pub(crate) fn install() -> anyhow::Result<Self> {
        let stop = Self::default();
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])
            .map_err(|e| anyhow::anyhow!("cannot catch signals: {e}"))?;
        let told = stop.clone();
        std::thread::Builder::new()
            .name("weft-signals".to_owned())
            .spawn(move || signals.forever().for_each(|signal| told.ask(signal)))
            .map_err(|e| anyhow::anyhow!("cannot start the thread that waits for signals: {e}"))?;
        Ok(stop)
    }

    /// Asks to stop, as `signal` does.
    pub(crate) fn ask(&self, signal: i32) {
        let first = self.0.compare_exchange(0, signal, Ordering::SeqCst, Ordering::SeqCst).is_ok();
        // A terminal that is closed sends several SIGHUPs; they are not an impatient user's.
        if !first && signal != SIGHUP {
            terminal::restore();
            std::process::exit(128 + signal);
        }
        if first && !terminal::is_shown() {
            crate::output::message("stopping: everything is being removed; once more ends at once");
        }
    }

    /// Asks to stop as Ctrl-C does, for a live view, in which Ctrl-C is a key.
    pub(crate) fn interrupt(&self) {
        self.ask(SIGINT);
    }

    /// Whether the user has asked to stop.
    pub(crate) fn asked(&self) -> bool {
        self.0.load(Ordering::SeqCst) != 0
    }

    /// Returns the exit code of a stopped program: 130 after Ctrl-C, 143 after SIGTERM.
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self.0.load(Ordering::SeqCst) {
            0 => ExitCode::SUCCESS,
            signal => ExitCode::from(128_u8.saturating_add(u8::try_from(signal).unwrap_or(0))),
        }
    }
}
