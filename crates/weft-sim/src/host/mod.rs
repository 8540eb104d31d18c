//! A host: the parts of its stack and its NIC, each with its own state.
//!
//! A part knows no other part's state and not the world. Its methods get the time, random numbers, the agenda and what else they
//! need as arguments, put later events on the agenda, and return what the next part is to do. `world` passes that on.

pub(crate) mod application;
pub(crate) mod cpu;
pub(crate) mod nic;
pub(crate) mod pinger;
pub(crate) mod qdisc;
pub(crate) mod socket;
pub(crate) mod tcp_receiver;
pub(crate) mod tcp_sender;

use crate::accounting::Stage;
use cpu::Processors;
use nic::{NicReceive, NicTransmit};
use qdisc::QdiscLayer;
use tcp_sender::Tasklet;
use weft_units::Bytes;

/// Settings of a host that several parts go by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) tasklet: Tasklet,
    /// Bytes that an application writes at a time.
    pub(crate) write_size: u64,
    /// Most that a socket holds of what is not sent yet.
    pub(crate) send_buffer: Bytes,
    /// The NIC steers a stream to the receive queue beside the transmit queue that its reverse was sent from last.
    pub(crate) learns_queues: bool,
}

/// The parts that a host has once. Sockets and applications are per stream and flow.
pub(crate) struct Host {
    pub(crate) settings: Settings,
    pub(crate) cpu: Processors,
    pub(crate) qdiscs: QdiscLayer,
    pub(crate) transmit: NicTransmit,
    pub(crate) receive: NicReceive,
}

impl Host {
    /// The parts that hold packets, in the order in which packets pass them.
    pub(crate) fn stages(&self) -> [&dyn Stage; 3] {
        // All fields by name, so that a new part does not compile until somebody decides whether it holds packets.
        let Self { settings: _, cpu: _, qdiscs, transmit, receive } = self;
        [qdiscs, transmit, receive]
    }
}
