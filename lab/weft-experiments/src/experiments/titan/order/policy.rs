//! A NIC that enforces a policy in a testbed.

use weft_nic::doorbell::RINGS;
use weft_nic::link::{DeviceLink, LinkKind, LinkRate};
use weft_nic::nic::{NicConfig, NicError, NicPlan, SoftwareNic};
use weft_nic::plan::Mode;
use weft_nic::testbed::{Testbed, TestbedError};
use weft_nic::worker::SegmentsPerTurn;
use weft_policy::{CompileOptions, Source, compile};
use weft_units::{BitsPerSec, Nanos};

/// Classes by protocol and port, in a fair, a first-in first-out and a default leaf, so that flows of each kind are sent
/// from changing cores.
const POLICY: &str = "class datagrams = udp\nclass first = tcp port 7000\n\
                      root = wfq { fair of first: 2, datagrams: 1, fair of default: 1 }\n";
/// The capacity of a ring in packets, as in `weft run`.
const RING_PACKETS: u32 = 2000;
/// The maximum lag of the link's clock, and the length of the sample windows.
const CATCH_UP: Nanos = Nanos::from_millis(50);

/// Errors from starting the NIC.
#[derive(Debug, thiserror::Error)]
pub(super) enum PolicyNicError {
    /// A device or an address failed.
    #[error(transparent)]
    Testbed(#[from] TestbedError),
    /// The NIC failed.
    #[error(transparent)]
    Nic(#[from] NicError),
    /// The policy was rejected: a bug of the compiler.
    #[error("the policy of the experiment does not compile: {0}")]
    Policy(String),
}

/// Starts the NIC between sender and receiver, over a device that takes `rate`.
pub(super) fn start(bed: &Testbed, rate: BitsPerSec) -> Result<SoftwareNic, PolicyNicError> {
    let compiled = compile(Source { name: "order", text: POLICY }, &CompileOptions::default());
    let said = || PolicyNicError::Policy(format!("{:?}", compiled.diagnostics));
    let policy = compiled.policy.as_ref().ok_or_else(said)?;
    let config = NicConfig {
        mode: Mode::Loom,
        rate,
        link: LinkKind::Device(DeviceLink { rate: LinkRate::Given, piece: None }),
        segments_per_turn: SegmentsPerTurn::Whole,
        catch_up: CATCH_UP,
        window: CATCH_UP,
        cgroups: Vec::new(),
        flows: vec![1; policy.classes.len()],
        rings: RINGS,
        departures: None,
    };
    let plan = NicPlan::new(policy, config)?;
    let (port, uplink) = bed.devices_with(plan.ring_count(), RING_PACKETS, true)?;
    let nic = SoftwareNic::start(plan, port, uplink)?;
    bed.connect()?;
    bed.wait_running()?;
    Ok(nic)
}
