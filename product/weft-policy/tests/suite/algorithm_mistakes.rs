//! A corpus of ordinary mistakes in algorithms: each is one error, at its place, with what was meant.

use crate::common::WrongTokens;
use weft_policy::{Code, Diagnostic, Source, price};

/// A text with one mistake; the place and the code of its error, a word of its message or help, and the corrected lines that are offered, if
/// any are.
type Case = (&'static str, &'static str, Code, &'static str, Option<&'static str>);

const MISTAKES: &[Case] = &[
    // Words.
    ("algoritm a { rank = 0 }\n", "1:1", Code::Unexpected, "algorithm", Some("algorithm a { rank = 0 }")),
    ("algorithm a { rnak = 0 }\n", "1:15", Code::Unexpected, "rank", Some("algorithm a { rank = 0 }")),
    (
        "algorithm a { rank = 0; snet { } }\n",
        "1:25",
        Code::Unexpected,
        "sent",
        Some("algorithm a { rank = 0; sent { } }"),
    ),
    (
        "algorithm a { on sent { }\n rank = 0 }\n",
        "1:15",
        Code::Unexpected,
        "on",
        Some("algorithm a { sent { }"),
    ),
    (
        "algorithm a { chidl x: count; rank = x }\n",
        "1:15",
        Code::Unexpected,
        "child",
        Some("algorithm a { child x: count; rank = x }"),
    ),
    (
        "algorithm a { child x: int; rank = x }\n",
        "1:24",
        Code::Unexpected,
        "count",
        Some("algorithm a { child x: count; rank = x }"),
    ),
    (
        "algorithm a { x: count; rank = x }\n",
        "1:15",
        Code::Unexpected,
        "child",
        Some("algorithm a { child x: count; rank = x }"),
    ),
    (
        "algorithm a { rank = 0; arrives { requeue } }\n",
        "1:35",
        Code::Unexpected,
        "rerank",
        Some("algorithm a { rank = 0; arrives { rerank } }"),
    ),
    // Signs.
    ("algorithm a = { rank = 0 }\n", "1:13", Code::Unexpected, "=", Some("algorithm a { rank = 0 }")),
    ("algorithm a { rank: 0 }\n", "1:19", Code::Unexpected, "=", Some("algorithm a { rank = 0 }")),
    ("algorithm a { rank { 0 } }\n", "1:20", Code::Unexpected, "one expression", None),
    (
        "algorithm a { child x: count; rank = x; sent { x++ } }\n",
        "1:49",
        Code::Unexpected,
        "x += 1",
        Some("algorithm a { child x: count; rank = x; sent { x += 1 } }"),
    ),
    (
        "algorithm a { child x: count; rank = x; sent { x := 1 } }\n",
        "1:50",
        Code::Unexpected,
        "=",
        Some("algorithm a { child x: count; rank = x; sent { x = 1 } }"),
    ),
    (
        "algorithm a { child x: count; rank = x; sent { if x = 1 { x = 2 } } }\n",
        "1:53",
        Code::Unexpected,
        "==",
        Some("algorithm a { child x: count; rank = x; sent { if x == 1 { x = 2 } } }"),
    ),
    (
        "algorithm a { child x: count; rank = x; sent { if x > 1 && x < 5 { x = 2 } } }\n",
        "1:57",
        Code::UnknownCharacter,
        "and",
        Some("algorithm a { child x: count; rank = x; sent { if x > 1 and x < 5 { x = 2 } } }"),
    ),
    (
        "algorithm a { rank = max(head.arrived, now }\n",
        "1:44",
        Code::Unexpected,
        ")",
        Some("algorithm a { rank = max(head.arrived, now) }"),
    ),
    (
        "algorithm a { rank = 0\nclass b = tcp\nroot = b\n",
        "1:23",
        Code::Unexpected,
        "}",
        Some("algorithm a { rank = 0 }"),
    ),
    ("algorithm a { rank = 1 + }\n", "1:26", Code::Unexpected, "operand", Some("algorithm a { rank = 1 }")),
    (
        "algorithm a { child x: count; rank = x; sent { if 0 < x < 5 { x = 1 } } }\n",
        "1:57",
        Code::Unexpected,
        "a < b and b < c",
        None,
    ),
    ("algorithm a { rank = -1 }\n", "1:22", Code::Unexpected, "numbers have no sign", None),
    ("algorithm a { child x: count; rank = x % 2 }\n", "1:40", Code::Unexpected, "remainder", None),
    // Statements of other languages.
    ("algorithm a { rank = 0; sent { for x { } } }\n", "1:32", Code::Unexpected, "no loops", None),
    ("algorithm a { rank = 0; sent { return 5 } }\n", "1:32", Code::Unexpected, "return nothing", None),
    (
        "algorithm a { rank = 0; sent { var x = 5 } }\n",
        "1:32",
        Code::Unexpected,
        "let",
        Some("algorithm a { rank = 0; sent { let x = 5 } }"),
    ),
    ("algorithm a { rank = 0; sent { rank = 5 } }\n", "1:32", Code::Unexpected, "outside of the parts", None),
    (
        "algorithm a { child x: count; rank = x; sent { if x > 1 then { x = 2 } } }\n",
        "1:57",
        Code::Unexpected,
        "then",
        Some("algorithm a { child x: count; rank = x; sent { if x > 1 { x = 2 } } }"),
    ),
    // Units.
    ("algorithm a { rank = head.len + 5ms }\n", "1:22", Code::UnitMismatch, "bytes / rate", None),
    ("algorithm a { rank = now + now }\n", "1:22", Code::UnitMismatch, "no sum", None),
    ("algorithm a { rank = head.arrived + 5 }\n", "1:22", Code::UnitMismatch, "unit", None),
    (
        "algorithm a(weight) { node v: vtime; rank = max(v, now) }\n",
        "1:52",
        Code::UnitMismatch,
        "clocks",
        None,
    ),
    (
        "algorithm a { child x: time; rank = x; sent { x = 5ms } }\n",
        "1:51",
        Code::UnitMismatch,
        "add it to a time",
        None,
    ),
    (
        "algorithm a { child x: count; rank = x; sent { if x { x = 1 } } }\n",
        "1:51",
        Code::UnitMismatch,
        "condition",
        None,
    ),
    ("algorithm a(x) { rank = x }\n", "1:13", Code::UnitMismatch, "no type", None),
    ("algorithm a(x: duration = 5) { rank = head.arrived + x }\n", "1:27", Code::UnitMismatch, "unit", None),
    (
        "algorithm a { rank = head.arrived + 5 ms }\n",
        "1:39",
        Code::Unexpected,
        "5ms",
        Some("algorithm a { rank = head.arrived + 5ms }"),
    ),
    // Divisors and metadata.
    (
        "algorithm a { child n: count; rank = head.len / n }\n",
        "1:49",
        Code::DivisorZero,
        "may be 0",
        Some("algorithm a { child n: count; rank = head.len / (n or 1) }"),
    ),
    ("algorithm a { rank = head.len / 0 }\n", "1:33", Code::DivisorZero, "divided by 0", None),
    (
        "algorithm a { rank = head.deadline }\n",
        "1:22",
        Code::MissingMetadata,
        "may be missing",
        Some("algorithm a { rank = (head.deadline or never) }"),
    ),
    (
        "algorithm a { rank = head.left + 1 }\n",
        "1:22",
        Code::MissingMetadata,
        "may be missing",
        Some("algorithm a { rank = (head.left or most) + 1 }"),
    ),
    ("algorithm a { rank = head.arrived or 5ms }\n", "1:22", Code::UnitMismatch, "or", None),
    ("algorithm a { rank = head.len or 5 }\n", "1:22", Code::NotHere, "always there", None),
    // Names.
    (
        "algorithm a { rank = head.deadlin or now }\n",
        "1:22",
        Code::UnknownValue,
        "head.deadline",
        Some("algorithm a { rank = head.deadline or now }"),
    ),
    (
        "algorithm a { child credit: bytes; rank = credt }\n",
        "1:43",
        Code::UnknownValue,
        "credit",
        Some("algorithm a { child credit: bytes; rank = credit }"),
    ),
    (
        "algorithm a { rank = mim(head.len, 5) }\n",
        "1:22",
        Code::UnknownValue,
        "min",
        Some("algorithm a { rank = min(head.len, 5) }"),
    ),
    ("algorithm a { child x, x: count; rank = x }\n", "1:24", Code::DefinedTwice, "twice", None),
    ("algorithm a { child now: time; rank = now }\n", "1:21", Code::ReservedName, "every algorithm", None),
    ("algorithm a { rank = 0; sent { now = 5 } }\n", "1:32", Code::NotAssignable, "engine", None),
    ("algorithm a(x: count) { rank = 0; sent { x = 5 } }\n", "1:42", Code::NotAssignable, "parameter", None),
    ("algorithm a { rank = 0 }\nalgorithm a { rank = 1 }\n", "2:11", Code::DefinedTwice, "twice", None),
    // Parts.
    ("algorithm a { sent { } }\n", "1:11", Code::PartMissing, "rank", None),
    ("shaper a { sent { } }\n", "1:8", Code::PartMissing, "from", None),
    ("dropper a { sent { } }\n", "1:9", Code::PartMissing, "fetched", None),
    ("shaper a { rank = 0 }\n", "1:12", Code::PartUnwanted, "from", None),
    ("algorithm a { rank = 0; rank = 1 }\n", "1:25", Code::DefinedTwice, "twice", None),
    ("algorithm a { rank = 0; fetched { drop } }\n", "1:25", Code::PartUnwanted, "dropper", None),
    ("algorithm a { rank = 0; sent { drop } }\n", "1:32", Code::NotHere, "fetched", None),
    ("algorithm a { rank = 0; sent { rerank } }\n", "1:32", Code::NotHere, "arrives", None),
    ("algorithm a { rank = bytes }\n", "1:22", Code::NotHere, "sent", None),
    ("algorithm a { rank = p.len }\n", "1:22", Code::NotHere, "arrives", None),
    ("algorithm a(weight) { child s: vtime; rank = s from s }\n", "1:53", Code::PartMissing, "clock", None),
    ("algorithm a { rank = 0 from head.len }\n", "1:29", Code::UnitMismatch, "time", None),
    ("algorithm a { rank = 1, 2, 3 }\n", "1:28", Code::PartUnwanted, "two", None),
    // Bounds.
    (
        "algorithm a { child b, c, d, e, f, g, h, i, j: count; rank = b }\n",
        "1:45",
        Code::TooMuch,
        "72 bytes",
        None,
    ),
    // Uses.
    (
        "class b = tcp\nroot = eddf { b: 5ms, default: 1ms }\n",
        "2:8",
        Code::Unexpected,
        "edf",
        Some("root = edf { b: 5ms, default: 1ms }"),
    ),
    (
        "class b = tcp\nroot = edf { b: budgt 5ms, default: 1ms }\n",
        "2:17",
        Code::BadArgument,
        "budget",
        Some("root = edf { b: budget 5ms, default: 1ms }"),
    ),
    (
        "class b = tcp\nroot = edf { b: budget: 5ms, default: 1ms }\n",
        "2:23",
        Code::Unexpected,
        "budget",
        Some("root = edf { b: budget 5ms, default: 1ms }"),
    ),
    ("class b = tcp\nroot = edf { b: 5, default: 1ms }\n", "2:17", Code::BadArgument, "5ms", None),
    ("class b = tcp\nroot = las { b: 5, default }\n", "2:17", Code::BadArgument, "no parameters", None),
    (
        "class b = tcp\nroot = floors { b: min 1gbps, default: min 1gbps max 2gbps }\n",
        "2:17",
        Code::BadArgument,
        "max",
        None,
    ),
    ("class b = tcp\nroot = drr { b: 0, default: 1500 }\n", "2:17", Code::DivisorZero, "cannot be 0", None),
    ("class b = tcp\nroot = stfq { b: 0, default: 1 }\n", "2:18", Code::DivisorZero, "cannot be 0", None),
    ("class b = tcp\nroot = codel { b, default }\n", "2:8", Code::WrongPlace, "orders no children", None),
    (
        "class b = tcp\nroot = srpt of priority { b, default }\n",
        "2:16",
        Code::FairNotOneClass,
        "one class",
        None,
    ),
    (
        "algorithm a { rank = head.left or most }\nclass b = tcp\nroot = a { b, default }\n",
        "3:8",
        Code::WrongPlace,
        "follows head",
        None,
    ),
];

