//! Parsing, formatting and comparison of address prefixes.

use crate::classifier::Prefix;
use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::str::FromStr;

/// An error in the text of a prefix.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ParsePrefixError {
    /// The part before the slash is not an address.
    #[error("`{given}` is not an IPv4 or IPv6 address")]
    Address {
        /// The given text.
        given: String,
    },
    /// The part after the slash is not a number, or too long for the address.
    #[error("`{given}` is not a prefix length of at most {limit}")]
    Length {
        /// The given text.
        given: String,
        /// The maximum length for the address's family, in bits.
        limit: u8,
    },
    /// Bits beyond the length are set.
    #[error("address bits are set beyond the length; the network is {network}")]
    HostBits {
        /// The same prefix with those bits cleared.
        network: Prefix,
    },
}

impl Prefix {
    /// Returns the prefix of the single address `addr`.
    pub const fn host(addr: IpAddr) -> Self {
        let len = match addr {
            IpAddr::V4(_) => 32,
            IpAddr::V6(_) => 128,
        };
        Self { addr, len }
    }

    /// The maximum length for this prefix's family, in bits: 32 or 128.
    pub const fn max_len(&self) -> u8 {
        Self::host(self.addr).len
    }

    /// Returns the prefix with every bit beyond its length cleared.
    pub fn network(&self) -> Self {
        let addr = match self.addr {
            IpAddr::V4(a) => {
                let host = u32::MAX.checked_shr(u32::from(self.len)).unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from(u32::from(a) & !host))
            }
            IpAddr::V6(a) => {
                let host = u128::MAX.checked_shr(u32::from(self.len)).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from(u128::from(a) & !host))
            }
        };
        Self { addr, len: self.len }
    }

    /// Whether this prefix contains every address of `other`.
    pub fn covers(&self, other: &Self) -> bool {
        self.len <= other.len && self.contains(other.addr)
    }

    /// Returns the addresses in both. Prefixes are nested or disjoint, so the result is the longer one or `None`.
    pub fn intersect(&self, other: &Self) -> Option<Self> {
        if self.covers(other) {
            Some(*other)
        } else if other.covers(self) {
            Some(*self)
        } else {
            None
        }
    }
}

impl FromStr for Prefix {
    type Err = ParsePrefixError;

    /// Parses `10.0.1.0/24`, `fd00::/8`, or a single address.
    fn from_str(text: &str) -> Result<Self, ParsePrefixError> {
        let (addr, len) = match text.split_once('/') {
            Some((addr, len)) => (addr, Some(len)),
            None => (text, None),
        };
        let addr: IpAddr = addr.parse().map_err(|_| ParsePrefixError::Address { given: addr.to_owned() })?;
        let host = Self::host(addr);
        let Some(len) = len else { return Ok(host) };
        let error = || ParsePrefixError::Length { given: len.to_owned(), limit: host.len };
        if !len.bytes().all(|b| b.is_ascii_digit()) {
            return Err(error());
        }
        let bits: u8 = len.parse().map_err(|_| error())?;
        if bits > host.len {
            return Err(error());
        }
        let prefix = Self { addr, len: bits };
        let network = prefix.network();
        if network == prefix { Ok(prefix) } else { Err(ParsePrefixError::HostBits { network }) }
    }
}

impl fmt::Display for Prefix {
    /// Writes the form that [`Prefix::from_str`] parses; the length of a single address is omitted.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.len == self.max_len() {
            write!(f, "{}", self.addr)
        } else {
            write!(f, "{}/{}", self.addr, self.len)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(text: &str) -> Prefix {
        text.parse().expect(text)
    }

    #[test]
    fn what_is_read_is_written() {
        for text in ["0.0.0.0/0", "10.0.1.0/24", "10.0.1.7", "::/0", "fd00::/8", "fd00::1"] {
            assert_eq!(prefix(text).to_string(), text);
        }
        assert_eq!(prefix("10.0.1.7/32"), prefix("10.0.1.7"));
    }

    #[test]
    fn what_is_wrong_is_refused_with_the_reason() {
        for (text, reason) in [
            ("10.0.1", "not an IPv4 or IPv6 address"),
            ("10.0.1.0/33", "at most 32"),
            ("::/129", "at most 128"),
            ("10.0.1.0/", "at most 32"),
            ("10.0.1.0/+8", "at most 32"),
            ("10.0.1.7/24", "the network is 10.0.1.0/24"),
            ("fd00::1/64", "the network is fd00::/64"),
        ] {
            let error = text.parse::<Prefix>().expect_err(text).to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }

    #[test]
    fn prefixes_are_nested_or_disjoint() {
        let (ten, one, two) = (prefix("10.0.0.0/8"), prefix("10.0.1.0/24"), prefix("10.0.2.0/24"));
        assert!(ten.covers(&one) && !one.covers(&ten) && one.covers(&one));
        assert_eq!(ten.intersect(&one), Some(one));
        assert_eq!(one.intersect(&two), None);
        assert_eq!(prefix("0.0.0.0/0").intersect(&prefix("::/0")), None, "families never mix");
    }
}
