//! Mistakes of conditions: misspelt tests, the words that join them, values that are lists.

use super::words::{LIST_MAX, NO_PROCESS, OPERATORS, TEST_SYNONYMS, TESTS, TWO_WORDS};
use super::{among, begins_test, corrected, report};
use crate::code::Code;
use crate::diagnostic::{Edit, SpannedDiagnostic};
use crate::syntax::RESERVED;
use crate::syntax::kind::SyntaxKind::*;
use crate::syntax::parser::{Parsed, Parser, Stop};
use weft_text::{Span, nearest, quoted};

/// A misspelt test, where one is expected. A value without its test is reported.
pub(in crate::syntax) fn test_word(p: &mut Parser<'_>, help: &str) -> Parsed {
    let item = p.at_item();
    if !item && among(p, 0, NO_PROCESS) && matches!(p.kind_at(1), Some(Word | Text)) {
        return no_process(p);
    }
    if !item && two_words(p) {
        return Ok(());
    }
    if !item && (among(p, 0, TESTS) || corrected(p, "a test", TESTS, TEST_SYNONYMS, help)) {
        return Ok(());
    }
    let span = p.span();
    let edit = match p.text() {
        "and" | "or" => Some(Edit::delete(Span::new(span.start, p.span_at(1).start))),
        text if p.at(Text) && text.len() > 2 => Some(Edit::insert(span.start, "cgroup ")),
        text if text.parse::<core::net::IpAddr>().is_ok() => Some(Edit::insert(span.start, "to ")),
        _ if p.number_at(0) && p.kind_at(1) == Some(Slash) && p.glued(1) && !p.text().contains('.') => {
            Some(Edit::insert(span.start, "mark "))
        }
        text if text.parse::<u16>().is_ok() => Some(Edit::insert(span.start, "port ")),
        _ if p.at_end() || item => dangling_operator(p),
        _ => None,
    };
    p.unexpected_but("a test", help, edit)
}

/// A test that has two words in other languages: `ip daddr`, `dst net`. Reads the first, and the second as the test.
fn two_words(p: &mut Parser<'_>) -> bool {
    let (first, second) = (p.text(), p.text_at(1));
    let same = |(firsts, then, _): &&(&[&str], &str, &str)| firsts.contains(&first) && *then == second;
    let known = TWO_WORDS.iter().find(same).filter(|_| p.kind_at(1) == Some(Word) && !p.line_start(1));
    let Some((.., word)) = known else { return false };
    let whole = p.span().to(p.span_at(1));
    let message = format!("expected a test, found {}: did you mean `{word}`?", quoted(p.slice(whole)));
    report(p, whole, &message, "tests have one word", Edit::replace(whole, *word));
    p.discard();
    p.read_as(word);
    true
}

/// A test of the number or the file of the sending process. What is kept with a socket is the name of its maker.
fn no_process(p: &mut Parser<'_>) -> Parsed {
    let (span, word) = (p.span(), quoted(p.text()));
    let message = format!("a packet does not say the {word} of its sender");
    let help = "test the name of the process that made the socket, such as `process \"nginx\"`; or start the program in a \
                cgroup of its own, such as by `systemd-run --scope --unit=NAME COMMAND`, and test `cgroup \"/system.slice/NAME.scope\"`";
    p.report(SpannedDiagnostic::new(Code::NoProcess, span, message, help));
    Err(Stop)
}

/// The deletion of an `and` or `or` after which nothing follows.
fn dangling_operator(p: &Parser<'_>) -> Option<Edit> {
    let span = p.span_before();
    matches!(p.text_before(), "and" | "or").then(|| Edit::delete(span))
}

/// A misspelt test of ports behind a transport protocol: `tcp prot 80`.
pub(in crate::syntax) fn ports_word(p: &mut Parser<'_>, help: &str) {
    // The comparison with other words last: it costs the most, and nearly no test gets there.
    let may_be = !p.at_line_start() && p.number_at(1) && !begins_test(p, 0);
    if may_be && nearest(p.text(), ["and", "or"], &[]).is_none() {
        corrected(p, "a test", &["port", "sport", "dport"], TEST_SYNONYMS, help);
    }
}