/// The errors of a text, which needs no root to be one.
fn errors(text: &str) -> Vec<Diagnostic> {
    let text = if text.contains("root") { text.to_owned() } else { format!("{text}root = default\n") };
    let (_, diagnostics) = price(Source { name: "p", text: &text }, &[]);
    diagnostics.into_iter().filter(Diagnostic::is_error).collect()
}

#[test]
fn each_mistake_is_one_error_with_what_was_meant() {
    let mut wrong = Vec::new();
    for (text, place, code, word, write) in MISTAKES {
        let errors = errors(text);
        let Some(error) = errors.first() else {
            wrong.push(format!("no error: {text}"));
            continue;
        };
        let found = format!("{}:{}", error.start.line, error.start.column);
        let said = format!("{} ({})", error.message, error.help);
        let offered = error.fix.as_ref().and_then(|fix| fix.write.as_deref());
        if errors.len() != 1
            || found != *place
            || error.code != *code
            || !said.contains(word)
            || offered != *write
        {
            let all: Vec<String> = errors.iter().map(|error| format!("{error} ({})", error.help)).collect();
            wrong.push(format!(
                "{text}  expected {place} {code} {word:?} {write:?}\n  {}\n  {offered:?}",
                all.join("\n  ")
            ));
        }
    }
    assert!(wrong.is_empty(), "{} of {} cases:\n{}", wrong.len(), MISTAKES.len(), wrong.join("\n"));
}

