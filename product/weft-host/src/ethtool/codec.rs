//! The binary form of rules: `struct ethtool_rxnfc` with its `struct ethtool_rx_flow_spec`. Pure functions.

use std::num::NonZeroU8;

use weft_units::RxQueueId;

use super::layout::{put, put_u32, put_u64, rxnfc};
use super::rule::{Action, ContextId, Extension, Field, Flow, Ip, L4, Location, Masked, Ports, RxRule};
use crate::netlink::{u32_at, u64_at};

/// The length of an encoded rule, in bytes: `sizeof(struct ethtool_rxnfc)` on 64-bit machines.
pub const RULE_LEN: usize = rxnfc::LEN;

/// `FLOW_EXT`, `FLOW_MAC_EXT`, `FLOW_RSS`: flags in a flow type.
const FLOW_EXT: u32 = 0x8000_0000;
const FLOW_MAC_EXT: u32 = 0x4000_0000;
pub(crate) const FLOW_RSS: u32 = 0x2000_0000;

const IP_USER4: u32 = 0x0d;
const IP_USER6: u32 = 0x0e;
const ETHER: u32 = 0x12;

/// `RX_CLS_FLOW_DISC` and `RX_CLS_FLOW_WAKE`.
const COOKIE_DROP: u64 = u64::MAX;
const COOKIE_WAKE: u64 = u64::MAX - 1;
/// `ETHTOOL_RX_FLOW_SPEC_RING_VF_OFF`: the queue is in the bits below it, the virtual function in those above.
const COOKIE_FUNCTION_SHIFT: u32 = 32;

/// `RX_CLS_LOC_SPECIAL`: set in special values, which are not locations. `RX_CLS_LOC_ANY`, `_FIRST`, `_LAST`.
pub(crate) const LOC_SPECIAL: u32 = 0x8000_0000;
const LOC_ANY: u32 = 0xffff_ffff;
const LOC_FIRST: u32 = 0xffff_fffe;
const LOC_LAST: u32 = 0xffff_fffd;

/// `ETH_RX_NFC_IP4`, the required `ip_ver` of an IPv4 rule.
const NFC_IP4: u8 = 1;

/// The reason why bytes are not a valid rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Too few bytes.
    #[error("a rule has {RULE_LEN} bytes, not {0}")]
    Short(usize),
    /// A location with the special bit that is not any, first or last.
    #[error("{0:#x} is not a valid rule location")]
    Location(u32),
    /// A ring cookie without a valid queue or action.
    #[error("{0:#x} is not a valid ring cookie")]
    Cookie(u64),
}

/// The rule as `struct ethtool_rxnfc`, with `cmd` left zero.
///
/// ```
/// use weft_host::ethtool::{Action, Flow, L4, Masked, Ports, RxRule, decode_rule, encode_rule};
/// let flow = Flow::Ports4(Ports { destination_port: Masked::exact(80), ..Ports::any(L4::Tcp) });
/// let rule = RxRule::new(flow, Action::Queue(weft_units::RxQueueId(2))).at(7);
/// assert_eq!(rule.to_string(), "flow-type tcp4 dst-port 80 action 2 loc 7");
/// assert_eq!(decode_rule(&encode_rule(&rule)), Ok(rule));
/// ```
pub fn encode_rule(rule: &RxRule) -> [u8; RULE_LEN] {
    let mut bytes = [0; RULE_LEN];
    let mut flow_type = encode_flow(&mut bytes, &rule.flow);
    if let Some(extension) = &rule.extension {
        flow_type |= FLOW_EXT;
        encode_extension(&mut bytes, extension);
    }
    if let Some(mac) = rule.mac {
        flow_type |= FLOW_MAC_EXT;
        Place::EXTENSION.put(&mut bytes, 2, mac);
    }
    let cookie = match rule.action {
        Action::Queue(queue) => u64::from(queue.0),
        Action::Function { function, queue } => {
            u64::from(function.get()) << COOKIE_FUNCTION_SHIFT | u64::from(queue.0)
        }
        Action::Context { context, first } => {
            flow_type |= FLOW_RSS;
            put_u32(&mut bytes, rxnfc::RSS_CONTEXT, context.0);
            u64::from(first.0)
        }
        Action::Drop => COOKIE_DROP,
        Action::Wake => COOKIE_WAKE,
    };
    put_u64(&mut bytes, rxnfc::COOKIE, cookie);
    put_u32(&mut bytes, rxnfc::FS_FLOW_TYPE, flow_type);
    put_u32(&mut bytes, rxnfc::LOCATION, location_number(rule.location));
    bytes
}

