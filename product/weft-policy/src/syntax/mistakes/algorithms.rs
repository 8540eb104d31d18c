//! Mistakes of algorithms: words of other languages, signs, units, and statements in the wrong place.

use super::{corrected, report};
use crate::code::Code;
use crate::corrections::{self, Synonyms};
use crate::diagnostic::{Edit, SpannedDiagnostic};
use crate::syntax::algorithms::{EVENTS, KEYWORDS, PARTS, TYPES};
use crate::syntax::kind::SyntaxKind::*;
use crate::syntax::parser::{Parsed, Parser};
use weft_text::{Span, quoted};

/// The help for parts.
const PARTS_HELP: &str = "a part is `node`, `child`, `active`, `arrives`, `rank =`, `begin`, `sent`, `idle`, `fetched`, `from` or `follows head`";
/// The help for types.
pub(in crate::syntax) const TYPES_HELP: &str =
    "a type is count, bytes, signed count, signed bytes, time, duration, rate, vtime or weight";

/// Other languages' words for parts: PIFO, PIEO, sched_ext, P4.
const PART_SYNONYMS: &[Synonyms] = &[
    ("arrives", &["enqueue", "on_enqueue", "arrival"]),
    ("active", &["runnable", "backlogged"]),
    ("sent", &["dequeue", "on_dequeue", "departs", "stopping"]),
    ("begin", &["running", "start"]),
    ("idle", &["quiescent", "empty"]),
    ("rank", &["priority", "order"]),
    ("child", &["flow"]),
    ("node", &["state", "global"]),
];

/// Other languages' words for types.
const TYPE_SYNONYMS: &[Synonyms] = &[
    ("count", &["int", "uint", "u32", "u64", "integer", "number"]),
    ("bytes", &["byte", "size"]),
    ("time", &["instant", "timestamp"]),
    ("duration", &["nanos", "seconds", "interval"]),
    ("rate", &["bandwidth"]),
    ("vtime", &["virtual_time"]),
];

/// A misspelt part, or `on arrives`.
pub(in crate::syntax) fn part_word(p: &mut Parser<'_>) {
    if p.at_word("on") && p.kind_at(1) == Some(Word) {
        let span = p.span();
        let edit = Edit::delete(Span::new(span.start, p.span_at(1).start));
        report(
            p,
            span,
            "expected a part, found `on`",
            "the part's name stands alone, such as `sent { ... }`",
            edit,
        );
        p.discard();
    }
    if !p.at(Word) || PARTS.contains(&p.text()) {
        return;
    }
    let candidates: &[&'static str] = match p.kind_at(1) {
        Some(OpenBrace) => EVENTS,
        Some(Equals | Colon) => &["rank"],
        Some(Word) => &["node", "child", "follows", "from"],
        _ => &[],
    };
    let synonyms: Vec<Synonyms> =
        PART_SYNONYMS.iter().filter(|(part, _)| candidates.contains(part)).copied().collect();
    corrected(p, "a part", candidates, &synonyms, PARTS_HELP);
}

/// A part that begins with no word of parts. Says where a statement or a field would be right.
pub(in crate::syntax) fn unknown_part(p: &mut Parser<'_>) -> Parsed {
    let help = match (p.text(), p.kind_at(1)) {
        ("let" | "if" | "rerank" | "drop" | "mark", _) | (_, Some(Equals | Operator)) => {
            "statements are in a part, such as `sent { ... }`; only `rank =` stands alone"
        }
        (_, Some(Colon)) => "state begins with its owner: `node NAME: TYPE` or `child NAME: TYPE`",
        _ => PARTS_HELP,
    };
    let edit = match p.kind_at(1) {
        Some(Colon) if p.at(Word) => Some(Edit::insert(p.span().start, "child ")),
        _ => None,
    };
    p.unexpected_but("a part of the algorithm", help, edit)
}

