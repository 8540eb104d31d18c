//! The inspection of a device before attaching, and the check of its suitability.

use crate::error::TitanError;
use crate::page::{self, QueuePage};
use crate::programs::FILTER;
use crate::programs::map_of;
use core::sync::atomic::Ordering;
use weft_host::bpf::{MapFd, SharedValue, program_info};
use weft_host::ethtool::Nic as Ethtool;
use weft_host::link;
use weft_host::netns::NetNs;
use weft_host::tc::{FilterFound, Handle, TcDevice};
use weft_host::xps;

type Result<T> = core::result::Result<T, TitanError>;

/// The program of the software NIC's port (`bpf/doorbell.bpf.c`).
const DOORBELL: &str = "weft_egress";

/// The properties of a device, as they were found.
#[derive(Debug)]
pub(crate) struct Inspection {
    pub(crate) ifindex: u32,
    pub(crate) queues: u32,
    /// The map of the page, if the device is our NIC's port.
    pub(crate) nic_page: Option<MapFd>,
    pub(crate) filters: Vec<FilterFound>,
}

impl Inspection {
    /// Refuses a device with a weftline classifier that has no state file: a second classifier would count every
    /// packet again.
    pub(crate) fn refuse_unknown(&self, device: &str) -> Result<()> {
        let ours =
            |filter: &&FilterFound| filter.program.as_ref().is_some_and(|program| program.name == FILTER);
        match self.filters.iter().find(ours) {
            Some(filter) => Err(TitanError::Unknown { device: device.to_owned(), priority: filter.priority }),
            None => Ok(()),
        }
    }
}

pub(crate) fn inspect(ns: &NetNs, device: &str) -> Result<Inspection> {
    let ifindex = link::index(ns, device)?;
    let mut at = TcDevice::open(ns, device)?;
    let filters = if at.has_clsact()? { at.filters(Handle::EGRESS)? } else { Vec::new() };
    // The filter's name was chosen by its creator; the program's own name identifies it.
    let programs = filters.iter().filter_map(|filter| filter.program.as_ref());
    let is_doorbell = |id: &u32| program_info(*id).is_ok_and(|info| info.name == DOORBELL);
    if let Some(program) = programs.map(|program| program.id).find(is_doorbell) {
        let map = map_of(program, page::MAP)?
            .ok_or_else(|| TitanError::PolicyPort { device: device.to_owned() })?;
        let page: SharedValue<QueuePage> = map.shared()?;
        let queues = page.nic_queues.load(Ordering::Acquire) as u32;
        if queues == 0 {
            return Err(TitanError::PolicyPort { device: device.to_owned() });
        }
        let found = Inspection { ifindex, queues, nic_page: Some(map), filters };
        return enough(device, found, "; start the software NIC with more queues");
    }
    let kind = link::kind(ns, device)?.unwrap_or_default();
    if kind == "tun" {
        return Err(TitanError::Orphans { device: device.to_owned(), kind });
    }
    let queues = queues_of(ns, device)?;
    enough(device, Inspection { ifindex, queues, nic_page: None, filters }, "; `ethtool -L` may give it more")
}

/// The number of assignable queues of a device.
pub(crate) fn queues_of(ns: &NetNs, device: &str) -> Result<u32> {
    Ok(in_use(ns, device, xps::tx_queues(ns, device)?.count).min(page::QUEUES as u32))
}

/// The number of transmit queues in use, from the device's channels. A driver may show more in sysfs than it uses (igb
/// shows 8 of 4), and packets for the others are sent to the first queue (`netdev_cap_txqueue`).
fn in_use(ns: &NetNs, device: &str, shown: u32) -> u32 {
    let channels = Ethtool::open(ns, device).and_then(|mut nic| nic.channels());
    match channels {
        Ok(Some(channels)) if channels.tx.count + channels.combined.count > 0 => {
            shown.min(channels.tx.count + channels.combined.count)
        }
        _ => shown,
    }
}

fn enough(device: &str, found: Inspection, hint: &str) -> Result<Inspection> {
    if found.queues < 2 {
        return Err(TitanError::OneQueue { device: device.to_owned(), hint: hint.to_owned() });
    }
    Ok(found)
}
