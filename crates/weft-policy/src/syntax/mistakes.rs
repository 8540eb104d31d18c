//! Ordinary mistakes of policies, and the words that were meant.
//!
//! The functions look at the next tokens. Each one that finds its mistake reports it with a fix, and leaves the parser in a
//! state in which the grammar goes on as if the text were right, so that one mistake is one error. A function that finds none
//! changes nothing.

use super::RESERVED;
use super::kind::SyntaxKind::*;
use super::parser::{Parsed, Parser, Stop};
use crate::code::Code;
use crate::diagnostic::{Edit, SpannedDiagnostic};
use weft_text::{Span, nearest, quoted};

/// The words of tests.
pub(super) const TESTS: &[&str] = &[
    "any", "tcp", "udp", "sctp", "icmp", "icmpv6", "protocol", "port", "sport", "dport", "from", "to",
    "mark", "priority", "cgroup",
];

/// Other languages' words for tests: tc, tcpdump, iptables, nftables.
const TEST_SYNONYMS: &[(&str, &str)] = &[
    ("all", "any"),
    ("everything", "any"),
    ("proto", "protocol"),
    ("ip_proto", "protocol"),
    ("ports", "port"),
    ("src", "from"),
    ("source", "from"),
    ("saddr", "from"),
    ("src_ip", "from"),
    ("dst", "to"),
    ("dest", "to"),
    ("destination", "to"),
    ("daddr", "to"),
    ("dst_ip", "to"),
    ("src_port", "sport"),
    ("source_port", "sport"),
    ("dst_port", "dport"),
    ("dest_port", "dport"),
    ("destination_port", "dport"),
    ("fwmark", "mark"),
    ("prio", "priority"),
    ("icmp6", "icmpv6"),
    ("ipv6_icmp", "icmpv6"),
];

/// Other words for nodes whose children are in braces.
const LIST_SYNONYMS: &[(&str, &str)] = &[
    ("prio", "priority"),
    ("strict", "priority"),
    ("sp", "priority"),
    ("htb", "wfq"),
    ("hfsc", "wfq"),
    ("drr", "wfq"),
    ("wrr", "wfq"),
    ("ets", "wfq"),
    ("wf2q", "wfq"),
    ("weighted", "wfq"),
    ("share", "wfq"),
    ("shares", "wfq"),
    ("pfifo", "fifo"),
    ("bfifo", "fifo"),
    ("queue", "fifo"),
];

/// Other words for `fair`.
const FAIR_SYNONYMS: &[(&str, &str)] =
    &[("fq", "fair"), ("sfq", "fair"), ("fq_codel", "fair"), ("drr", "fair"), ("fairly", "fair")];

/// Other words for `limit`.
const LIMIT_SYNONYMS: &[(&str, &str)] = &[
    ("rate", "limit"),
    ("ceil", "limit"),
    ("max", "limit"),
    ("cap", "limit"),
    ("shape", "limit"),
    ("police", "limit"),
    ("throttle", "limit"),
    ("tbf", "limit"),
];

/// Other words for those with which items begin.
const ITEM_SYNONYMS: &[(&str, &str)] =
    &[("rate", "link"), ("bandwidth", "link"), ("filter", "class"), ("match", "class"), ("delay", "latency")];

/// Abbreviations of words that stand in one place only.
const PLACE_SYNONYMS: &[(&str, &str)] = &[
    ("dst", "destination"),
    ("dest", "destination"),
    ("pkts", "packets"),
    ("pkt", "packets"),
    ("p", "packets"),
];

/// The help for misspelt words.
const LOWER_CASE: &str = "the words of the language are in lower case";

fn among(p: &Parser<'_>, ahead: usize, words: &[&str]) -> bool {
    p.kind_at(ahead) == Some(Word) && words.contains(&p.text_at(ahead))
}

/// Whether a test begins `ahead` tokens after the cursor.
pub(super) fn begins_test(p: &Parser<'_>, ahead: usize) -> bool {
    match p.text_at(ahead) {
        "priority" => p.number_at(ahead + 1),
        _ => among(p, ahead, TESTS),
    }
}

