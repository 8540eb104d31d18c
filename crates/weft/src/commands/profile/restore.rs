//! `weft profile restore`: devices that a killed measurement between two hosts has left changed.

use crate::output;
use std::process::ExitCode;
use weft_profile::journal::{self, JournalError, Restored};

/// Restore devices that `weft profile --to --device` changed and, being killed, could not restore.
///
/// The next `weft profile` run does the same at its beginning. Settings that somebody else has changed meanwhile stay, and devices of
/// runs that still go on are left alone. Only devices of this network namespace are restored. Needs root.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  sudo weft profile restore
  sudo ip netns exec lab weft profile restore      # devices of another namespace")]
pub(super) struct Args {}

/// Runs the command.
pub(super) fn run(_: &Args) -> anyhow::Result<ExitCode> {
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
