//! Commands of tc: flower filters at a device's ingress, executed in hardware (kernel documentation, "TC queue based filtering").

use super::{Inexpressible, Ip, Locations, PlaceKind, ip, mac, of_interface, prefix_len, protocol, rule_of};
use crate::change::Change;
use crate::nic::configuration::{Action, Rule};
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
    let Some((rule, added)) = rule_of(change) else {
        return Err(Inexpressible::TcRss);
    };
    of_interface(nic, rule, Interface::Flower)?;
    let vlan = rule.headers.tests(Field::Vlan);
    let protocol = match (vlan, ip(&rule.headers)) {
        (true, _) => "802.1q".to_owned(),
        (false, Ip::Four) => "ip".to_owned(),
        (false, Ip::Six) => "ipv6".to_owned(),
        (false, Ip::Other) => {
            rule.headers.ether_type().map_or_else(|| "all".to_owned(), |kind| format!("{kind:#x}"))
        }
    };
    let place = |verb: &str, pref: u32| {
        format!("tc filter {verb} dev {device} ingress protocol {protocol} pref {pref} flower")
    };
    if !added {
        let unknown = Inexpressible::UnknownPlace(PlaceKind::Preference);
        let pref = locations.remove(rule).ok_or(unknown)?;
        return Ok(vec![place("del", pref)]);
    }
    let (keys, action) = (keys(&rule.headers)?, action(rule)?);
    let pref = locations.add(nic, rule).ok_or(Inexpressible::NoPlace(PlaceKind::Preference))?;
    Ok(vec![format!("{}{keys} skip_sw {action}", place("add", pref))])
}

fn action(rule: &Rule) -> Result<String, Inexpressible> {
    match rule.action {
        Action::Queue(queue) => Ok(format!("action skbedit queue_mapping {}", queue.0)),
        Action::Drop => Ok("action drop".to_owned()),
        Action::Context(_) => Err(Inexpressible::TcContext),
    }
}

fn keys(headers: &HeaderMatch) -> Result<String, Inexpressible> {
    let vlan = headers.tests(Field::Vlan);
    let mut out = String::new();
    for field in headers.fields() {
        let (value, mask) = headers.get(field);
        let whole = mask == field.all_bits();
        let part = match field {
            Field::SrcIp | Field::DstIp => {
                let name = if field == Field::SrcIp { "src_ip" } else { "dst_ip" };
                let (address, tested) = super::addresses(headers, field);
                match prefix_len(headers, field) {
                    Some(len) => format!("{name} {address}/{len}"),
                    None => format!("{name} {address}/{tested}"),
                }
            }
            Field::IpProtocol => match protocol(headers) {
                Some(p) if p == Protocol::TCP.0 => "ip_proto tcp".to_owned(),
                Some(p) if p == Protocol::UDP.0 => "ip_proto udp".to_owned(),
                Some(p) if p == Protocol::SCTP.0 => "ip_proto sctp".to_owned(),
                Some(p) => format!("ip_proto {p:#x}"),
                None => return Err(Inexpressible::FlowerMask("ip-proto")),
            },
            Field::SrcPort | Field::DstPort => {
                let name = if field == Field::SrcPort { "src_port" } else { "dst_port" };
                if whole { format!("{name} {value}") } else { format!("{name} {value:#x}/{mask:#x}") }
            }
            Field::TcpFlags => format!("tcp_flags {value:#x}/{mask:#x}"),
            Field::DstMac => format!("dst_mac {}/{}", mac(value), mac(mask)),
            Field::SrcMac => format!("src_mac {}/{}", mac(value), mac(mask)),
            Field::Vlan if mask & 0xfff == 0xfff => format!("vlan_id {}", value & 0xfff),
            Field::Vlan => return Err(Inexpressible::FlowerMask("a VLAN's identifier")),
            Field::EtherType if vlan => match headers.ether_type() {
                Some(kind) => format!("vlan_ethtype {kind:#x}"),
                None => return Err(Inexpressible::FlowerMask("the Ethernet type")),
            },
            // The filter's protocol implies it.
            Field::EtherType if whole => continue,
            Field::EtherType => return Err(Inexpressible::FlowerMask("the Ethernet type")),
        };
        let _ = write!(out, " {part}");
    }
    Ok(out)
}
