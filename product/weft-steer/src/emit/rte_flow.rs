//! Commands of testpmd: `flow` for DPDK's rte_flow. testpmd numbers rules from 0 in the order of their creation. A rule that the
//! NIC already has gets the number that its creation would have given.

use super::{Inexpressible, Ip, addresses, ip, mac, protocol, rule_of, whole_address};
use crate::change::Change;
use crate::nic::configuration::{Action, Configuration, Rule};
use std::collections::BTreeMap;
use std::fmt::Write;
use weft_packet::header_match::{Field, HeaderMatch};
use weft_units::Protocol;

/// The numbers of rules.
pub(super) struct Numbers {
    of: BTreeMap<Rule, u32>,
    next: u32,
}

impl Numbers {
    /// Numbers a configuration's rules as if created one after the other.
    pub(super) fn of(configuration: &Configuration) -> Self {
        let mut numbers = Self { of: BTreeMap::new(), next: 0 };
        for rule in &configuration.rules {
            numbers.add(rule);
        }
        numbers
    }

    fn add(&mut self, rule: &Rule) {
        self.of.insert(*rule, self.next);
        self.next += 1;
    }
}

pub(super) fn commands(
    state: &Configuration,
    numbers: &mut Numbers,
    change: &Change,
) -> Result<Vec<String>, Inexpressible> {
    let Some((rule, added)) = rule_of(change) else {
        return match change {
            // A context is part of each rule that names it.
            Change::SetContext { to, .. } if to.id != crate::nic::configuration::ContextId::MAIN => {
                Ok(Vec::new())
            }
            Change::RemoveContext(context) if context.id != crate::nic::configuration::ContextId::MAIN => {
                Ok(Vec::new())
            }
            Change::SetContext { to, .. } => {
                let entries: Vec<String> = to
                    .indirection
                    .iter()
                    .enumerate()
                    .map(|(i, queue)| format!("({i},{})", queue.0))
                    .collect();
                Ok(vec![format!("port config 0 rss reta {}", entries.join(","))])
            }
            _ => Err(Inexpressible::TestpmdKey),
        };
    };
    if !added {
        let number = numbers.of.remove(rule).ok_or(Inexpressible::TestpmdUnset)?;
        return Ok(vec![format!("flow destroy 0 rule {number}")]);
    }
    let mut out =
        format!("flow create 0 priority {} ingress pattern {}", 255 - rule.priority, pattern(&rule.headers)?);
    match rule.action {
        Action::Queue(queue) => {
            let _ = write!(out, " actions queue index {}", queue.0);
        }
        Action::Drop => out.push_str(" actions drop"),
        Action::Context(id) => {
            let context = state.context(id).ok_or(Inexpressible::TestpmdContext)?;
            let mut queues = context.indirection.clone();
            queues.sort_unstable();
            queues.dedup();
            let queues: Vec<String> = queues.iter().map(|queue| queue.0.to_string()).collect();
            let _ = write!(out, " actions rss queues {} end", queues.join(" "));
        }
    }
    out.push_str(" / end");
    numbers.add(rule);
    Ok(vec![out])
}

fn pattern(headers: &HeaderMatch) -> Result<String, Inexpressible> {
    let mut items = vec![item("eth", headers, &[(Field::DstMac, "dst"), (Field::SrcMac, "src")])?];
    let family = ip(headers);
    if headers.tests(Field::Vlan) {
        items.push(item("vlan", headers, &[(Field::Vlan, "tci")])?);
    }
    let addresses = [(Field::SrcIp, "src"), (Field::DstIp, "dst")];
    match family {
        Ip::Four => items.push(item("ipv4", headers, &addresses)?),
        Ip::Six => items.push(item("ipv6", headers, &addresses)?),
        Ip::Other if headers.tests(Field::EtherType) => {
            items[0] = item(
                "eth",
                headers,
                &[(Field::DstMac, "dst"), (Field::SrcMac, "src"), (Field::EtherType, "type")],
            )?;
        }
        Ip::Other => {}
    }
    let ports = [(Field::SrcPort, "src"), (Field::DstPort, "dst")];
    let name = match protocol(headers) {
        Some(p) if p == Protocol::TCP.0 => "tcp",
        Some(p) if p == Protocol::UDP.0 => "udp",
        Some(p) if p == Protocol::SCTP.0 => "sctp",
        _ if headers.tests(Field::SrcPort) || headers.tests(Field::DstPort) => {
            return Err(Inexpressible::RteFlowPorts);
        }
        Some(p) if family != Ip::Other => {
            let last = items.len() - 1;
            let word = if family == Ip::Four { "next_proto_id" } else { "proto" };
            let _ = write!(items[last], " {word} is {p}");
            ""
        }
        _ => "",
    };
    if name == "tcp" {
        items.push(item(name, headers, &[ports[0], ports[1], (Field::TcpFlags, "flags")])?);
    } else if !name.is_empty() {
        items.push(item(name, headers, &ports)?);
    }
    Ok(format!("{} / end", items.join(" / ")))
}

fn item(name: &str, headers: &HeaderMatch, fields: &[(Field, &str)]) -> Result<String, Inexpressible> {
    let mut out = name.to_owned();
    for (field, word) in fields.iter().filter(|(field, _)| headers.tests(*field)) {
        let (value, mask) = headers.get(*field);
        let (value, mask, whole) = match field {
            Field::SrcIp | Field::DstIp if ip(headers) == Ip::Other => {
                return Err(Inexpressible::RteFlowAddresses);
            }
            Field::SrcIp | Field::DstIp => {
                let (value, mask) = addresses(headers, *field);
                (value.to_string(), mask.to_string(), whole_address(headers, *field))
            }
            Field::DstMac | Field::SrcMac => (mac(value), mac(mask), mask == field.all_bits()),
            _ => (format!("{value:#x}"), format!("{mask:#x}"), mask == field.all_bits()),
        };
        let _ = if whole {
            write!(out, " {word} is {value}")
        } else {
            write!(out, " {word} spec {value} {word} mask {mask}")
        };
    }
    Ok(out)
}
