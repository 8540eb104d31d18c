//! Mistakes of expressions: the words of nodes, the braces of lists, and what separates their entries.

use super::words::{FAIR_SYNONYMS, GUARANTEES, LIMIT_SYNONYMS, LIST_MAX, LOWER_CASE, NODES};
use super::{among, corrected, report};
use crate::diagnostic::Edit;
use crate::disciplines;
use crate::syntax::RESERVED;
use crate::syntax::kind::SyntaxKind::*;
use crate::syntax::parser::{Parsed, Parser, Stop};
use weft_text::{Span, quoted};

/// A misspelt word of a node, or another language's, where an expression is expected.
pub(in crate::syntax) fn node_word(p: &mut Parser<'_>) {
    guarantee(p);
    let (next, text) = (p.kind_at(1), p.text_at(1));
    let limits =
        p.number_at(1) && ["of", "burst", "to", "bps", "kbps", "mbps", "gbps"].contains(&p.text_at(2));
    match () {
        () if p.at_item() => {}
        () if next == Some(OpenBrace) => {
            corrected(p, "a node", &disciplines::words(), &disciplines::synonyms(), &NODES);
        }
        () if text == "of" => {
            corrected(p, "a node", &["fair"], FAIR_SYNONYMS, &NODES);
        }
        () if limits || text == "by" => {
            corrected(p, "a node", &["limit"], LIMIT_SYNONYMS, &NODES);
        }
        () => {}
    }
    let place = next == Some(OpenBrace) || text == "of";
    if place
        && p.at(Word)
        && !p.at_item()
        && !RESERVED.contains(&p.text())
        && !p.knows_algorithm(p.text())
        && let Some(similar) = p.similar_algorithm(p.text())
    {
        p.correct("a node", similar, &NODES);
    }
}

/// A guarantee before what it is for, `guarantee 1gbps of a`. Leaves what it is for to the grammar.
fn guarantee(p: &mut Parser<'_>) {
    let rate = |p: &Parser<'_>| p.text_at(1).parse::<weft_units::BitsPerSec>().is_ok() && !p.line_start(1);
    if p.at_item() || !among(p, 0, GUARANTEES) || !rate(p) {
        return;
    }
    let message =
        format!("expected a node, found {}: `floors` guarantees rates to its children", quoted(p.text()));
    let help = "such as `floors { a: min 1gbps max 2gbps, default: min 100mbps max 2gbps }`";
    report(p, p.span(), &message, help, None);
    while p.at(Word) && !p.at_line_start() && rate(p) {
        p.discard();
        p.discard();
    }
    if p.at_word("of") {
        p.discard();
    }
}

/// `fair of { a, b }`, where `fair` begins at byte `start`: the classes of a list share among each other, too. Leaves the list to the
/// grammar.
pub(in crate::syntax) fn fair_of_list(p: &mut Parser<'_>, start: usize) {
    if !p.at(OpenBrace) || p.text_before() != "of" {
        return;
    }
    let (mut children, mut at) = (Vec::new(), 1);
    while p.kind_at(at) == Some(Word) && at < LIST_MAX {
        children.push(format!("fair of {}: 1", p.text_at(at)));
        at += if p.kind_at(at + 1) == Some(Comma) { 2 } else { 1 };
    }
    let whole = Span::new(start, p.span_at(at).end);
    let closed = p.kind_at(at) == Some(CloseBrace) && !children.is_empty();
    let edit = closed.then(|| Edit::replace(whole, format!("wfq {{ {} }}", children.join(", "))));
    let message =
        "expected a class, found `{`: `wfq` shares between classes, `fair of` between the flows of one";
    report(p, p.span(), message, "such as `wfq { fair of a: 1, fair of b: 1 }`", edit);
}

