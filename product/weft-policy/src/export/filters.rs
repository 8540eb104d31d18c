//! The filters: of the fw classifier for marks alone, of u32 for other rows.

use super::{ExportError, Losses};
use crate::compiled::CompiledPolicy;
use crate::describe::describe_match;
use crate::kernel::{Handle, Lowered};
use crate::promise::CLASSES;
use core::fmt::Write;
use core::net::IpAddr;
use weft_packet::{Attribute, AttributeTests, Match, PortRange};
use weft_units::{ClassId, Protocol};

/// The most filters of one row.
const FILTERS_MAX: usize = 256;
/// The most rows: each takes two of tc's 65,535 precedences, one for each address family.
const ROWS_MAX: usize = 32_767;

/// A protocol of the link layer, as tc names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Family {
    /// All frames.
    All,
    Ip,
    Ip6,
}

/// The filters of one row of the match table.
#[derive(Debug)]
pub(super) struct Filter {
    /// The comment above the commands.
    pub(super) title: String,
    /// The family, the precedence, and the tests of each filter.
    parts: Vec<(Family, usize, String)>,
    /// The qdiscs from the root to the leaf, each with the class in it.
    way: Vec<(Handle, Handle)>,
}

impl Filter {
    /// The commands that add the filters, at each qdisc on the way to the leaf.
    pub(super) fn commands(&self, device: &str) -> String {
        let mut out = String::new();
        for (qdisc, class) in &self.way {
            for (family, prio, tests) in &self.parts {
                let protocol = match family {
                    Family::All => "all",
                    Family::Ip => "ip",
                    Family::Ip6 => "ipv6",
                };
                let _ = writeln!(
                    out,
                    "tc filter add dev {device} parent {qdisc} protocol {protocol} prio {prio} {tests} flowid {class}"
                );
            }
        }
        out
    }
}

/// The filters of the classification table, without the last row, whose class is the default of the tree.
pub(super) fn filters(
    policy: &CompiledPolicy,
    lowered: &Lowered,
    losses: &mut Losses,
) -> Result<Vec<Filter>, ExportError> {
    if policy.rules.len() > ROWS_MAX {
        return Err(ExportError::TooManyRows(ROWS_MAX));
    }
    let rows = policy.rules.split_last().map_or(&[][..], |(_, rows)| rows);
    let ways = lowered.tree.ways();
    let way = |class: ClassId| lowered.map.leaf(class).map_or_else(Vec::new, &ways);
    let mut filters = Vec::with_capacity(rows.len());
    for (number, rule) in rows.iter().enumerate() {
        let title = format!("row {}: {}", number + 1, describe_match(&rule.matcher, policy));
        match parts(&rule.matcher, number, losses) {
            Ok(parts) => filters.push(Filter { title, parts, way: way(rule.class) }),
            Err(why) => losses.lose(CLASSES, format!("{title}: {why}; its packets go to the rows after it")),
        }
    }
    Ok(filters)
}

/// The filters of a row, or the reason why u32 cannot express it.
fn parts(
    row: &Match,
    number: usize,
    losses: &mut Losses,
) -> Result<Vec<(Family, usize, String)>, &'static str> {
    // Named one by one, so that a new test is not left out silently.
    let Match { protocol, src, dst, sport, dport, mark, priority, cgroup, port, attributes } = row;
    let unseen = [
        (cgroup.is_some(), "u32 sees no cgroups (mark the packets, such as by nftables' `socket cgroupv2`)"),
        (
            port.is_some(),
            "u32 sees no ports of the NIC (export a policy for each port, for the device behind it)",
        ),
        (priority.is_some(), "u32 sees no priorities"),
    ];
    if let Some((_, why)) = unseen.into_iter().find(|(tested, _)| *tested) {
        return Err(why);
    }
    let class = traffic_class(attributes)?;
    let only_mark = Match { mark: *mark, ..Match::default() } == *row;
    if let Some((value, mask)) = mark.filter(|_| only_mark) {
        return Ok(vec![(Family::All, 2 * number + 1, format!("handle {value:#x}/{mask:#x} fw"))]);
    }
    let mut common = String::new();
    if let Some((value, mask)) = mark {
        let _ = write!(common, " match mark {value:#x} {mask:#x}");
        losses.add(CLASSES, "`mark` with other tests needs a kernel with CONFIG_CLS_U32_MARK; others ignore the test: see that `tc filter show` lists it");
    }
    let ported = sport.is_some() || dport.is_some();
    if ported {
        losses.add(CLASSES, "ports are found behind IPv4 headers without options and IPv6 headers without extensions, and not in fragments");
    }
    let address = src.or(*dst).map(|prefix| prefix.addr);
    let families = families(row.tests_key(), address);
    let protocols: Vec<Option<Protocol>> = match protocol {
        Some(one) => vec![Some(*one)],
        None if ported => [Protocol::TCP, Protocol::UDP, Protocol::SCTP].map(Some).to_vec(),
        None => vec![None],
    };
    let sports = masks(*sport);
    let dports = masks(*dport);
    if families.len() * protocols.len() * sports.len() * dports.len() > FILTERS_MAX {
        return Err("its ranges of ports need too many filters");
    }
    let mut parts = Vec::new();
    for (place, family) in families.iter().enumerate() {
        let word = if *family == Family::Ip6 { "ip6" } else { "ip" };
        for protocol in &protocols {
            for (source, target) in sports.iter().flat_map(|s| dports.iter().map(move |d| (s, d))) {
                let mut tests = String::from("u32");
                let mut test = |text: String| tests.push_str(&format!(" match {word} {text}"));
                protocol.iter().for_each(|protocol| test(format!("protocol {} 0xff", protocol.0)));
                src.iter().for_each(|prefix| test(format!("src {prefix}")));
                dst.iter().for_each(|prefix| test(format!("dst {prefix}")));
                source.iter().for_each(|(value, mask)| test(format!("sport {value} {mask:#x}")));
                target.iter().for_each(|(value, mask)| test(format!("dport {value} {mask:#x}")));
                let name = if *family == Family::Ip6 { "priority" } else { "dsfield" };
                class.iter().for_each(|(value, mask)| test(format!("{name} {value:#x} {mask:#x}")));
                tests.push_str(&common);
                if tests == "u32" {
                    tests.push_str(" match u32 0 0");
                }
                // tc has one protocol for each precedence.
                parts.push((*family, 2 * number + place + 1, tests));
            }
        }
    }
    Ok(parts)
}