/// A misspelt `from` or `until` behind a rank.
pub(in crate::syntax) fn clause_word(p: &mut Parser<'_>) {
    let ends = p.at_line_start()
        || ["until", "then"].contains(&p.text())
        || PARTS.contains(&p.text())
        || !matches!(p.kind_at(1), Some(Word | OpenParen));
    if !ends {
        corrected(
            p,
            "`from` or `until`",
            &["from", "until"],
            &[],
            "such as `rank = left until since + 50ms then 0`",
        );
    }
}

/// A misspelt type.
pub(in crate::syntax) fn type_word(p: &mut Parser<'_>) {
    if p.at(Word) && !TYPES.contains(&p.text()) {
        corrected(p, "a type", TYPES, TYPE_SYNONYMS, TYPES_HELP);
    }
}

/// `algorithm a = { ... }`: a superfluous sign before the body.
pub(in crate::syntax) fn equals_before_body(p: &mut Parser<'_>) {
    if matches!(p.kind_at(0), Some(Equals | Colon)) && p.kind_at(1) == Some(OpenBrace) {
        let span = p.span();
        let message = format!("expected `{{`, found {}", quoted(p.text()));
        let edit = Edit::delete(Span::new(span.start, p.span_at(1).start));
        report(p, span, &message, "the parts follow the name, without a sign", edit);
        p.discard();
    }
}

/// Reads the `=` of `rank =`, or reports another sign.
pub(in crate::syntax) fn rank_equals(p: &mut Parser<'_>) -> Parsed {
    if p.at(OpenBrace) {
        return p.unexpected("`=`", "the rank is one expression: `rank = head.arrived`");
    }
    assigns(p, &["="])
}

/// Reads the sign of an assignment, or reports another one.
pub(in crate::syntax) fn assigns(p: &mut Parser<'_>, signs: &[&str]) -> Parsed {
    let span = p.span();
    if matches!(p.kind_at(0), Some(Equals | Operator)) && signs.contains(&p.text()) {
        p.bump();
        return Ok(());
    }
    let doubled = p.at(Operator) && matches!(p.text(), "+" | "-") && p.text_at(1) == p.text() && p.glued(1);
    if doubled {
        let sign = &p.text()[..1];
        let edit = Edit::replace(span.to(p.span_at(1)), format!(" {sign}= 1"));
        return p.unexpected_but("an assignment", "a field is counted up by `x += 1`", Some(edit));
    }
    let colon = p.at(Colon) && p.kind_at(1) == Some(Equals) && p.glued(1);
    if colon || p.at(Colon) || p.at_operator_text("==") {
        let count = if colon { 2 } else { 1 };
        let whole = span.to(p.span_at(count - 1));
        let gap = if p.glued(0) { " =" } else { "=" };
        let message = format!("expected `=`, found {}", quoted(p.slice(whole)));
        report(p, whole, &message, "`=` assigns", Edit::replace(whole, gap));
        (0..count).for_each(|_| p.discard());
        return Ok(());
    }
    let help = match p.at(OpenParen) {
        true => "there are no functions that do something; fields are assigned, such as `v = max(v, rank)`",
        false => "a statement is an assignment, `let`, `if`, `rerank`, `drop` or `mark`",
    };
    p.unexpected(if signs.len() > 1 { "`=`, `+=` or `-=`" } else { "`=`" }, help)
}

/// A word of another language where a statement begins: loops, functions, `var`.
pub(in crate::syntax) fn statement_word(p: &mut Parser<'_>) -> Parsed {
    let named = p.kind_at(1) == Some(Word);
    match p.text() {
        "for" | "while" | "loop" | "repeat" => {
            let help = "an algorithm has no loops: the engine keeps `weights`, `lowest FIELD` and `queued.bytes`, and a repeated sum is a multiplication";
            return p.unexpected("a statement", help);
        }
        "return" => {
            return p.unexpected(
                "a statement",
                "parts return nothing; the rank is `rank = ...`, outside of the parts",
            );
        }
        "fn" | "def" | "function" | "call" => {
            return p.unexpected("a statement", "an algorithm has no functions; a value is named by `let`");
        }
        "rank" if p.kind_at(1) == Some(Equals) => {
            return p
                .unexpected("a statement", "`rank = ...` stands outside of the parts; `rerank` ranks again");
        }
        "elif" | "elsif" => {
            let span = p.span();
            return p.unexpected_but("a statement", "write `else if`", Some(Edit::replace(span, "else if")));
        }
        "var" | "const" | "auto" | "mut" | "set" if named => {
            p.correct("a statement", "let", "a value is named by `let`")
        }
        "re_rank" | "reinsert" | "requeue" => {
            p.correct("a statement", "rerank", "`rerank` ranks the child again")
        }
        "discard" if !matches!(p.kind_at(1), Some(Equals | Operator)) => {
            p.correct("a statement", "drop", "`drop` drops the packet");
        }
        _ => {}
    }
    Ok(())
}

