//! The lexer. Every byte of the text belongs to exactly one token.

use super::body::{Bodies, operator_len};
use super::kind::SyntaxKind;

/// A token: its kind and its text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Token<'a> {
    /// The kind.
    pub(crate) kind: SyntaxKind,
    /// Its text, never empty.
    pub(crate) text: &'a str,
    /// The number of the algorithm's body that it is in, from 1; 0 outside.
    pub(crate) body: u32,
}

/// Splits `text` into tokens.
pub(crate) fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut out = Vec::new();
    let mut bodies = Bodies::new();
    let mut rest = text;
    // Known in advance, so that text with many open comments is not searched to its end for each of them.
    let last_close = text.rfind("*/").unwrap_or(0);
    while let Some(first) = rest.chars().next() {
        let apart = out.last().is_none_or(|last: &Token<'_>| last.kind.is_trivia());
        let closes = text.len() - rest.len() < last_close;
        let foreign = if apart { foreign_comment_len(rest, closes) } else { None };
        let (kind, len) = match foreign {
            Some(len) => (SyntaxKind::Comment, len),
            None if bodies.inside() => body_token(rest, first),
            None if bodies.steers() && matches!(first, '+' | '*') => (SyntaxKind::Operator, 1),
            None => token(rest, first),
        };
        let (text, after) = rest.split_at(len);
        let body = if bodies.inside() { bodies.number() } else { 0 };
        let token = Token { kind, text, body };
        bodies.note(token, after);
        out.push(token);
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
        c if is_word_or_letter(c) => {
            let len = run(is_word_or_letter);
            (if rest[..len].is_ascii() { SyntaxKind::Word } else { SyntaxKind::Unknown }, len)
        }
        '&' => (SyntaxKind::Unknown, run(|c| c == '&')),
        '|' => (SyntaxKind::Unknown, run(|c| c == '|')),
        c => (SyntaxKind::Unknown, foreign_text_len(rest, c).unwrap_or(c.len_utf8())),
    }
}

/// The kind and the length of a token in the body of an algorithm.
fn body_token(rest: &str, first: char) -> (SyntaxKind, usize) {
    if let Some(len) = operator_len(rest) {
        return (SyntaxKind::Operator, len);
    }
    match first {
        ';' => (SyntaxKind::Semicolon, 1),
        c if is_word_or_letter(c) => {
            let len = rest.find(|c: char| c == '-' || !is_word_or_letter(c)).unwrap_or(rest.len());
            (if rest[..len].is_ascii() { SyntaxKind::Word } else { SyntaxKind::Unknown }, len)
        }
        _ => token(rest, first),
    }
}

/// The length of a comment as other languages begin it. It is a comment here too, so that its words raise no errors; it is
/// reported as a whole.
/// `closes` is whether a block comment ends further on; one without an end is a comment up to the end of its line.
fn foreign_comment_len(rest: &str, closes: bool) -> Option<usize> {
    let line = || rest.find('\n').unwrap_or(rest.len());
    if let Some(inner) = rest.strip_prefix("/*") {
        let end = if closes { inner.find("*/").map(|end| end + 4) } else { None };
        return Some(end.unwrap_or_else(line));
    }
    ["//", "--"].iter().any(|mark| rest.starts_with(mark)).then(line)
}

/// The length of a text in quotes that are not the language's, if it ends on its line.
fn foreign_text_len(rest: &str, open: char) -> Option<usize> {
    let close = match open {
        '\'' | '`' => open,
        '‘' => '’',
        '“' | '„' => '”',
        _ => return None,
    };
    let inner = &rest[open.len_utf8()..];
    let near = inner.char_indices().take(FOREIGN_TEXT_MAX).take_while(|(_, c)| *c != '\n');
    let end = near.into_iter().find(|(_, c)| *c == close)?.0;
    Some(open.len_utf8() + end + close.len_utf8())
}

/// The longest text in other quotes, in characters. It bounds the search for the closing quote.
const FOREIGN_TEXT_MAX: usize = 256;

/// The length of the text in quotes at the start of `rest`: up to its closing quote, or to the end of the line.
fn text_len(rest: &str) -> usize {
    match rest[1..].find(['"', '\n']) {
        Some(at) if rest.as_bytes()[at + 1] == b'"' => at + 2,
        Some(at) => at + 1,
        None => rest.len(),
    }
}

/// Whether `c` is white space, which separates tokens. It includes the byte order mark that some editors write first.
fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n' | '\u{feff}')
}

/// Whether `c` can be part of a word.
fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-')
}

/// Whether `c` can be part of a word or is a letter of another alphabet, so that `größe` is one token and one error.
fn is_word_or_letter(c: char) -> bool {
    is_word(c) || c.is_alphanumeric()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_texts_and_words_of_others_are_single_tokens() {
        use SyntaxKind::*;
        let kinds =
            |text| tokens(text).iter().map(|t| t.kind).filter(|k| *k != Whitespace).collect::<Vec<_>>();
        assert_eq!(kinds("// a b\nc"), [Comment, Word]);
        assert_eq!(kinds("a /* b\nc */ d -- e"), [Word, Comment, Word, Comment]);
        assert_eq!(kinds("mark 1//2"), [Word, Word, Slash, Slash, Word], "only after white space");
        assert_eq!(kinds("größe 'a b' “c” && 'd"), [Unknown, Unknown, Unknown, Unknown, Unknown, Word]);
    }

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
