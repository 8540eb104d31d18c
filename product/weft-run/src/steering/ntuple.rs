//! Conversion between filter rules of a plan and receive rules of a driver.

use thiserror::Error;
use weft_host::ethtool::{self, Extension, Flow, Ip, L4, Location, Masked, Ports, RxRule};
use weft_host::link::Mac;
use weft_packet::header_match::{ETHER_TYPE_IPV4, ETHER_TYPE_IPV6};
use weft_packet::{Field, HeaderMatch};
use weft_steer::nic::{Interface, Nic, Refusal};
use weft_steer::{Action, ContextId, Rule};
use weft_units::Protocol;

/// A test of a rule that `struct ethtool_rx_flow_spec` has no field for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum RxRuleError {
    /// Some bits of the IP protocol.
    #[error("receive rules compare the IP protocol only as a whole")]
    PartOfProtocol,
    /// TCP's flags.
    #[error("receive rules do not compare TCP flags")]
    TcpFlags,
    /// Ports of another protocol, or of any.
    #[error("receive rules compare ports only of TCP, UDP or SCTP")]
    Ports,
    /// IP fields of another protocol, or of any.
    #[error("receive rules compare IP fields only of IPv4 or IPv6, so name one")]
    IpFields,
    /// A source MAC address beside IP fields.
    #[error("receive rules compare a source MAC address only without IP fields")]
    SourceMac,
}

/// A part of a driver's rule that no model has.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum ForeignRuleError {
    /// An RSS context with an offset.
    #[error("it adds to an RSS context's queues")]
    ContextOffset,
    /// A virtual function as target.
    #[error("it sends packets to a virtual function")]
    VirtualFunction,
    /// Wake-on-LAN.
    #[error("it wakes the machine")]
    Wake,
    /// A flow type of the kernel's that is new.
    #[error("its flow type {0:#x} is not known")]
    FlowType(u32),
    /// Bytes that only the driver reads.
    #[error("it compares what only its driver knows")]
    DriverData,
    /// The type of service.
    #[error("it compares the type of service")]
    TypeOfService,
    /// The type of service, or bytes of the transport header.
    #[error("it compares the type of service or bytes behind the IP header")]
    ServiceOrBytes,
    /// The model has no table for rules of ethtool's.
    #[error("the model has no table that ethtool sets")]
    NoTable,
    /// No table takes it.
    #[error(transparent)]
    Refused(Refusal),
}