#[test]
fn each_fix_makes_an_algorithm_without_errors() {
    let mut fixed = 0;
    for (text, ..) in MISTAKES {
        let text =
            if text.contains("root =") { (*text).to_owned() } else { format!("{text}root = default\n") };
        let (_, diagnostics) = price(Source { name: "p", text: &text }, &[]);
        let Some(fix) = diagnostics.first().and_then(|error| error.fix.as_ref()) else { continue };
        let new = fix.apply(&text);
        let (_, again) = price(Source { name: "p", text: &new }, &[]);
        assert!(!again.iter().any(Diagnostic::is_error), "{text}\n{new}\n{again:?}");
        fixed += 1;
    }
    assert!(fixed >= 25, "{fixed}");
}

/// Every construct of algorithms.
const WHOLE: &str = "\
algorithm mine(weight, pause: duration = 5ms) {
    node v: vtime, round: count
    child f: vtime, had: signed bytes forget after 10s, since: time
    active { since = now; f = max(f, v) }
    arrives { rerank }
    rank = 1, max(f, v) from v until since + pause then 0, 0
    begin { v = max(v, rank.2) }
    sent {
        let more_than = bytes - had
        f += bytes / weight
        if more_than > 0 and not (had == 5) { had += 2 * bytes } else { had = 0 }
    }
    idle { round = round + 1 }
    follows head
}
shaper slow(rate) { from (head.txtime or now) }
class web = tcp
root = mine { slow rate 1gbps of web: 2, default: weight 1 pause 7ms }
";

/// The ways to write a token wrong: left out, twice, misspelt, another sign.
fn wrong(token: &str) -> Vec<String> {
    let mut ways = vec![String::new(), format!("{token} {token}")];
    if token.len() > 3 && token.chars().all(|c| c.is_ascii_alphabetic()) {
        let (first, rest) = token.split_at(1);
        ways.push(format!("{first}{}{}{}", &rest[1..2], &rest[..1], &rest[2..]));
        ways.push(token.to_uppercase());
    }
    const SIGNS: [&str; 9] = [";", ":", "=", ",", "(", ")", "{", "}", "=="];
    if SIGNS.contains(&token) {
        ways.extend(SIGNS.iter().filter(|sign| **sign != token).map(|sign| (*sign).to_owned()));
    }
    ways
}

#[test]
fn a_single_wrong_token_is_at_most_a_few_errors() {
    let WrongTokens { count, single, offered, right } = WrongTokens::of(WHOLE, wrong, errors);
    assert!(count > 400 && single * 100 >= count * 96, "{single} of {count}");
    assert!(right * 100 >= offered * 85, "{right} of {offered}");
}
