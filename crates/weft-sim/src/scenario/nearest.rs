//! The known name that is nearest to a mistyped one.

/// Longer names are not compared: nobody mistypes one of ours into that.
const COMPARED_MAX: usize = 48;

/// What other tools call some keys, for hints only.
const SYNONYMS: [(&str, &str); 9] = [
    ("byte_queue_limit", "bql"),
    ("bandwidth", "rate"),
    ("latency", "delay"),
    ("runtime", "duration"),
    ("source", "from"),
    ("src", "from"),
    ("destination", "to"),
    ("dst", "to"),
    ("num_hosts", "hosts"),
];

/// The known name that `given` may have meant: one that other tools call so, or the one at the least distance, where it is at most
/// a third of its letters.
pub(super) fn nearest<'a>(given: &str, known: &[&'a str]) -> Option<&'a str> {
    if given.chars().count() > COMPARED_MAX {
        return None;
    }
    let given = plain(given);
    let meant = SYNONYMS.iter().find(|(other, _)| *other == given).map(|(_, ours)| *ours);
    if let Some(name) = known.iter().find(|name| Some(**name) == meant) {
        return Some(name);
    }
    let best = known.iter().map(|name| (distance(&given, &plain(name)), *name)).min_by_key(|(d, _)| *d)?;
    (best.0 <= (best.1.chars().count() / 3).max(1)).then_some(best.1)
}

/// The hint for an unknown name: the nearest, or all there are.
pub(super) fn hint(given: &str, known: &[&str]) -> String {
    match nearest(given, known) {
        Some(name) => format!("did you mean `{name}`?"),
        None => format!("there are: {}", known.join(", ")),
    }
}

/// Small letters, and one kind of dash: `Receive-Ring` is near to `receive_ring`.
fn plain(name: &str) -> String {
    name.chars().map(|c| if c == '-' { '_' } else { c.to_ascii_lowercase() }).collect()
}

/// Edits between two names: a letter put in, taken out, replaced, or swapped with its neighbour (optimal string alignment).
pub(super) fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before = vec![0; b.len() + 1];
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let mut least = (above[j] + usize::from(x != y)).min(above[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y {
                least = least.min(before[j - 1] + 1);
            }
            row.push(least);
        }
        before = core::mem::replace(&mut above, row);
    }
    above[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_those_counted_by_hand() {
        for (a, b, edits) in [
            ("", "abc", 3),
            ("mtu", "mtu", 0),
            ("mut", "mtu", 1),
            ("rate", "rates", 1),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!((distance(a, b), distance(b, a)), (edits, edits), "{a} {b}");
        }
    }

    #[test]
    fn the_nearest_is_near_or_none() {
        let known = ["rate", "delay", "transmit_queues", "bql"];
        assert_eq!(nearest("transmit-queue", &known), Some("transmit_queues"));
        assert_eq!(nearest("bandwidth", &known), Some("rate"));
        assert_eq!(nearest("byte_queue_limit", &known), Some("bql"));
        assert_eq!(nearest("colour", &known), None);
        assert_eq!(nearest(&"x".repeat(100_000), &known), None);
    }
}
