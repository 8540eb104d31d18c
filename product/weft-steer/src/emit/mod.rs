//! Plans as commands of ethtool, tc flower or DPDK's testpmd.

mod ethtool;
mod flower;
mod inexpressible;
mod location;
mod rte_flow;

pub use location::Locations;

use crate::change::{Change, ChangePlan, apply};
use crate::nic::configuration::{Configuration, Rule};
use crate::nic::{Interface, Nic};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use inexpressible::{Inexpressible, PlaceKind};
use weft_packet::header_match::{ETHER_TYPE_IPV4, ETHER_TYPE_IPV6, Field, HeaderMatch};

/// The tool whose commands are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dialect {
    /// `ethtool -N` and `-X`.
    Ethtool,
    /// `tc filter ... flower`, in hardware only.
    Flower,
    /// testpmd's `flow` commands.
    RteFlow,
}

/// Commands, one per line, and the changes that they cannot express.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Script {
    /// The commands, in order.
    pub lines: Vec<String>,
    /// Changes without a command in the dialect, each with the reason.
    pub cannot: Vec<String>,
}

impl Script {
    /// Formats a file: the commands, preceded by the other changes as comments.
    pub fn text(&self) -> String {
        let comments = self.cannot.iter().map(|reason| format!("# not expressible: {reason}\n"));
        comments.chain(self.lines.iter().map(|line| format!("{line}\n"))).collect()
    }
}

/// Writes a plan's commands for a device that holds `from` before the first one.
pub fn script(nic: &Nic, from: &Configuration, plan: &ChangePlan, device: &str, dialect: Dialect) -> Script {
    let mut script = Script::default();
    let mut state = from.clone();
    let mut locations = Locations::of(nic, from);
    let mut numbers = rte_flow::Numbers::of(from);
    for (number, change) in plan.changes.iter().enumerate() {
        let said = match dialect {
            Dialect::Ethtool => ethtool::commands(nic, &mut locations, change, device),
            Dialect::Flower => flower::commands(nic, &mut locations, change, device),
            Dialect::RteFlow => rte_flow::commands(&state, &mut numbers, change),
        };
        match said {
            Ok(lines) => script.lines.extend(lines),
            Err(reason) => script.cannot.push(format!("change {}, {change}: {reason}", number + 1)),
        }
        apply(&mut state, change);
    }
    script
}

/// Checks that a rule's table belongs to an interface.
fn of_interface(nic: &Nic, rule: &Rule, interface: Interface) -> Result<(), Inexpressible> {
    let table = nic.table(rule.table).ok_or(Inexpressible::NoTable)?;
    if table.interface == interface {
        Ok(())
    } else {
        Err(Inexpressible::Interface { table: table.name.clone(), interface: table.interface })
    }
}

impl Interface {
    /// The dialect's name for users.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ntuple => "ethtool ntuple rules",
            Self::Flower => "tc flower",
            Self::RteFlow => "DPDK's rte_flow",
            Self::None => "nothing that a driver offers",
        }
    }
}

/// The IP version of a header match's packets.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ip {
    Four,
    Six,
    /// Unspecified, or not IP.
    Other,
}

fn ip(headers: &HeaderMatch) -> Ip {
    match headers.ether_type() {
        Some(ETHER_TYPE_IPV4) => Ip::Four,
        Some(ETHER_TYPE_IPV6) => Ip::Six,
        _ => Ip::Other,
    }
}

/// Returns an address field's value and mask as addresses.
fn addresses(headers: &HeaderMatch, field: Field) -> (IpAddr, IpAddr) {
    let (value, mask) = headers.get(field);
    if ip(headers) == Ip::Four {
        (Ipv4Addr::from(value as u32).into(), Ipv4Addr::from(mask as u32).into())
    } else {
        (Ipv6Addr::from(value).into(), Ipv6Addr::from(mask).into())
    }
}

/// Whether an address field is tested completely.
fn whole_address(headers: &HeaderMatch, field: Field) -> bool {
    let (_, mask) = headers.get(field);
    if ip(headers) == Ip::Four { mask as u32 == u32::MAX } else { mask == u128::MAX }
}

/// Returns the prefix length of an address field, if its mask is a prefix.
fn prefix_len(headers: &HeaderMatch, field: Field) -> Option<u32> {
    let bits = if ip(headers) == Ip::Four { 32 } else { 128 };
    let aligned = headers.get(field).1 << (128 - bits);
    (aligned.leading_ones() == aligned.count_ones()).then(|| aligned.leading_ones())
}

/// Formats a MAC address field's value or mask.
fn mac(bits: u128) -> String {
    let bytes: Vec<String> = (0..6).rev().map(|i| format!("{:02x}", bits >> (8 * i) & 0xff)).collect();
    bytes.join(":")
}

/// Returns the IP protocol, if it is tested completely.
fn protocol(headers: &HeaderMatch) -> Option<u8> {
    let (value, mask) = headers.get(Field::IpProtocol);
    (mask == Field::IpProtocol.all_bits()).then_some(value as u8)
}

/// Returns the rule of a change, and whether it is added.
const fn rule_of(change: &Change) -> Option<(&Rule, bool)> {
    match change {
        Change::Add(rule) => Some((rule, true)),
        Change::Remove(rule) => Some((rule, false)),
        Change::SetContext { .. } | Change::RemoveContext(_) | Change::SetKey { .. } => None,
    }
}

#[cfg(test)]
mod tests;
