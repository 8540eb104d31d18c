//! Titan's experiments on real packets: fairness, the order of packets, and shuffles.

pub mod measured;
pub mod order;
pub mod shuffle;
