//! The settings of the variants that are ports of `weft run`.

use super::case::CostCase;
use super::testbed::{PORT, PORT_MAC, PREFIX, SENDER, UPLINK};
use core::num::NonZeroUsize;
use weft_nic::link::{DeviceLink, LinkKind, LinkRate};
use weft_nic::worker::SegmentsPerTurn;
use weft_run::session::{PortKind, Receive, SessionSettings};
use weft_units::Nanos;

/// Descriptor rings, the default of `weft run`.
const RINGS: usize = 256;
/// The link clock's largest lag, the default of `weft run`.
const CATCH_UP: Nanos = Nanos::from_millis(10);

/// The settings of a session for `case`, with port and uplink in `namespace`: the defaults of `weft run`.
pub(super) fn settings(case: CostCase, namespace: &str) -> SessionSettings {
    let rate = if case == CostCase::Port4Flows { LinkRate::Observed } else { LinkRate::Given };
    SessionSettings {
        name: PORT.to_owned(),
        port_netns: Some(namespace.to_owned()),
        uplink: UPLINK.to_owned(),
        uplink_netns: Some(namespace.to_owned()),
        addresses: vec![(SENDER, PREFIX)],
        mac: PORT_MAC,
        rate: case.rate(),
        queues: None,
        workers: NonZeroUsize::MIN,
        link: LinkKind::Device(DeviceLink { rate, piece: None }),
        segments_per_turn: SegmentsPerTurn::Whole,
        rings: RINGS,
        catch_up: CATCH_UP,
        log: false,
        port: PortKind::Auto,
        receive: Receive::Auto,
    }
}
