//! Receive side scaling: the Toeplitz hash.

use core::net::IpAddr;
use weft_units::FlowKey;

/// The key of the hash.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct RssKey(pub Vec<u8>);

impl Default for RssKey {
    /// The key of Microsoft's specification and its published test vectors, 40 bytes.
    fn default() -> Self {
        Self(MICROSOFT_KEY.to_vec())
    }
}

/// "Verifying the RSS hash calculation", Microsoft's driver documentation.
const MICROSOFT_KEY: [u8; 40] = [
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0,
    0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42,
    0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
];

/// The length of the longest input, in bytes: two IPv6 addresses and two ports.
const LONGEST: usize = 36;

/// The fields of a flow that are hashed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HashedFields {
    /// Source and destination address.
    Addresses,
    /// Source and destination address and ports.
    AddressesAndPorts,
}

/// A table-driven Toeplitz hash with a table per input byte: 36 tables of 256 words (36 KiB), built once per key.
#[derive(Clone, Debug)]
pub struct Toeplitz {
    tables: Vec<[u32; 256]>,
}

impl Toeplitz {
    /// Builds the tables. A key shorter than the input is padded with zeros.
    pub fn new(key: &RssKey) -> Self {
        let bit = |i: usize| key.0.get(i / 8).map_or(0, |byte| u32::from(byte >> (7 - i % 8) & 1));
        // The 32 bits of the key that start at a bit of the input.
        let window = |from: usize| (0..32).fold(0, |word, i| word << 1 | bit(from + i));
        let table = |byte: usize| {
            core::array::from_fn(|value| {
                (0..8).filter(|i| value >> (7 - i) & 1 == 1).fold(0, |hash, i| hash ^ window(byte * 8 + i))
            })
        };
        Self { tables: (0..LONGEST).map(table).collect() }
    }

    /// Returns the hash of input bytes; those beyond the maximum length are ignored.
    #[inline]
    pub fn hash(&self, input: &[u8]) -> u32 {
        self.tables.iter().zip(input).fold(0, |hash, (table, byte)| hash ^ table[usize::from(*byte)])
    }

    /// Returns the hash of a flow's fields.
    pub fn flow(&self, key: &FlowKey, fields: HashedFields) -> u32 {
        let mut input = [0; LONGEST];
        let addresses = match (key.src, key.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                input[..4].copy_from_slice(&src.octets());
                input[4..8].copy_from_slice(&dst.octets());
                8
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                input[..16].copy_from_slice(&src.octets());
                input[16..32].copy_from_slice(&dst.octets());
                32
            }
            // Both addresses of a flow belong to one family.
            _ => 0,
        };
        let len = match fields {
            HashedFields::Addresses => addresses,
            HashedFields::AddressesAndPorts => addresses + 4,
        };
        if fields == HashedFields::AddressesAndPorts {
            input[addresses..addresses + 2].copy_from_slice(&key.sport.to_be_bytes());
            input[addresses + 2..len].copy_from_slice(&key.dport.to_be_bytes());
        }
        self.hash(&input[..len])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use weft_units::Protocol;

    fn key(src: &str, sport: u16, dst: &str, dport: u16) -> FlowKey {
        let address = |text: &str| text.parse().expect("address");
        FlowKey { src: address(src), dst: address(dst), sport, dport, protocol: Protocol::TCP }
    }

    #[test]
    fn the_published_vectors() {
        let toeplitz = Toeplitz::new(&RssKey::default());
        for (key, with_ports, without) in [
            (key("66.9.149.187", 2794, "161.142.100.80", 1766), 0x51cc_c178, 0x323e_8fc2),
            (key("199.92.111.2", 14230, "65.69.140.83", 4739), 0xc626_b0ea, 0xd718_262a),
            (key("24.19.198.95", 12898, "12.22.207.184", 38024), 0x5c2b_394a, 0xd2d0_a5de),
            (key("38.27.205.30", 48228, "209.142.163.6", 2217), 0xafc7_327f, 0x8298_9176),
            (key("153.39.163.191", 44251, "202.188.127.2", 1303), 0x10e8_28a2, 0x5d18_09c5),
            (key("3ffe:2501:200:1fff::7", 2794, "3ffe:2501:200:3::1", 1766), 0x4020_7d3d, 0x2cc1_8cd5),
            (key("3ffe:501:8::260:97ff:fe40:efab", 14230, "ff02::1", 4739), 0xdde5_1bbf, 0x0f0c_461c),
            (
                key("3ffe:1900:4545:3:200:f8ff:fe21:67cf", 44251, "fe80::200:f8ff:fe21:67cf", 38024),
                0x02d1_feef,
                0x4b61_e985,
            ),
        ] {
            assert_eq!(toeplitz.flow(&key, HashedFields::AddressesAndPorts), with_ports, "{key:?}");
            assert_eq!(toeplitz.flow(&key, HashedFields::Addresses), without, "{key:?}");
        }
    }

    /// The definition of the hash: for each set bit of the input, the 32 bits of the key that start there.
    fn slow(key: &[u8], input: &[u8]) -> u32 {
        let (mut hash, mut window) = (0, u32::from_be_bytes([key[0], key[1], key[2], key[3]]));
        for (i, byte) in input.iter().enumerate() {
            for bit in 0..8 {
                if byte >> (7 - bit) & 1 == 1 {
                    hash ^= window;
                }
                let next = key.get(i + 4).map_or(0, |byte| byte >> (7 - bit) & 1);
                window = window << 1 | u32::from(next);
            }
        }
        hash
    }

    proptest! {
        #[test]
        fn tables_give_what_the_definition_gives(
            key in proptest::collection::vec(0u8.., 4..64),
            input in proptest::collection::vec(0u8.., 0..=36),
        ) {
            prop_assert_eq!(Toeplitz::new(&RssKey(key.clone())).hash(&input), slow(&key, &input));
        }
    }
}
