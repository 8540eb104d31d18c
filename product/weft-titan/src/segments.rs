//! The segment limit of a device, which driver sync lowers. The original limit is recorded before the change, and the
//! record is kept until the limit has been restored, by whichever process.

use crate::error::TitanError;
use crate::state::{self, ChangeRecord, SegmentLimits};
use std::fs::{File, TryLockError};
use std::path::Path;
use weft_host::device_record::{self, DeviceRecord, RecordError};
use weft_host::link;
use weft_host::netns::NetNs;

type Result<T> = core::result::Result<T, TitanError>;

/// The current name of the link numbered `ifindex`; `None` when it no longer exists.
pub(crate) fn name_of(ns: &NetNs, ifindex: u32) -> Result<Option<String>> {
    Ok(link::list(ns)?.into_iter().find(|link| link.index == ifindex).map(|link| link.name))
}

/// Takes the device's lock, which excludes other driver syncs while the file is open. The kernel releases it with the
/// process.
pub(crate) fn hold(folder: &Path, state: &ChangeRecord) -> Result<File> {
    let path = device_record::path(folder, state.netns, state.ifindex).with_extension(state::LOCK);
    let file = File::create(&path).map_err(|source| RecordError::File {
        action: "make",
        path: path.display().to_string(),
        source,
    })?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(TitanError::Actuated { device: state.device.clone() }),
        Err(TryLockError::Error(source)) => {
            Err(RecordError::File { action: "lock", path: path.display().to_string(), source }.into())
        }
    }
}

/// Reads the current record, which another process may have changed or removed.
fn refresh(folder: &Path, state: &mut ChangeRecord) -> Result<()> {
    match ChangeRecord::read(folder, state.netns, state.ifindex)? {
        Some(now) if now.programs == state.programs => {
            state.segments_before = now.segments_before;
            Ok(())
        }
        _ => Err(TitanError::NotAttached { device: state.device.clone(), others: String::new() }),
    }
}

/// Limits the device's segments to `bytes`. The original limits are recorded first, unless they are already.
pub(crate) fn lower(folder: &Path, state: &mut ChangeRecord, ns: &NetNs, bytes: u32) -> Result<()> {
    let _lock = device_record::lock(folder)?;
    refresh(folder, state)?;
    let Some(device) = name_of(ns, state.ifindex)? else {
        return Err(TitanError::Gone { device: state.device.clone(), ifindex: state.ifindex });
    };
    if state.segments_before.is_none() {
        let before = link::gso_sizes(ns, &device)?;
        state.segments_before = Some(SegmentLimits { max: before.max, ipv4_max: before.ipv4_max });
        state.write(folder)?;
    }
    link::limit_gso_size(ns, &device, bytes)?;
    Ok(())
}

/// Restores the original limits of the device, if they were changed.
pub(crate) fn restore(folder: &Path, state: &mut ChangeRecord, ns: &NetNs) -> Result<()> {
    let _lock = device_record::lock(folder)?;
    refresh(folder, state)?;
    restore_known(folder, state, ns)
}

/// Restores the limits recorded in `state`, for a caller that holds the lock.
pub(crate) fn restore_known(folder: &Path, state: &mut ChangeRecord, ns: &NetNs) -> Result<()> {
    let Some(SegmentLimits { max, ipv4_max }) = state.segments_before else { return Ok(()) };
    if let Some(device) = name_of(ns, state.ifindex)? {
        link::set_gso_sizes(ns, &device, link::GsoSizes { max, ipv4_max })?;
    }
    state.segments_before = None;
    Ok(state.write(folder)?)
}

