//! A packet's metadata, without its payload.

use core::fmt;
use core::net::IpAddr;

/// An IP protocol number (the IPv4 `protocol` or the last IPv6 `next header` field).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Protocol(pub u8);

impl Protocol {
    /// ICMP for IPv4.
    pub const ICMP: Self = Self(1);
    /// TCP.
    pub const TCP: Self = Self(6);
    /// UDP.
    pub const UDP: Self = Self(17);
    /// ICMP for IPv6.
    pub const ICMPV6: Self = Self(58);
    /// SCTP.
    pub const SCTP: Self = Self(132);
}

/// The five-tuple that identifies a flow. Ports are 0 for protocols without ports and for fragments that lack them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FlowKey {
    /// Source address.
    pub src: IpAddr,
    /// Destination address; always of the same family as `src`.
    pub dst: IpAddr,
    /// Source port, host order.
    pub sport: u16,
    /// Destination port, host order.
    pub dport: u16,
    /// Transport protocol.
    pub protocol: Protocol,
}

/// A VLAN tag (IEEE 802.1Q).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct VlanTag {
    /// The VLAN, below 4096; 0 for a tag that has a priority only.
    pub id: u16,
    /// The priority code point, below 8.
    pub priority: u8,
}

impl VlanTag {
    /// The tag with that control information: priority, drop eligibility, VLAN.
    pub const fn of_control(control: u16) -> Self {
        Self { id: control & 0xfff, priority: (control >> 13) as u8 }
    }

    /// The control information, without drop eligibility.
    pub const fn control(self) -> u16 {
        (self.priority as u16) << 13 | self.id & 0xfff
    }
}

/// The name of a process as Linux keeps it (`comm`, proc_pid_comm(5)): from 1 to 15 bytes, none of which is zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ProcessName([u8; 16]);

impl ProcessName {
    /// The most bytes of a name. The kernel cuts longer ones there.
    pub const BYTES_MAX: usize = 15;

    /// The name of these bytes; `None` if no process can have it.
    pub fn new(name: &[u8]) -> Option<Self> {
        let mut bytes = [0; 16];
        let valid = (1..=Self::BYTES_MAX).contains(&name.len()) && !name.contains(&0);
        bytes.get_mut(..name.len()).filter(|_| valid)?.copy_from_slice(name);
        Some(Self(bytes))
    }

    /// The name, and zeros behind it.
    pub const fn bytes(self) -> [u8; 16] {
        self.0
    }

    /// The name as a number: its bytes, the first of which is the highest.
    pub const fn number(self) -> u128 {
        u128::from_be_bytes(self.0)
    }

    /// The name with that number; `None` if it is the number of none.
    pub fn of_number(number: u128) -> Option<Self> {
        let bytes = number.to_be_bytes();
        let length = bytes.iter().position(|byte| *byte == 0)?;
        Self::new(bytes.get(..length)?).filter(|name| name.0 == bytes)
    }
}

impl fmt::Display for ProcessName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let length = self.0.iter().position(|byte| *byte == 0).unwrap_or(self.0.len());
        self.0.get(..length).unwrap_or_default().utf8_chunks().try_for_each(|chunk| {
            f.write_str(chunk.valid())?;
            if chunk.invalid().is_empty() { Ok(()) } else { f.write_str("\u{fffd}") }
        })
    }
}

/// The metadata that classifies a packet, as Loom's OS/NIC interface passes it in line (section 4.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PacketMeta {
    /// The five-tuple; `None` for packets other than IP (ARP, LLDP, ...).
    pub key: Option<FlowKey>,
    /// The socket buffer's mark (`SO_MARK`).
    pub mark: u32,
    /// The socket buffer's priority (`SO_PRIORITY`).
    pub priority: u32,
    /// Bit i is set if the sender's cgroup is the policy's cgroup number i or below it. Zero if unknown, as in a
    /// capture.
    pub cgroups: u64,
    /// The number of the port at which the packet leaves, from 1, in the policy's table of ports; 0 if it has none.
    pub port: u16,
    /// The outermost VLAN tag.
    pub vlan: Option<VlanTag>,
    /// The traffic class of an IP packet: the DSCP in its upper six bits, ECN in the lower two (RFC 2474, RFC 3168).
    pub traffic_class: u8,
    /// The user of the sender's socket; `None` without a socket, or if unknown.
    pub user: Option<u32>,
    /// The cookie of the sender's socket; 0 without a socket, or if unknown.
    pub cookie: u64,
    /// The class of the sender's net_cls group (cgroup v1); 0 for none.
    pub classid: u32,
    /// The name that the process that made the sender's socket had then; `None` without a socket, or if unknown.
    pub process: Option<ProcessName>,
}

#[cfg(test)]
mod tests {
    use super::ProcessName;

    #[test]
    fn names_of_processes_are_numbers_and_back() {
        for name in ["a", "nginx", "fifteen bytes x", "\u{e9}t\u{e9}"] {
            let read = ProcessName::new(name.as_bytes()).expect(name);
            assert_eq!(read.to_string(), name);
            assert_eq!(ProcessName::of_number(read.number()), Some(read));
            assert_eq!(&read.bytes()[..name.len()], name.as_bytes());
        }
        for name in ["", "sixteen bytes ab", "a\0b"] {
            assert_eq!(ProcessName::new(name.as_bytes()), None, "{name:?}");
        }
        for number in [0, 1, u128::MAX, 1 << 120 | 1] {
            assert_eq!(ProcessName::of_number(number), None, "{number:#x}");
        }
        assert_eq!(ProcessName::new(b"caf\xc3").expect("bytes").to_string(), "caf\u{fffd}");
    }
}
