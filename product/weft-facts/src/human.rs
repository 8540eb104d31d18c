//! Numbers formatted for people: the units of `weft-units`, for the floating-point figures of a report.

use weft_units::{BitsPerSec, Bytes, Nanos};

/// The text for a missing figure.
pub const NONE: &str = "-";

/// Bits per second, for example `2.5 Gb/s`.
pub fn rate(bps: f64) -> String {
    BitsPerSec(whole(bps)).to_string()
}

/// Seconds, for example `120 us`; whole nanoseconds.
pub fn time(seconds: f64) -> String {
    Nanos(whole(seconds * 1e9)).to_string()
}

/// Bytes, for example `2.2 MB` (decimal prefixes).
pub fn bytes(bytes: f64) -> String {
    Bytes(whole(bytes)).to_string()
}

/// A fraction as percent, for example `99.7 %`; two decimals below 1 %.
pub fn percent(fraction: f64) -> String {
    let percent = fraction * 100.0;
    if percent.abs() < 1.0 { format!("{percent:.2} %") } else { format!("{percent:.1} %") }
}

/// A ratio, for example `62x`.
pub fn times(ratio: f64) -> String {
    if ratio >= 10.0 { format!("{ratio:.0}x") } else { format!("{ratio:.2}x") }
}

/// A count with its digits in groups of three, for example `1 234 567`.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// The counts above zero with their names, for example `bound 3, ring_full 1`; `None` without one.
pub fn named_counts<'a>(counts: impl IntoIterator<Item = (&'a str, u64)>) -> Option<String> {
    let some = counts.into_iter().filter(|(_, count)| *count > 0);
    let words: Vec<_> = some.map(|(name, count)| format!("{name} {count}")).collect();
    (!words.is_empty()).then(|| words.join(", "))
}

/// Packets per second, for example `1.25 Mpps`.
pub fn pps(packets_per_second: f64) -> String {
    let (factor, unit) = match packets_per_second {
        p if p >= 1e9 => (1e9, "Gpps"),
        p if p >= 1e6 => (1e6, "Mpps"),
        p if p >= 1e3 => (1e3, "kpps"),
        _ => (1.0, "pps"),
    };
    format!("{:.2} {unit}", packets_per_second / factor)
}

/// A number with a prefix and two decimals, for example `17.25 M`.
pub fn short(number: f64) -> String {
    let (factor, unit) = match number {
        n if n >= 1e9 => (1e9, " G"),
        n if n >= 1e6 => (1e6, " M"),
        n if n >= 1e3 => (1e3, " k"),
        _ => (1.0, ""),
    };
    format!("{:.2}{unit}", number / factor)
}

/// `value` formatted by `write`, or [`NONE`].
pub fn or_none<T>(value: Option<T>, write: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| NONE.to_owned(), write)
}

/// The nearest whole number; negative and NaN become 0.
fn whole(value: f64) -> u64 {
    value.round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_read_well() {
        assert_eq!(rate(124.7e6), "125 Mb/s");
        assert_eq!(time(0.000_120_4), "120 us");
        assert_eq!(bytes(2.2e6), "2.2 MB");
        assert_eq!((percent(0.0004), percent(0.997)), ("0.04 %".into(), "99.7 %".into()));
        assert_eq!((times(62.4), times(1.004)), ("62x".into(), "1.00x".into()));
        assert_eq!((count(1_234_567), count(999), count(0)), ("1 234 567".into(), "999".into(), "0".into()));
        assert_eq!(pps(1.25e6), "1.25 Mpps");
        assert_eq!((rate(f64::NAN), rate(-1.0)), ("0 b/s".into(), "0 b/s".into()));
        assert_eq!(or_none(None, rate), "-");
    }
}
