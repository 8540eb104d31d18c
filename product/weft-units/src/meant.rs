//! Rates, sizes and times as they were meant: other spellings of units, of which there is no doubt.
//!
//! Each function takes a text that cannot be read and returns one that can and that means the same. Policies, configuration files,
//! scenarios and the command line propose these.

use crate::{BitsPerSec, Bytes, Nanos};

/// Splits a quantity into its number and its unit.
fn split(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    text.split_at(end)
}

/// A rate with another spelling of its unit, `100Mbit/s`, `10G`, `10MB/s`, or in bits per second with an exponent, `900e6`.
pub fn rate(text: &str) -> Option<String> {
    let text = text.trim();
    if let Some(bits) = exponent(text) {
        return Some(exact(bits));
    }
    let (number, unit) = split(text);
    let unit = unit.trim_start();
    let per = ["/sec", "/s", "ps"].iter().find_map(|end| Some((unit.strip_suffix(end)?, *end)));
    let (size, per_second) = per.map_or((unit, ""), |(size, end)| (size, end));
    let scale = size.chars().next().map(|c| c.to_ascii_lowercase()).filter(|c| "kmgt".contains(*c));
    let rest = if scale.is_some() { &size[1..] } else { size };
    let scale = scale.map_or(String::new(), String::from);
    let bits = match rest {
        "" if !scale.is_empty() => number.to_owned(),
        "B" | "bytes" if !per_second.is_empty() => {
            let one: BitsPerSec = format!("{number}{scale}bps").parse().ok()?;
            return one.0.checked_mul(8).map(exact);
        }
        _ if ["b", "bit", "bits"].contains(&rest.to_ascii_lowercase().as_str()) => number.to_owned(),
        _ => return None,
    };
    Some(format!("{bits}{scale}bps")).filter(|new| new != text && new.parse::<BitsPerSec>().is_ok())
}

/// The value of a number with an exponent, such as `900e6` or `0.9e9`, if it is a whole one.
fn exponent(text: &str) -> Option<u64> {
    let (number, exponent) = text.split_once(['e', 'E'])?;
    let exponent: u32 = exponent.trim_start_matches('+').parse().ok()?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits: u64 = format!("{whole}{fraction}").parse().ok()?;
    let zeros = exponent.checked_sub(u32::try_from(fraction.len()).ok()?)?;
    digits.checked_mul(10_u64.checked_pow(zeros)?)
}

/// A rate in the largest unit that divides it.
fn exact(bits: u64) -> String {
    let units = [(1_000_000_000, "gbps"), (1_000_000, "mbps"), (1_000, "kbps")];
    let found = units.iter().find(|(factor, _)| bits > 0 && bits.is_multiple_of(*factor));
    found.map_or_else(|| format!("{bits}bps"), |(factor, unit)| format!("{}{unit}", bits / factor))
}

/// A size with another spelling of its unit: `64k`, `64 KBytes`.
pub fn size(text: &str) -> Option<String> {
    let text = text.trim();
    let (number, unit) = split(text);
    let unit = unit.trim_start().to_ascii_lowercase();
    let unit = unit.strip_suffix("ytes").or(unit.strip_suffix("yte")).unwrap_or(&unit);
    let new = match unit {
        "k" | "m" | "g" | "ki" | "mi" | "gi" => format!("{number}{unit}b"),
        _ => format!("{number}{unit}"),
    };
    (new != text && new.parse::<Bytes>().is_ok()).then_some(new)
}

/// A time with another spelling of its unit: `200usec`.
pub fn time(text: &str) -> Option<String> {
    let (number, unit) = split(text.trim());
    let short = match unit.trim_start().to_ascii_lowercase().as_str() {
        "usec" | "usecs" | "microseconds" => "us",
        "msec" | "msecs" | "milliseconds" => "ms",
        "nsec" | "nsecs" => "ns",
        "sec" | "secs" | "seconds" => "s",
        _ => return None,
    };
    Some(format!("{number}{short}")).filter(|new| new.parse::<Nanos>().is_ok_and(|time| time > Nanos::ZERO))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_understood() {
        for (text, meant) in [
            ("100Mbit/s", "100mbps"),
            ("10G", "10gbps"),
            ("10Gb", "10gbps"),
            ("2.5Gb/s", "2.5gbps"),
            ("10MB/s", "80mbps"),
            ("10MBps", "80mbps"),
            ("1.5MB/s", "12mbps"),
            ("500Kbits", "500kbps"),
        ] {
            assert_eq!(rate(text).as_deref(), Some(meant), "{text}");
        }
        for text in ["40", "fast", "10kib", "1gbps", "/s", ""] {
            assert_eq!(rate(text), None, "{text}");
        }
    }

    #[test]
    fn rates_are_never_off_by_a_factor() {
        for (text, bits) in [
            ("900M", 900_000_000),
            ("0.9G", 900_000_000),
            ("100MB/s", 800_000_000),
            ("0.5GB/s", 4_000_000_000),
            ("10 Mbit/s", 10_000_000),
            ("900e6", 900_000_000),
            ("0.9e9", 900_000_000),
            ("1.5E3", 1_500),
            ("12500 bits/s", 12_500),
        ] {
            assert!(text.parse::<BitsPerSec>().is_err(), "{text}");
            let meant = rate(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!(meant.parse(), Ok(BitsPerSec(bits)), "{text}: {meant}");
        }
        for text in ["900", "", "fast", "1e-3", "9e99", "1.25e1", "10 gigabit", "5 parsecs", "e6", "-1e6"] {
            assert_eq!(rate(text), None, "{text}");
        }
    }

    #[test]
    fn sizes_and_times_in_other_spellings() {
        assert_eq!(size("64k").as_deref(), Some("64kb"));
        assert_eq!(size("64 KBytes").as_deref(), Some("64kb"));
        assert_eq!((size("64kb"), size("64 parsecs"), size("big")), (None, None, None));
        assert_eq!(time("200usec").as_deref(), Some("200us"));
        assert_eq!((time("0 sec"), time("5 days")), (None, None));
    }
}