/// The rule in `struct ethtool_rxnfc`. Bytes after the structure are ignored.
///
/// # Errors
/// If there are too few bytes, or location or ring cookie are invalid.
pub fn decode_rule(bytes: &[u8]) -> Result<RxRule, DecodeError> {
    let bytes = bytes.get(..RULE_LEN).ok_or(DecodeError::Short(bytes.len()))?;
    let flow_type = u32_at(bytes, rxnfc::FS_FLOW_TYPE);
    Ok(RxRule {
        location: location(u32_at(bytes, rxnfc::LOCATION))?,
        flow: decode_flow(bytes, flow_type & !(FLOW_EXT | FLOW_MAC_EXT | FLOW_RSS)),
        extension: (flow_type & FLOW_EXT != 0).then(|| decode_extension(bytes)),
        mac: (flow_type & FLOW_MAC_EXT != 0).then(|| Place::EXTENSION.get(bytes, 2)),
        action: decode_action(bytes, flow_type & FLOW_RSS != 0)?,
    })
}

/// The fuzz target: any bytes are either refused, or give a rule that survives encoding and decoding.
pub fn fuzz_rule(data: &[u8]) {
    if let Ok(rule) = decode_rule(data) {
        assert_eq!(decode_rule(&encode_rule(&rule)), Ok(rule), "{rule}");
        assert!(rule.to_string().starts_with("flow-type "), "{rule}");
    }
}

/// The positions of values and their masks.
struct Place {
    value: usize,
    mask: usize,
}

impl Place {
    const UNION: Place = Place { value: rxnfc::VALUE, mask: rxnfc::MASK };
    const EXTENSION: Place = Place { value: rxnfc::VALUE_EXT, mask: rxnfc::MASK_EXT };

    fn put<T: Field>(&self, bytes: &mut [u8], at: usize, field: Masked<T>) {
        field.value.write(bytes, self.value + at);
        field.mask.write(bytes, self.mask + at);
    }

    fn get<T: Field>(&self, bytes: &[u8], at: usize) -> Masked<T> {
        let read = |from: usize| T::read(bytes.get(from..from + T::LEN).unwrap_or_default());
        Masked { value: read(self.value + at), mask: read(self.mask + at) }
    }
}

/// The positions of an IP flow's fields in the union, after the two addresses of `size` bytes each.
struct IpPlaces {
    destination: usize,
    /// `psrc`, or `l4_4_bytes`.
    source_port: usize,
    destination_port: usize,
    tos: usize,
}

const fn ip_places(size: usize) -> IpPlaces {
    IpPlaces { destination: size, source_port: 2 * size, destination_port: 2 * size + 2, tos: 2 * size + 4 }
}

/// `ip_ver` and `proto` of `struct ethtool_usrip4_spec`, `l4_proto` of `struct ethtool_usrip6_spec`.
const IP4_VERSION: usize = 13;
const IP4_PROTOCOL: usize = 14;
const IP6_PROTOCOL: usize = 37;

/// The fields of `struct ethhdr`.
const ETHER_SOURCE: usize = 6;
const ETHER_TYPE: usize = 12;

/// Writes the flow and returns its type.
fn encode_flow(bytes: &mut [u8], flow: &Flow) -> u32 {
    match flow {
        Flow::Ports4(ports) => encode_ports(bytes, ports, [0x01, 0x02, 0x03]),
        Flow::Ports6(ports) => encode_ports(bytes, ports, [0x05, 0x06, 0x07]),
        Flow::Ip4(ip) => {
            put(bytes, rxnfc::VALUE + IP4_VERSION, &[NFC_IP4]);
            encode_ip(bytes, ip, IP4_PROTOCOL);
            IP_USER4
        }
        Flow::Ip6(ip) => {
            encode_ip(bytes, ip, IP6_PROTOCOL);
            IP_USER6
        }
        Flow::Ether { destination, source, ethertype } => {
            Place::UNION.put(bytes, 0, *destination);
            Place::UNION.put(bytes, ETHER_SOURCE, *source);
            Place::UNION.put(bytes, ETHER_TYPE, *ethertype);
            ETHER
        }
        Flow::Other { kind, value, mask } => {
            put(bytes, rxnfc::VALUE, value);
            put(bytes, rxnfc::MASK, mask);
            *kind
        }
    }
}

fn decode_flow(bytes: &[u8], kind: u32) -> Flow {
    match kind {
        0x01 => Flow::Ports4(decode_ports(bytes, L4::Tcp)),
        0x02 => Flow::Ports4(decode_ports(bytes, L4::Udp)),
        0x03 => Flow::Ports4(decode_ports(bytes, L4::Sctp)),
        0x05 => Flow::Ports6(decode_ports(bytes, L4::Tcp)),
        0x06 => Flow::Ports6(decode_ports(bytes, L4::Udp)),
        0x07 => Flow::Ports6(decode_ports(bytes, L4::Sctp)),
        IP_USER4 => Flow::Ip4(decode_ip(bytes, IP4_PROTOCOL)),
        IP_USER6 => Flow::Ip6(decode_ip(bytes, IP6_PROTOCOL)),
        ETHER => Flow::Ether {
            destination: Place::UNION.get(bytes, 0),
            source: Place::UNION.get(bytes, ETHER_SOURCE),
            ethertype: Place::UNION.get(bytes, ETHER_TYPE),
        },
        _ => Flow::Other { kind, value: union_at(bytes, rxnfc::VALUE), mask: union_at(bytes, rxnfc::MASK) },
    }
}