/// A rule as the kernel takes it, at a location.
///
/// # Errors
/// What `struct ethtool_rx_flow_spec` has no place for.
pub fn to_rx_rule(rule: &Rule, location: u32) -> Result<RxRule, RxRuleError> {
    let headers = &rule.headers;
    let protocol = match headers.get(Field::IpProtocol) {
        (value, 0xff) => Some(Protocol(value as u8)),
        (_, 0) => None,
        _ => return Err(RxRuleError::PartOfProtocol),
    };
    if headers.tests(Field::TcpFlags) {
        return Err(RxRuleError::TcpFlags);
    }
    let ports = match protocol {
        Some(Protocol::TCP) => Some(L4::Tcp),
        Some(Protocol::UDP) => Some(L4::Udp),
        Some(Protocol::SCTP) => Some(L4::Sctp),
        _ => None,
    };
    if ports.is_none() && (headers.tests(Field::SrcPort) || headers.tests(Field::DstPort)) {
        return Err(RxRuleError::Ports);
    }
    let mut mac = None;
    let flow = match (headers.ether_type(), ports) {
        (Some(ETHER_TYPE_IPV4), Some(l4)) => Flow::Ports4(with_ports(headers, l4, four)),
        (Some(ETHER_TYPE_IPV4), None) => Flow::Ip4(with_protocol(headers, four)),
        (Some(ETHER_TYPE_IPV6), Some(l4)) => Flow::Ports6(with_ports(headers, l4, six)),
        (Some(ETHER_TYPE_IPV6), None) => Flow::Ip6(with_protocol(headers, six)),
        _ if headers.tests(Field::SrcIp) || headers.tests(Field::DstIp) || protocol.is_some() => {
            return Err(RxRuleError::IpFields);
        }
        _ => Flow::Ether {
            destination: mac_of(headers, Field::DstMac),
            source: mac_of(headers, Field::SrcMac),
            ethertype: sixteen(headers, Field::EtherType),
        },
    };
    if !matches!(flow, Flow::Ether { .. }) {
        if headers.tests(Field::SrcMac) {
            return Err(RxRuleError::SourceMac);
        }
        mac = Some(mac_of(headers, Field::DstMac)).filter(|mac| !mac.is_any());
    }
    let extension = headers
        .tests(Field::Vlan)
        .then(|| Extension { vlan_tci: sixteen(headers, Field::Vlan), ..Extension::default() });
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

fn four(headers: &HeaderMatch, field: Field) -> Masked<u32> {
    let (value, mask) = headers.get(field);
    Masked { value: value as u32, mask: mask as u32 }
}

fn six(headers: &HeaderMatch, field: Field) -> Masked<u128> {
    let (value, mask) = headers.get(field);
    Masked { value, mask }
}

fn sixteen(headers: &HeaderMatch, field: Field) -> Masked<u16> {
    let (value, mask) = headers.get(field);
    Masked { value: value as u16, mask: mask as u16 }
}

fn mac_of(headers: &HeaderMatch, field: Field) -> Masked<Mac> {
    let (value, mask) = headers.get(field);
    let bytes = |bits: u128| {
        let all = (bits as u64).to_be_bytes();
        Mac([all[2], all[3], all[4], all[5], all[6], all[7]])
    };
    Masked { value: bytes(value), mask: bytes(mask) }
}

fn with_ports<A: ethtool::Field>(
    headers: &HeaderMatch,
    protocol: L4,
    address: impl Fn(&HeaderMatch, Field) -> Masked<A>,
) -> Ports<A> {
    Ports {
        source: address(headers, Field::SrcIp),
        destination: address(headers, Field::DstIp),
        source_port: sixteen(headers, Field::SrcPort),
        destination_port: sixteen(headers, Field::DstPort),
        ..Ports::any(protocol)
    }
}

fn with_protocol<A: ethtool::Field>(
    headers: &HeaderMatch,
    address: impl Fn(&HeaderMatch, Field) -> Masked<A>,
) -> Ip<A> {
    let (value, mask) = headers.get(Field::IpProtocol);
    Ip {
        source: address(headers, Field::SrcIp),
        destination: address(headers, Field::DstIp),
        protocol: Masked { value: value as u8, mask: mask as u8 },
        ..Ip::default()
    }
}

/// Converts a driver's rule to a rule of the model, in the first ntuple table that accepts it.
///
/// # Errors
/// The property of the rule that the model does not have.
pub fn from_rx_rule(nic: &Nic, rule: &RxRule) -> Result<Rule, ForeignRuleError> {
    let headers = headers_of(rule)?;
    let action = match rule.action {
        ethtool::Action::Queue(queue) => Action::Queue(queue),
        ethtool::Action::Drop => Action::Drop,
        ethtool::Action::Context { context, first } if first.0 == 0 => Action::Context(ContextId(context.0)),
        ethtool::Action::Context { .. } => return Err(ForeignRuleError::ContextOffset),
        ethtool::Action::Function { .. } => return Err(ForeignRuleError::VirtualFunction),
        ethtool::Action::Wake => return Err(ForeignRuleError::Wake),
    };
    let mut refusal = ForeignRuleError::NoTable;
    for (id, table) in nic.tables().filter(|(_, table)| table.interface == Interface::Ntuple) {
        let rule = Rule { table: id, headers, priority: table.priorities.0, action };
        match table.takes(&rule) {
            Ok(()) => return Ok(rule),
            Err(reason) => refusal = ForeignRuleError::Refused(reason),
        }
    }
    Err(refusal)
}

fn headers_of(rule: &RxRule) -> Result<HeaderMatch, ForeignRuleError> {
    let mut headers = match &rule.flow {
        Flow::Ports4(ports) => ports_headers(ports, ETHER_TYPE_IPV4, u128::from)?,
        Flow::Ports6(ports) => ports_headers(ports, ETHER_TYPE_IPV6, |value: u128| value)?,
        Flow::Ip4(ip) => ip_headers(ip, ETHER_TYPE_IPV4, u128::from)?,
        Flow::Ip6(ip) => ip_headers(ip, ETHER_TYPE_IPV6, |value: u128| value)?,
        Flow::Ether { destination, source, ethertype } => with_mac(
            with_mac(HeaderMatch::ALL, Field::DstMac, destination),
            Field::SrcMac,
            source,
        )
        .with(Field::EtherType, ethertype.value.into(), ethertype.mask.into()),
        Flow::Other { kind, .. } => return Err(ForeignRuleError::FlowType(*kind)),
    };
    if let Some(extension) = &rule.extension {
        if !extension.vlan_ethertype.is_any() || extension.user.iter().any(|user| !user.is_any()) {
            return Err(ForeignRuleError::DriverData);
        }
        headers = headers.with(Field::Vlan, extension.vlan_tci.value.into(), extension.vlan_tci.mask.into());
    }
    Ok(rule.mac.as_ref().map_or(headers, |mac| with_mac(headers, Field::DstMac, mac)))
}

fn with_mac(headers: HeaderMatch, field: Field, mac: &Masked<Mac>) -> HeaderMatch {
    let bits = |mac: &Mac| mac.0.iter().fold(0u128, |bits, byte| bits << 8 | u128::from(*byte));
    headers.with(field, bits(&mac.value), bits(&mac.mask))
}

fn ports_headers<A: ethtool::Field>(
    ports: &Ports<A>,
    kind: u16,
    bits: impl Fn(A) -> u128,
) -> Result<HeaderMatch, ForeignRuleError> {
    if !ports.tos.is_any() {
        return Err(ForeignRuleError::TypeOfService);
    }
    let protocol = match ports.protocol {
        L4::Tcp => Protocol::TCP,
        L4::Udp => Protocol::UDP,
        L4::Sctp => Protocol::SCTP,
    };
    Ok(HeaderMatch::ALL
        .exact(Field::EtherType, kind.into())
        .exact(Field::IpProtocol, protocol.0.into())
        .with(Field::SrcIp, bits(ports.source.value), bits(ports.source.mask))
        .with(Field::DstIp, bits(ports.destination.value), bits(ports.destination.mask))
        .with(Field::SrcPort, ports.source_port.value.into(), ports.source_port.mask.into())
        .with(Field::DstPort, ports.destination_port.value.into(), ports.destination_port.mask.into()))
}

fn ip_headers<A: ethtool::Field>(
    ip: &Ip<A>,
    kind: u16,
    bits: impl Fn(A) -> u128,
) -> Result<HeaderMatch, ForeignRuleError> {
    if !ip.tos.is_any() || !ip.l4_bytes.is_any() {
        return Err(ForeignRuleError::ServiceOrBytes);
    }
    Ok(HeaderMatch::ALL
        .exact(Field::EtherType, kind.into())
        .with(Field::IpProtocol, ip.protocol.value.into(), ip.protocol.mask.into())
        .with(Field::SrcIp, bits(ip.source.value), bits(ip.source.mask))
        .with(Field::DstIp, bits(ip.destination.value), bits(ip.destination.mask)))
}
