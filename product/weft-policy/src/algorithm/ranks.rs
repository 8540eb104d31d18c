//! Ranks for people: with their units, and times since a begin.

use super::{CheckedAlgorithm, Type};
use weft_rank::Rank;
use weft_rank::arithmetic::VIRTUAL_UNITS_PER_BYTE;
use weft_units::Instant;

impl CheckedAlgorithm {
    /// A rank that the algorithm gave, in the units of its text. Times are spans since `begin`.
    pub fn rank_text(&self, rank: Rank, begin: Instant) -> String {
        let words = [rank.first, rank.second];
        // Shapers and droppers rank nothing: the engine keeps the order of arrival.
        let units = if self.rank.is_empty() { &[Type::Number][..] } else { &self.rank };
        let parts = units.iter().zip(words).map(|(of, word)| component(*of, word, begin));
        parts.collect::<Vec<_>>().join(", ")
    }
}

/// The offset that moves up a component that may be negative, so that it is compared from 0.
const HALF: u64 = 1 << 63;

fn component(of: Type, word: u64, begin: Instant) -> String {
    match of {
        Type::Time if word == u64::MAX => "never".to_owned(),
        Type::Time => match word.checked_sub(begin.as_nanos()) {
            Some(since) => exact(since),
            // A time of 0 goes before all others, and is no time that was.
            None if word == 0 => "0".to_owned(),
            None => format!("-{}", exact(begin.as_nanos() - word)),
        },
        Type::Duration => exact(word),
        Type::VirtualTime => format!("{} vtime", word / VIRTUAL_UNITS_PER_BYTE),
        Type::SignedCount | Type::SignedBytes => (word.wrapping_sub(HALF) as i64).to_string(),
        _ if word == u64::MAX => "most".to_owned(),
        Type::Bytes => format!("{word} B"),
        _ => word.to_string(),
    }
}

/// A span of time in full: ranks that differ must not look equal.
fn exact(nanos: u64) -> String {
    let (unit, name): (u64, &str) = match nanos {
        0..1_000 => (1, "ns"),
        1_000..1_000_000 => (1_000, "us"),
        1_000_000..1_000_000_000 => (1_000_000, "ms"),
        _ => (1_000_000_000, "s"),
    };
    let digits = unit.ilog10() as usize;
    let rest = if digits == 0 { String::new() } else { format!("{:0digits$}", nanos % unit) };
    match rest.trim_end_matches('0') {
        "" => format!("{} {name}", nanos / unit),
        rest => format!("{}.{rest} {name}", nanos / unit),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_have_the_units_of_the_text() {
        let begin = Instant::from_nanos(1_000_000);
        assert_eq!(component(Type::Time, 1_009_000, begin), "9 us");
        assert_eq!(component(Type::Time, 999_000, begin), "-1 us");
        assert_eq!(component(Type::Duration, 99_950, begin), "99.95 us");
        assert_eq!(component(Type::Duration, 999, begin), "999 ns");
        assert_eq!(component(Type::Time, u64::MAX, begin), "never");
        assert_eq!(component(Type::VirtualTime, 1500 * VIRTUAL_UNITS_PER_BYTE, begin), "1500 vtime");
        assert_eq!(component(Type::SignedCount, HALF - 3, begin), "-3");
        assert_eq!(component(Type::Number, u64::MAX, begin), "most");
        let edf = super::super::shipped_algorithm("edf").expect("it is shipped");
        assert_eq!(edf.rank_text(Rank::new(1_009_000, 0), begin), "9 us");
        let bucket = super::super::shipped_algorithm("bucket").expect("it is shipped");
        assert_eq!(bucket.rank_text(Rank::new(7, 0), begin), "7");
    }
}
