//! The seam to the NIC: a sender and a receiver with a multiqueue NIC between them, and a log of what left when.
//!
//! Whatever implements [`Open`] and [`Path`] can be measured.

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

/// Why a path cannot be made, or does not work any longer.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PathError {
    /// The namespaces and links.
    #[error(transparent)]
    Testbed(#[from] TestbedError),
    /// The NIC's start.
    #[error(transparent)]
    Multiqueue(#[from] MultiqueueError),
    /// The NIC's end.
    #[error(transparent)]
    Nic(#[from] NicError),
    /// Queue assignment at its port.
    #[error(transparent)]
    Titan(#[from] TitanError),
    /// A group's cgroup.
    #[error(transparent)]
    Cgroup(#[from] CgroupError),
    /// The thread that transmits is gone.
    #[error("the NIC's worker has ended")]
    WorkerEnded,
    /// What another kind of path says.
    #[error("{0}")]
    Other(String),
}

/// A packet, or a piece of one that a NIC sends at once, on the link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Departure {
    /// When its first bit was on the link, by the monotonic clock ([`weft_host::clock::now`]).
    pub start: Instant,
    /// When its last bit was; not before `start`.
    pub end: Instant,
    /// The queue it came from.
    pub queue: TxQueueId,
    /// Its flow: an index of [`Log::flows`].
    pub flow: u32,
    /// Bytes on the wire: frames with checksum, preamble and gap, of all its segments.
    pub wire: Bytes,
    /// Ethernet frames.
    pub segments: Packets,
}

/// What left through the NIC.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Log {
    /// Five-tuples by the departures' index; `None` for what is not IP.
    pub flows: Vec<Option<FlowKey>>,
    /// In any order.
    pub departures: Vec<Departure>,
    /// Departures that happened and are not in the log.
    pub lost: u64,
    /// How old the weights of queues were when the NIC took them.
    pub weights: Staleness,
}

/// A NIC that runs, between two namespaces. All of it goes when the value is dropped.
pub trait Path {
    /// Where the flows come from.
    fn sender(&self) -> &NetNs;

    /// Where they go.
    fn receiver(&self) -> &NetNs;

    /// The receiver's address; what is sent there passes the NIC's queues.
    fn receiver_address(&self) -> IpAddr;

    /// The cgroup that senders of a group of [`RunSettings::weights`] run in, where weights go by cgroup.
    fn cgroup(&self, group: usize) -> Option<&Cgroup> {
        let _ = group;
        None
    }

    /// Begins to log. What left before is not needed.
    ///
    /// # Errors
    /// What is wrong with the NIC.
    fn begin_log(&mut self) -> Result<(), PathError>;

    /// Called a few times a second: whether the NIC still works.
    ///
    /// # Errors
    /// What is wrong with the NIC.
    fn check(&mut self) -> Result<(), PathError>;

    /// Processor time that the NIC's own threads have used so far: what a NIC of hardware would not take from the host.
    ///
    /// # Errors
    /// Why it is not known.
    fn nic_cpu(&self) -> Result<Nanos, PathError>;

    /// Stops the NIC and gives what it has logged. The flows have ended when this is called.
    ///
    /// # Errors
    /// What is wrong with the NIC.
    fn stop(self: Box<Self>) -> Result<Log, PathError>;
}

/// Makes paths: a fresh one for each run.
pub trait Open {
    /// Makes the namespaces, the NIC with [`RunSettings::queues`] queues and [`RunSettings::inner`] inside, attaches what
    /// [`RunSettings::config`] asks for, and waits until the receiver can be reached.
    ///
    /// # Errors
    /// What is missing here or failed.
    fn open(&self, settings: &RunSettings) -> Result<Box<dyn Path>, PathError>;
}

impl<F: Fn(&RunSettings) -> Result<Box<dyn Path>, PathError>> Open for F {
    fn open(&self, settings: &RunSettings) -> Result<Box<dyn Path>, PathError> {
        self(settings)
    }
}