/// The families of the filters of a row. `keyed`: it tests something that only IP packets have.
fn families(keyed: bool, address: Option<IpAddr>) -> &'static [Family] {
    match address {
        _ if !keyed => &[Family::All],
        None => &[Family::Ip, Family::Ip6],
        Some(IpAddr::V4(_)) => &[Family::Ip],
        Some(IpAddr::V6(_)) => &[Family::Ip6],
    }
}

/// The tests of DSCP and ECN as the traffic class under a mask, or the reason why u32 cannot express one of the others.
fn traffic_class(tests: &AttributeTests) -> Result<Option<(u128, u128)>, &'static str> {
    let (mut value, mut mask) = (0, 0);
    for (attribute, tested) in tests.iter() {
        match attribute {
            Attribute::Dscp => (value, mask) = (value | tested << 2, mask | 0xfc),
            Attribute::Ecn => (value, mask) = (value | tested, mask | 3),
            Attribute::Vlan | Attribute::Pcp => {
                return Err("u32 sees no VLAN tags (`tc filter ... flower vlan_id N vlan_prio N` does)");
            }
            Attribute::User => {
                return Err("u32 sees no users (mark the packets, such as by nftables' `meta skuid`)");
            }
            Attribute::ClassId => {
                return Err(
                    "u32 sees no classes of net_cls (mark the packets, such as by nftables' `meta cgroup`)",
                );
            }
            Attribute::Cookie => return Err("u32 sees no cookies of sockets (mark the packets by SO_MARK)"),
            Attribute::Process => {
                return Err(
                    "u32 sees no processes (start them in a cgroup, and mark its packets, such as by nftables' `socket cgroupv2`)",
                );
            }
        }
    }
    Ok((mask != 0).then_some((value, mask)))
}

/// A range of ports as values under masks; one `None` for no test.
fn masks(range: Option<PortRange>) -> Vec<Option<(u16, u16)>> {
    let Some(PortRange { first, last }) = range else { return vec![None] };
    let (mut next, last, mut found) = (u32::from(first), u32::from(last), Vec::new());
    while next <= last {
        let aligned = if next == 0 { 16 } else { next.trailing_zeros().min(16) };
        let fits = (0..=aligned).rev().find(|bits| next + (1 << bits) - 1 <= last).unwrap_or(0);
        let mask = !((1_u32 << fits) - 1) & 0xffff;
        found.push(Some((next as u16, mask as u16)));
        next += 1 << fits;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn masks_match_the_range_and_nothing_else(a in 0_u16.., b in 0_u16.., port in 0_u16..) {
            let (first, last) = (a.min(b), a.max(b));
            let found = masks(Some(PortRange { first, last }));
            let hits = |port: u16| found.iter().flatten().filter(|(value, mask)| port & mask == *value).count();
            for port in [port, first, last, first.wrapping_sub(1), last.wrapping_add(1)] {
                prop_assert_eq!(hits(port), usize::from((first..=last).contains(&port)), "{}..{} {}", first, last, port);
            }
            prop_assert!(found.len() <= 30);
        }
    }
}