/// Whether an expression with a keyword begins `ahead` tokens after the cursor.
fn begins_node(p: &Parser<'_>, ahead: usize) -> bool {
    let next = p.kind_at(ahead + 1);
    match p.text_at(ahead) {
        "priority" | "wfq" | "fifo" => next == Some(OpenBrace),
        "fair" => p.text_at(ahead + 1) == "of",
        "limit" => p.number_at(ahead + 1) || p.text_at(ahead + 1) == "by",
        _ => false,
    }
}

/// Reports a mistake at `span`, with its fix.
fn report(p: &mut Parser<'_>, span: Span, message: &str, help: &str, edit: impl Into<Option<Edit>>) {
    p.report(SpannedDiagnostic::new(Code::Unexpected, span, message, help).fix(edit));
}

/// Corrects the next word if it is close to one of `words`.
fn corrected(
    p: &mut Parser<'_>,
    what: &str,
    words: &[&'static str],
    synonyms: &[(&str, &'static str)],
    help: &str,
) -> bool {
    if !p.at(Word) || RESERVED.contains(&p.text()) {
        return false;
    }
    let plain = synonyms.to_vec();
    let meant = nearest(p.text(), words.iter().copied(), &plain);
    if let Some(word) = meant.and_then(|meant| words.iter().find(|word| **word == meant)) {
        p.correct(what, word, help);
        return true;
    }
    false
}

/// The word of an item that the next one may stand for.
fn item_meant(p: &Parser<'_>) -> Option<&'static str> {
    if !p.at(Word) || p.at_item() || RESERVED.contains(&p.text()) {
        return None;
    }
    let defines = matches!(p.kind_at(2), Some(Equals | Colon)) && p.kind_at(1) == Some(Word);
    let words: &[&'static str] = match () {
        () if p.line_start(1) => &[],
        () if defines => &["class"],
        () if p.number_at(1) || p.text_at(1) == "auto" => &["link", "bound", "latency"],
        () => &[],
    };
    let meant = nearest(p.text(), words.iter().copied(), ITEM_SYNONYMS)?;
    words.iter().find(|word| **word == meant).copied()
}

/// Whether an item begins at the cursor, right or with a mistake that [`item_word`] or [`at_node`] recognizes.
pub(super) fn at_item_or_mistake(p: &Parser<'_>) -> bool {
    p.at_line_start()
        && (p.at_item() || item_meant(p).is_some() || (at_node(p) && p.kind_at(1) == Some(Word)))
}

/// A misspelt `class`, `link`, `bound` or `latency`.
pub(super) fn item_word(p: &mut Parser<'_>) {
    if let Some(word) = item_meant(p) {
        p.correct("`class`, `link`, `bound` or `NAME = ...`", word, LOWER_CASE);
    }
}

/// Whether a definition of a node follows, though its `=` may be missing or another character.
pub(super) fn at_node(p: &Parser<'_>) -> bool {
    let bare = begins_node(p, 1) || (p.text() == "root" && p.kind_at(1) == Some(Word));
    p.at_definition()
        || (p.at(Word)
            && !p.line_start(1)
            && !RESERVED.contains(&p.text())
            && (p.kind_at(1) == Some(Colon) || bare))
}

/// `class NAME = priority { ... }`: a node with the word of a class.
pub(super) fn node_as_class(p: &mut Parser<'_>) -> bool {
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
pub(super) fn class_without_word(p: &mut Parser<'_>) -> bool {
    let reserved = RESERVED.contains(&p.text());
    let negated = p.text_at(2) == "not" && begins_test(p, 3);
    let found = p.at_definition() && !reserved && (begins_test(p, 2) || negated) && !begins_node(p, 2);
    if found {
        let span = p.span();
        let message = format!("{} is a class: `class` is missing before it", quoted(p.text()));
        let help = "tests make a class, such as `class web = tcp and dport 80..443`";
        report(p, span, &message, help, Edit::insert(span.start, "class "));
    }
    found
}

/// Reads `=`, or reports what stands in its place. `:`, `:=` and `==` are read as `=`.
pub(super) fn equals(p: &mut Parser<'_>, help: &str) -> Parsed {
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

/// Reads the word `word`, or reports that it was expected. A misspelt word is read as `word`.
pub(super) fn word(p: &mut Parser<'_>, word: &'static str, help: &str) -> Parsed {
    if p.eat_word(word) {
        return Ok(());
    }
    let what = format!("`{word}`");
    if !p.at_item() && corrected(p, &what, &[word], PLACE_SYNONYMS, help) {
        p.bump();
        return Ok(());
    }
    let inserts = match word {
        "of" => p.at(Word) && !p.at_line_start() && !p.number_at(0),
        _ => word == "packets" && (p.text() == "of" || p.at_line_start()),
    };
    let edit = inserts.then(|| Edit::insert(p.end_before(), format!(" {word}")));
    p.unexpected_but(&what, help, edit)
}

/// A misspelt test, where one is expected. A value without its test is reported.
pub(super) fn test_word(p: &mut Parser<'_>, help: &str) -> Parsed {
    let item = p.at_item();
    if !item && (among(p, 0, TESTS) || corrected(p, "a test", TESTS, TEST_SYNONYMS, help)) {
        return Ok(());
    }
    let span = p.span();
    let edit = match p.text() {
        "and" | "or" => Some(Edit::delete(Span::new(span.start, p.span_at(1).start))),
        text if p.at(Text) && text.len() > 2 => Some(Edit::insert(span.start, "cgroup ")),
        text if text.parse::<core::net::IpAddr>().is_ok() => Some(Edit::insert(span.start, "to ")),
        text if text.parse::<u16>().is_ok() => Some(Edit::insert(span.start, "port ")),
        _ if p.at_end() || item => dangling_operator(p),
        _ => None,
    };
    p.unexpected_but("a test", help, edit)
}

/// The deletion of an `and` or `or` after which nothing follows.
fn dangling_operator(p: &Parser<'_>) -> Option<Edit> {
    let span = p.span_before();
    matches!(p.text_before(), "and" | "or").then(|| Edit::delete(span))
}

/// A misspelt test of ports behind a transport protocol: `tcp prot 80`.
pub(super) fn ports_word(p: &mut Parser<'_>, help: &str) {
    let operator = nearest(p.text(), ["and", "or"], &[]).is_some();
    if !p.at_line_start() && p.number_at(1) && !operator && !begins_test(p, 0) {
        corrected(p, "a test", &["port", "sport", "dport"], TEST_SYNONYMS, help);
    }
}

/// Joins the next test by `word`: reads the word, or reports what stands in its place.
pub(super) fn joins(p: &mut Parser<'_>, word: &'static str) -> bool {
    if p.eat_word(word) {
        return true;
    }
    let (unknown, text) = (p.at(Unknown), p.text());
    let symbols: &[&str] = if word == "and" { &["&", "&&"] } else { &["|", "||"] };
    if unknown && symbols.contains(&text) {
        p.discard();
        return true;
    }
    if p.at_line_start() {
        return false;
    }
    let transport = |text: &str| ["tcp", "udp", "sctp", "icmp", "icmpv6"].contains(&text);
    if begins_test(p, 0) || among(p, 0, &["not"]) {
        let either = if transport(p.text_before()) && transport(text) { "or" } else { "and" };
        if either == word {
            let (at, span) = (p.end_before(), p.span());
            let message = format!("expected `and` or `or`, found {}", quoted(text));
            report(p, span, &message, "tests are joined by words", Edit::insert(at, format!(" {word}")));
        }
        return either == word;
    }
    let follows = begins_test(p, 1) || p.text_at(1) == "not" || p.kind_at(1) == Some(OpenParen);
    if word == "or" && p.at(Comma) && follows {
        let span = p.span();
        let message = "expected `and` or `or`, found `,`";
        report(p, span, message, "tests are joined by words", Edit::replace(span, " or"));
        p.discard();
        return true;
    }
    let near = nearest(text, ["and", "or"], &[]) == Some(word);
    if near && follows && corrected(p, "`and` or `or`", &[word], &[], LOWER_CASE) {
        p.bump();
        return true;
    }
    false
}

/// Reads `not`, `!` or a misspelt `not`.
pub(super) fn negates(p: &mut Parser<'_>) -> bool {
    if p.at_word("not") || (p.at(Unknown) && p.text() == "!" && p.kind_at(1) != Some(Equals)) {
        return true;
    }
    let follows = begins_test(p, 1) || p.kind_at(1) == Some(OpenParen);
    follows && !begins_test(p, 0) && !p.at_item() && corrected(p, "a test", &["not"], &[], LOWER_CASE)
}

/// A misspelt word of a node, or another language's, where an expression is expected.
pub(super) fn node_word(p: &mut Parser<'_>) {
    let (next, text) = (p.kind_at(1), p.text_at(1));
    let limits =
        p.number_at(1) && ["of", "burst", "to", "bps", "kbps", "mbps", "gbps"].contains(&p.text_at(2));
    match () {
        () if p.at_item() => {}
        () if next == Some(OpenBrace) => {
            corrected(p, "a node", &["priority", "wfq", "fifo"], LIST_SYNONYMS, LOWER_CASE);
        }
        () if text == "of" => {
            corrected(p, "a node", &["fair"], FAIR_SYNONYMS, LOWER_CASE);
        }
        () if limits || text == "by" => {
            corrected(p, "a node", &["limit"], LIMIT_SYNONYMS, LOWER_CASE);
        }
        () => {}
    }
}

/// Children in braces without the word of a node, or with a word that is none. `list` reads the braces.
pub(super) fn unknown_node(p: &mut Parser<'_>, list: impl Fn(&mut Parser<'_>) -> Parsed) -> Option<Stop> {
    let bare = p.at(OpenBrace);
    if !bare && !(p.at(Word) && p.kind_at(1) == Some(OpenBrace) && !RESERVED.contains(&p.text())) {
        return None;
    }
    let help = "`priority` serves the first child with packets, `wfq` shares by weights, `fifo` keeps the order of arrival";
    let stop = p.unexpected("`priority`, `wfq` or `fifo` before `{`", help).err();
    let _ = p.node(Error, |p| {
        if !bare {
            p.bump();
        }
        list(p)
    });
    stop
}

/// A weight or a rate without the colon before it, or with another character for it. Returns whether a value follows.
pub(super) fn colon(p: &mut Parser<'_>, what: &str) -> bool {
    if p.eat(Colon) {
        return true;
    }
    let span = p.span();
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

/// Signs and words before a value that do not belong there: `port = 80`, `port in 80..90`.
pub(super) fn before_value(p: &mut Parser<'_>) {
    let sign = matches!(p.kind_at(0), Some(Equals | Colon)) || among(p, 0, &["in", "is", "eq"]);
    if !sign || p.at_line_start() || !matches!(p.kind_at(1), Some(Word | Equals | DoubleColon)) {
        return;
    }
    let span = p.span();
    let message = format!("expected a value, found {}", quoted(p.text()));
    let more = usize::from(p.kind_at(1) == Some(Equals));
    let gap = if p.glued(0) { " " } else { "" };
    let edit = Edit::replace(Span::new(span.start, p.span_at(1 + more).start), gap);
    report(p, span, &message, "a value follows its word after a space", edit);
    (0..=more).for_each(|_| p.discard());
}

/// A rate that tc's word precedes: `limit rate 2gbps`.
pub(super) fn word_before_rate(p: &mut Parser<'_>) {
    if among(p, 0, &["rate", "ceil", "max", "at"]) && p.number_at(1) {
        let span = p.span();
        let message = format!("expected a rate, found {}", quoted(p.text()));
        let edit = Edit::delete(Span::new(span.start, p.span_at(1).start));
        report(p, span, &message, "the rate follows `limit`, such as `limit 2gbps of apps`", edit);
        p.discard();
    }
}

/// `limit RATE to NAME`: a limit of a class, which is written with `of`.
pub(super) fn limit_to_class(p: &mut Parser<'_>) -> bool {
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

/// A second value behind a test's: `dport 80, 443`. The values are alternatives.
/// `before` is the word before the test.
pub(super) fn value_list(p: &mut Parser<'_>, keyword: &str, before: &str, start: usize) {
    let after_transport = keyword.ends_with("port") && ["tcp", "udp", "sctp"].contains(&before);
    if !(p.at(Comma) && p.number_at(1) && !p.line_start(1)) {
        return;
    }
    let (span, first) = (p.span(), Span::new(start, p.end_before()));
    let mut tests = vec![p.slice(first).to_owned()];
    while p.at(Comma) && p.number_at(1) && !p.line_start(1) {
        p.discard();
        let from = p.span().start;
        let mut end = from;
        while p.at(Word) && (end == from || p.glued(0)) || (p.at(Slash) && p.glued(0)) {
            end = p.span().end;
            p.discard();
        }
        tests.push(format!("{keyword} {}", p.slice(Span::new(from, end))));
    }
    let and = if after_transport { "and " } else { "" };
    let edit = Edit::replace(Span::new(start, p.end_before()), format!("{and}({})", tests.join(" or ")));
    let message = format!("expected one value of `{keyword}`, found a list");
    report(p, span, &message, "several values are joined by `or`", edit);
}

/// A port behind an address: `to 192.0.2.1:80`.
pub(super) fn port_of_address(p: &mut Parser<'_>, keyword: &str) {
    if !(p.at(Colon) && p.glued(0) && p.glued(1) && p.number_at(1)) {
        return;
    }
    let port = p.text_at(1);
    let test = if keyword == "from" { "sport" } else { "dport" };
    let span = p.span().to(p.span_at(1));
    let message = format!("a prefix has no port: write `{test} {port}`");
    let diagnostic = SpannedDiagnostic::new(Code::BadPrefix, span, message, "join the tests by `and`");
    p.report(diagnostic.fix(Edit::replace(span, format!(" and {test} {port}"))));
    p.discard();
    p.discard();
}

/// A unit apart from its number: `8 mb`. It is read as part of the value.
pub(super) fn unit_apart(p: &mut Parser<'_>, number: Span) {
    let unit = p.text().to_ascii_lowercase();
    let digits = p.slice(number).ends_with(|c: char| c.is_ascii_digit());
    // A name before a colon is the next entry of a list whose comma is missing.
    let entry = p.kind_at(1) == Some(Colon);
    if !(digits && p.at(Word) && !p.at_line_start() && is_unit(&unit)) || entry {
        return;
    }
    let slashed = p.kind_at(1) == Some(Slash) && p.glued(1) && p.glued(2) && p.text_at(2) == "s";
    let span = p.span();
    let whole = number.to(if slashed { p.span_at(2) } else { span });
    let joined: String = p.slice(whole).split_whitespace().collect();
    let joined = crate::corrections::rate(&joined).unwrap_or(joined);
    let message = format!("the unit {} stands apart from its number: write `{joined}`", quoted(p.text()));
    let help = "write them together, such as `40gbps` or `64kib`";
    report(p, span, &message, help, Edit::replace(whole, joined));
    (0..if slashed { 3 } else { 1 }).for_each(|_| p.bump());
}

/// Whether `word` is a unit of rates, sizes or times, which some authors separate from the number.
fn is_unit(word: &str) -> bool {
    let rates = ["bps", "kbps", "mbps", "gbps", "tbps", "bit", "kbit", "mbit", "gbit", "tbit"];
    let sizes = ["kb", "mb", "gb", "kib", "mib", "gib", "bytes"];
    let times = ["ms", "us", "ns"];
    rates.contains(&word) || sizes.contains(&word) || times.contains(&word)
}

/// A range with spaces around its dots, or with a hyphen: `80 .. 443`. It is read as part of the value.
/// It begins at `start`.
pub(super) fn range_apart(p: &mut Parser<'_>, start: usize) {
    let first = Span::new(start, p.end_before());
    let word = |ahead: usize| if p.kind_at(ahead) == Some(Word) { p.text_at(ahead) } else { "" };
    let apart = |text: &str| matches!(text, ".." | "..." | "-" | "--" | "to");
    let tokens = match () {
        () if p.at_line_start() || !p.slice(first).ends_with(|c: char| c.is_ascii_digit()) => return,
        () if apart(word(0)) && p.number_at(1) => 2,
        () if word(0).starts_with("..") && word(0).len() > 2 => 1,
        () => return,
    };
    let span = p.span();
    let whole = first.to(p.span_at(tokens - 1));
    let last = p.text_at(tokens - 1).trim_start_matches('.');
    let range = format!("{}..{last}", p.slice(first).trim_end_matches('.'));
    let message = format!("a range has no spaces: write `{range}`");
    report(p, span, &message, "such as `dport 80..443`", Edit::replace(whole, range));
    (0..tokens).for_each(|_| p.bump());
}

/// The children of a list without an opening brace, or with another bracket for it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Opening {
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
    pub(super) fn read(p: &mut Parser<'_>) -> Result<Self, Stop> {
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
    pub(super) fn at_close(self, p: &Parser<'_>) -> bool {
        match self {
            Self::Brace => p.at(CloseBrace),
            Self::Paren(_) => p.at(CloseParen) || p.at(CloseBrace),
            Self::Bracket => p.at(CloseBrace) || (p.at(Unknown) && p.text() == "]"),
            Self::Missing(_) => p.at(CloseBrace) || p.at_line_start(),
        }
    }

    /// Reads the end of a list, and reports its mistake.
    pub(super) fn close(self, p: &mut Parser<'_>) -> Parsed {
        let closed = self.at_close(p) && !p.at_end();
        let before = Span::at(p.end_before());
        match self {
            Self::Brace if closed => p.bump(),
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
pub(super) fn separator(p: &mut Parser<'_>) -> bool {
    if p.at(Unknown) && p.text() == ";" {
        p.discard();
        return true;
    }
    let edit = (p.at(Word) || p.at(OpenBrace)).then(|| Edit::insert(p.end_before(), ","));
    let _ = p.unexpected_but("`,` or `}`", "separate the entries in braces by commas", edit);
    p.at(Word)
}

/// A second comma in a list, or one before its first entry.
pub(super) fn superfluous_comma(p: &mut Parser<'_>) {
    while p.at(Comma) {
        let span = p.span();
        report(p, span, "expected an entry, found `,`", "leave the comma out", Edit::delete(span));
        p.discard();
    }
}

/// Words and signs behind an item that is complete. Returns whether the rest of the line is another item.
pub(super) fn leftover(p: &mut Parser<'_>) -> Parsed {
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
    let help = match p.kind_at(0) {
        Some(Comma) if !alone => "several children need `priority { ... }`, `wfq { ... }` or `fifo { ... }`",
        _ => "each item begins on a line of its own, and a comment with `#`",
    };
    p.unexpected_but(LINE, help, edit)
}

/// Reads a path in quotes. A path without quotes is reported with them.
pub(super) fn path(p: &mut Parser<'_>, help: &str) -> Parsed {
    if p.eat(Text) {
        return Ok(());
    }
    let start = p.span();
    let mut end = start.start;
    let mut tokens = 0;
    let part =
        |p: &Parser<'_>, at: usize| matches!(p.kind_at(at), Some(Word | Slash)) && (at == 0 || p.glued(at));
    while !p.line_start(0) && !p.at_item() && part(p, tokens) {
        end = p.span_at(tokens).end;
        tokens += 1;
    }
    let path = p.slice(Span::new(start.start, end));
    let edit = (!path.is_empty() && !RESERVED.contains(&path))
        .then(|| Edit::replace(Span::new(start.start, end), format!("\"{path}\"")));
    let stop = p.unexpected_but("a path in quotes", help, edit);
    (0..tokens).for_each(|_| p.discard());
    stop
}

/// `protocol tcp`: the name of a protocol, which is a test of its own. `start` is where the test begins.
pub(super) fn named_protocol(p: &mut Parser<'_>, start: usize) -> bool {
    let name = p.text().to_ascii_lowercase();
    let found = ["tcp", "udp", "sctp", "icmp", "icmpv6"].contains(&name.as_str());
    if found {
        let whole = Span::new(start, p.span().end);
        let message = format!("expected a protocol number, found {}: write `{name}` alone", quoted(p.text()));
        report(
            p,
            p.span(),
            &message,
            "`protocol` is for protocols without a word",
            Edit::replace(whole, name),
        );
        p.discard();
    }
    found
}

/// `fd00::1:1gbps`: an address and a rate without a space between them, which were read as one value from `start` on. Returns
/// whether this was so.
pub(super) fn rate_behind_address(p: &mut Parser<'_>, start: usize) -> bool {
    let rate = p.text_before();
    let whole = Span::new(start, p.end_before());
    let Some(address) = p.slice(whole).strip_suffix(rate).filter(|address| address.ends_with(':')) else {
        return false;
    };
    let found = !p.at(Colon) && address.contains("::") && rate.parse::<weft_units::BitsPerSec>().is_ok();
    if found {
        let message =
            format!("a space is missing between an IPv6 address and its rate: write `{address} {rate}`");
        let help = "a colon without a space behind it is part of the address";
        let diagnostic = SpannedDiagnostic::new(Code::BadPrefix, whole, message, help);
        p.report(diagnostic.fix(Edit::insert(p.span_before().start, " ")));
    }
    found
}
