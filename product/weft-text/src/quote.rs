//! Parts of a user's text inside messages.

/// The longest part of a text that a message repeats, in characters.
const QUOTED_MAX: usize = 40;

/// Part of a user's text for use in a message: in backquotes, shortened and printable.
pub fn quoted(text: &str) -> String {
    match text.char_indices().nth(QUOTED_MAX) {
        Some((cut, _)) => format!("`{}...`", printable(&text[..cut])),
        None => format!("`{}`", printable(text)),
    }
}

/// `text` with control characters escaped, so that it is one line and cannot control a terminal.
pub fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if steers(c) { out.extend(c.escape_unicode()) } else { out.push(c) }
    }
    out
}

/// Whether a character would break a line or control a terminal.
pub fn steers(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_quoted_is_short_and_cannot_steer_a_terminal() {
        assert_eq!(quoted("a\u{1b}[0m"), "`a\\u{1b}[0m`");
        assert_eq!(quoted("a\n\u{202e}"), "`a\\u{a}\\u{202e}`");
        assert_eq!(quoted(&"ä".repeat(40)), format!("`{}`", "ä".repeat(40)));
        assert_eq!(quoted(&"ä".repeat(41)), format!("`{}...`", "ä".repeat(40)));
    }

    #[test]
    fn what_is_printable_stays() {
        let once = printable("größe\t\u{2028}");
        assert_eq!(once, "größe\\u{9}\\u{2028}");
        assert_eq!(printable(&once), once);
    }
}
