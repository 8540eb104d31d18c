//! Receive rules ("ntuple", "flow director"), which assign packets to queues.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::num::NonZeroU8;

use weft_units::RxQueueId;

use crate::link::Mac;

/// A packet field in a rule: the bits set in `mask` must equal those of `value`.
///
/// The kernel passes value and mask to the driver unchanged; bits of `value` outside `mask` have no meaning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Masked<T> {
    /// The value to compare with.
    pub value: T,
    /// The bits that are compared.
    pub mask: T,
}

/// A type that a rule can compare: a packet field of 8, 16, 32 or 128 bits, or a hardware address.
pub trait Field: Copy + Default + PartialEq + sealed::Wire {}

pub(crate) mod sealed {
    /// A field's form in a packet: big-endian.
    pub trait Wire: Sized {
        /// All bits set.
        const ONES: Self;
        /// Its length in bytes.
        const LEN: usize;
        /// Reads it from exactly `LEN` bytes; zero for a shorter slice.
        fn read(bytes: &[u8]) -> Self;
        /// Writes it to position `at`.
        fn write(self, bytes: &mut [u8], at: usize);
    }
}

macro_rules! field {
    ($($number:ty),*) => {$(
        impl Field for $number {}
        impl sealed::Wire for $number {
            const ONES: Self = <$number>::MAX;
            const LEN: usize = size_of::<$number>();
            fn read(bytes: &[u8]) -> Self {
                <$number>::from_be_bytes(bytes.try_into().unwrap_or_default())
            }
            fn write(self, bytes: &mut [u8], at: usize) {
                super::layout::put(bytes, at, &self.to_be_bytes());
            }
        }
    )*};
}

field!(u8, u16, u32, u128);

impl Field for Mac {}

impl sealed::Wire for Mac {
    const ONES: Self = Mac([0xff; 6]);
    const LEN: usize = 6;

    fn read(bytes: &[u8]) -> Self {
        Mac(bytes.try_into().unwrap_or_default())
    }

    fn write(self, bytes: &mut [u8], at: usize) {
        super::layout::put(bytes, at, &self.0);
    }
}

impl<T: Field> Masked<T> {
    /// Matches every value.
    pub fn any() -> Self {
        Masked::default()
    }

    /// Matches this value only.
    pub fn exact(value: T) -> Self {
        Masked { value, mask: T::ONES }
    }

    /// Whether every value matches.
    pub fn is_any(&self) -> bool {
        self.mask == T::default()
    }
}

/// A transport protocol with ports that a rule can match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum L4 {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}

/// Addresses and ports; `A` is `u32` for IPv4 and `u128` for IPv6, both numbers with the first byte of the packet as the
/// highest. `struct ethtool_tcpip4_spec` and `struct ethtool_tcpip6_spec`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ports<A> {
    /// The protocol; always compared.
    pub protocol: L4,
    /// The source address.
    pub source: Masked<A>,
    /// The destination address.
    pub destination: Masked<A>,
    /// The source port.
    pub source_port: Masked<u16>,
    /// The destination port.
    pub destination_port: Masked<u16>,
    /// Type of service, or traffic class.
    pub tos: Masked<u8>,
}

impl<A: Field> Ports<A> {
    /// All packets of the protocol.
    pub fn any(protocol: L4) -> Self {
        Ports {
            protocol,
            source: Masked::any(),
            destination: Masked::any(),
            source_port: Masked::any(),
            destination_port: Masked::any(),
            tos: Masked::any(),
        }
    }
}

/// Addresses and the first four bytes after the IP header. `struct ethtool_usrip4_spec` and `ethtool_usrip6_spec`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ip<A> {
    /// The source address.
    pub source: Masked<A>,
    /// The destination address.
    pub destination: Masked<A>,
    /// The first four bytes after the IP header.
    pub l4_bytes: Masked<u32>,
    /// Type of service, or traffic class.
    pub tos: Masked<u8>,
    /// The protocol number, or the next header.
    pub protocol: Masked<u8>,
}