/// Children in braces without the word of a node, or with a word that names no node. `list` reads the braces.
pub(in crate::syntax) fn unknown_node(
    p: &mut Parser<'_>,
    list: impl Fn(&mut Parser<'_>) -> Parsed,
) -> Option<Stop> {
    let bare = p.at(OpenBrace);
    let named = p.at(Word) && p.kind_at(1) == Some(OpenBrace) && !RESERVED.contains(&p.text());
    if !bare && !named {
        return None;
    }
    let stop = p.unexpected(&disciplines::either(&disciplines::words()), &disciplines::sentence()).err();
    p.stray_brace = true;
    let _ = p.node(Error, |p| {
        if !bare {
            p.bump();
        }
        list(p)
    });
    stop
}

/// A weight or a rate without the colon before it, or with another character for it. Returns whether a value follows.
pub(in crate::syntax) fn colon(p: &mut Parser<'_>, what: &str) -> bool {
    while p.at(Word) && !p.at_line_start() && p.text() == p.text_before() {
        let _ = p.unexpected("`:`", "a word is written twice");
        p.discard();
    }
    if p.eat(Colon) {
        return true;
    }
    let span = p.span();
    if p.at(Unknown) && p.text() == ";" && p.number_at(1) && !p.text_at(1).contains('.') {
        p.discard();
        return true;
    }
    if p.at(Equals) {
        let message = format!("expected `:` before {what}, found `=`");
        let gap = Span::new(p.end_before(), p.span_at(1).start.max(span.end));
        report(p, span, &message, "a value follows its name after a colon", Edit::replace(gap, ": "));
        p.discard();
        return true;
    }
    if !p.number_at(0) || p.at_line_start() {
        return false;
    }
    let message = format!("expected `:` before {what}, found {}", quoted(p.text()));
    let edit = Edit::insert(p.end_before(), ":");
    report(p, span, &message, "a value follows its name after a colon", edit);
    true
}

/// `limit by ports`, or another misspelt word for `port`, which is read as `port`.
pub(in crate::syntax) fn by_port(p: &mut Parser<'_>) -> bool {
    let list = p.kind_at(1) == Some(OpenBrace) && p.kind_at(2) == Some(Text);
    let found =
        list && corrected(p, "`destination` or `port`", &["port"], &[("port", &["ports"])], LOWER_CASE);
    if found {
        p.bump();
    }
    found
}

/// `limit RATE to NAME`: a limit of a class, which is written with `of`.
pub(in crate::syntax) fn limit_to_class(p: &mut Parser<'_>) -> bool {
    let name = p.kind_at(1) == Some(Word) && p.text_at(1).starts_with(|c: char| c.is_ascii_alphabetic());
    let address = p.glued(2) && matches!(p.kind_at(2), Some(Colon | DoubleColon));
    let found = p.at_word("to") && name && !address && p.text_at(2) != "of" && p.text_at(2) != "burst";
    if found {
        let (span, class) = (p.span(), quoted(p.text_at(1)));
        let message = format!("expected `of` before {class}: `to` is for addresses");
        let help = "`of` names the class or node that is limited, `to` the destination";
        report(p, span, &message, help, Edit::replace(span, "of"));
    }
    found
}

/// The children of a list without an opening brace, or with another bracket for it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::syntax) enum Opening {
    /// `{`
    Brace,
    /// `(`, which was meant as `{`.
    Paren(usize),
    /// `[`, which was reported as a character.
    Bracket,
    /// Nothing: the list begins at this byte.
    Missing(usize),
}

impl Opening {
    /// Reads the beginning of a list.
    pub(in crate::syntax) fn read(p: &mut Parser<'_>) -> Result<Self, Stop> {
        let start = p.span().start;
        let listed = p.at(Word) && !p.at_line_start() && !p.at_item() && !RESERVED.contains(&p.text());
        match p.kind_at(0) {
            Some(OpenBrace) => p.bump(),
            Some(OpenParen) => {
                p.bump();
                return Ok(Self::Paren(start));
            }
            Some(Unknown) if p.text() == "[" => {
                p.discard();
                return Ok(Self::Bracket);
            }
            Some(_) if listed => return Ok(Self::Missing(start)),
            _ => return p.unexpected("`{`", HELP).map(|()| Self::Brace),
        }
        Ok(Self::Brace)
    }

    /// Whether the list is at its end.
    pub(in crate::syntax) fn at_close(self, p: &Parser<'_>) -> bool {
        match self {
            Self::Brace => p.at(CloseBrace),
            Self::Paren(_) => p.at(CloseParen) || p.at(CloseBrace),
            Self::Bracket => p.at(CloseBrace) || (p.at(Unknown) && p.text() == "]"),
            Self::Missing(_) => p.at(CloseBrace) || p.at_line_start(),
        }
    }

    /// Reads the end of a list, and reports its mistake.
    pub(in crate::syntax) fn close(self, p: &mut Parser<'_>) -> Parsed {
        let closed = self.at_close(p) && !p.at_end();
        let before = Span::at(p.end_before());
        match self {
            Self::Brace if closed => p.bump(),
            Self::Brace if p.stray_brace => return Err(Stop),
            Self::Brace => {
                let edit = Edit::insert(p.end_before(), if p.text_before() == "{" { "}" } else { " }" });
                return p.unexpected_but("`}`", "close the brace", Some(edit));
            }
            Self::Bracket => p.discard(),
            Self::Paren(start) => {
                if closed {
                    p.bump();
                }
                let inner = p.slice(Span::new(start + 1, before.end)).trim();
                let edit = Edit::replace(Span::new(start, p.end_before()), format!("{{ {inner} }}"));
                report(p, Span::new(start, start + 1), "expected `{`, found `(`", HELP, edit);
            }
            Self::Missing(start) => {
                let braced = p.at(CloseBrace);
                let edit = if braced {
                    p.bump();
                    Edit::insert(start, "{ ")
                } else {
                    let inner = p.slice(Span::new(start, before.end));
                    Edit::replace(Span::new(start, before.end), format!("{{ {inner} }}"))
                };
                let found = quoted(
                    p.slice(Span::new(start, before.end)).split([' ', ',']).next().unwrap_or_default(),
                );
                report(p, Span::at(start), &format!("expected `{{`, found {found}"), HELP, edit);
            }
        }
        Ok(())
    }
}

