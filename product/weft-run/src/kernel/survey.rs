//! The fitness of a device for a policy in the kernel, for `weft doctor DEVICE`: what the kernel has for it, and who else uses it.

use super::error::KernelError;
use super::path::KernelPath;
use super::plan::KernelPlan;
use std::path::Path;
use weft_host::bpf::{has_tcx, program_info, tcx_egress};
use weft_host::doctor::{Facility, State};
use weft_host::tc::{Handle, TcDevice, TcError};
use weft_host::{NetNs, link};

/// The folders in which network managers keep a file for each interface that they manage, named by its number.
const MANAGERS: [(&str, &str); 2] =
    [("systemd-networkd", "/run/systemd/netif/links"), ("NetworkManager", "/run/NetworkManager/devices")];

/// Surveys `device` of `ns`. Changes nothing.
///
/// # Errors
/// If the device does not exist, or cannot be read.
pub fn survey(ns: &NetNs, device: &str) -> Result<Vec<Facility>, KernelError> {
    let link = link::show(ns, device)?;
    let mut tc = TcDevice::open(ns, device)?;
    let tcx = ns.run(|| has_tcx(link.index))??;
    let frames = match (link.is_ethernet, tcx) {
        (false, _) => State::Missing("it carries no Ethernet frames".to_owned()),
        (true, true) => State::Present("Ethernet, programs by tcx".to_owned()),
        (true, false) => State::Present("Ethernet, programs by filters of a clsact".to_owned()),
    };
    let policy = match KernelPath::all(Some(ns))?.into_iter().find(|record| record.ifindex == link.index) {
        Some(record) => format!("{}, since {}", record.policy.name, record.since()),
        None => "none is in force".to_owned(),
    };
    let facility = |id, title, state, brings, remedy| Facility { id, title, state, brings, remedy };
    let mut found = vec![
        facility(
            "device.kernel",
            "policies in the kernel",
            frames,
            "`weft apply` at this interface",
            "name the interface that the frames leave by",
        ),
        facility(
            "device.policy",
            "policy at the interface",
            State::Present(policy),
            "`weft status --device`",
            "",
        ),
        facility(
            "device.root",
            "root qdisc",
            root(&mut tc)?,
            "`weft remove` gives back what was there",
            "`weft apply --replace` loses it",
        ),
        facility(
            "device.others",
            "others at the interface",
            others(ns, &mut tc, link.index)?,
            "a policy that stays in force",
            "have them leave the root qdisc and skb->priority of this interface alone",
        ),
    ];
    found.extend(qdiscs());
    Ok(found)
}

/// The qdiscs that a policy may need besides HTB.
fn qdiscs() -> Vec<Facility> {
    let has = KernelPlan::qdiscs_here();
    let one = |id, title, has, without: &str, brings, remedy| Facility {
        id,
        title,
        state: if has { State::Present("there".to_owned()) } else { State::Limited(without.to_owned()) },
        brings,
        remedy,
    };
    vec![
        one(
            "device.weights",
            "drr and prio qdiscs",
            has.drr && has.prio,
            "not both are there: HTB shares by weight, and what an idle class leaves goes by class",
            "exact weights",
            "load the modules sch_drr and sch_prio",
        ),
        one(
            "device.fairness",
            "fq_codel qdisc",
            has.fq_codel,
            "it is not there: a class is one FIFO",
            "`fair of`, and short queues",
            "load the module sch_fq_codel",
        ),
        one(
            "device.times",
            "fq qdisc",
            has.fq,
            "it is not there: packets cannot be held until a time",
            "limits by destination and port",
            "load the module sch_fq",
        ),
    ]
}

/// The root, and whether it can be given back.
fn root(tc: &mut TcDevice) -> Result<State, KernelError> {
    let kind = tc.root()?.map_or_else(|| "none yet".to_owned(), |root| root.kind);
    Ok(match tc.save() {
        Ok(_) => State::Present(kind),
        Err(error @ TcError::NotRestorable { .. }) => State::Limited(error.to_string()),
        Err(error) => return Err(error.into()),
    })
}

/// Programs, filters and network managers that may change what a policy has made.
fn others(ns: &NetNs, tc: &mut TcDevice, index: u32) -> Result<State, KernelError> {
    let mut found = Vec::new();
    for program in ns.run(|| tcx_egress(index))?? {
        let name = program_info(program).map_or_else(|_| format!("number {program}"), |info| info.name);
        if !super::programs::CLASSIFIER.starts_with(&name) {
            found.push(format!("the program {name} at the egress"));
        }
    }
    let filters = tc.filters(Handle::EGRESS)?;
    found.extend(filters.iter().map(|filter| format!("a filter {} at the egress", filter.kind)));
    // The managers are those of the host's own namespace, and number its interfaces.
    let host = NetNs::open_path(Path::new("/proc/1/ns/net")).and_then(|host| host.inode());
    if host.is_ok_and(|host| ns.inode().is_ok_and(|here| here == host)) {
        let manages = |(_, folder): &&(&str, &str)| Path::new(folder).join(index.to_string()).exists();
        found.extend(MANAGERS.iter().filter(manages).map(|(name, _)| (*name).to_owned()));
    }
    Ok(if found.is_empty() {
        State::Present("none found".to_owned())
    } else {
        State::Limited(found.join(", "))
    })
}