fn union_at(bytes: &[u8], at: usize) -> [u8; rxnfc::UNION_LEN] {
    bytes
        .get(at..at + rxnfc::UNION_LEN)
        .and_then(|part| part.try_into().ok())
        .unwrap_or([0; rxnfc::UNION_LEN])
}

/// `kinds` are the flow types of TCP, UDP and SCTP.
fn encode_ports<A: Field>(bytes: &mut [u8], ports: &Ports<A>, kinds: [u32; 3]) -> u32 {
    let places = ip_places(A::LEN);
    Place::UNION.put(bytes, 0, ports.source);
    Place::UNION.put(bytes, places.destination, ports.destination);
    Place::UNION.put(bytes, places.source_port, ports.source_port);
    Place::UNION.put(bytes, places.destination_port, ports.destination_port);
    Place::UNION.put(bytes, places.tos, ports.tos);
    let [tcp, udp, sctp] = kinds;
    match ports.protocol {
        L4::Tcp => tcp,
        L4::Udp => udp,
        L4::Sctp => sctp,
    }
}

fn decode_ports<A: Field>(bytes: &[u8], protocol: L4) -> Ports<A> {
    let places = ip_places(A::LEN);
    Ports {
        protocol,
        source: Place::UNION.get(bytes, 0),
        destination: Place::UNION.get(bytes, places.destination),
        source_port: Place::UNION.get(bytes, places.source_port),
        destination_port: Place::UNION.get(bytes, places.destination_port),
        tos: Place::UNION.get(bytes, places.tos),
    }
}

fn encode_ip<A: Field>(bytes: &mut [u8], ip: &Ip<A>, protocol_at: usize) {
    let places = ip_places(A::LEN);
    Place::UNION.put(bytes, 0, ip.source);
    Place::UNION.put(bytes, places.destination, ip.destination);
    Place::UNION.put(bytes, places.source_port, ip.l4_bytes);
    Place::UNION.put(bytes, places.tos, ip.tos);
    Place::UNION.put(bytes, protocol_at, ip.protocol);
}

fn decode_ip<A: Field>(bytes: &[u8], protocol_at: usize) -> Ip<A> {
    let places = ip_places(A::LEN);
    Ip {
        source: Place::UNION.get(bytes, 0),
        destination: Place::UNION.get(bytes, places.destination),
        l4_bytes: Place::UNION.get(bytes, places.source_port),
        tos: Place::UNION.get(bytes, places.tos),
        protocol: Place::UNION.get(bytes, protocol_at),
    }
}

/// `vlan_etype`, `vlan_tci` and `data` of `struct ethtool_flow_ext`.
fn encode_extension(bytes: &mut [u8], extension: &Extension) {
    Place::EXTENSION.put(bytes, 8, extension.vlan_ethertype);
    Place::EXTENSION.put(bytes, 10, extension.vlan_tci);
    let [high, low] = extension.user;
    Place::EXTENSION.put(bytes, 12, high);
    Place::EXTENSION.put(bytes, 16, low);
}

fn decode_extension(bytes: &[u8]) -> Extension {
    Extension {
        vlan_ethertype: Place::EXTENSION.get(bytes, 8),
        vlan_tci: Place::EXTENSION.get(bytes, 10),
        user: [Place::EXTENSION.get(bytes, 12), Place::EXTENSION.get(bytes, 16)],
    }
}

fn decode_action(bytes: &[u8], to_context: bool) -> Result<Action, DecodeError> {
    let cookie = u64_at(bytes, rxnfc::COOKIE);
    let queue = RxQueueId(cookie as u32);
    let function = u8::try_from(cookie >> COOKIE_FUNCTION_SHIFT);
    match cookie {
        COOKIE_DROP => Ok(Action::Drop),
        COOKIE_WAKE => Ok(Action::Wake),
        _ => match function.map(NonZeroU8::new) {
            Ok(None) if to_context => {
                Ok(Action::Context { context: ContextId(u32_at(bytes, rxnfc::RSS_CONTEXT)), first: queue })
            }
            Ok(None) => Ok(Action::Queue(queue)),
            Ok(Some(function)) if !to_context => Ok(Action::Function { function, queue }),
            _ => Err(DecodeError::Cookie(cookie)),
        },
    }
}

pub(crate) fn location_number(location: Location) -> u32 {
    match location {
        Location::At(at) => at,
        Location::Any => LOC_ANY,
        Location::First => LOC_FIRST,
        Location::Last => LOC_LAST,
    }
}

fn location(number: u32) -> Result<Location, DecodeError> {
    match number {
        LOC_ANY => Ok(Location::Any),
        LOC_FIRST => Ok(Location::First),
        LOC_LAST => Ok(Location::Last),
        _ if number & LOC_SPECIAL != 0 => Err(DecodeError::Location(number)),
        _ => Ok(Location::At(number)),
    }
}
