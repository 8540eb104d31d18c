//! Mistakes of items: their first words, their `=`, and what follows them.

use super::words::{ITEM_SYNONYMS, ITEMS};
use super::{begins_node, begins_test, report};
use crate::diagnostic::Edit;
use crate::disciplines::{either, words};
use crate::syntax::RESERVED;
use crate::syntax::kind::SyntaxKind::*;
use crate::syntax::parser::{Parsed, Parser};
use weft_text::{Span, nearest, quoted};

/// The word of an item that the next one may mean.
fn item_meant(p: &Parser<'_>) -> Option<&'static str> {
    if !p.at(Word) || p.at_item() || RESERVED.contains(&p.text()) {
        return None;
    }
    let defines = matches!(p.kind_at(2), Some(Equals | Colon)) && p.kind_at(1) == Some(Word);
    let words: &[&'static str] = match () {
        () if p.line_start(1) => &[],
        () if p.at_line_start() && p.kind_at(1) == Some(Word) && p.misspelt_algorithm().is_some() => {
            return p.misspelt_algorithm();
        }
        () if defines => &["class"],
        () if p.at_line_start() && isolates(p, 1) => &["steer"],
        () if p.number_at(1) || p.text_at(1) == "auto" => &["link", "bound", "latency"],
        () => &[],
    };
    let meant = nearest(p.text(), words.iter().copied(), ITEM_SYNONYMS)?;
    words.iter().find(|word| **word == meant).copied()
}

/// Whether `isolate NAME on` is `ahead` tokens after the cursor.
fn isolates(p: &Parser<'_>, ahead: usize) -> bool {
    p.text_at(ahead) == "isolate" && p.kind_at(ahead + 1) == Some(Word) && p.text_at(ahead + 2) == "on"
}

/// `isolate NAME on ...`: a goal as steering policies of old write it, without `steer`.
pub(in crate::syntax) fn goal_without_steer(p: &mut Parser<'_>) -> bool {
    let found = p.at_line_start() && isolates(p, 0);
    if found {
        let span = p.span();
        let help = "a goal stands behind `steer`, such as `steer isolate kvs on 4 queues`";
        report(p, span, "`steer` is missing before the goal", help, Edit::insert(span.start, "steer "));
    }
    found
}

/// Whether an item begins at the cursor, right or with a mistake that [`item_word`] or [`at_node`] recognizes.
pub(in crate::syntax) fn at_item_or_mistake(p: &Parser<'_>) -> bool {
    p.at_line_start()
        && (p.at_item()
            || isolates(p, 0)
            || item_meant(p).is_some()
            || (at_node(p) && p.kind_at(1) == Some(Word)))
}

/// A misspelt `class`, `link`, `bound` or `latency`.
pub(in crate::syntax) fn item_word(p: &mut Parser<'_>) {
    if let Some(word) = item_meant(p) {
        p.correct("`class`, `link`, `bound` or `NAME = ...`", word, ITEMS);
    }
}

/// Whether a definition of a node follows, though its `=` may be missing or another character.
pub(in crate::syntax) fn at_node(p: &Parser<'_>) -> bool {
    let bare = begins_node(p, 1) || (p.text() == "root" && p.kind_at(1) == Some(Word));
    p.at_definition()
        || (p.at(Word)
            && !p.line_start(1)
            && !RESERVED.contains(&p.text())
            && (p.kind_at(1) == Some(Colon) || bare))
}

/// `class NAME = priority { ... }`: a node with the word of a class.
pub(in crate::syntax) fn node_as_class(p: &mut Parser<'_>) -> bool {
    let found = p.kind_at(1) == Some(Word) && p.kind_at(2) == Some(Equals) && begins_node(p, 3);
    if found {
        let span = p.span();
        let edit = Edit::delete(Span::new(span.start, p.span_at(1).start));
        let message = format!("{} is a node and not a class", quoted(p.text_at(1)));
        report(p, span, &message, "a node is defined as `NAME = ...`, without `class`", edit);
    }
    found
}

/// `NAME = tcp ...`: a class without the word `class`.
pub(in crate::syntax) fn class_without_word(p: &mut Parser<'_>) -> bool {
    let reserved = RESERVED.contains(&p.text());
    let negated = p.text_at(2) == "not" && begins_test(p, 3);
    let alone = ["any", "tcp", "udp", "sctp", "icmp", "icmpv6"].contains(&p.text_at(2));
    let valued = p.kind_at(3).is_some() && !p.line_start(3);
    let tests = (begins_test(p, 2) && (alone || valued)) || negated;
    let found = p.at_definition() && !reserved && tests && !begins_node(p, 2) && p.text() != "root";
    if found {
        let span = p.span();
        let message = format!("{} is a class: `class` is missing before it", quoted(p.text()));
        let help = "tests make a class, such as `class web = tcp and dport 80..443`";
        report(p, span, &message, help, Edit::insert(span.start, "class "));
    }
    found
}

/// Reads `=`, or reports what is in its place. `:`, `:=` and `==` are read as `=`.
pub(in crate::syntax) fn equals(p: &mut Parser<'_>, help: &str) -> Parsed {
    let first = p.span();
    let mut count = 0;
    while matches!(p.kind_at(count), Some(Equals | Colon | DoubleColon)) && (count == 0 || p.glued(count)) {
        count += 1;
    }
    if count == 0 {
        let starts = !p.line_start(0) && (begins_test(p, 0) || begins_node(p, 0));
        let edit = starts.then(|| Edit::insert(first.start, "= "));
        return p.unexpected_but("`=`", help, edit);
    }
    let span = first.to(p.span_at(count - 1));
    let written = p.slice(span);
    if written != "=" {
        let gap = if p.glued(0) { " =" } else { "=" };
        let message = format!("expected `=`, found {}", quoted(written));
        report(p, span, &message, help, Edit::replace(span, gap));
    }
    (0..count).for_each(|_| p.bump());
    Ok(())
}

/// Words and signs behind an item that is complete. Returns whether the rest of the line is another item.
pub(in crate::syntax) fn leftover(p: &mut Parser<'_>) -> Parsed {
    const LINE: &str = "the end of the line";
    let span = p.span();
    if p.at_item() {
        let help =
            "each item begins on a line of its own; the bound of one class is `bound 500 packets of NAME`";
        let edit = Edit::replace(Span::new(p.end_before(), span.start), "\n");
        let _ = p.unexpected_but(LINE, help, Some(edit));
        return Ok(());
    }
    let alone = p.line_start(1);
    let closes = matches!(p.kind_at(0), Some(CloseBrace | CloseParen | Comma)) && alone;
    let edit = closes.then(|| Edit::delete(Span::new(p.end_before(), span.end)));
    if p.at(Comma) && !alone {
        let what = format!("the end of the line, or {} before several children", either(&words()));
        return p.unexpected(&what, "such as `root = priority { mgmt, tenants }`");
    }
    p.unexpected_but(LINE, "each item begins on a line of its own, and a comment with `#`", edit)
}
