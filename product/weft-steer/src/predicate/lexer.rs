//! Tokens of predicates and model files.

use weft_text::Span;

/// The kind of a token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// A name, number, address or range: letters, digits and `_ . : - / &`.
    Word,
    /// A text in double quotes, on one line; [`Token::text`] excludes the quotes.
    Text,
    /// A text whose closing quote is missing.
    OpenText,
    /// `->`
    Arrow,
    /// One of `( ) { } ,`.
    Sign,
    /// Anything else, one character.
    Unknown,
}

/// A token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Token<'a> {
    /// Its kind.
    pub(crate) kind: Kind,
    /// Its text.
    pub(crate) text: &'a str,
    /// The position of its first byte.
    pub(crate) at: usize,
}

impl Token<'_> {
    /// Returns its place; for a text, including its quotes.
    pub(crate) const fn span(&self) -> Span {
        let quotes = if matches!(self.kind, Kind::Text) { 2 } else { 0 };
        Span::new(self.at, self.at + self.text.len() + quotes)
    }
}

/// Splits a text into tokens. White space separates them; `#` begins a comment to the end of the line.
pub(crate) fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut out = Vec::new();
    let mut at = 0;
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        if first == '#' {
            at += rest.find('\n').unwrap_or(rest.len());
        } else if first.is_whitespace() || first == '\u{feff}' {
            at += first.len_utf8();
        } else {
            let (kind, len) = token(rest, first);
            let text = match kind {
                Kind::Text => &rest[1..len - 1],
                _ => &rest[..len],
            };
            out.push(Token { kind, text, at });
            at += len;
        }
    }
    out
}

/// Returns the kind and the length in bytes of the token at the start of `rest`.
fn token(rest: &str, first: char) -> (Kind, usize) {
    match first {
        '"' => match rest[1..].find(['"', '\n']) {
            Some(end) if rest.as_bytes()[end + 1] == b'"' => (Kind::Text, end + 2),
            Some(end) => (Kind::OpenText, end + 1),
            None => (Kind::OpenText, rest.len()),
        },
        '(' | ')' | '{' | '}' | ',' => (Kind::Sign, 1),
        '-' if rest.starts_with("->") => (Kind::Arrow, 2),
        c if is_word(c) => {
            let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            // `>` is not part of a word, so an arrow after a word starts with the word's last character.
            let arrow = rest[..end].ends_with('-') && rest[end..].starts_with('>');
            (Kind::Word, if arrow { end - 1 } else { end })
        }
        c => (Kind::Unknown, c.len_utf8()),
    }
}

/// Whether a character may be part of a word.
fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | ':' | '-' | '/' | '&')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_texts_signs_and_comments() {
        let text = "port a->b, \"x y\" # no\n(dst-ip fd00::1/8&0x3) ä \"open\n";
        let seen: Vec<(Kind, &str)> = tokens(text).iter().map(|t| (t.kind, t.text)).collect();
        use Kind::*;
        assert_eq!(
            seen,
            [
                (Word, "port"),
                (Word, "a"),
                (Arrow, "->"),
                (Word, "b"),
                (Sign, ","),
                (Text, "x y"),
                (Sign, "("),
                (Word, "dst-ip"),
                (Word, "fd00::1/8&0x3"),
                (Sign, ")"),
                (Unknown, "ä"),
                (OpenText, "\"open"),
            ]
        );
        for token in tokens(text).iter().filter(|t| t.kind != Text) {
            assert_eq!(&text[token.at..token.at + token.text.len()], token.text);
        }
    }
}