/// The help for a missing brace.
const HELP: &str = "list its entries in braces, separated by commas";

/// A separator other than a comma between the entries of a list. Returns whether an entry may follow.
pub(in crate::syntax) fn separator(p: &mut Parser<'_>) -> bool {
    if p.at(Unknown) && p.text() == ";" {
        p.discard();
        return true;
    }
    if p.at(Colon) {
        let span = p.span();
        let message = "expected `,` or `}`, found `:`";
        report(p, span, message, "entries are separated by commas", Edit::replace(span, ","));
        p.discard();
        return true;
    }
    if p.at_word("limit") && p.number_at(1) && !is_of(p) {
        limit_behind(p);
        return false;
    }
    let value = p.number_at(0) && !p.text().contains('.');
    let edit = (p.at(Word) && !value).then(|| Edit::insert(p.end_before(), ","));
    let _ = p.unexpected_but("`,` or `}`", "separate the entries in braces by commas", edit);
    p.at(Word)
}

/// Whether the limit that follows has its `of`, so that it is an entry and a comma is missing before it.
fn is_of(p: &Parser<'_>) -> bool {
    (2..8).take_while(|at| p.kind_at(*at) == Some(Word)).any(|at| p.text_at(at) == "of")
}

/// A limit behind the name that it limits: `web limit 100mbps`.
fn limit_behind(p: &mut Parser<'_>) {
    let (name, whole) = (p.span_before(), p.span().to(p.span_at(1)));
    let written = format!("{} of {}", p.slice(whole), p.slice(name));
    let message = format!("a limit stands before what it limits: write `{written}`");
    let help = "such as `limit 100mbps of web`";
    report(p, p.span(), &message, help, Edit::replace(name.to(whole), written));
    p.discard();
    p.discard();
}

/// A second comma in a list, or one before its first entry.
pub(in crate::syntax) fn superfluous_comma(p: &mut Parser<'_>) {
    while p.at(Comma) {
        let span = p.span();
        report(p, span, "expected an entry, found `,`", "leave the comma out", Edit::delete(span));
        p.discard();
    }
}

/// Another sign in place of the closing brace, where nothing more of the list can follow. Reads it.
pub(in crate::syntax) fn closes_otherwise(p: &mut Parser<'_>, opening: Opening) -> bool {
    let ends = p.text_at(1) == "of" || p.kind_at(1).is_none() || (p.line_start(1) && p.item_at(1));
    let sign = matches!(p.kind_at(0), Some(CloseParen | OpenParen | OpenBrace | Colon | Equals | Unknown));
    let found = opening == Opening::Brace && sign && ends;
    if found {
        let edit = Edit::replace(p.span(), "}");
        let _ = p.unexpected_but("`}`", "close the brace", Some(edit));
        p.discard();
    }
    found
}

/// A comma between an entry and its value: `{ a, 1 }`. Reads the value.
pub(in crate::syntax) fn comma_for_colon(p: &mut Parser<'_>) -> bool {
    let address = p.kind_at(2) == Some(Slash) || p.text_at(1).parse::<core::net::IpAddr>().is_ok();
    let found = p.at(Comma) && p.number_at(1) && !p.line_start(1) && !address && p.kind_at(2) != Some(Colon);
    if found {
        let span = p.span();
        let message = format!("expected `:` before {}, found `,`", quoted(p.text_at(1)));
        report(p, span, &message, "a value follows its name after a colon", Edit::replace(span, ":"));
        p.discard();
        p.discard();
    }
    found
}

/// A colon between two names, where no weights are expected: `{ a: b }`. Leaves the colon to the list.
pub(in crate::syntax) fn colon_for_comma(p: &mut Parser<'_>) -> bool {
    let name = p.kind_at(1) == Some(Word) && p.text_at(1).starts_with(|c: char| c.is_ascii_alphabetic());
    p.at(Colon) && name && matches!(p.kind_at(2), Some(CloseBrace | Comma | OpenBrace | Colon))
}

/// `of` where an expression begins: `{ of a: 1 }`.
pub(in crate::syntax) fn of_without_fair(p: &mut Parser<'_>) -> Parsed {
    let edit = Edit::insert(p.span().start, "fair ");
    p.unexpected_but("a node", "the flows of a class share by `fair of CLASS`", Some(edit))
}
