//! The bodies of algorithms within a text: where they begin and end.
//!
//! In a body, `+ - * <` and the like are operators, and a name has no `-`. Elsewhere they have no meaning, and a name may have one. The
//! words `algorithm`, `shaper` and `dropper` are not reserved. One of them begins an algorithm if it begins a line and another word
//! follows on that line, which nothing else in a policy does.

use super::RESERVED;
use super::kind::SyntaxKind;
use super::lexer::Token;
use super::steering::{STEER, goal_follows};
use crate::disciplines::is_word;
use weft_text::nearest;

/// The words that begin an algorithm.
pub(crate) const ALGORITHM_WORDS: [&str; 3] = ["algorithm", "shaper", "dropper"];

/// The place in relation to algorithms.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    /// Outside any algorithm.
    Outside,
    /// Behind `algorithm` at the start of a line.
    Word,
    /// Behind the name, before the body's brace.
    Header,
    /// In the body, within this number of braces.
    Body(usize),
    /// In a steering clause, within this number of braces.
    Steering(usize),
}

/// The state that decides whether the next token belongs to a body.
#[derive(Debug)]
pub(super) struct Bodies {
    place: Place,
    at_line_start: bool,
    /// Whether the last token is `+`, behind which a steering clause continues in the next line.
    goes_on: bool,
    number: u32,
}

impl Bodies {
    pub(super) fn new() -> Self {
        Self { place: Place::Outside, at_line_start: true, goes_on: false, number: 0 }
    }

    /// Whether the next token belongs to a body.
    pub(super) fn inside(&self) -> bool {
        matches!(self.place, Place::Body(_))
    }

    /// Whether the next token belongs to a steering clause, in which `+` and `*` are operators.
    pub(super) fn steers(&self) -> bool {
        matches!(self.place, Place::Steering(_))
    }

    /// The number of bodies that have begun.
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// Notes the next token, which `rest` follows.
    pub(super) fn note(&mut self, token: Token<'_>, rest: &str) {
        if token.kind.is_trivia() {
            if token.text.contains('\n') {
                self.at_line_start = true;
                let ends = match self.place {
                    Place::Word => true,
                    Place::Steering(0) => !self.goes_on,
                    Place::Header | Place::Body(_) | Place::Steering(_) => begins_item(rest),
                    Place::Outside => false,
                };
                self.place = if ends { Place::Outside } else { self.place };
            }
            return;
        }
        let word = token.kind == SyntaxKind::Word;
        self.goes_on = token.kind == SyntaxKind::Operator && token.text == "+";
        self.number += u32::from(self.place == Place::Header && token.kind == SyntaxKind::OpenBrace);
        self.place = match (self.place, token.kind) {
            (Place::Outside, _)
                if word && self.at_line_start && token.text == STEER && goal_follows(rest) =>
            {
                Place::Steering(0)
            }
            (Place::Steering(depth), SyntaxKind::OpenBrace) => Place::Steering(depth + 1),
            (Place::Steering(depth), SyntaxKind::CloseBrace) => Place::Steering(depth.saturating_sub(1)),
            (Place::Outside, _) if word && self.at_line_start && meant(token.text, rest).is_some() => {
                Place::Word
            }
            (Place::Word, SyntaxKind::Word) => Place::Header,
            (Place::Word, _) => Place::Outside,
            (Place::Header, SyntaxKind::OpenBrace) => Place::Body(1),
            (Place::Body(depth), SyntaxKind::OpenBrace) => Place::Body(depth + 1),
            (Place::Body(1), SyntaxKind::CloseBrace) if goes_on(rest) => Place::Body(1),
            (Place::Body(1), SyntaxKind::CloseBrace) => Place::Outside,
            (Place::Body(depth), SyntaxKind::CloseBrace) => Place::Body(depth - 1),
            (place, _) => place,
        };
        self.at_line_start = false;
    }
}

/// The word that begins an algorithm, if `word` does, with `rest` behind it. A misspelt word does if a name and a bracket follow.
pub(super) fn meant(word: &str, rest: &str) -> Option<&'static str> {
    let apart = |c: char| c == ' ' || c == '\t';
    let line = rest.trim_start_matches(apart);
    let name = line.find(|c: char| !(c.is_ascii_alphanumeric() || "_-.".contains(c))).unwrap_or(line.len());
    let (name, behind) = line.split_at(name);
    if word == STEER
        || line.len() == rest.len()
        || !name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
    {
        return None;
    }
    let bracket = behind.trim_start_matches(apart).starts_with(['(', '{']);
    let near = || {
        nearest(
            word,
            ALGORITHM_WORDS,
            &[("scheduler", "algorithm"), ("policer", "dropper"), ("aqm", "dropper")],
        )
    };
    let found = match ALGORITHM_WORDS.contains(&word) {
        true => Some(word),
        false if bracket && !RESERVED.contains(&word) && !RESERVED.contains(&name) => near(),
        false => None,
    };
    ALGORITHM_WORDS.into_iter().find(|known| Some(*known) == found)
}

