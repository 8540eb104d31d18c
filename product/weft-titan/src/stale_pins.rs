//! Cleanup after devices that no longer exist and after killed runs: their pins and state files.

use crate::error::TitanError;
use crate::programs::FILTER;
use crate::programs::{Pins, is_loaded};
use crate::segments::{namespace_of, restore_known};
use crate::state::ChangeRecord;
use std::path::{Path, PathBuf};
use weft_host::bpf::{MapFd, program_maps, programs_named};
use weft_host::bpffs::BpfFs;
use weft_host::device_record::DeviceRecord;

/// The prefix of the names of pin folders.
const PREFIX: &str = "weft-titan-";

/// The pin folder of a device.
pub(crate) fn pins_of(root: &Path, netns: u64, ifindex: u32) -> PathBuf {
    root.join(format!("{PREFIX}{netns}-{ifindex}"))
}

pub(crate) fn drop_pins(folder: &Path) {
    Pins::new(folder).remove();
    if let Some(filesystem) = BpfFs::find() {
        // A file system that is not weftline's, or that still has pins of weftline, stays mounted.
        let _ = filesystem.release();
    }
}

/// Removes the state files and pins of devices that no longer exist, and pins without a state file, which a killed run
/// has left. The caller must hold the lock.
pub(crate) fn forget(folder: &Path) -> Result<(), TitanError> {
    // `ip netns exec` hides the host's bpf file system. Without a view of the pins, these and their state file are
    // kept.
    let Some(root) = BpfFs::find().map(|filesystem| filesystem.root().to_owned()) else { return Ok(()) };
    for state in ChangeRecord::all(folder)? {
        // The filter holds the classifier, which the kernel removes with the device.
        let gone = !state.programs.first().is_some_and(|id| is_loaded(*id));
        if gone && state.pins.starts_with(&root) {
            let mut state = state;
            restore(folder, &mut state);
            drop_pins(&state.pins);
            state.remove(folder);
        }
    }
    let known: Vec<PathBuf> = ChangeRecord::all(folder)?.into_iter().map(|state| state.pins).collect();
    for pins in folders(&root) {
        if !known.contains(&pins) && !at_work(&pins) {
            drop_pins(&pins);
        }
    }
    Ok(())
}

/// Restores the segment limits of a device. The device may still exist after its filter, and so its classifier, was
/// deleted by another process. A namespace without a name has removed its devices.
pub(crate) fn restore(folder: &Path, state: &mut ChangeRecord) {
    if state.segments_before.is_some()
        && let Some(ns) = namespace_of(state)
    {
        // A device that no longer exists has no limit.
        let _ = restore_known(folder, state, &ns);
    }
}

fn folders(root: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(root) else { return Vec::new() };
    let ours = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PREFIX)) && path.is_dir()
    };
    entries.filter_map(|entry| Some(entry.ok()?.path())).filter(ours).collect()
}

/// Whether the programs pinned in a folder are in use although no state file here names them: another /run may have it.
fn at_work(pins: &Path) -> bool {
    let Ok(flows) = MapFd::pinned(&pins.join("flows")) else { return false };
    let uses = |id: u32| program_maps(id).is_ok_and(|maps| maps.iter().any(|(map, _)| *map == flows.id()));
    programs_named(FILTER).into_iter().any(uses)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::ProgramConfig;
    use crate::programs::Loaded;
    use weft_host::testing::privileged;

    #[test]
    fn pins_that_nobody_knows_of_go_when_their_classifier_has_gone() {
        if !privileged("pins_that_nobody_knows_of_go_when_their_classifier_has_gone") {
            return;
        }
        let _lock = weft_host::device_record::lock(Path::new(crate::state::FOLDER)).expect("the lock");
        let empty = tempfile::tempdir().expect("a folder");
        let loaded = Loaded::load(&ProgramConfig::TRIAL, None).expect("loads");
        let filesystem = BpfFs::open().expect("a bpf file system");
        // A namespace number that the kernel does not assign.
        let pins = pins_of(filesystem.root(), 7, std::process::id());
        loaded.pin(&pins).expect("pinned");
        assert!(at_work(&pins) && folders(filesystem.root()).contains(&pins));
        forget(empty.path()).expect("looked");
        assert!(pins.exists(), "its classifier is loaded");
        drop(loaded);
        // The kernel unloads a program shortly after its last user.
        for _ in 0..200 {
            forget(empty.path()).expect("looked");
            if !pins.exists() {
                return;
            }
            std::thread::sleep(core::time::Duration::from_millis(5));
        }
        panic!("{} is still there", pins.display());
    }
}
