//! Conversion between filter rules of a plan and receive rules of a driver.

use weft_host::ethtool::{self, Extension, Flow, Ip, L4, Location, Masked, Ports, RxRule};
use weft_host::link::Mac;
use weft_packet::cube::{ETHER_TYPE_IPV4, ETHER_TYPE_IPV6};
use weft_packet::{Cube, Field};
use weft_steer::nic::{Interface, Nic};
use weft_steer::{Action, ContextId, Rule};
use weft_units::Protocol;

/// Converts a rule to the kernel's form, at a location.
///
/// # Errors
/// A field for which `struct ethtool_rx_flow_spec` has no place.
pub fn to_rx_rule(rule: &Rule, location: u32) -> Result<RxRule, String> {
    let cube = &rule.cube;
    let protocol = match cube.get(Field::IpProtocol) {
        (value, 0xff) => Some(Protocol(value as u8)),
        (_, 0) => None,
        _ => return Err("receive rules compare the IP protocol only as a whole".to_owned()),
    };
    if cube.tests(Field::TcpFlags) {
        return Err("receive rules do not compare TCP flags".to_owned());
    }
    let ports = match protocol {
        Some(Protocol::TCP) => Some(L4::Tcp),
        Some(Protocol::UDP) => Some(L4::Udp),
        Some(Protocol::SCTP) => Some(L4::Sctp),
        _ => None,
    };
    if ports.is_none() && (cube.tests(Field::SrcPort) || cube.tests(Field::DstPort)) {
        return Err("receive rules compare ports only of TCP, UDP or SCTP".to_owned());
    }
    let mut mac = None;
    let flow = match (cube.ether_type(), ports) {
        (Some(ETHER_TYPE_IPV4), Some(l4)) => Flow::Ports4(with_ports(cube, l4, four)),
        (Some(ETHER_TYPE_IPV4), None) => Flow::Ip4(with_protocol(cube, four)),
        (Some(ETHER_TYPE_IPV6), Some(l4)) => Flow::Ports6(with_ports(cube, l4, six)),
        (Some(ETHER_TYPE_IPV6), None) => Flow::Ip6(with_protocol(cube, six)),
        _ if cube.tests(Field::SrcIp) || cube.tests(Field::DstIp) || protocol.is_some() => {
            return Err("receive rules compare IP fields only of IPv4 or IPv6, so name one".to_owned());
        }
        _ => Flow::Ether {
            destination: mac_of(cube, Field::DstMac),
            source: mac_of(cube, Field::SrcMac),
            ethertype: sixteen(cube, Field::EtherType),
        },
    };
    if !matches!(flow, Flow::Ether { .. }) {
        if cube.tests(Field::SrcMac) {
            return Err("receive rules compare a source MAC address only without IP fields".to_owned());
        }
        mac = Some(mac_of(cube, Field::DstMac)).filter(|mac| !mac.is_any());
    }
    let extension = cube
        .tests(Field::Vlan)
        .then(|| Extension { vlan_tci: sixteen(cube, Field::Vlan), ..Extension::default() });
    let action = match rule.action {
        Action::Queue(queue) => ethtool::Action::Queue(queue),
        Action::Context(context) => ethtool::Action::Context {
            context: ethtool::ContextId(context.0),
            first: weft_units::RxQueueId(0),
        },
        Action::Drop => ethtool::Action::Drop,
    };
    Ok(RxRule { location: Location::At(location), flow, extension, mac, action })
}

fn four(cube: &Cube, field: Field) -> Masked<u32> {
    let (value, mask) = cube.get(field);
    Masked { value: value as u32, mask: mask as u32 }
}

fn six(cube: &Cube, field: Field) -> Masked<u128> {
    let (value, mask) = cube.get(field);
    Masked { value, mask }
}

fn sixteen(cube: &Cube, field: Field) -> Masked<u16> {
    let (value, mask) = cube.get(field);
    Masked { value: value as u16, mask: mask as u16 }
}

fn mac_of(cube: &Cube, field: Field) -> Masked<Mac> {
    let (value, mask) = cube.get(field);
    let bytes = |bits: u128| {
        let all = (bits as u64).to_be_bytes();
        Mac([all[2], all[3], all[4], all[5], all[6], all[7]])
    };
    Masked { value: bytes(value), mask: bytes(mask) }
}

fn with_ports<A: ethtool::Field>(
    cube: &Cube,
    protocol: L4,
    address: impl Fn(&Cube, Field) -> Masked<A>,
) -> Ports<A> {
    Ports {
        source: address(cube, Field::SrcIp),
        destination: address(cube, Field::DstIp),
        source_port: sixteen(cube, Field::SrcPort),
        destination_port: sixteen(cube, Field::DstPort),
        ..Ports::any(protocol)
    }
}

