//! The settings of queue assignment at a device.

use crate::weights::WeightTable;
use weft_units::{Bytes, Nanos, TxQueueId};

/// The default maximum of active flows: the number of entries of the flow table (64 bytes each, 16 MB).
pub const MOST_FLOWS: u32 = crate::layout::FLOWS as u32;
/// The largest segment of a flow that shares its queue (Titan, technical report, Table 1: 16 KB).
pub const SEGMENT: Bytes = Bytes(16 * 1024);
/// The default minimum interval of weight updates.
pub const UPDATE_INTERVAL: Nanos = Nanos::from_millis(1);

/// The enabled parts of Titan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parts {
    /// Dynamic queue assignment; without it a flow's queue is selected by its hash.
    pub dqa: bool,
    /// Dynamic queue weights.
    pub dqwa: bool,
    /// Dynamic segment sizes.
    pub dsos: bool,
}

impl Parts {
    /// The names of the enabled parts.
    pub fn names(self) -> Vec<String> {
        let named = [(self.dqa, "dqa"), (self.dqwa, "dqwa"), (self.dsos, "dsos")];
        named.iter().filter(|(on, _)| *on).map(|(_, name)| (*name).to_owned()).collect()
    }
}

/// The queues that may be assigned to a flow.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Pool {
    /// All queues of the device.
    All,
    /// The queues of the sending core in the device's XPS map; all queues for a core without any.
    Xps,
    /// The queues given for each core.
    Given(Vec<Vec<TxQueueId>>),
}

/// The settings of an attachment.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The enabled parts.
    pub parts: Parts,
    /// The allowed queues.
    pub pool: Pool,
    /// The weights of flows.
    pub weights: WeightTable,
    /// The maximum number of active flows.
    pub most_flows: u32,
    /// The largest segment on shared queues.
    pub segment: Bytes,
    /// Whether all queues send small segments while any is shared, as Titan's implementation is described (technical
    /// report, section 4.3). Otherwise only the shared queues do, as in its code.
    pub segment_all: bool,
    /// The minimum interval of weight updates.
    pub update_interval: Nanos,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            parts: Parts { dqa: true, dqwa: true, dsos: true },
            pool: Pool::All,
            weights: WeightTable::default(),
            most_flows: MOST_FLOWS,
            segment: SEGMENT,
            segment_all: false,
            update_interval: UPDATE_INTERVAL,
        }
    }
}
