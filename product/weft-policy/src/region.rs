//! Parts of the packets that limits distinguish: by destination and by port.

use std::collections::{BTreeMap, BTreeSet};
use weft_packet::Prefix;

/// The packets to a destination, those that leave at a port, those of both, or all.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) struct Region {
    /// The destination; `None` for any, also that of packets without one.
    pub(crate) to: Option<Prefix>,
    /// The number of the port, from 1; `None` for any.
    pub(crate) port: Option<u16>,
}

impl Region {
    /// The packets of both regions; `None` if no packet is in both.
    pub(crate) fn meet(&self, other: &Self) -> Option<Self> {
        let port = match (self.port, other.port) {
            (Some(a), Some(b)) if a != b => return None,
            (a, b) => a.or(b),
        };
        let to = match (self.to, other.to) {
            (Some(a), Some(b)) => Some(a.intersect(&b)?),
            (a, b) => a.or(b),
        };
        Some(Self { to, port })
    }

    /// Whether all packets of `other` are in the region.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        self.meet(other) == Some(*other)
    }
}

/// A set of regions, to find those that cover another.
#[derive(Debug, Default)]
pub(crate) struct Regions {
    prefixes: BTreeMap<(Option<u16>, bool, u8), BTreeSet<Prefix>>,
    /// The ports all of whose packets are in the set; `None` for all ports.
    whole: BTreeSet<Option<u16>>,
}

impl Regions {
    pub(crate) fn add(&mut self, Region { to, port }: Region) {
        match to {
            Some(to) => _ = self.prefixes.entry((port, to.addr.is_ipv6(), to.len)).or_default().insert(to),
            None => _ = self.whole.insert(port),
        }
    }

    /// Whether one of the regions covers `region`.
    pub(crate) fn cover(&self, region: &Region) -> bool {
        let mut ports = [None].into_iter().chain(region.port.map(Some));
        ports.any(|port| {
            self.whole.contains(&port) || region.to.is_some_and(|to| self.has_prefix_of(port, to))
        })
    }

    fn has_prefix_of(&self, port: Option<u16>, to: Prefix) -> bool {
        let six = to.addr.is_ipv6();
        let mut shorter = self.prefixes.range((port, six, 0)..=(port, six, to.len));
        shorter.any(|((_, _, len), known)| known.contains(&Prefix { len: *len, ..to }.network()))
    }
}
