//! A multiqueue NIC in a testbed, for experiments with queue assignment.

use crate::nic::{NicConfig, NicError, NicPlan, SoftwareNic};
use crate::plan::Mode;
use crate::port::Uplink;
use crate::testbed::{Testbed, TestbedError, WIRE};
use crate::worker::SegmentsPerTurn;
use weft_policy::{CompileOptions, Source, compile};
use weft_sched::queues::{Inner, Service};
use weft_units::{BitsPerSec, Nanos};

/// The configuration of the NIC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Multiqueue {
    /// The number of hardware queues, 1 to 256.
    pub queues: u16,
    /// The service order of the flows in a queue.
    pub inner: Inner,
    /// The service order of the queues while no weights are requested.
    pub service: Service,
    /// The link's rate.
    pub rate: BitsPerSec,
    /// The capacity of a ring in packets; one more is dropped.
    pub ring_packets: u32,
    /// As in [`NicConfig`].
    pub departures: Option<usize>,
}

impl Multiqueue {
    /// Configures eight first-in first-out queues served in turns, each of 1000 packets (the kernel's default
    /// `txqueuelen`), without a log.
    pub fn new(rate: BitsPerSec) -> Self {
        let (inner, service) = (Inner::Fifo, Service::RoundRobin);
        Self { queues: 8, inner, service, rate, ring_packets: 1000, departures: None }
    }
}

/// Errors from starting the NIC.
#[derive(Debug, thiserror::Error)]
pub enum MultiqueueError {
    /// A device or an address failed.
    #[error(transparent)]
    Testbed(#[from] TestbedError),
    /// The NIC failed.
    #[error(transparent)]
    Nic(#[from] NicError),
    /// The policy of one class was rejected: a bug of the compiler.
    #[error("the built-in policy of a NIC without classes does not compile: {0}")]
    Policy(String),
}

/// The policy: all traffic is one class, since the NIC has queues only.
const POLICY: &str = "root = fair of default";

/// The maximum lag of the link's clock, and the length of the sample windows.
const CATCH_UP: Nanos = Nanos::from_millis(50);

/// Starts the NIC between the sender and the receiver, with their addresses, and waits until packets pass. A flow keeps
/// its packet order even if it sends from several cores.
///
/// # Errors
/// When a device cannot be created, the kernel rejects the eBPF program, or a thread cannot be started.
pub fn start(testbed: &Testbed, wanted: &Multiqueue) -> Result<SoftwareNic, MultiqueueError> {
    let uplink = Uplink::tap(&testbed.receiver, WIRE).map_err(TestbedError::from)?;
    start_over(testbed, wanted, uplink)
}

/// Starts the NIC as [`start`], over an uplink that leads to [`WIRE`].
///
/// # Errors
/// As [`start`].
pub fn start_over(
    testbed: &Testbed,
    wanted: &Multiqueue,
    uplink: Uplink,
) -> Result<SoftwareNic, MultiqueueError> {
    let compiled = compile(Source { name: "multiqueue", text: POLICY }, &CompileOptions::default());
    let said = || MultiqueueError::Policy(format!("{:?}", compiled.diagnostics));
    let policy = compiled.policy.as_ref().ok_or_else(said)?;
    let config = NicConfig {
        mode: Mode::Multiqueue { queues: wanted.queues, inner: wanted.inner, service: wanted.service },
        rate: wanted.rate,
        link: crate::link::LinkKind::Emulated,
        segments_per_turn: SegmentsPerTurn::Whole,
        catch_up: CATCH_UP,
        window: CATCH_UP,
        cgroups: Vec::new(),
        flows: Vec::new(),
        rings: crate::doorbell::RINGS,
        departures: wanted.departures,
    };
    let plan = NicPlan::new(policy, config)?;
    let port = testbed.port(plan.ring_count(), wanted.ring_packets, true)?;
    let nic = SoftwareNic::start(plan, port, uplink)?;
    testbed.connect()?;
    testbed.wait_running()?;
    Ok(nic)
}
