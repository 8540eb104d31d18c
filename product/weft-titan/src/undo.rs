//! The reversal of a partial attachment when a later step fails.

use crate::programs::HANDLE;
use crate::stale_pins::drop_pins;
use crate::state::ChangeRecord;
use std::path::PathBuf;
use weft_host::device_record::DeviceRecord;
use weft_host::netns::NetNs;
use weft_host::tc::{Handle, TcDevice};

/// The changes made so far, which are reverted on drop.
pub(crate) struct Undo {
    pub(crate) ns: NetNs,
    pub(crate) device: String,
    /// The folder of the pins.
    pub(crate) pins: Option<PathBuf>,
    /// The priority of our filter, once it is added, and whether we created the clsact qdisc.
    pub(crate) filter: Option<(Option<u16>, bool)>,
    /// The state file, with its folder.
    pub(crate) state: Option<(PathBuf, ChangeRecord)>,
}

impl Undo {
    /// Keeps the changes: the attachment is complete.
    pub(crate) fn keep(mut self) {
        (self.pins, self.filter, self.state) = (None, None, None);
    }
}

impl Drop for Undo {
    fn drop(&mut self) {
        if let Some((priority, clsact_added)) = self.filter.take() {
            let mut device = TcDevice::open(&self.ns, &self.device);
            if let (Some(priority), Ok(device)) = (priority, &mut device) {
                let _ = device.delete_filter(Handle::EGRESS, priority, HANDLE);
            }
            if let (true, Ok(device)) = (clsact_added, &mut device) {
                let _ = device.delete_clsact();
            }
        }
        if let Some(pins) = self.pins.take() {
            drop_pins(&pins);
        }
        if let Some((folder, state)) = self.state.take() {
            state.remove(&folder);
        }
    }
}
