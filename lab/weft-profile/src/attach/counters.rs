//! Counters of devices and of TCP at two times.

use std::collections::BTreeMap;

use weft_host::NetNs;
use weft_host::link::{self, Link};
use weft_host::net_counters::NetCounters;
use weft_report::profile::attached::{Device, Moved};

use super::AttachError;

/// The loopback device.
const LOOPBACK: &str = "lo";

/// The counters of a namespace's devices at one time.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Devices(BTreeMap<String, (Count, Moved)>);

/// Whether a device's bytes divide the processor time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Count {
    Counted,
    Shown,
}

impl Devices {
    /// Reads the counters of the devices of `ns`; `only` is the one that counts, where the user names one.
    pub(super) fn read(ns: &NetNs, only: Option<&str>) -> Result<Self, AttachError> {
        Ok(Self::of(&link::list(ns)?, only))
    }

    /// Without a name hardware counts. Where none is up, all devices count but the loopback.
    fn of(links: &[Link], only: Option<&str>) -> Self {
        let is_hardware = |link: &Link| link.kind.is_none() && link.name != LOOPBACK && link.up;
        let hardware = links.iter().any(is_hardware);
        let counts = |link: &Link| match only {
            Some(name) => link.name == name,
            None if hardware => is_hardware(link),
            None => link.name != LOOPBACK,
        };
        let device = |link: &Link| {
            let stats = &link.stats;
            let moved = Moved {
                tx_bytes: stats.tx_bytes.get(),
                tx_packets: stats.tx_packets.get(),
                rx_bytes: stats.rx_bytes.get(),
                rx_packets: stats.rx_packets.get(),
            };
            (link.name.clone(), (if counts(link) { Count::Counted } else { Count::Shown }, moved))
        };
        Self(links.iter().map(device).collect())
    }

    /// The counts of each device since `before`. A device that came meanwhile counts from its beginning.
    pub(super) fn since(&self, before: &Self) -> Vec<Device> {
        let one = |(name, (count, moved)): (&String, &(Count, Moved))| {
            let was = before.0.get(name).map(|(_, moved)| *moved).unwrap_or_default();
            Device { device: name.clone(), counted: *count == Count::Counted, moved: moved.since(&was) }
        };
        self.0.iter().map(one).collect()
    }

    /// The counts of all counted devices since `before`.
    pub(super) fn counted_since(&self, before: &Self) -> Moved {
        let counted = self.since(before).into_iter().filter(|device| device.counted);
        counted.fold(Moved::default(), |all, device| all.plus(&device.moved))
    }
}

/// Segments that TCP sent again in any namespace between two readings of [`NetCounters::of_host`].
pub(super) fn retransmitted(before: &BTreeMap<u64, NetCounters>, after: &BTreeMap<u64, NetCounters>) -> u64 {
    let one = |(netns, now): (&u64, &NetCounters)| {
        let was = before.get(netns).copied().unwrap_or_default();
        now.since(&was).retransmitted
    };
    after.iter().map(one).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_host::link::LinkStats;
    use weft_units::Bytes;

    fn link(name: &str, kind: Option<&str>, bytes: u64) -> Link {
        let stats = LinkStats { tx_bytes: Bytes(bytes), ..LinkStats::default() };
        Link { name: name.to_owned(), kind: kind.map(str::to_owned), up: true, stats, ..Link::default() }
    }

    #[test]
    fn hardware_counts_or_the_named_device_or_all_but_the_loopback() {
        let links = |bytes| {
            [link("lo", None, bytes), link("eth0", None, 2 * bytes), link("v0", Some("veth"), 3 * bytes)]
        };
        let moved = |n: &[Link], only| {
            let before = Devices::of(&links(0)[..n.len()], only);
            Devices::of(n, only).counted_since(&before).tx_bytes
        };
        let three = links(10);
        assert_eq!([None, Some("lo"), Some("v0")].map(|only| moved(&three, only)), [20, 10, 30]);
        let virtual_only = [link("lo", None, 10), link("v0", Some("veth"), 30)];
        assert_eq!(moved(&virtual_only, None), 30, "the new device counts from its beginning");
    }

    #[test]
    fn a_namespace_that_ends_takes_nothing_away() {
        let counters = |retransmitted| NetCounters { retransmitted, ..NetCounters::default() };
        let before = BTreeMap::from([(1, counters(5)), (2, counters(100))]);
        let after = BTreeMap::from([(1, counters(8)), (3, counters(2))]);
        assert_eq!(retransmitted(&before, &after), 5);
    }
}
