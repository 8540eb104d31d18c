//! Hardware addresses.

use std::fmt;
use std::str::FromStr;

/// An Ethernet hardware address.
///
/// ```
/// let mac: weft_host::Mac = "02:00:00:00:00:2a".parse()?;
/// assert_eq!(mac, weft_host::Mac::local(42));
/// assert_eq!(mac.to_string(), "02:00:00:00:00:2a");
/// # Ok::<(), weft_host::link::ParseMacError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Mac(pub [u8; 6]);

/// The error for a text that is not a hardware address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a hardware address such as 02:00:00:00:00:01")]
pub struct ParseMacError(String);

impl Mac {
    /// A locally administered unicast address numbered `n`.
    pub fn local(n: u32) -> Mac {
        let [a, b, c, d] = n.to_be_bytes();
        Mac([2, 0, a, b, c, d])
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl FromStr for Mac {
    type Err = ParseMacError;

    fn from_str(text: &str) -> Result<Mac, ParseMacError> {
        let error = || ParseMacError(text.to_string());
        let mut bytes = [0; 6];
        let mut parts = text.split(':');
        for byte in &mut bytes {
            let part = parts.next().filter(|p| p.len() == 2).ok_or_else(error)?;
            *byte = u8::from_str_radix(part, 16).map_err(|_| error())?;
        }
        if parts.next().is_some() { Err(error()) } else { Ok(Mac(bytes)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_address_is_refused() {
        for text in ["", "02:00:00:00:00", "02:00:00:00:00:01:02", "2:0:0:0:0:1", "zz:00:00:00:00:01"] {
            assert_eq!(text.parse::<Mac>(), Err(ParseMacError(text.to_string())));
        }
    }
}