/// Joins the next test by `word`: reads the word, or reports what is in its place.
pub(in crate::syntax) fn joins(p: &mut Parser<'_>, word: &'static str) -> bool {
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
    if near && follows && corrected(p, "`and` or `or`", &[word], &[], OPERATORS) {
        p.bump();
        return true;
    }
    false
}

/// Reads `not`, `!` or a misspelt `not`.
pub(in crate::syntax) fn negates(p: &mut Parser<'_>) -> bool {
    if p.at_word("not") || (p.at(Unknown) && p.text() == "!" && p.kind_at(1) != Some(Equals)) {
        return true;
    }
    let follows = begins_test(p, 1) || p.kind_at(1) == Some(OpenParen);
    follows && !begins_test(p, 0) && !p.at_item() && corrected(p, "a test", &["not"], &[], OPERATORS)
}

/// Reads `)`, or reports that it is missing.
pub(in crate::syntax) fn close_paren(p: &mut Parser<'_>) -> Parsed {
    if p.eat(CloseParen) {
        return Ok(());
    }
    let edit = (p.at_end() || p.at_line_start()).then(|| Edit::insert(p.end_before(), ")"));
    p.unexpected_but("`)`", "close the parenthesis", edit)
}

/// Reads a path or a name in quotes. One without quotes is reported with them. `what` says what was expected.
pub(in crate::syntax) fn in_quotes(p: &mut Parser<'_>, what: &str, help: &str) -> Parsed {
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
    let stop = p.unexpected_but(what, help, edit);
    (0..tokens).for_each(|_| p.discard());
    stop
}

/// `protocol tcp`: the name of a protocol, which is a separate test. `start` is where the test begins.
pub(in crate::syntax) fn named_protocol(p: &mut Parser<'_>, start: usize) -> bool {
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

/// A second value behind a test's: `dport 80, 443`. The values are alternatives.
/// `before` is the word before the test.
pub(in crate::syntax) fn value_list(p: &mut Parser<'_>, keyword: &str, before: &str, start: usize) {
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
    let edit = Edit::replace(Span::new(start, p.end_before()), any_of(&tests, keyword, before));
    report(p, span, &one_value(keyword), BY_OR, edit);
}

/// The values of a test in braces, as nftables writes a set: `dport { 80, 443 }`. Reads them. `start` is where the test begins, `before`
/// the word before it.
pub(in crate::syntax) fn value_set(p: &mut Parser<'_>, keyword: &str, before: &str, start: usize) -> bool {
    if !p.at(OpenBrace) {
        return false;
    }
    let (mut tests, mut at) = (Vec::new(), 1);
    loop {
        let first = at;
        let part = |at| matches!(p.kind_at(at), Some(Word | Slash | Colon | DoubleColon));
        while part(at) && (at == first || p.glued(at)) {
            at += 1;
        }
        if at == first || at > LIST_MAX {
            return false;
        }
        let value = p.span_at(first).to(p.span_at(at - 1));
        tests.push(format!("{keyword} {}", p.slice(value)));
        match p.kind_at(at) {
            Some(Comma) => at += 1,
            Some(CloseBrace) => break,
            _ => return false,
        }
    }
    let whole = Span::new(start, p.span_at(at).end);
    let edit = Edit::replace(whole, any_of(&tests, keyword, before));
    report(p, p.span(), &one_value(keyword), BY_OR, edit);
    (0..=at).for_each(|_| p.discard());
    true
}

/// One of `tests`. `before` is the word before them.
fn any_of(tests: &[String], keyword: &str, before: &str) -> String {
    let after_transport = keyword.ends_with("port") && ["tcp", "udp", "sctp"].contains(&before);
    let and = if after_transport { "and " } else { "" };
    match tests {
        [test] => test.clone(),
        _ => format!("{and}({})", tests.join(" or ")),
    }
}

fn one_value(keyword: &str) -> String {
    format!("expected one value of `{keyword}`, found a list")
}

/// The help for a list of values.
const BY_OR: &str = "several values are joined by `or`";