/// The packets that a rule matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Flow {
    /// IPv4 with ports (`TCP_V4_FLOW`, `UDP_V4_FLOW`, `SCTP_V4_FLOW`).
    Ports4(Ports<u32>),
    /// IPv6 with ports (`TCP_V6_FLOW`, `UDP_V6_FLOW`, `SCTP_V6_FLOW`).
    Ports6(Ports<u128>),
    /// IPv4 of any protocol (`IPV4_USER_FLOW`).
    Ip4(Ip<u32>),
    /// IPv6 of any protocol (`IPV6_USER_FLOW`).
    Ip6(Ip<u128>),
    /// Ethernet (`ETHER_FLOW`).
    Ether {
        /// The destination address.
        destination: Masked<Mac>,
        /// The source address.
        source: Masked<Mac>,
        /// The type field.
        ethertype: Masked<u16>,
    },
    /// A type that is not decoded here (AH, ESP and future ones), kept so that a rule can be written back.
    Other {
        /// The kernel's `flow_type`, without its flags.
        kind: u32,
        /// `union ethtool_flow_union` of the values.
        value: [u8; 52],
        /// `union ethtool_flow_union` of the masks.
        mask: [u8; 52],
    },
}

/// The fields of `struct ethtool_flow_ext`, compared if `FLOW_EXT` is set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Extension {
    /// The VLAN tag's protocol.
    pub vlan_ethertype: Masked<u16>,
    /// The VLAN tag: priority, drop eligible, identifier.
    pub vlan_tci: Masked<u16>,
    /// Eight bytes whose meaning the driver defines.
    pub user: [Masked<u32>; 2],
}

/// A rule's location in the table. On most drivers lower locations are tested first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Location {
    /// This location; replaces a rule there.
    At(u32),
    /// Any free location (`RX_CLS_LOC_ANY`).
    Any,
    /// The first suitable location (`RX_CLS_LOC_FIRST`).
    First,
    /// The last suitable location (`RX_CLS_LOC_LAST`).
    Last,
}

/// The number of an RSS context; 0 is the device's own table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ContextId(pub u32);

impl ContextId {
    /// The device's own table, used by all packets that no rule sends elsewhere.
    pub const MAIN: ContextId = ContextId(0);
}

impl fmt::Display for ContextId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The treatment of packets that match a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Delivery to a receive queue.
    Queue(RxQueueId),
    /// Delivery to a receive queue of a virtual function (the first is 1).
    Function {
        /// The virtual function, from 1.
        function: NonZeroU8,
        /// Its queue.
        queue: RxQueueId,
    },
    /// Hashing into the table of an RSS context.
    Context {
        /// The context.
        context: ContextId,
        /// The number added to the table's entries.
        first: RxQueueId,
    },
    /// Drop (`RX_CLS_FLOW_DISC`).
    Drop,
    /// Wake-up of the machine (`RX_CLS_FLOW_WAKE`).
    Wake,
}

/// A rule. `Display` writes it as arguments of `ethtool -N DEVICE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RxRule {
    /// Its location.
    pub location: Location,
    /// The packets that it matches.
    pub flow: Flow,
    /// Additional fields, if any (`FLOW_EXT`).
    pub extension: Option<Extension>,
    /// The destination hardware address, if matched together with an IP flow (`FLOW_MAC_EXT`).
    pub mac: Option<Masked<Mac>>,
    /// The treatment of matching packets.
    pub action: Action,
}

impl RxRule {
    /// A rule at any free location.
    pub fn new(flow: Flow, action: Action) -> RxRule {
        RxRule { location: Location::Any, flow, extension: None, mac: None, action }
    }

    /// The same rule at this location.
    #[must_use]
    pub fn at(mut self, location: u32) -> RxRule {
        self.location = Location::At(location);
        self
    }
}

/// Writes ` NAME VALUE`, and ` m BITS` for a partial mask. In ethtool's masks, set bits are ignored.
fn show<T: Field + std::ops::Not<Output = T>>(
    f: &mut fmt::Formatter<'_>,
    name: &str,
    field: Masked<T>,
    text: impl Fn(T) -> String,
) -> fmt::Result {
    if field.is_any() {
        return Ok(());
    }
    write!(f, " {name} {}", text(field.value))?;
    if field.mask == T::ONES { Ok(()) } else { write!(f, " m {}", text(!field.mask)) }
}

