//! Commands of ethtool. Its masks have a bit set for each ignored bit (`rxclass_get_mask` of ethtool's rxclass.c inverts them).

use super::{
    Inexpressible, Ip, Locations, PlaceKind, addresses, ip, mac, of_interface, protocol, rule_of,
    whole_address,
};
use crate::change::Change;
use crate::nic::configuration::{Action, ContextId, RssContext, Rule};
use crate::nic::{Interface, Nic};
use std::fmt::Write;
use weft_packet::header_match::{Field, HeaderMatch};
use weft_units::Protocol;

pub(super) fn commands(
    nic: &Nic,
    locations: &mut Locations,
    change: &Change,
    device: &str,
) -> Result<Vec<String>, Inexpressible> {
    if let Some((rule, added)) = rule_of(change) {
        of_interface(nic, rule, Interface::Ntuple)?;
        if !added {
            let unknown = Inexpressible::UnknownPlace(PlaceKind::Location);
            let location = locations.remove(rule).ok_or(unknown)?;
            return Ok(vec![format!("ethtool -N {device} delete {location}")]);
        }
        let flow = flow(&rule.headers)?;
        let location = locations.add(nic, rule).ok_or(Inexpressible::NoPlace(PlaceKind::Location))?;
        return Ok(vec![format!("ethtool -N {device} flow-type {flow} {} loc {location}", action(rule))]);
    }
    match change {
        Change::SetContext { to, from } => set_context(to, from.as_ref(), device),
        Change::RemoveContext(context) if context.id == ContextId::MAIN => {
            Ok(vec![format!("ethtool -X {device} default")])
        }
        Change::RemoveContext(context) => {
            Ok(vec![format!("ethtool -X {device} context {} delete", context.id.0)])
        }
        Change::SetKey { to, .. } => {
            let bytes: Vec<String> = to.0.iter().map(|byte| format!("{byte:02x}")).collect();
            Ok(vec![format!("ethtool -X {device} hkey {}", bytes.join(":"))])
        }
        Change::Add(_) | Change::Remove(_) => Ok(Vec::new()),
    }
}

fn action(rule: &Rule) -> String {
    match rule.action {
        Action::Queue(queue) => format!("action {}", queue.0),
        Action::Context(context) => format!("context {}", context.0),
        // RX_CLS_FLOW_DISC, include/uapi/linux/ethtool.h.
        Action::Drop => "action -1".to_owned(),
    }
}

/// Formats the flow type and the fields.
fn flow(headers: &HeaderMatch) -> Result<String, Inexpressible> {
    let family = ip(headers);
    let kind = match (family, protocol(headers)) {
        (Ip::Four, Some(p)) if p == Protocol::TCP.0 => "tcp4",
        (Ip::Four, Some(p)) if p == Protocol::UDP.0 => "udp4",
        (Ip::Four, Some(p)) if p == Protocol::SCTP.0 => "sctp4",
        (Ip::Four, _) => "ip4",
        (Ip::Six, Some(p)) if p == Protocol::TCP.0 => "tcp6",
        (Ip::Six, Some(p)) if p == Protocol::UDP.0 => "udp6",
        (Ip::Six, Some(p)) if p == Protocol::SCTP.0 => "sctp6",
        (Ip::Six, _) => "ip6",
        (Ip::Other, _) => "ether",
    };
    let mut out = kind.to_owned();
    for field in headers.fields() {
        write_field(&mut out, headers, field, kind)?;
    }
    Ok(out)
}

fn write_field(
    out: &mut String,
    headers: &HeaderMatch,
    field: Field,
    kind: &'static str,
) -> Result<(), Inexpressible> {
    let (value, mask) = headers.get(field);
    let ether = kind == "ether";
    let transport = !ether && !kind.starts_with("ip");
    let ignored = field.all_bits() & !mask;
    let name = match field {
        Field::SrcIp | Field::DstIp if !ether => {
            let (address, tested) = addresses(headers, field);
            let _ = write!(out, " {} {address}", field.name());
            if !whole_address(headers, field) {
                let _ = write!(out, " m {}", complement(tested));
            }
            return Ok(());
        }
        Field::SrcPort | Field::DstPort if transport => field.name(),
        Field::Vlan => "vlan",
        Field::EtherType if ether => "proto",
        // The flow type implies it.
        Field::EtherType => return Ok(()),
        Field::IpProtocol if transport => return Ok(()),
        Field::IpProtocol if !ether => "l4proto",
        Field::DstMac | Field::SrcMac => {
            let name = match (ether, field) {
                (true, Field::DstMac) => "dst",
                (true, _) => "src",
                (false, Field::DstMac) => "dst-mac",
                (false, _) => return Err(Inexpressible::EthtoolSrcMac),
            };
            let _ = write!(out, " {name} {}", mac(value));
            if ignored != 0 {
                let _ = write!(out, " m {}", mac(ignored));
            }
            return Ok(());
        }
        _ => return Err(Inexpressible::EthtoolField { field: field.name(), flow_type: kind }),
    };
    let _ = write!(out, " {name} {value:#x}");
    if ignored != 0 {
        let _ = write!(out, " m {ignored:#x}");
    }
    Ok(())
}

fn complement(address: core::net::IpAddr) -> core::net::IpAddr {
    match address {
        core::net::IpAddr::V4(a) => core::net::Ipv4Addr::from(!u32::from(a)).into(),
        core::net::IpAddr::V6(a) => core::net::Ipv6Addr::from(!u128::from(a)).into(),
    }
}

fn set_context(
    to: &RssContext,
    from: Option<&RssContext>,
    device: &str,
) -> Result<Vec<String>, Inexpressible> {
    let first = to.indirection.iter().min().map_or(0, |queue| queue.0);
    let start = if first == 0 { String::new() } else { format!("start {first} ") };
    // Relative to the first queue.
    let shifted: Vec<u32> = to.indirection.iter().map(|queue| queue.0 - first).collect();
    let table = match (equal(&shifted), weights(&shifted)) {
        (Some(queues), _) => format!("{start}equal {queues}"),
        (None, Some(weights)) => {
            let weights: Vec<String> = weights.iter().map(u32::to_string).collect();
            format!("{start}weight {}", weights.join(" "))
        }
        (None, None) => return Err(Inexpressible::EthtoolTable),
    };
    let context = match (to.id, from) {
        (ContextId::MAIN, _) => String::new(),
        (id, Some(_)) => format!(" context {}", id.0),
        // The kernel chooses the number; plans number contexts as it does, from 1.
        (_, None) => " context new".to_owned(),
    };
    Ok(vec![format!("ethtool -X {device}{context} {table}")])
}

/// Returns the number of queues over which a table cycles (`ethtool -X DEVICE equal N`).
fn equal(table: &[u32]) -> Option<u32> {
    let queues = table.iter().max()? + 1;
    (0..).zip(table).all(|(entry, queue): (u32, &u32)| *queue == entry % queues).then_some(queues)
}

/// Returns the weights from which ethtool (`fill_indir_table`) builds this table.
fn weights(table: &[u32]) -> Option<Vec<u32>> {
    let last = *table.iter().max()?;
    let mut weights = vec![0_u32; last as usize + 1];
    for queue in table {
        weights[*queue as usize] += 1;
    }
    table.is_sorted().then_some(weights)
}
