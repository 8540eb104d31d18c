//! The NIC of a host: descriptor rings, scheduler and wire; receive rings, interrupts and packet merging.
//!
//! The choice of the next transmit queue belongs to [`crate::nic::scheduler`].

#[cfg(test)]
mod droppers;
mod merge;
mod receive;
mod steering;
mod transmit;

pub(crate) use merge::{Merge, Merged};
pub(crate) use receive::{Interrupts, NicReceive, POLL_WEIGHT, ReceiveParameters};
pub(crate) use steering::Steering;
pub(crate) use transmit::{Fetched, NicTransmit, TransmitParameters, Turn};
