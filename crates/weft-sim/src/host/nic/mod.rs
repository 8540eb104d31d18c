//! The NIC: descriptor rings, scheduler and wire; receive rings, interrupts and merging of packets.
//!
//! Which transmit queue sends next is a [`crate::nic::scheduler`]'s choice.

mod merge;
mod receive;
mod steering;
mod transmit;

pub(crate) use merge::{Merge, Merged};
pub(crate) use receive::{Interrupts, NicReceive, POLL_WEIGHT, ReceiveParameters};
pub(crate) use steering::Steering;
pub(crate) use transmit::{NicTransmit, TransmitParameters, Turn};
