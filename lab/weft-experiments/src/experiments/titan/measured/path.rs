//! The interface to the NIC: a sender and a receiver with a multiqueue NIC between them, and a log of departures.
//!
//! Any implementation of [`Open`] and [`MeasuredPath`] can be measured.

use super::settings::RunSettings;
use core::net::IpAddr;
use thiserror::Error;
use weft_host::cgroup::CgroupError;
use weft_host::{Cgroup, NetNs};
use weft_nic::multiqueue::MultiqueueError;
use weft_nic::nic::NicError;
use weft_nic::testbed::TestbedError;
use weft_sched::queues::Staleness;
use weft_titan::error::TitanError;
use weft_units::{Bytes, FlowKey, Instant, Nanos, Packets, TxQueueId};

/// The reason that a path cannot be made, or no longer works.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PathError {
    /// A step on namespaces or links failed.
    #[error(transparent)]
    Testbed(#[from] TestbedError),
    /// The NIC could not be started.
    #[error(transparent)]
    Multiqueue(#[from] MultiqueueError),
    /// The NIC could not be stopped.
    #[error(transparent)]
    Nic(#[from] NicError),
    /// Queue assignment at the port failed.
    #[error(transparent)]
    Titan(#[from] TitanError),
    /// A group's cgroup could not be made.
    #[error(transparent)]
    Cgroup(#[from] CgroupError),
    /// The transmit thread has ended.
    #[error("the NIC's worker has ended")]
    WorkerEnded,
    /// An error of another kind of path.
    #[error("{0}")]
    Other(String),
}

/// A departure: a packet, or a part of one that a NIC sends at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WireDeparture {
    /// When its first bit was sent, on the monotonic clock ([`weft_host::clock::now`]).
    pub start: Instant,
    /// When its last bit was sent; not before `start`.
    pub end: Instant,
    /// The queue.
    pub queue: TxQueueId,
    /// The flow, as an index of [`WireLog::flows`].
    pub flow: u32,
    /// Wire bytes of all segments: frames with checksum, preamble and gap.
    pub wire: Bytes,
    /// Ethernet frames.
    pub segments: Packets,
}

/// A log of departures.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct WireLog {
    /// Five-tuples by the departures' index; `None` for other packets than IP.
    pub flows: Vec<Option<FlowKey>>,
    /// The departures, in any order.
    pub departures: Vec<WireDeparture>,
    /// Departures missing from the log.
    pub lost: u64,
    /// Ages of queue weights when the NIC applied them.
    pub weights: Staleness,
}

/// A running NIC between two namespaces. All of it is removed when the value is dropped.
pub trait MeasuredPath {
    /// Returns the namespace of the senders.
    fn sender(&self) -> &NetNs;

    /// Returns the namespace of the receivers.
    fn receiver(&self) -> &NetNs;

    /// Returns the receiver's address; packets to it pass the NIC's queues.
    fn receiver_address(&self) -> IpAddr;

    /// Returns the cgroup for senders of a group of [`RunSettings::weights`], if weights are by cgroup.
    fn cgroup(&self, group: usize) -> Option<&Cgroup> {
        let _ = group;
        None
    }

    /// Begins the log. Earlier departures are not needed.
    ///
    /// # Errors
    /// Fails when the NIC no longer works.
    fn begin_log(&mut self) -> Result<(), PathError>;

    /// Checks that the NIC still works; called a few times per second.
    ///
    /// # Errors
    /// Fails when the NIC no longer works.
    fn check(&mut self) -> Result<(), PathError>;

    /// Returns the processor time of the NIC's own threads so far, which a hardware NIC would not take from the host.
    ///
    /// # Errors
    /// Fails when the time is unknown.
    fn nic_cpu(&self) -> Result<Nanos, PathError>;

    /// Stops the NIC and returns its log. The flows must have ended.
    ///
    /// # Errors
    /// Fails when the NIC cannot be stopped.
    fn stop(self: Box<Self>) -> Result<WireLog, PathError>;
}

/// A source of paths: a fresh one for each run.
pub trait Open {
    /// Makes the namespaces, the NIC with [`RunSettings::queues`] queues and [`RunSettings::inner`] in each, attaches
    /// queue assignment for [`RunSettings::config`], and waits until the receiver is reachable.
    ///
    /// # Errors
    /// Fails when a requirement is missing or a step fails.
    fn open(&self, settings: &RunSettings) -> Result<Box<dyn MeasuredPath>, PathError>;
}

impl<F: Fn(&RunSettings) -> Result<Box<dyn MeasuredPath>, PathError>> Open for F {
    fn open(&self, settings: &RunSettings) -> Result<Box<dyn MeasuredPath>, PathError> {
        self(settings)
    }
}
