//! The known name that is nearest to a mistyped one.

/// Longer names are not compared: nobody mistypes one of ours into that.
const COMPARED_MAX: usize = 48;
/// More known names are not listed.
const LISTED_MAX: usize = 24;
/// The longest piece of a text that a message repeats, in characters.
const QUOTED_MAX: usize = 40;

/// The known name at the least distance from `given`, where it is at most a third of its letters.
pub(crate) fn nearest<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if given.chars().count() > COMPARED_MAX {
        return None;
    }
    let given = given.to_ascii_lowercase();
    let best =
        known.into_iter().map(|name| (distance(&given, name), name)).min_by_key(|(edits, _)| *edits)?;
    (best.0 <= (best.1.chars().count() / 3).max(1)).then_some(best.1)
}

/// The hint for an unknown name: the nearest, or all there are.
pub(crate) fn hint(given: &str, known: &[&str]) -> String {
    match nearest(given, known.iter().copied()) {
        Some(name) => format!("did you mean `{name}`?"),
        None if known.is_empty() => "there are none".to_owned(),
        None if known.len() > LISTED_MAX => format!("there are: {}, ...", known[..LISTED_MAX].join(", ")),
        None => format!("there are: {}", known.join(", ")),
    }
}

/// A piece of somebody's text for use in a message: in backquotes, shortened, control characters as escapes.
pub(crate) fn quoted(text: &str) -> String {
    match text.char_indices().nth(QUOTED_MAX) {
        Some((cut, _)) => format!("`{}...`", printable(&text[..cut])),
        None => format!("`{}`", printable(text)),
    }
}

/// `text` with control characters as escapes, so that it stays one line and cannot steer a terminal.
pub(crate) fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        let steers = matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if c.is_control() || steers { out.extend(c.escape_unicode()) } else { out.push(c) }
    }
    out
}

/// Edits between two names: a letter put in, taken out, replaced, or swapped with its neighbour (optimal string alignment).
fn distance(a: &str, b: &str) -> usize {
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
        let known = ["src-ip", "dst-ip", "dst-port"];
        assert_eq!(nearest("dst_port", known), Some("dst-port"));
        assert_eq!(nearest("SRC-IP", known), Some("src-ip"));
        assert_eq!(nearest("colour", known), None);
        assert_eq!(nearest(&"x".repeat(100_000), known), None);
        assert_eq!(hint("colour", &known), "there are: src-ip, dst-ip, dst-port");
    }

    #[test]
    fn what_is_quoted_cannot_steer_a_terminal() {
        assert_eq!(quoted("a\u{1b}[0m"), "`a\\u{1b}[0m`");
        assert_eq!(quoted(&"x".repeat(50)), format!("`{}...`", "x".repeat(40)));
    }
}
