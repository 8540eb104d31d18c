//! Suggestions for mistyped names.

/// The longest name that is compared; a longer one is not a typing error.
const COMPARED_MAX: usize = 48;
/// The most known names that a hint lists.
const LISTED_MAX: usize = 24;

/// The known name that `given` may have meant: one of which it is a synonym, or the one at the smallest distance, if that is
/// at most a third of its letters. Case is ignored, and `-` equals `_`. `synonyms` are pairs of another name, in lower case with `_`,
/// and the known name.
pub fn nearest<'a>(
    given: &str,
    known: impl IntoIterator<Item = &'a str>,
    synonyms: &[(&str, &str)],
) -> Option<&'a str> {
    let given = plain(given);
    if given.len() > COMPARED_MAX {
        return None;
    }
    let spelled: String = given.iter().collect();
    let meant = synonyms.iter().find(|(other, _)| *other == spelled).map(|(_, ours)| *ours);
    let mut best: Option<(usize, &str)> = None;
    for name in known {
        if Some(name) == meant {
            return Some(name);
        }
        let letters = plain(name);
        // Of equally near names, the first counts. For a name of one letter, another letter is another name.
        let limit = (letters.len() / 3).max(1).min(letters.len().saturating_sub(1));
        let most = match best {
            Some((0, _)) => continue,
            Some((edits, _)) => limit.min(edits - 1),
            None => limit,
        };
        best = distance(&given, &letters, most).map(|edits| (edits, name)).or(best);
    }
    best.map(|(_, name)| name)
}

/// The hint for an unknown name: the nearest known name, or all of them.
pub fn hint(given: &str, known: &[&str], synonyms: &[(&str, &str)]) -> String {
    match nearest(given, known.iter().copied(), synonyms) {
        Some(name) => format!("did you mean `{name}`?"),
        None => all(known),
    }
}

/// The hint for an unknown name out of a few: the nearest, and all of them.
pub fn hint_and_all(given: &str, known: &[&str], synonyms: &[(&str, &str)]) -> String {
    match nearest(given, known.iter().copied(), synonyms) {
        Some(name) => format!("did you mean `{name}`? {}", all(known)),
        None => all(known),
    }
}

fn all(known: &[&str]) -> String {
    match known.len() {
        0 => "there are none".to_owned(),
        len if len > LISTED_MAX => format!("there are: {}, ...", known[..LISTED_MAX].join(", ")),
        _ => format!("there are: {}", known.join(", ")),
    }
}

/// The letters in lower case with one kind of dash: `Receive-Ring` is close to `receive_ring`.
fn plain(name: &str) -> Vec<char> {
    name.chars().map(|c| if c == '-' { '_' } else { c.to_ascii_lowercase() }).collect()
}

/// The number of edits between two names, if at most `most`: a letter inserted, deleted, replaced, or swapped with its
/// neighbour (optimal string alignment).
fn distance(a: &[char], b: &[char], most: usize) -> Option<usize> {
    if a.len().abs_diff(b.len()) > most {
        return None;
    }
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
        // Later rows derive from these two and are never smaller.
        if before.iter().chain(&above).all(|edits| *edits > most) {
            return None;
        }
    }
    Some(above[b.len()]).filter(|edits| *edits <= most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn edits(a: &str, b: &str, most: usize) -> Option<usize> {
        distance(&plain(a), &plain(b), most)
    }

    #[test]
    fn distances_are_those_counted_by_hand() {
        for (a, b, expected) in [
            ("", "abc", 3),
            ("mtu", "mtu", 0),
            ("mut", "mtu", 1),
            ("rate", "rates", 1),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!((edits(a, b, 9), edits(b, a, 9)), (Some(expected), Some(expected)), "{a} {b}");
        }
    }

    proptest! {
        #[test]
        fn a_limit_changes_no_distance_within_it(a in "[abc]{0,8}", b in "[abc]{0,8}", most in 0usize..9) {
            let whole = edits(&a, &b, usize::MAX);
            prop_assert_eq!(edits(&a, &b, most), whole.filter(|edits| *edits <= most));
        }
    }

    #[test]
    fn the_nearest_is_near_or_none() {
        let known = ["src-ip", "dst-ip", "dst-port", "transmit_queues", "bql"];
        for (given, expected) in [
            ("dst_port", Some("dst-port")),
            ("SRC-IP", Some("src-ip")),
            ("xrc-ip", Some("src-ip")),
            ("Transmit-Queue", Some("transmit_queues")),
            ("byte_queue_limit", None),
            ("colour", None),
            ("", None),
            ("x".repeat(100_000).as_str(), None),
        ] {
            assert_eq!(nearest(given, known, &[]), expected, "{given}");
        }
        assert_eq!(nearest("T3", ["T1", "T2"], &[]), Some("T1"), "the first of those that are equally near");
        assert_eq!(nearest("x", ["y", ""], &[]), None, "nothing of it is left");
        assert_eq!(nearest("Y", ["y"], &[]), Some("y"));
    }

    #[test]
    fn synonyms_lead_to_names_that_are_known() {
        let synonyms = [("byte_queue_limit", "bql"), ("bandwidth", "rate")];
        assert_eq!(nearest("Byte-Queue-Limit", ["rate", "bql"], &synonyms), Some("bql"));
        assert_eq!(nearest("bandwidth", ["delay"], &synonyms), None);
    }

    #[test]
    fn hints_name_the_nearest_or_all() {
        let known = ["rate", "delay"];
        assert_eq!(hint("rats", &known, &[]), "did you mean `rate`?");
        assert_eq!(hint("colour", &known, &[]), "there are: rate, delay");
        assert_eq!(hint_and_all("rats", &known, &[]), "did you mean `rate`? there are: rate, delay");
        assert_eq!(hint_and_all("colour", &known, &[]), "there are: rate, delay");
        assert_eq!(hint("colour", &[], &[]), "there are none");
        assert_eq!(hint("colour", &["t"; 25], &[]), format!("there are: {}, ...", ["t"; 24].join(", ")));
    }
}
