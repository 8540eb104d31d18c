//! Mistakes of single tokens: characters without a meaning, and the comments and quotes of other languages.
//!
//! They are found before parsing. The grammar then skips such tokens silently, and continues where the meaning is clear.

use super::kind::SyntaxKind;
use super::lexer::Token;
use crate::code::Code;
use crate::diagnostic::{Edit, SpannedDiagnostic};
use std::collections::BTreeSet;
use weft_text::{Span, quoted};

/// The tokens of a text, and the start of each.
struct Tokens<'a> {
    tokens: &'a [Token<'a>],
    offsets: &'a [usize],
    /// The number of open braces before the token being checked.
    depth: usize,
    /// The words with letters of other alphabets that were reported; each is reported once.
    told: BTreeSet<&'a str>,
    /// The brackets that were reported with their opening one.
    closed: BTreeSet<usize>,
}

/// A diagnostic's message, its help and its fix.
type Finding = (String, &'static str, Option<Edit>);

/// The most tokens between brackets. It bounds the search for the closing one.
const BRACKETS_MAX: usize = 64;

/// The help for a character that cannot be explained.
const PLAIN: &str = "leave it out; a comment begins with `#`";

/// Reports the errors of single tokens. `offsets` has the start of each token and the end of the text.
pub(super) fn check(tokens: &[Token<'_>], offsets: &[usize]) -> Vec<SpannedDiagnostic> {
    let mut all = Tokens { tokens, offsets, depth: 0, told: BTreeSet::new(), closed: BTreeSet::new() };
    let mut diagnostics = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        match token.kind {
            SyntaxKind::OpenBrace => all.depth += 1,
            SyntaxKind::CloseBrace => all.depth = all.depth.saturating_sub(1),
            SyntaxKind::Comment => diagnostics.extend(all.comment(at)),
            SyntaxKind::Text => diagnostics.extend(all.text(at)),
            SyntaxKind::Unknown => diagnostics.extend(all.unknown(at)),
            _ => {}
        }
    }
    diagnostics
}

/// Whether a word is a weight or a rate and not the beginning of an address.
fn is_value(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_digit()) && !word.contains('.')
}

/// Whether a character is shown by nothing: word processors insert some of them.
fn is_zero_width(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{2060}')
}

impl<'a> Tokens<'a> {
    fn span(&self, at: usize) -> Span {
        Span::new(self.offsets[at], self.offsets[at + 1])
    }

