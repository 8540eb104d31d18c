//! What was done to a device when a later step of switching on fails.

use crate::programs::HANDLE;
use crate::stale_pins::drop_pins;
use crate::state::State;
use std::path::PathBuf;
use weft_host::netns::NetNs;
use weft_host::tc_filter;

/// Takes back what was done when a later step fails.
pub(crate) struct Undo {
    pub(crate) ns: NetNs,
    pub(crate) device: String,
    /// Where programs and maps are pinned.
    pub(crate) pins: Option<PathBuf>,
    /// The priority of our filter, once it is there, and whether the clsact was made.
    pub(crate) filter: Option<(Option<u16>, bool)>,
    /// What was written down, and in which folder.
    pub(crate) state: Option<(PathBuf, State)>,
}

impl Undo {
    /// Nothing is to be taken back any more.
    pub(crate) fn keep(mut self) {
        (self.pins, self.filter, self.state) = (None, None, None);
    }
}

impl Drop for Undo {
    fn drop(&mut self) {
        if let Some((priority, clsact_added)) = self.filter.take() {
            if let Some(priority) = priority {
                let _ = tc_filter::delete_egress(&self.ns, &self.device, priority, HANDLE);
            }
            if clsact_added {
                let _ = tc_filter::delete_clsact(&self.ns, &self.device);
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