fn with_protocol<A: ethtool::Field>(cube: &Cube, address: impl Fn(&Cube, Field) -> Masked<A>) -> Ip<A> {
    let (value, mask) = cube.get(Field::IpProtocol);
    Ip {
        source: address(cube, Field::SrcIp),
        destination: address(cube, Field::DstIp),
        protocol: Masked { value: value as u8, mask: mask as u8 },
        ..Ip::default()
    }
}

/// Converts a driver's rule to a rule of the model, in the first ntuple table that accepts it.
///
/// # Errors
/// The property of the rule that the model does not have.
pub fn from_rx_rule(nic: &Nic, rule: &RxRule) -> Result<Rule, String> {
    let cube = cube_of(rule)?;
    let action = match rule.action {
        ethtool::Action::Queue(queue) => Action::Queue(queue),
        ethtool::Action::Drop => Action::Drop,
        ethtool::Action::Context { context, first } if first.0 == 0 => Action::Context(ContextId(context.0)),
        ethtool::Action::Context { .. } => return Err("it adds to an RSS context's queues".to_owned()),
        ethtool::Action::Function { .. } => return Err("it sends packets to a virtual function".to_owned()),
        ethtool::Action::Wake => return Err("it wakes the machine".to_owned()),
    };
    let mut refusal = "the model has no table that ethtool sets".to_owned();
    for (id, table) in nic.tables().filter(|(_, table)| table.interface == Interface::Ntuple) {
        let rule = Rule { table: id, cube, priority: table.priorities.0, action };
        match table.takes(&rule) {
            Ok(()) => return Ok(rule),
            Err(reason) => refusal = reason.to_string(),
        }
    }
    Err(refusal)
}

fn cube_of(rule: &RxRule) -> Result<Cube, String> {
    let mut cube = match &rule.flow {
        Flow::Ports4(ports) => ports_cube(ports, ETHER_TYPE_IPV4, u128::from)?,
        Flow::Ports6(ports) => ports_cube(ports, ETHER_TYPE_IPV6, |value: u128| value)?,
        Flow::Ip4(ip) => ip_cube(ip, ETHER_TYPE_IPV4, u128::from)?,
        Flow::Ip6(ip) => ip_cube(ip, ETHER_TYPE_IPV6, |value: u128| value)?,
        Flow::Ether { destination, source, ethertype } => with_mac(
            with_mac(Cube::ALL, Field::DstMac, destination),
            Field::SrcMac,
            source,
        )
        .with(Field::EtherType, ethertype.value.into(), ethertype.mask.into()),
        Flow::Other { kind, .. } => return Err(format!("its flow type {kind:#x} is not known")),
    };
    if let Some(extension) = &rule.extension {
        if !extension.vlan_ethertype.is_any() || extension.user.iter().any(|user| !user.is_any()) {
            return Err("it compares what only its driver knows".to_owned());
        }
        cube = cube.with(Field::Vlan, extension.vlan_tci.value.into(), extension.vlan_tci.mask.into());
    }
    Ok(rule.mac.as_ref().map_or(cube, |mac| with_mac(cube, Field::DstMac, mac)))
}

fn with_mac(cube: Cube, field: Field, mac: &Masked<Mac>) -> Cube {
    let bits = |mac: &Mac| mac.0.iter().fold(0u128, |bits, byte| bits << 8 | u128::from(*byte));
    cube.with(field, bits(&mac.value), bits(&mac.mask))
}

fn ports_cube<A: ethtool::Field>(
    ports: &Ports<A>,
    kind: u16,
    bits: impl Fn(A) -> u128,
) -> Result<Cube, String> {
    if !ports.tos.is_any() {
        return Err("it compares the type of service".to_owned());
    }
    let protocol = match ports.protocol {
        L4::Tcp => Protocol::TCP,
        L4::Udp => Protocol::UDP,
        L4::Sctp => Protocol::SCTP,
    };
    Ok(Cube::ALL
        .exact(Field::EtherType, kind.into())
        .exact(Field::IpProtocol, protocol.0.into())
        .with(Field::SrcIp, bits(ports.source.value), bits(ports.source.mask))
        .with(Field::DstIp, bits(ports.destination.value), bits(ports.destination.mask))
        .with(Field::SrcPort, ports.source_port.value.into(), ports.source_port.mask.into())
        .with(Field::DstPort, ports.destination_port.value.into(), ports.destination_port.mask.into()))
}

fn ip_cube<A: ethtool::Field>(ip: &Ip<A>, kind: u16, bits: impl Fn(A) -> u128) -> Result<Cube, String> {
    if !ip.tos.is_any() || !ip.l4_bytes.is_any() {
        return Err("it compares the type of service or bytes behind the IP header".to_owned());
    }
    Ok(Cube::ALL
        .exact(Field::EtherType, kind.into())
        .with(Field::IpProtocol, ip.protocol.value.into(), ip.protocol.mask.into())
        .with(Field::SrcIp, bits(ip.source.value), bits(ip.source.mask))
        .with(Field::DstIp, bits(ip.destination.value), bits(ip.destination.mask)))
}
