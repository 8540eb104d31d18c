//! Receive queues by policy: plans brought to devices, and shown on packets.

pub mod device;
pub mod ntuple;
pub mod planning;
pub mod search_cost;
pub mod watch;
