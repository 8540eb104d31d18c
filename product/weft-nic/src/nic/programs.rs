//! The eBPF programs at a port: attached at the start, and closed at the end.

use super::{NicError, NicPort};
use crate::doorbell::{Bypass, Doorbells, NicMaps, PortNumbers, RingPlace};
use crate::plan::RingPlan;
use crate::port::Port;
use std::sync::Arc;
use weft_host::bpf::{FilterId, MapFd, wait_grace_period};

/// Loads the eBPF programs of port `number` and attaches them. Returns the filters at the ingress of far end and macvtap, if
/// there are such.
pub(super) fn attach_doorbells(
    maps: &Arc<NicMaps>,
    plan: &RingPlan,
    port: &Port,
    (number, worker): (u32, usize),
) -> Result<(Arc<Doorbells>, Option<[FilterId; 2]>), NicError> {
    let place = if port.tap_queue().is_some() { RingPlace::Tap } else { RingPlace::Veth };
    let numbers = PortNumbers { place: number, name: maps.number_of(port.name()), worker };
    let doorbells = Doorbells::for_port(maps, plan, numbers, place)?;
    let stopped = |e: weft_host::netns::NetNsError| NicError::Stopped(e.to_string());
    let guarded = plan.queues.is_none();
    if let Some(queue) = port.tap_queue() {
        doorbells.attach_tap(queue, if guarded { Bypass::Drops } else { Bypass::Passes })?;
    }
    doorbells.attach_at(&port.near())?;
    let mut behind = None;
    // A plain multiqueue NIC has no classes, so no packet can escape its class.
    if guarded && port.tap_queue().is_none() {
        let devices = port.behind()?;
        behind = Some(port.nic().run(|| doorbells.attach_behind(devices)).map_err(stopped)??);
    }
    Ok((doorbells, behind))
}

/// Loads the eBPF programs of a port behind a veth that was in use, over its maps `own`, and puts them in the place of the
/// former process's; `behind` are its filters at far end and macvtap.
pub(super) fn replace_doorbells(
    maps: &Arc<NicMaps>,
    plan: &RingPlan,
    (port, number): (&Port, u32),
    own: &[(&'static str, MapFd)],
    behind: Option<[FilterId; 2]>,
) -> Result<(Arc<Doorbells>, Option<[FilterId; 2]>), NicError> {
    let numbers = PortNumbers { place: number, name: maps.number_of(port.name()), worker: 0 };
    let doorbells = Doorbells::over(maps, plan, numbers, RingPlace::Veth, own)?;
    let stopped = |e: weft_host::netns::NetNsError| NicError::Stopped(e.to_string());
    let (devices, mut replaced) = (port.behind()?, None);
    if let Some(behind) = behind {
        let replace = || doorbells.replace_behind(devices, behind);
        replaced = Some(port.nic().run(replace).map_err(stopped)??);
    }
    doorbells.attach_at(&port.near())?;
    Ok((doorbells, replaced))
}

/// Lets no further packet enter the ports, and keeps those that have. A device on its way down has a qdisc that drops what its
/// doorbell has announced (`noop_qdisc`, net/sched/sch_generic.c), so packets are refused before their doorbell first, and those
/// between doorbell and device pass.
pub(super) fn close<'a>(ports: impl Iterator<Item = &'a NicPort> + Clone) {
    ports.clone().for_each(|port| port.doorbells.guard().close());
    let _ = wait_grace_period();
    // Taking a TAP down would empty the FIFOs above its rings.
    for port in ports.filter(|port| port.port.tap_queue().is_none()) {
        let _ = port.port.down();
    }
}
