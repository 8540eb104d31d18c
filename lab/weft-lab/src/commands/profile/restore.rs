//! `weft profile restore`: devices that a killed measurement between two hosts has left changed.

use anyhow::Context;
use std::process::ExitCode;
use weft_cli::output;
use weft_host::process::guard;
use weft_profile::journal::{self, JournalError, LevelDevice, Restored};

/// Restore devices that `weft profile --to --device` changed and, being killed, could not restore.
///
/// A process that waits beside such a run restores at once; this is for when that was killed too, and the next `weft profile` run does
/// the same at its beginning. Settings that another process has changed meanwhile stay, and devices of
/// runs that still continue are left alone. Only devices of this network namespace are restored. Needs root.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  sudo weft profile restore
  sudo ip netns exec lab weft profile restore      # devices of another namespace")]
pub(super) struct Args {
    /// Wait until standard input ends, then restore what this run has changed. A run starts its guard so.
    #[arg(long, value_name = "RUN", hide = true)]
    guard: Option<String>,
}

/// The arguments of a guard, before the run.
pub(crate) const GUARD: &[&str] = &["profile", "restore", "--guard"];

/// A device for levels, with a guard beside the run.
pub(super) fn guarded(name: &str) -> LevelDevice<'_> {
    LevelDevice { name, guard: GUARD }
}

/// Runs the command.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if let Some(run) = &args.guard {
        guard::wait_for_end().context("wait for the end of standard input")?;
        journal::restore_after(run)?.iter().for_each(|one| output::note(&line(one)));
        return Ok(ExitCode::SUCCESS);
    }
    let restored = journal::restore()?;
    if restored.is_empty() {
        output::message("no device was left changed");
    }
    restored.iter().for_each(|one| output::message(&line(one)));
    Ok(ExitCode::SUCCESS)
}

/// Restores what an earlier run has left, and says so. What cannot be restored is a warning: this run may not need the device.
pub(super) fn after_a_kill() {
    let told = |restored: Result<Vec<Restored>, JournalError>| match restored {
        Ok(all) => all.iter().for_each(|one| output::note(&line(one))),
        Err(error) => output::warn(&format!("a device of an earlier run: {error}")),
    };
    told(journal::restore());
}

fn line(restored: &Restored) -> String {
    let Restored { device, left } = restored;
    if left.is_empty() {
        return format!("device {device} has its settings back, which a killed run had changed");
    }
    let left = left.join(", ");
    format!("device {device} has its settings back, but for {left}, which somebody else has changed since")
}
