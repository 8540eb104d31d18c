//! Texts in a drawing: their estimated size, and lines of a given length.

use weft_text::printable;

/// The size of the font, in pixels.
pub(super) const FONT: f64 = 12.0;
/// The height of a line of text, in pixels.
pub(super) const LINE: i32 = 16;

/// The width of `text` in pixels, in the widest font that is common for `sans-serif` (DejaVu Sans).
pub(super) fn width(text: &str) -> i32 {
    let em = |c: char| match c {
        'i' | 'j' | 'l' | '.' | ',' | ':' | ';' | '\'' | '|' | ' ' | '/' => 0.36,
        'f' | 't' | 'r' | '(' | ')' | '[' | ']' | '-' | '"' | 'I' | 'J' => 0.47,
        'm' | 'w' | 'M' | 'W' | '@' | '%' => 1.0,
        'A'..='Z' | '<' | '>' | '=' | '+' => 0.84,
        '!'..='~' => 0.65,
        _ => 1.0,
    };
    (text.chars().map(em).sum::<f64>() * FONT).ceil() as i32
}

/// The width of a title, which is bold.
pub(super) fn title_width(text: &str) -> i32 {
    width(text) * 9 / 8
}

/// `text` without what an XML document cannot contain.
pub(super) fn clean(text: &str) -> String {
    printable(text).replace(['\u{fffe}', '\u{ffff}'], "\u{fffd}")
}

/// `text` with at most `most` characters.
pub(super) fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some(_) => text.chars().take(most.saturating_sub(1)).chain(['…']).collect(),
    }
}

/// The words of `text` in at most `most` lines of `length` characters; the last one ends with `…` if there are more.
pub(super) fn wrap(text: &str, length: usize, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let full = lines.len() == most;
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= length => {
                line.push(' ');
                line.push_str(word);
            }
            Some(line) if full => {
                *line = cut(&format!("{line} …"), length);
                return lines;
            }
            _ => lines.push(cut(word, length)),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_whole_words_and_an_end() {
        assert_eq!(wrap("tcp and dport 80", 9, 4), ["tcp and", "dport 80"]);
        assert_eq!(wrap("a b c d e f", 3, 2), ["a b", "c …"]);
        assert_eq!(wrap("abcdefgh", 4, 2), ["abc…"]);
        assert!(wrap("", 4, 2).is_empty());
    }

    #[test]
    fn an_estimate_grows_with_the_text() {
        assert!(width("ill") < width("www") && width("w") < width("ww") && width("") == 0);
        assert_eq!(clean("a\u{7}\u{ffff}"), "a\\u{7}\u{fffd}");
    }
}
