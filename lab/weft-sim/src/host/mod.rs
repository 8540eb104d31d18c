//! A host: the parts of its stack and its NIC, each with its own state.
//!
//! A part reads neither another part's state nor the world. Its methods receive the time, random numbers and the agenda as
//! arguments, put later events on the agenda, and return the next part's input. `world` passes that on.

pub(crate) mod application;
pub(crate) mod cpu;
pub(crate) mod nic;
pub(crate) mod pinger;
pub(crate) mod policy_use;
pub(crate) mod qdisc;
pub(crate) mod socket;
pub(crate) mod tcp_receiver;
pub(crate) mod tcp_sender;

use crate::accounting::Stage;
use crate::scenario::DoorbellWrites;
use cpu::Processors;
use nic::{NicReceive, NicTransmit};
use policy_use::PolicyUse;
use qdisc::QdiscLayer;
use tcp_sender::Tasklet;
use weft_units::Bytes;

/// Settings used by several parts of a host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) tasklet: Tasklet,
    /// Number of bytes that an application writes at a time.
    pub(crate) write_size: u64,
    /// The maximum number of unsent bytes in a socket.
    pub(crate) send_buffer: Bytes,
    /// Whether the NIC steers a stream to the receive queue paired with the transmit queue last used by its reverse stream.
    pub(crate) learns_queues: bool,
    /// The writes that announce new descriptors.
    pub(crate) doorbells: DoorbellWrites,
}

/// The parts that a host has once. Sockets belong to streams, applications to flows.
pub(crate) struct Host {
    pub(crate) settings: Settings,
    pub(crate) cpu: Processors,
    pub(crate) qdiscs: QdiscLayer,
    pub(crate) transmit: NicTransmit,
    pub(crate) receive: NicReceive,
    /// The use of the NIC's policy, if it has one.
    pub(crate) policy: Option<PolicyUse>,
}

impl Host {
    /// The parts that hold packets, in the order in which packets pass them.
    pub(crate) fn stages(&self) -> [&dyn Stage; 3] {
        // All fields by name: a new part does not compile before someone decides whether it holds packets.
        let Self { settings: _, cpu: _, qdiscs, transmit, receive, policy: _ } = self;
        [qdiscs, transmit, receive]
    }
}
