//! The packet fields that the receive hash covers, by kind of packet: `ethtool -n DEVICE rx-flow-hash KIND`.

use std::fmt;
use std::ops::BitOr;

use rustix::io::Errno;

use super::codec::FLOW_RSS;
use super::error::{EthtoolError, Result};
use super::layout::{self, put_u32, put_u64, rxnfc};
use super::nic::{Nic, command};
use super::rule::ContextId;
use super::transport::Transport;
use crate::netlink::u64_at;

/// A kind of packet, by the kernel's flow type (`TCP_V4_FLOW` and so on).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HashFlow {
    /// TCP over IPv4.
    Tcp4 = 0x01,
    /// UDP over IPv4.
    Udp4 = 0x02,
    /// SCTP over IPv4.
    Sctp4 = 0x03,
    /// IPsec over IPv4.
    AhEsp4 = 0x04,
    /// TCP over IPv6.
    Tcp6 = 0x05,
    /// UDP over IPv6.
    Udp6 = 0x06,
    /// SCTP over IPv6.
    Sctp6 = 0x07,
    /// IPsec over IPv6.
    AhEsp6 = 0x08,
    /// Other IPv4.
    Ip4 = 0x10,
    /// Other IPv6.
    Ip6 = 0x11,
    /// Other Ethernet.
    Ether = 0x12,
}

/// A set of fields (`RXH_*`). `Display` writes it with the letters of `ethtool -N DEVICE rx-flow-hash KIND LETTERS`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct HashFields(pub u32);

impl HashFields {
    /// The destination hardware address, `m`.
    pub const MAC: HashFields = HashFields(1 << 1);
    /// The VLAN tag, `v`.
    pub const VLAN: HashFields = HashFields(1 << 2);
    /// The protocol number, `t`.
    pub const PROTOCOL: HashFields = HashFields(1 << 3);
    /// The source address, `s`.
    pub const SOURCE: HashFields = HashFields(1 << 4);
    /// The destination address, `d`.
    pub const DESTINATION: HashFields = HashFields(1 << 5);
    /// The source port, `f`.
    pub const SOURCE_PORT: HashFields = HashFields(1 << 6);
    /// The destination port, `n`.
    pub const DESTINATION_PORT: HashFields = HashFields(1 << 7);
    /// Drops such packets, `r`.
    pub const DROP: HashFields = HashFields(1 << 31);
    /// Addresses and ports, `sdfn`.
    pub const FOUR_TUPLE: HashFields = HashFields(0xf << 4);

    /// Whether all of these are in the set.
    pub fn contains(self, fields: HashFields) -> bool {
        self.0 & fields.0 == fields.0
    }
}

impl BitOr for HashFields {
    type Output = HashFields;

    fn bitor(self, other: HashFields) -> HashFields {
        HashFields(self.0 | other.0)
    }
}

impl fmt::Display for HashFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// From the lowest bit up.
        const LETTERS: [(u32, char); 8] =
            [(1, 'm'), (2, 'v'), (3, 't'), (4, 's'), (5, 'd'), (6, 'f'), (7, 'n'), (31, 'r')];
        for (bit, letter) in LETTERS {
            if self.0 & (1 << bit) != 0 {
                write!(f, "{letter}")?;
            }
        }
        Ok(())
    }
}

impl<T: Transport> Nic<T> {
    /// The fields that the hash of a context covers in packets of this kind.
    ///
    /// # Errors
    /// [`EthtoolError::NoHashTable`] if the driver does not report them; otherwise the kernel's refusal.
    pub fn hash_fields(&mut self, flow: HashFlow, context: ContextId) -> Result<HashFields> {
        let mut buffer = request(layout::GRXFH, flow, context);
        self.transport
            .ioctl(&self.device, &mut buffer)
            .map_err(|e| self.fields_refused("read the fields of the receive hash", e))?;
        Ok(HashFields(u64_at(&buffer, rxnfc::DATA) as u32))
    }

    /// Sets the fields that the hash of a context covers in packets of this kind.
    ///
    /// # Errors
    /// As [`Nic::hash_fields`]; EINVAL if the NIC cannot hash this combination.
    pub fn set_hash_fields(&mut self, flow: HashFlow, context: ContextId, fields: HashFields) -> Result<()> {
        let mut buffer = request(layout::SRXFH, flow, context);
        put_u64(&mut buffer, rxnfc::DATA, u64::from(fields.0));
        let action = format!("set the fields of the receive hash to {fields}");
        self.transport.ioctl(&self.device, &mut buffer).map_err(|e| self.fields_refused(&action, e))
    }

    fn fields_refused(&self, action: &str, error: std::io::Error) -> EthtoolError {
        match Errno::from_io_error(&error) {
            Some(Errno::OPNOTSUPP) => {
                EthtoolError::NoHashTable { device: self.device.clone(), driver: self.driver_name() }
            }
            Some(Errno::INVAL) => self
                .failed(action, error)
                .remedy(format!(
                    "the driver {} takes certain sets only, mostly sd and sdfn, and not for every kind of packet",
                    self.driver_name()
                ))
                .into(),
            _ => self.failed(action, error).into(),
        }
    }
}

fn request(number: u32, flow: HashFlow, context: ContextId) -> [u8; rxnfc::LEN] {
    let mut buffer = command::<{ rxnfc::LEN }>(number);
    let flag = if context == ContextId::MAIN { 0 } else { FLOW_RSS };
    put_u32(&mut buffer, rxnfc::FLOW_TYPE, flow as u32 | flag);
    put_u32(&mut buffer, rxnfc::RSS_CONTEXT, context.0);
    buffer
}