/// The namespace of a device, if the record leads to it: this one, or the one of that name.
pub(crate) fn namespace_of(state: &ChangeRecord) -> Option<NetNs> {
    let is_it = |ns: &NetNs| ns.inode().is_ok_and(|inode| inode == state.netns);
    NetNs::current().ok().filter(is_it).or_else(|| NetNs::named(&state.place).ok().filter(is_it))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::tests::state as any_state;
    use weft_host::link::{GsoSizes, VethOptions};
    use weft_host::testing::{privileged, unique};

    const LIMIT: u32 = 16_384;

    /// A device in its own namespace, recorded as if queue assignment were attached.
    struct Device {
        folder: tempfile::TempDir,
        ns: NetNs,
        before: GsoSizes,
        state: ChangeRecord,
    }

    impl Device {
        fn new(role: &str) -> Self {
            let ns = NetNs::create(&unique(role)).expect("namespace");
            link::create_veth((&ns, "dev0"), (&ns, "dev1"), &VethOptions::default()).expect("veth");
            let folder = tempfile::tempdir().expect("a folder");
            let (netns, ifindex) = (ns.inode().expect("inode"), link::index(&ns, "dev0").expect("index"));
            let place = ns.name().to_owned();
            let device = "dev0".to_owned();
            let state = ChangeRecord { device, netns, ifindex, place, segments_before: None, ..any_state() };
            state.write(folder.path()).expect("written");
            let before = link::gso_sizes(&ns, "dev0").expect("sizes");
            assert!(before.max > LIMIT, "{before:?}");
            Self { folder, ns, before, state }
        }

        /// The state that a new process would read.
        fn opened(&self) -> ChangeRecord {
            let state = ChangeRecord::read(self.folder.path(), self.state.netns, self.state.ifindex);
            state.expect("read").expect("known")
        }

        fn sizes(&self) -> GsoSizes {
            link::gso_sizes(&self.ns, "dev0").expect("sizes")
        }
    }

    #[test]
    fn the_limit_of_the_device_outlives_a_driver_sync_that_is_killed_and_started_again() {
        if !privileged("the_limit_of_the_device_outlives_a_driver_sync_that_is_killed_and_started_again") {
            return;
        }
        let device = Device::new("seg");
        let folder = device.folder.path();
        // Killed while the limit is lowered: nothing is restored.
        lower(folder, &mut device.opened(), &device.ns, LIMIT).expect("lowered");
        assert_eq!(device.sizes().max, LIMIT);
        let mut again = device.opened();
        lower(folder, &mut again, &device.ns, LIMIT).expect("lowered again");
        restore(folder, &mut again, &device.ns).expect("restored");
        assert_eq!(device.sizes(), device.before);
        assert_eq!(device.opened().segments_before, None);
    }

    #[test]
    fn what_another_process_wrote_down_meanwhile_counts() {
        if !privileged("what_another_process_wrote_down_meanwhile_counts") {
            return;
        }
        let device = Device::new("sgt");
        let folder = device.folder.path();
        let (mut first, mut second) = (device.opened(), device.opened());
        let held = hold(folder, &first).expect("the first");
        assert!(matches!(hold(folder, &second), Err(TitanError::Actuated { .. })), "one at a time");
        lower(folder, &mut first, &device.ns, LIMIT).expect("lowered");
        drop(held);
        let _held = hold(folder, &second).expect("the first has gone");
        lower(folder, &mut second, &device.ns, LIMIT).expect("lowered");
        restore(folder, &mut second, &device.ns).expect("restored");
        assert_eq!(device.sizes(), device.before);
        // Detached: without a record the limit could not be restored.
        device.state.remove(folder);
        let detached = lower(folder, &mut first, &device.ns, LIMIT);
        assert!(matches!(detached, Err(TitanError::NotAttached { .. })), "{detached:?}");
        assert_eq!(device.sizes(), device.before);
    }

    #[test]
    fn what_is_left_behind_is_restored_when_it_is_forgotten() {
        if !privileged("what_is_left_behind_is_restored_when_it_is_forgotten") {
            return;
        }
        let device = Device::new("sgl");
        let folder = device.folder.path();
        lower(folder, &mut device.opened(), &device.ns, LIMIT).expect("lowered");
        // The filter was deleted by another process: the classifier is unloaded, the device remains.
        let mut left = device.opened();
        assert!(namespace_of(&left).is_some(), "{}", left.place);
        crate::stale_pins::restore(folder, &mut left);
        assert_eq!(device.sizes(), device.before);
    }
}
