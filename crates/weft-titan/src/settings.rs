//! What is to be switched on at a device.

use crate::weights::WeightTable;
use weft_units::{Bytes, Nanos, TxQueueId};

/// How many flows may be active at a time: as many as the table has entries (64 bytes each, 16 MB).
pub const MOST_FLOWS: u32 = crate::layout::FLOWS as u32;
/// The largest segment of a flow that shares its queue (Titan, technical report, Table 1: 16 KB).
pub const SEGMENT: Bytes = Bytes(16 * 1024);
/// Weights are passed on this far apart at least.
pub const UPDATE_INTERVAL: Nanos = Nanos::from_millis(1);

/// Titan's parts that are on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parts {
    /// Dynamic queue assignment; without it a flow's queue follows from its hash.
    pub dqa: bool,
    /// Dynamic queue weights.
    pub dqwa: bool,
    /// Dynamic segment sizes.
    pub dsos: bool,
}

impl Parts {
    /// Their names.
    pub fn names(self) -> Vec<String> {
        let named = [(self.dqa, "dqa"), (self.dqwa, "dqwa"), (self.dsos, "dsos")];
        named.iter().filter(|(on, _)| *on).map(|(_, name)| (*name).to_owned()).collect()
    }
}

/// Which queues a flow may go to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Pool {
    /// All of the device.
    All,
    /// Those that the sending core has in the device's XPS map; all, for a core that has none.
    Xps,
    /// Those that are given for each core.
    Given(Vec<Vec<TxQueueId>>),
}

/// What is to be attached.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The parts.
    pub parts: Parts,
    /// The allowed queues.
    pub pool: Pool,
    /// The weights of flows.
    pub weights: WeightTable,
    /// Flows that may be active at once.
    pub most_flows: u32,
    /// The largest segment on shared queues.
    pub segment: Bytes,
    /// Whether all queues send small segments while any is shared, as Titan's implementation is described (technical
    /// report, section 4.3); else only those that are shared, as its code does it.
    pub segment_all: bool,
    /// Weights are passed on this far apart at least.
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