/// `if a then { ... }`.
pub(in crate::syntax) fn then_before_block(p: &mut Parser<'_>) {
    let sign = p.at_word("then") || p.at(Colon);
    if sign && p.kind_at(1) == Some(OpenBrace) {
        let span = p.span();
        let message = format!("expected `{{`, found {}", quoted(p.text()));
        let edit = Edit::delete(Span::new(span.start, p.span_at(1).start));
        report(p, span, &message, "the braces follow the condition, without a word", edit);
        p.discard();
    }
}

/// Whether one of `operators` follows. A sign of another language with the same meaning is read as it.
pub(in crate::syntax) fn at_operator(p: &mut Parser<'_>, operators: &[&str]) -> bool {
    let text = p.text();
    if matches!(p.kind_at(0), Some(Operator | Word | Slash)) && operators.contains(&text) {
        return true;
    }
    // These characters were reported with what is meant.
    let meant = match text {
        "&" | "&&" => "and",
        "|" | "||" => "or",
        _ => "",
    };
    if p.at(Unknown) && operators.contains(&meant) {
        return true;
    }
    let compares = operators.contains(&"==");
    let operand = p.number_at(1)
        || p.kind_at(1) == Some(OpenParen)
        || (p.kind_at(1) == Some(Word) && !KEYWORDS.contains(&p.text_at(1)));
    if compares && p.at(Equals) && !p.at_line_start() && !p.line_start(1) && operand {
        let span = p.span();
        report(p, span, "expected `==`, found `=`", "`=` assigns, `==` compares", Edit::replace(span, "=="));
        return true;
    }
    if operators.contains(&"*") && p.at(Operator) && text == "%" {
        let span = p.span();
        let help = "there is no remainder: `a - a / b * b` is that of a and b";
        p.find(Code::Unexpected, span, "expected an operator, found `%`", help);
        return true;
    }
    false
}

/// Reads nothing: an operand is missing. Signs and strings are explained.
pub(in crate::syntax) fn no_operand(p: &mut Parser<'_>) -> Parsed {
    let span = p.span();
    let help = match p.text() {
        "-" => "numbers have no sign: subtract from another value, or compare with 0",
        "!" => "write `not` before a condition",
        "if" => "a choice between two values is `min`, `max` or `or`; `if` is a statement in a part",
        _ => "an operand is a number, a name, `min(a, b)`, `max(a, b)` or an expression in parentheses",
    };
    let edit = match p.text_before() {
        "+" | "-" | "*" | "/" if !p.at(Operator) => {
            Some(Edit::delete(Span::new(p.span_before().start, span.start)))
        }
        "+" | "-" if p.text() == p.text_before() && p.glued(0) => Some(Edit::delete(span)),
        _ => None,
    };
    p.unexpected_but("an operand", help, edit)
}

/// The parentheses that an expression is in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::syntax) enum Inside {
    /// Those of a function, whose values commas separate.
    Call,
    /// Those around one expression.
    Parentheses,
}

