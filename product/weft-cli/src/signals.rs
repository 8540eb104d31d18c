//! Requests to stop: Ctrl-C, SIGTERM, SIGHUP, or a key in a live view.

use crate::terminal;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

/// The things that the end of a command takes away from the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Removes {
    /// The devices, namespaces or rules that the command has made.
    Made,
    /// Nothing: the command reads, computes or leaves what it has made.
    Nothing,
}

impl Removes {
    /// The line for a user who has asked to stop.
    pub const fn stopping(self) -> &'static str {
        match self {
            Self::Made => {
                "stopping: everything that this command made is being removed; once more ends at once"
            }
            Self::Nothing => "stopping; once more ends at once",
        }
    }
}

/// Whether the user has requested a stop, and the signal.
#[derive(Clone, Debug)]
pub struct Stop {
    signal: Arc<AtomicI32>,
    removes: Removes,
}

impl Stop {
    /// Starts to listen for signals, in a command whose end `removes` that much. The first asks to stop; the second ends the process
    /// at once, with the terminal restored.
    pub fn install(removes: Removes) -> anyhow::Result<Self> {
        let stop = Self { signal: Arc::default(), removes };
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
    pub fn ask(&self, signal: i32) {
        let first = self.signal.compare_exchange(0, signal, Ordering::SeqCst, Ordering::SeqCst).is_ok();
        // A terminal that is closed sends several SIGHUPs; they are not an impatient user's.
        if !first && signal != SIGHUP {
            terminal::restore();
            std::process::exit(128 + signal);
        }
        if first && !terminal::is_shown() {
            crate::output::message(self.stopping());
        }
    }

    /// Asks to stop as Ctrl-C does, for a live view, in which Ctrl-C is a key.
    pub fn interrupt(&self) {
        self.ask(SIGINT);
    }

    /// The line for a user who has asked to stop.
    pub const fn stopping(&self) -> &'static str {
        self.removes.stopping()
    }

    /// Whether the user has asked to stop.
    pub fn asked(&self) -> bool {
        self.signal.load(Ordering::SeqCst) != 0
    }

    /// Returns the exit code of a stopped program: 130 after Ctrl-C, 143 after SIGTERM.
    pub fn exit_code(&self) -> ExitCode {
        match self.signal.load(Ordering::SeqCst) {
            0 => ExitCode::SUCCESS,
            signal => ExitCode::from(128_u8.saturating_add(u8::try_from(signal).unwrap_or(0))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// The commands that make devices, namespaces or rules, which they remove at their end. All others only say that they stop.
    const REMOVING: &[&str] = &[
        "lab/weft-lab/src/commands/bench.rs",
        "lab/weft-lab/src/commands/bench/cost.rs",
        "lab/weft-lab/src/commands/demo.rs",
        "lab/weft-lab/src/commands/profile/predict.rs",
        "lab/weft-lab/src/commands/profile/run.rs",
        "lab/weft-lab/src/commands/reproduce.rs",
        "lab/weft-lab/src/commands/verify.rs",
        "product/weft/src/commands/run.rs",
        "product/weft/src/commands/steer/watch.rs",
    ];

    #[test]
    fn only_commands_that_remove_something_say_so() {
        assert!(!Removes::Nothing.stopping().contains("remove"));
        let root =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository");
        let mut removing = Vec::new();
        let mut folders =
            ["product/weft", "lab/weft-lab"].map(|name| root.join(name).join("src/commands")).to_vec();
        while let Some(here) = folders.pop() {
            for entry in std::fs::read_dir(here).expect("a folder") {
                let path = entry.expect("an entry").path();
                if path.is_dir() {
                    folders.push(path);
                } else if std::fs::read_to_string(&path).expect("a source").contains("Removes::Made") {
                    removing.push(path.strip_prefix(&root).expect("below").display().to_string());
                }
            }
        }
        removing.sort();
        assert_eq!(removing, REMOVING);
    }
}