impl std::ops::Not for Mac {
    type Output = Mac;

    fn not(self) -> Mac {
        Mac(self.0.map(|byte| !byte))
    }
}

fn hex<T: fmt::LowerHex>(value: T) -> String {
    format!("{value:#x}")
}

fn decimal<T: ToString>(value: T) -> String {
    value.to_string()
}

fn v4(address: u32) -> String {
    Ipv4Addr::from_bits(address).to_string()
}

fn v6(address: u128) -> String {
    Ipv6Addr::from_bits(address).to_string()
}

/// The names and formats of one family's fields.
struct Words<A> {
    version: u8,
    tos: &'static str,
    address: fn(A) -> String,
}

const WORDS4: Words<u32> = Words { version: 4, tos: "tos", address: v4 };
const WORDS6: Words<u128> = Words { version: 6, tos: "tclass", address: v6 };

impl<A: Field + std::ops::Not<Output = A>> Ports<A> {
    fn write(&self, f: &mut fmt::Formatter<'_>, words: &Words<A>) -> fmt::Result {
        let protocol = match self.protocol {
            L4::Tcp => "tcp",
            L4::Udp => "udp",
            L4::Sctp => "sctp",
        };
        write!(f, "flow-type {protocol}{}", words.version)?;
        show(f, "src-ip", self.source, words.address)?;
        show(f, "dst-ip", self.destination, words.address)?;
        show(f, words.tos, self.tos, hex)?;
        show(f, "src-port", self.source_port, decimal)?;
        show(f, "dst-port", self.destination_port, decimal)
    }
}

impl<A: Field + std::ops::Not<Output = A>> Ip<A> {
    fn write(&self, f: &mut fmt::Formatter<'_>, words: &Words<A>) -> fmt::Result {
        write!(f, "flow-type ip{}", words.version)?;
        show(f, "src-ip", self.source, words.address)?;
        show(f, "dst-ip", self.destination, words.address)?;
        show(f, words.tos, self.tos, hex)?;
        show(f, "l4proto", self.protocol, decimal)?;
        show(f, "l4data", self.l4_bytes, hex)
    }
}

impl fmt::Display for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Flow::Ports4(ports) => ports.write(f, &WORDS4),
            Flow::Ports6(ports) => ports.write(f, &WORDS6),
            Flow::Ip4(ip) => ip.write(f, &WORDS4),
            Flow::Ip6(ip) => ip.write(f, &WORDS6),
            Flow::Ether { destination, source, ethertype } => {
                f.write_str("flow-type ether")?;
                show(f, "src", *source, decimal)?;
                show(f, "dst", *destination, decimal)?;
                show(f, "proto", *ethertype, hex)
            }
            Flow::Other { kind, .. } => write!(f, "flow-type {kind:#x}"),
        }
    }
}

impl fmt::Display for RxRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.flow.fmt(f)?;
        if let Some(extension) = &self.extension {
            show(f, "vlan-etype", extension.vlan_ethertype, hex)?;
            show(f, "vlan", extension.vlan_tci, hex)?;
            let [high, low] = extension.user;
            let joined = |a: u32, b: u32| u128::from(a) << 32 | u128::from(b);
            let mask = joined(high.mask, low.mask);
            if mask != 0 {
                write!(
                    f,
                    " user-def {:#x} m {:#x}",
                    joined(high.value, low.value),
                    mask ^ u128::from(u64::MAX)
                )?;
            }
        }
        if let Some(mac) = self.mac {
            show(f, "dst-mac", mac, decimal)?;
        }
        match self.action {
            Action::Queue(queue) => write!(f, " action {queue}")?,
            Action::Function { function, queue } => write!(f, " vf {} queue {queue}", function.get() - 1)?,
            Action::Context { context, first } => write!(f, " context {context} action {first}")?,
            Action::Drop => f.write_str(" action -1")?,
            Action::Wake => f.write_str(" action -2")?,
        }
        match self.location {
            Location::At(location) => write!(f, " loc {location}"),
            Location::Any => Ok(()),
            Location::First => write!(f, " loc {}", 0xffff_fffe_u32),
            Location::Last => write!(f, " loc {}", 0xffff_fffd_u32),
        }
    }
}
