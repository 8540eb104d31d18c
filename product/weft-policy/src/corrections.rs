//! Values as they were meant: units, names of services and other spellings that the language does not have.
//!
//! Rates, sizes and times are corrected by [`weft_units::meant`]. Each function takes a value that cannot be read and returns one that can, if there is no doubt about the meaning.

use core::net::IpAddr;
use weft_packet::{ParsePrefixError, Prefix};
use weft_units::{BitsPerSec, Bytes, Nanos, meant};

/// A word of the language, with other words for the same.
pub(crate) type Synonyms = (&'static str, &'static [&'static str]);

/// The other words, each with the word of the language.
pub(crate) fn pairs(synonyms: &[Synonyms]) -> Vec<(&'static str, &'static str)> {
    synonyms.iter().flat_map(|(word, others)| others.iter().map(move |other| (*other, *word))).collect()
}

/// Splits a quantity into its number and its unit.
fn split(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    text.split_at(end)
}

/// A value without the spaces before its unit, and with a unit that can be read.
pub(crate) fn joined(text: &str) -> String {
    let joined: String = text.split_whitespace().collect();
    let readable = joined.parse::<BitsPerSec>().is_ok()
        || joined.parse::<Bytes>().is_ok()
        || joined.parse::<Nanos>().is_ok();
    if readable { joined } else { meant::rate(&joined).unwrap_or(joined) }
}

/// A weight in percent: only proportions count, so the number is the weight.
pub(crate) fn weight(text: &str) -> Option<String> {
    let number = text.strip_suffix('%')?;
    number.parse::<u32>().ok().filter(|weight| *weight > 0).map(|weight| weight.to_string())
}

/// Whole numbers in the proportions of numbers with decimal points: 7 and 3 for 0.7 and 0.3.
pub(crate) fn proportions(texts: &[&str]) -> Option<Vec<u32>> {
    let digits = |text: &str| text.split_once('.').map_or(0, |(_, fraction)| fraction.len());
    let most = texts.iter().map(|text| digits(text)).max().filter(|most| *most <= 9)?;
    let scaled = |text: &&str| -> Option<u64> {
        let zeros = "0".repeat(most - digits(text));
        (text.replacen('.', "", 1) + &zeros).parse().ok().filter(|value| *value > 0)
    };
    let scaled: Vec<u64> = texts.iter().map(scaled).collect::<Option<_>>()?;
    let common = scaled.iter().copied().reduce(gcd)?;
    scaled.iter().map(|value| u32::try_from(value / common).ok()).collect()
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// A number of packets with a factor: `10k`.
pub(crate) fn packets(text: &str) -> Option<String> {
    let (number, factor) = split(text);
    let factor = match factor {
        "k" | "K" => 1_000_u32,
        "m" | "M" => 1_000_000,
        _ => return None,
    };
    number.parse::<u32>().ok()?.checked_mul(factor).filter(|count| *count > 0).map(|count| count.to_string())
}

/// A port by the name of its service (IANA's registry), or a range with another sign between its ends.
pub(crate) fn ports(text: &str) -> Option<String> {
    const SERVICES: &[(&str, u16)] = &[
        ("ssh", 22),
        ("smtp", 25),
        ("dns", 53),
        ("domain", 53),
        ("http", 80),
        ("ntp", 123),
        ("imap", 143),
        ("snmp", 161),
        ("bgp", 179),
        ("https", 443),
        ("iscsi", 3260),
        ("mysql", 3306),
        ("rdp", 3389),
        ("postgresql", 5432),
        ("postgres", 5432),
        ("redis", 6379),
        ("memcached", 11211),
        ("memcache", 11211),
    ];
    let name = text.to_ascii_lowercase();
    if let Some((_, port)) = SERVICES.iter().find(|(service, _)| *service == name) {
        return Some(port.to_string());
    }
    let (first, last) = ["...", "-", ":"].iter().find_map(|sign| text.split_once(sign))?;
    let port = |text: &str| text.parse::<u16>().ok().filter(|port| *port > 0);
    let (first, last) = (port(first)?, port(last)?);
    Some(format!("{}..{}", first.min(last), first.max(last)))
}

/// A protocol by its name (IANA's registry).
pub(crate) fn protocol(text: &str) -> Option<String> {
    let number = match text.to_ascii_lowercase().as_str() {
        "igmp" => 2,
        "ipip" => 4,
        "ipv6" => 41,
        "gre" => 47,
        "esp" => 50,
        "ah" => 51,
        "ospf" => 89,
        "pim" => 103,
        "vrrp" => 112,
        "l2tp" => 115,
        _ => return None,
    };
    Some(number.to_string())
}

/// A prefix without its host bits, with all its octets, or with a length in place of a network mask.
pub(crate) fn prefix(text: &str) -> Option<String> {
    let (address, length) =
        text.split_once('/').map_or((text, None), |(address, length)| (address, Some(length)));
    let mask = length.and_then(|length| length.parse::<core::net::Ipv4Addr>().ok()).map(u32::from);
    let length = match (length, mask) {
        (_, Some(mask)) if mask.leading_ones() + mask.trailing_zeros() >= 32 => mask.leading_ones(),
        (Some(length), None) => length.parse().ok()?,
        _ => return None,
    };
    let octets = address.trim_end_matches('.').split('.').count();
    let whole = match address.contains(':') {
        true => address.to_owned(),
        false => address.trim_end_matches('.').to_owned() + &".0".repeat(4_usize.checked_sub(octets)?),
    };
    let new = format!("{}/{length}", whole.parse::<IpAddr>().ok()?);
    match new.parse::<Prefix>() {
        Ok(_) => Some(new),
        Err(ParsePrefixError::HostBits { network }) => Some(network.to_string()),
        Err(_) => None,
    }
}

/// A cgroup's path without superfluous slashes and without the folder in which the hierarchy is mounted.
pub(crate) fn cgroup(path: &str) -> Option<String> {
    let below = path.strip_prefix("/sys/fs/cgroup").filter(|rest| rest.starts_with('/')).unwrap_or(path);
    let parts: Vec<&str> = below.split('/').filter(|part| !part.is_empty()).collect();
    let usable = !parts.is_empty() && !parts.contains(&"..") && !parts.contains(&".");
    let root = if below.starts_with('/') { "/" } else { "" };
    usable.then(|| format!("{root}{}", parts.join("/"))).filter(|new| new != path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_values_are_understood() {
        assert_eq!(
            (joined("10 Gbit/s"), joined("8 mb"), joined("1 us")),
            ("10gbps".into(), "8mb".into(), "1us".into())
        );
        assert_eq!((weight("50%").as_deref(), weight("0%")), (Some("50"), None));
        assert_eq!(proportions(&["0.5", "0.5"]), Some(vec![1, 1]));
        assert_eq!(proportions(&["0.75", "1", ".5"]), Some(vec![3, 4, 2]));
        assert_eq!((proportions(&["0.5", "0.0"]), proportions(&["0.5", "x"])), (None, None));
        assert_eq!((packets("10k").as_deref(), packets("10q")), (Some("10000"), None));
        assert_eq!((ports("HTTPS").as_deref(), ports("443-80").as_deref()), (Some("443"), Some("80..443")));
        assert_eq!((ports("80:443").as_deref(), ports("0-4")), (Some("80..443"), None));
        assert_eq!((protocol("GRE").as_deref(), protocol("x")), (Some("47"), None));
    }

    #[test]
    fn addresses_and_paths_are_understood() {
        for (text, meant) in [
            ("10.0.0.1/24", Some("10.0.0.0/24")),
            ("10.1/16", Some("10.1.0.0/16")),
            ("10.0.1.0/255.255.255.0", Some("10.0.1.0/24")),
            ("fd00::1/64", Some("fd00::/64")),
            ("10.0.0.0/33", None),
            ("10.0.0.0/255.0.255.0", None),
            ("10.0.0", None),
        ] {
            assert_eq!(prefix(text).as_deref(), meant, "{text}");
        }
        assert_eq!(cgroup("/a//b/").as_deref(), Some("/a/b"));
        assert_eq!(cgroup("/sys/fs/cgroup/web").as_deref(), Some("/web"));
        assert_eq!((cgroup("a/../b"), cgroup(""), cgroup("/a")), (None, None, None));
    }
}
