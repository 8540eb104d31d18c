//! Mistakes of values: signs before them, units and ends of ranges apart from them, ports behind addresses.

use super::words::LIMITS;
use super::{among, corrected, report};
use crate::code::Code;
use crate::corrections;
use crate::diagnostic::{Edit, SpannedDiagnostic};
use crate::syntax::kind::SyntaxKind::*;
use crate::syntax::parser::Parser;
use weft_text::{Span, quoted};

/// Signs and words before a value that do not belong there: `port = 80`, `port in 80..90`.
pub(in crate::syntax) fn before_value(p: &mut Parser<'_>) {
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

/// A port behind an address: `to 192.0.2.1:80`.
pub(in crate::syntax) fn port_of_address(p: &mut Parser<'_>, keyword: &str) {
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
pub(in crate::syntax) fn unit_apart(p: &mut Parser<'_>, number: Span) {
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
    let joined = corrections::joined(p.slice(whole));
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
pub(in crate::syntax) fn range_apart(p: &mut Parser<'_>, start: usize) {
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

/// A rate that tc's word precedes: `limit rate 2gbps`.
pub(in crate::syntax) fn word_before_rate(p: &mut Parser<'_>) {
    if among(p, 0, &["rate", "ceil", "max", "at"]) && p.number_at(1) {
        let span = p.span();
        let message = format!("expected a rate, found {}", quoted(p.text()));
        let edit = Edit::delete(Span::new(span.start, p.span_at(1).start));
        report(p, span, &message, "the rate follows `limit`, such as `limit 2gbps of apps`", edit);
        p.discard();
    }
}

/// `fd00::1:1gbps`: an address and a rate without a space between them, which were read as one value from `start` on. Returns
/// whether this was so.
pub(in crate::syntax) fn rate_behind_address(p: &mut Parser<'_>, start: usize) -> bool {
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

/// A misspelt `burst`.
pub(in crate::syntax) fn burst_word(p: &mut Parser<'_>) {
    if p.at(Word) && p.number_at(1) && !p.at_line_start() {
        corrected(p, "`burst`", &["burst"], &[("burst", &["cburst", "bucket"])], LIMITS);
    }
}
