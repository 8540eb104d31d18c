//! Shapes of networks: switches, their ports, and the target of each port.

use super::{Hop, Port, Switch, SwitchId};
use crate::ids::{HostId, Table};
use crate::run_error::RunError;
use crate::scenario::{NetworkSpec, Topology};
use weft_units::LinkTransmitter;
use weft_units::{BitsPerSec, Bytes};

/// The maximum number of ports; a guard against a mistyped number of spines, not a limit of the model.
const PORTS_MAX: u64 = 1 << 20;

/// The attachment of a host.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attachment {
    pub(super) switch: u32,
    /// The switch's output port to the host.
    port: u32,
}

/// The output ports of a switch for hosts at other switches.
#[derive(Clone, Copy, Debug)]
pub(super) enum Away {
    /// One of `count` ports from `first`, selected by the flow's hash.
    Up { first: u32, count: u32 },
    /// The port to the host's own switch; `first` is the port to the first switch.
    Down { first: u32 },
}

impl Away {
    /// Returns the output port of `switch`, which has this `Away`, for a packet to a host with this attachment.
    #[inline]
    pub(super) fn route(self, switch: SwitchId, attachment: Attachment, hash: u32) -> u32 {
        if attachment.switch == switch.0 {
            return attachment.port;
        }
        match self {
            Self::Up { first, count } => first + spread(hash, count),
            Self::Down { first } => first + attachment.switch,
        }
    }
}

/// Selects one of `count` by a hash. Multiplicative hashing with 2^32 over the golden ratio (Knuth, volume 3, section 6.4) uses
/// every bit, so the choice is independent of the receive queue, which is the same hash modulo the number of queues.
#[inline]
fn spread(hash: u32, count: u32) -> u32 {
    let mixed = hash.wrapping_mul(0x9E37_79B9);
    // Less than `count`, which has 32 bits.
    ((u64::from(mixed) * u64::from(count)) >> 32) as u32
}

/// The switches and ports of a network.
pub(super) struct Layout {
    pub(super) switches: Table<SwitchId, Switch>,
    pub(super) ports: Vec<Port>,
    pub(super) attachments: Table<HostId, Attachment>,
}

impl Layout {
    /// Builds the shape of `network` for `hosts` hosts.
    pub(super) fn new(network: &NetworkSpec, hosts: u32) -> Result<Self, RunError> {
        let mut layout = Self { switches: Table::new(), ports: Vec::new(), attachments: Table::new() };
        let wanted = u64::from(hosts);
        match network.topology {
            Topology::BackToBack if hosts == 2 => {}
            Topology::BackToBack => {
                let what = format!("{hosts} hosts cannot be back to back");
                return Err(RunError::impossible(what, "have two hosts, or a `star`"));
            }
            Topology::Star => {
                within(wanted)?;
                layout.add_switch(network, 0..hosts, &[])?;
            }
            Topology::Dumbbell { left } => {
                if left == 0 || left >= hosts {
                    let what = format!("a dumbbell of {hosts} hosts cannot have {left} at its first switch");
                    return Err(RunError::impossible(
                        what,
                        "have at least one host at each switch, or a `star`",
                    ));
                }
                within(wanted + 2)?;
                layout.add_switch(network, 0..left, &[1])?;
                layout.add_switch(network, left..hosts, &[0])?;
            }
            Topology::LeafSpine { leaves, spines } => layout.leaf_spine(network, hosts, leaves, spines)?,
        }
        if layout.switches.iter().next().is_some_and(|switch| switch.first == switch.end) {
            return Err(RunError::impossible(
                "there are no hosts at the switch".to_owned(),
                "give some `hosts`",
            ));
        }
        Ok(layout)
    }

    /// Builds leaves, then spines. Host h is at leaf h * leaves / hosts, rounded down: neighbours stay together, and the numbers
    /// of hosts per leaf differ by at most one.
    fn leaf_spine(
        &mut self,
        network: &NetworkSpec,
        hosts: u32,
        leaves: u32,
        spines: u32,
    ) -> Result<(), RunError> {
        if leaves == 0 || spines == 0 || leaves > hosts {
            let what = format!("{hosts} hosts cannot be spread over {leaves} leaves and {spines} spines");
            return Err(RunError::impossible(
                what,
                "have at least one spine, and at least one host at each leaf",
            ));
        }
        within((u64::from(leaves) * u64::from(spines)).saturating_mul(2).saturating_add(u64::from(hosts)))?;
        let first_of = |leaf: u32| {
            let host = (u64::from(leaf) * u64::from(hosts)).div_ceil(u64::from(leaves));
            // At most `hosts`.
            host as u32
        };
        let ups: Vec<u32> = (leaves..leaves + spines).collect();
        for leaf in 0..leaves {
            self.add_switch(network, first_of(leaf)..first_of(leaf + 1), &ups)?;
        }
        let downs: Vec<u32> = (0..leaves).collect();
        for _ in 0..spines {
            self.add_switch(network, 0..0, &downs)?;
            if let Some(Switch { first, away, .. }) = self.switches.iter_mut().last() {
                *away = Away::Down { first: *first };
            }
        }
        Ok(())
    }

    /// Adds a switch with a port to each of these hosts, which must follow those added before, and a port to each of the other
    /// switches.
    fn add_switch(
        &mut self,
        network: &NetworkSpec,
        hosts: std::ops::Range<u32>,
        others: &[u32],
    ) -> Result<(), RunError> {
        let switch = self.switches.len() as u32;
        let first = self.ports.len() as u32;
        for host in hosts {
            self.attachments.push(Attachment { switch, port: self.ports.len() as u32 });
            self.ports.push(Port::new(wire(network.rate, "rate")?, Hop::Host(HostId(host))));
        }
        let up = self.ports.len() as u32;
        for other in others {
            self.ports
                .push(Port::new(wire(network.trunk_rate, "trunk_rate")?, Hop::Switch(SwitchId(*other))));
        }
        let end = self.ports.len() as u32;
        let away = Away::Up { first: up, count: end - up };
        self.switches.push(Switch { first, end, away, used: Bytes::ZERO });
        Ok(())
    }
}

fn wire(rate: BitsPerSec, name: &str) -> Result<LinkTransmitter, RunError> {
    let refused = || {
        RunError::impossible("links of rate zero carry nothing".to_owned(), &format!("give `network.{name}`"))
    };
    LinkTransmitter::new(rate).ok_or_else(refused)
}

/// Checks that the network is not too large.
fn within(ports: u64) -> Result<(), RunError> {
    if ports > PORTS_MAX {
        let what = format!("a network with {ports} switch ports is too large");
        return Err(RunError::impossible(what, &format!("have at most {PORTS_MAX}")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Consecutive hashes, the worst case of flow numbers, must use all spines about equally.
    #[test]
    fn hashes_spread_over_spines() {
        for count in [1, 2, 3, 4, 7, 16] {
            let mut chosen = vec![0_u32; count as usize];
            (0..10_000).for_each(|hash| chosen[spread(hash, count) as usize] += 1);
            let fair = 10_000.0 / f64::from(count);
            for n in chosen {
                assert!((f64::from(n) - fair).abs() < 0.02 * fair, "{n} of 10 000 for one of {count}");
            }
        }
    }
}
