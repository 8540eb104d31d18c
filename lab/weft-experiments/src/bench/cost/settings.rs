//! The settings of the variants that are ports of `weft run`.

use super::case::CostCase;
use super::testbed::{PORT, PORT_MAC, PREFIX, SENDER, UPLINK};
use core::num::{NonZeroU32, NonZeroUsize};
use weft_nic::link::{DeviceLink, LinkKind, LinkRate};
use weft_nic::worker::SegmentsPerTurn;
use weft_report::bench::cost::Variant;
use weft_run::session::{PortKind, Receive, Settings};
use weft_units::Nanos;

/// Descriptor rings, the default of `weft run`.
const RINGS: usize = 256;
/// The link clock's largest lag, the default of `weft run`.
const CATCH_UP: Nanos = Nanos::from_millis(10);
/// Segments per turn of the data path as it was.
const BEFORE_SEGMENTS: NonZeroU32 = NonZeroU32::new(8).expect("not zero");

/// The settings of `variant`, with port and uplink in `namespace`.
///
/// [`Variant::Before`] is the data path as it was: an emulated link and eight segments per turn, or whole packets where
/// today's port benchmark sends them whole. All others have the defaults of `weft run`.
pub(super) fn settings(variant: Variant, case: CostCase, namespace: &str) -> Settings {
    let (link, segments_per_turn) = match (variant, case) {
        (Variant::Ours | Variant::Busy, CostCase::Port4Flows) => {
            let device = DeviceLink { rate: LinkRate::Observed, piece: None };
            (LinkKind::Device(device), SegmentsPerTurn::Whole)
        }
        (Variant::Before, CostCase::Port4Flows) => (LinkKind::Emulated, SegmentsPerTurn::Whole),
        (Variant::Before, _) => (LinkKind::Emulated, SegmentsPerTurn::AtMost(BEFORE_SEGMENTS)),
        _ => {
            let device = DeviceLink { rate: LinkRate::Given, piece: None };
            (LinkKind::Device(device), SegmentsPerTurn::Whole)
        }
    };
    let (port, receive) = match variant {
        Variant::Before => (PortKind::Veth, Receive::Thread),
        _ => (PortKind::Auto, Receive::Auto),
    };
    Settings {
        name: PORT.to_owned(),
        port_netns: Some(namespace.to_owned()),
        uplink: UPLINK.to_owned(),
        uplink_netns: Some(namespace.to_owned()),
        addresses: vec![(SENDER, PREFIX)],
        mac: PORT_MAC,
        rate: case.rate(),
        queues: None,
        workers: NonZeroUsize::MIN,
        link,
        segments_per_turn,
        rings: RINGS,
        catch_up: CATCH_UP,
        log: false,
        port,
        receive,
    }
}
