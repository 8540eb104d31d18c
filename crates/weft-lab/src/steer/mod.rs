//! Receive queues by policy: plans brought to devices, and shown on packets.

pub mod device;
pub mod ntuple;