/// Whether the line at the start of `rest` begins an item that no body contains. A body without its closing brace ends there.
fn begins_item(rest: &str) -> bool {
    let line = rest.lines().next().unwrap_or_default();
    let mut words = line.split_whitespace();
    let (first, second, third) = (words.next().unwrap_or_default(), words.next(), words.next());
    let second = second.unwrap_or_default();
    let number = second.starts_with(|c: char| c.is_ascii_digit());
    let node = |word| is_word(word) || ["fair", "limit"].contains(&word);
    match first {
        "class" => second != "=" && line.contains('='),
        "link" => number || second == "auto",
        "bound" | "latency" => number,
        "root" => second == "=",
        STEER => goal_follows(line.trim_start().strip_prefix(STEER).unwrap_or_default()),
        _ if ALGORITHM_WORDS.contains(&first) => second.starts_with(|c: char| c.is_ascii_alphabetic()),
        _ => second == "=" && third.is_some_and(node),
    }
}

/// Whether the body continues behind a brace that closes it: a brace is missing or superfluous before it. `rest` follows the brace.
fn goes_on(rest: &str) -> bool {
    const WORDS: [&str; 14] = [
        "node", "child", "active", "arrives", "begin", "sent", "idle", "fetched", "follows", "else", "let",
        "if", "rerank", "drop",
    ];
    let behind = rest.lines().next().unwrap_or_default().trim_start();
    if !behind.is_empty() && !behind.starts_with('#') {
        return true;
    }
    let mut lines = rest.lines().skip(1).map(str::trim_start);
    let Some(next) = lines.find(|line| !line.is_empty() && !line.starts_with('#')) else { return false };
    let word = next.find(|c: char| !(c.is_ascii_alphanumeric() || "_-.".contains(c))).unwrap_or(next.len());
    let (word, behind) = next.split_at(word);
    let assigns = behind.trim_start().starts_with('=');
    next.starts_with('}')
        || (WORDS.contains(&word) && !assigns)
        || (word == "rank" && assigns && !begins_item(next))
}

/// The length in bytes of the operator at the start of `rest`.
pub(super) fn operator_len(rest: &str) -> Option<usize> {
    const OPERATORS: [&str; 14] =
        ["<=", ">=", "==", "!=", "+=", "-=", "*=", "/=", "<", ">", "+", "-", "*", "%"];
    OPERATORS.iter().find(|operator| rest.starts_with(**operator)).map(|operator| operator.len())
}

#[cfg(test)]
mod tests {
    use super::super::lexer::tokens;
    use super::*;

    /// The texts of the operators in `text`.
    fn operators(text: &str) -> Vec<&str> {
        tokens(text)
            .iter()
            .filter(|token| token.kind == SyntaxKind::Operator)
            .map(|token| token.text)
            .collect()
    }

    #[test]
    fn operators_are_those_of_bodies() {
        assert_eq!(operators("algorithm a-b(w) { rank = a-b }"), ["-"]);
        assert_eq!(
            operators("algorithm a { sent { x += 1; if x >= 2 { x = 2*x } } }\nc = d-e + f"),
            ["+=", ">=", "*"]
        );
        assert_eq!(operators("root = wfq {\n  algorithm: 1,\n  b-c: 2 }"), [""; 0]);
        assert_eq!(operators("algorithm = priority { a-b, c }"), [""; 0]);
    }

    #[test]
    fn a_body_without_its_brace_ends_at_the_next_item() {
        for item in
            ["class a-b = tcp", "link 10gbps", "root = a-b", "x = wfq { a-b: 1 }", "dropper a-b(x) { }"]
        {
            assert_eq!(operators(&format!("algorithm a {{\n  rank = 1 + 2\n{item}\n")), ["+"], "{item}");
        }
        assert_eq!(operators("algorithm a {\n rank = 1\n x = a-b\n"), ["-"]);
    }
}
