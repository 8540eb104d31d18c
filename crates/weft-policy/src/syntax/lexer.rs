//! The lexer. Every byte of the text belongs to exactly one token.

use super::kind::SyntaxKind;

/// A token: its kind and its text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Token<'a> {
    /// The kind.
    pub(crate) kind: SyntaxKind,
    /// Its text, never empty.
    pub(crate) text: &'a str,
}

/// Splits `text` into tokens.
pub(crate) fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (kind, len) = token(rest, first);
        let (text, after) = rest.split_at(len);
        out.push(Token { kind, text });
        rest = after;
    }
    out
}

/// The kind and the length in bytes of the token at the start of `rest`, whose first character is `first`.
fn token(rest: &str, first: char) -> (SyntaxKind, usize) {
    let run = |part: fn(char) -> bool| rest.find(|c| !part(c)).unwrap_or(rest.len());
    match first {
        '=' => (SyntaxKind::Equals, 1),
        '{' => (SyntaxKind::OpenBrace, 1),
        '}' => (SyntaxKind::CloseBrace, 1),
        '(' => (SyntaxKind::OpenParen, 1),
        ')' => (SyntaxKind::CloseParen, 1),
        ',' => (SyntaxKind::Comma, 1),
        '/' => (SyntaxKind::Slash, 1),
        ':' if rest.starts_with("::") => (SyntaxKind::DoubleColon, 2),
        ':' => (SyntaxKind::Colon, 1),
        '#' => (SyntaxKind::Comment, run(|c| c != '\n')),
        '"' => (SyntaxKind::Text, text_len(rest)),
        c if is_space(c) => (SyntaxKind::Whitespace, run(is_space)),
        c if is_word(c) => (SyntaxKind::Word, run(is_word)),
        c => (SyntaxKind::Unknown, c.len_utf8()),
    }
}

/// The length of the text in quotes at the start of `rest`: up to its closing quote, or to the end of the line.
fn text_len(rest: &str) -> usize {
    match rest[1..].find(['"', '\n']) {
        Some(at) if rest.as_bytes()[at + 1] == b'"' => at + 2,
        Some(at) => at + 1,
        None => rest.len(),
    }
}

/// Whether `c` is white space, which separates tokens. It includes the byte order mark with which some editors begin a file.
fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n' | '\u{feff}')
}

/// Whether `c` can be part of a word.
fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_belongs_to_a_token() {
        let text = "class a = to fd00::1/64 # x\n\"open\n ä \"shut\" 80..443";
        let tokens = tokens(text);
        assert_eq!(tokens.iter().map(|t| t.text).collect::<String>(), text);
        let kinds: Vec<SyntaxKind> = tokens.iter().map(|t| t.kind).filter(|k| !k.is_trivia()).collect();
        use SyntaxKind::*;
        let expected =
            [Word, Word, Equals, Word, Word, DoubleColon, Word, Slash, Word, Text, Unknown, Text, Word];
        assert_eq!(kinds, expected);
    }
}
