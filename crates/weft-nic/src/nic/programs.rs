//! The eBPF programs at a port: attached at the start, and closed at the end.

use super::NicError;
use crate::doorbell::{Bypass, Doorbells, NicMaps, PortNumbers, RingPlace};
use crate::plan::RingPlan;
use crate::port::Port;
use std::sync::Arc;

/// Loads the eBPF programs of port `number` and attaches them.
pub(super) fn attach_doorbells(
    maps: &Arc<NicMaps>,
    plan: &RingPlan,
    port: &Port,
    number: u32,
) -> Result<Arc<Doorbells>, NicError> {
    let place = if port.tap_queue().is_some() { RingPlace::Tap } else { RingPlace::Veth };
    let numbers = PortNumbers { place: number, name: maps.number_of(port.name()) };
    let doorbells = Doorbells::for_port(maps, plan, numbers, place)?;
    let stopped = |e: weft_host::netns::NetNsError| NicError::Stopped(e.to_string());
    let guarded = plan.queues.is_none();
    if let Some(queue) = port.tap_queue() {
        doorbells.attach_tap(queue, if guarded { Bypass::Drops } else { Bypass::Passes })?;
    }
    let ifindex = port.index()?;
    port.app().run(|| doorbells.attach(ifindex)).map_err(stopped)??;
    // A plain multiqueue NIC has no classes, so no packet can escape its class.
    if guarded && port.tap_queue().is_none() {
        let behind = port.peer_index()?;
        port.nic().run(|| doorbells.attach_peer_ingress(behind)).map_err(stopped)??;
    }
    Ok(doorbells)
}

/// Lets no further packet enter, and keeps those that have.
pub(super) fn close(port: &Port, doorbells: &Doorbells) {
    match port.tap_queue() {
        // Taking a TAP down would empty the FIFOs above its rings.
        Some(_) => doorbells.guard().close(),
        None => {
            let _ = port.down();
        }
    }
}