/// A missing `)`, or another sign for it or for a comma.
pub(in crate::syntax) fn close_paren(p: &mut Parser<'_>, inside: Inside) -> Parsed {
    let operand = |ahead: usize| {
        let word = p.kind_at(ahead) == Some(Word) && !KEYWORDS.contains(&p.text_at(ahead));
        !p.line_start(ahead) && (p.number_at(ahead) || (word && !PARTS.contains(&p.text_at(ahead))))
    };
    let sign = !p.at_end() && !p.at(Word) && p.kind_at(0) != Some(Comma);
    let brace = matches!(p.kind_at(0), Some(OpenBrace | CloseBrace));
    let doubled = brace && matches!(p.kind_at(1), Some(OpenBrace | CloseBrace)) && !p.line_start(1);
    let (what, edit) = match (inside, operand(0), sign && operand(1)) {
        (Inside::Call, true, _) => ("`,` or `)`", Some(Edit::insert(p.end_before(), ","))),
        (Inside::Call, _, true) => ("`,` or `)`", Some(Edit::replace(p.span(), ","))),
        (Inside::Parentheses, true, _) | (Inside::Parentheses, _, true) => ("`)`", None),
        _ if p.at(Comma) => ("`)`", None),
        _ if sign && (!brace || doubled) => ("`)`", Some(Edit::replace(p.span(), ")"))),
        _ => ("`)`", Some(Edit::insert(p.end_before(), ")"))),
    };
    p.unexpected_but(what, "close the parenthesis", edit)
}

/// A missing `}` at the end of an algorithm.
pub(in crate::syntax) fn close(p: &mut Parser<'_>) -> Parsed {
    let edit = Edit::insert(p.end_before(), " }");
    p.unexpected_but("`}`", "close the brace", Some(edit))
}

/// A unit apart from its number: `5 ms`.
pub(in crate::syntax) fn unit_apart(p: &mut Parser<'_>, number: Span) {
    const UNITS: [&str; 14] =
        ["ns", "us", "ms", "s", "bps", "kbps", "mbps", "gbps", "kb", "mb", "gb", "kib", "mib", "gib"];
    let digits = p.slice(number).ends_with(|c: char| c.is_ascii_digit());
    if !(digits && p.at(Word) && !p.at_line_start() && UNITS.contains(&p.text())) {
        return;
    }
    let whole = number.to(p.span());
    let joined = corrections::joined(p.slice(whole));
    let message = format!("the unit {} stands apart from its number: write `{joined}`", quoted(p.text()));
    report(
        p,
        p.span(),
        &message,
        "write them together, such as `5ms` or `64kib`",
        Edit::replace(whole, joined),
    );
    p.bump();
}

/// `min: 4gbps` or `min = 4gbps` in arguments: a superfluous sign. Reads the name and the sign, and returns whether there is one.
pub(in crate::syntax) fn argument_sign(p: &mut Parser<'_>) -> bool {
    let sign =
        p.at(Word) && !p.number_at(0) && matches!(p.kind_at(1), Some(Colon | Equals)) && p.number_at(2);
    if !sign || p.at_line_start() {
        return false;
    }
    let span = p.span_at(1);
    let message = format!("expected the value of {}, found {}", quoted(p.text()), quoted(p.text_at(1)));
    let edit = Edit::replace(Span::new(p.span().end, p.span_at(2).start), " ");
    let diagnostic = SpannedDiagnostic::new(
        Code::Unexpected,
        span,
        message,
        "a parameter's value follows its name after a space, such as `min 4gbps`",
    );
    p.report(diagnostic.fix(edit));
    let _ = p.bump_into(Name, |_| Ok(()));
    p.discard();
    true
}

/// The name of no algorithm, where one is used.
pub(in crate::syntax) fn unknown_algorithm(p: &mut Parser<'_>) {
    if p.knows_algorithm(p.text()) {
        return;
    }
    let (span, name) = (p.span(), quoted(p.text()));
    let help =
        "the library has bucket, codel, drr, edf, stfq and others; one of your own begins with `algorithm`";
    let similar = p.similar_algorithm(p.text());
    let meant = similar.map_or(String::new(), |similar| format!(": did you mean `{similar}`?"));
    let edit = similar.map(|similar| Edit::replace(span, similar));
    let message = format!("no algorithm has the name {name}{meant}");
    p.report(SpannedDiagnostic::new(Code::UnknownName, span, message, help).fix(edit));
}