    /// The text of the token `at`; empty beyond the end.
    fn text_of(&self, at: usize) -> &'a str {
        self.tokens.get(at).map_or("", |token| token.text)
    }

    /// The text of the token before `at`; empty at the beginning.
    fn text_before(&self, at: usize) -> &'a str {
        at.checked_sub(1).map_or("", |before| self.text_of(before))
    }

    /// Whether nothing but white space and comments follows `at` on its line.
    fn ends_line(&self, at: usize) -> bool {
        let rest = self.tokens[at + 1..].iter().find(|token| token.kind != SyntaxKind::Comment);
        rest.is_none_or(|token| token.text.contains('\n') && token.kind == SyntaxKind::Whitespace)
            || self.tokens[at + 1..].iter().all(|token| token.kind.is_trivia())
    }

    /// A comment of another language.
    fn comment(&self, at: usize) -> Option<SpannedDiagnostic> {
        let (text, span) = (self.text_of(at), self.span(at));
        if text.starts_with('#') {
            return None;
        }
        let inner = match text.strip_prefix("/*") {
            Some(rest) => rest.strip_suffix("*/").unwrap_or(rest),
            None => &text[2..],
        };
        let lines = inner.trim_matches(|c| c == '\n' || c == '\r').lines();
        let rewritten: Vec<String> = lines
            .map(|line| format!("# {}", line.trim().trim_start_matches("* ")).trim_end().to_owned())
            .collect();
        let mark = &text[..2];
        let message = format!("a comment begins with `#`, not with `{mark}`");
        let diagnostic =
            SpannedDiagnostic::new(Code::UnknownCharacter, span, message, "it ends with its line");
        // What follows a comment in the middle of a line would become a part of it.
        Some(diagnostic.fix(self.ends_line(at).then(|| Edit::replace(span, rewritten.join("\n")))))
    }

    /// A text in quotes that does not end on its line.
    fn text(&self, at: usize) -> Option<SpannedDiagnostic> {
        let (text, span) = (self.text_of(at), self.span(at));
        if text.len() >= 2 && text.ends_with('"') {
            return None;
        }
        // The path most likely ends at the first space.
        let end = text.find(char::is_whitespace).unwrap_or(text.len());
        let edit = (end > 1).then(|| Edit::insert(span.start + end, "\""));
        let message = "the text in quotes does not end on this line";
        Some(SpannedDiagnostic::new(Code::UnterminatedString, span, message, "close it with `\"`").fix(edit))
    }

    fn unknown(&mut self, at: usize) -> Option<SpannedDiagnostic> {
        let (text, span) = (self.text_of(at), self.span(at));
        let behind = at > 0 && self.tokens[at - 1].kind == SyntaxKind::Unknown;
        let percentage = text == "%" && self.text_before(at).ends_with(|c: char| c.is_ascii_digit());
        if behind || percentage || self.closed.contains(&at) || (text.len() > 1 && !self.told.insert(text)) {
            return None;
        }
        let (message, help, edit) = self.quotes(at).or_else(|| self.operator(at)).unwrap_or_else(|| {
            let odd = text.char_indices().find(|(_, c)| !c.is_ascii()).unwrap_or((0, '?'));
            let unseen = odd.1.is_whitespace() || is_zero_width(odd.1);
            let shown = match text.chars().count() {
                _ if unseen => format!("U+{:04X}", u32::from(odd.1)),
                1 => text.to_owned(),
                _ => odd.1.to_string(),
            };
            let micro = text.replace(['µ', 'μ'], "u");
            let edit = match () {
                () if micro != text && micro.is_ascii() => Some(Edit::replace(span, micro)),
                () if odd.1.is_whitespace() => Some(Edit::replace(span, " ")),
                () if is_zero_width(odd.1) => Some(Edit::delete(span)),
                () => None,
            };
            let help = match text.chars().count() {
                1 => PLAIN,
                _ => "names have the letters a to z and A to Z, digits, `_`, `-` and `.`",
            };
            (format!("the character {} has no meaning here", quoted(&shown)), help, edit)
        });
        Some(SpannedDiagnostic::new(Code::UnknownCharacter, span, message, help).fix(edit))
    }

    /// Quotes and brackets of other languages.
    fn quotes(&mut self, at: usize) -> Option<Finding> {
        let (text, span) = (self.text_of(at), self.span(at));
        if text == "[" {
            return Some(self.bracket(at));
        }
        let open = text.chars().next().filter(|c| "'`‘“„".contains(*c))?;
        let inner = text.strip_prefix(open).unwrap_or_default();
        let close = inner.chars().next_back()?;
        let inner = inner.strip_suffix(close).unwrap_or_default();
        let plain = Edit::replace(span, format!("\"{inner}\""));
        Some((format!("texts are in double quotes: `\"{inner}\"`"), "names have none", Some(plain)))
    }

    /// An address in brackets, or a list in brackets.
    fn bracket(&mut self, at: usize) -> Finding {
        let near = self.tokens[at..].iter().take(BRACKETS_MAX).take_while(|token| !token.text.contains('\n'));
        let close = near.into_iter().position(|token| token.text == "]").map(|length| at + length);
        let (help, edit) = match close {
            None => ("lists are in braces, addresses stand alone", None),
            Some(close) => {
                self.closed.insert(close);
                let inner: String = self.tokens[at + 1..close].iter().map(|token| token.text).collect();
                let span = Span::new(self.offsets[at], self.offsets[close + 1]);
                match inner.contains(':') && !inner.contains(char::is_whitespace) {
                    true => ("an IPv6 address has no brackets", Some(Edit::replace(span, inner))),
                    false => {
                        let list = format!("{{ {} }}", inner.trim());
                        ("lists are in braces", Some(Edit::replace(span, list)))
                    }
                }
            }
        };
        ("the character `[` has no meaning here".to_owned(), help, edit)
    }

    /// Operators and separators of other languages.
    fn operator(&self, at: usize) -> Option<Finding> {
        let (text, span) = (self.text_of(at), self.span(at));
        let spaced = |word: &str| {
            let gap = |text: &str| if text.starts_with(char::is_whitespace) { "" } else { " " };
            let before = if self.text_before(at).ends_with(char::is_whitespace) { "" } else { " " };
            format!("{before}{word}{}", gap(self.text_of(at + 1)))
        };
        let instead = |word: &str, edit: String| {
            Some((
                format!("write `{word}` for `{text}`"),
                "tests are joined by words",
                Some(Edit::replace(span, edit)),
            ))
        };
        match text {
            "&" | "&&" => instead("and", spaced("and")),
            "|" | "||" => instead("or", spaced("or")),
            "!" if self.text_of(at + 1) != "=" => {
                let gap = if self.text_of(at + 1).starts_with(char::is_whitespace) { "" } else { " " };
                instead("not", format!("not{gap}"))
            }
            "*" => instead("any", "any".to_owned()),
            "+" => Some((
                "the character `+` has no meaning here".to_owned(),
                "numbers have no sign",
                Some(Edit::delete(span)),
            )),
            ";" => {
                let close = self.tokens[at + 1..].iter().find(|token| !token.kind.is_trivia());
                let last = close.is_none_or(|token| token.kind == SyntaxKind::CloseBrace);
                let value = close.is_some_and(|next| is_value(next.text));
                let edit = match (self.depth, last) {
                    (1.., _) if value => Some(Edit::replace(span, ":")),
                    (0, _) if !self.ends_line(at) => None,
                    (0, _) | (_, true) => Some(Edit::delete(span)),
                    _ => Some(Edit::replace(span, ",")),
                };
                let help = "entries in braces are separated by commas; an item ends with its line";
                Some(("the character `;` has no meaning here".to_owned(), help, edit))
            }
            _ => None,
        }
    }
}
