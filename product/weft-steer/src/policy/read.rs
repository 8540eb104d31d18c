//! The text format of policies: a single policy on a command line, or a file with classes.

use super::cursor::{Cursor, Token};
use super::{
    Balance, Classes, Combined, Expression, Isolate, Locality, Measure, Policy, PolicyFile, Priority,
    Reserved,
};
use crate::predicate::{Predicate, read_predicate};
use weft_text::{LocatedError, ParseError, Span, quoted};
use weft_units::RxQueueId;

/// The maximum length of a text, in bytes.
const TEXT_MAX: usize = 1 << 20;

/// Reads a policy with its classes. Each line is one of:
///
/// - `class NAME = PREDICATE`: flows within the predicate are of the class; the first such line wins;
/// - `policy POLICY`, or the policy alone. Several lines of policies, each preceded by a weight (`0.5 * locality`), are added up;
/// - an empty line, or a comment after `#`.
///
/// # Errors
/// The first error, with its place and the remedy.
pub fn read(text: &str, file: &str) -> Result<PolicyFile, LocatedError> {
    read_lines(text).map_err(|error| error.locate(file, text))
}

fn read_lines(text: &str) -> Result<PolicyFile, ParseError> {
    if text.len() > TEXT_MAX {
        let what = format!("the text is longer than {TEXT_MAX} bytes");
        return Err(ParseError::new(Span::at(0), what, "is it a policy?"));
    }
    let (mut parts, mut classes) = (Vec::new(), Classes::default());
    let mut start = 0;
    for whole in text.split_inclusive('\n') {
        let line = without_remark(whole);
        let mut words = line.split_whitespace();
        match words.next() {
            None => {}
            Some("class") => {
                let rule = class_line(line).map_err(|error| error.behind(start))?;
                classes.rules.push(rule);
            }
            Some(_) => parts.extend(policy_line(line).map_err(|error| error.behind(start))?),
        }
        start += whole.len();
    }
    let policy: Box<dyn Policy> = match parts.len() {
        0 => return Err(ParseError::new(Span::at(text.len()), "the policy is missing", FORMS)),
        1 if parts.iter().all(|(weight, _)| *weight == 1.0) => match parts.pop() {
            Some((_, policy)) => policy,
            None => Box::new(Balance::default()),
        },
        _ => Box::new(Combined { parts }),
    };
    Ok(PolicyFile { policy, classes })
}

/// The forms of a policy.
const FORMS: &str = "write `balance`, `isolate hp on 4 queues`, `priority hp by 8 flows`, `static { hp: 0..3, be: 4..9 }`, `locality` or `expression \"variance(load)\"`";

/// Returns the line without its comment: a `#` outside of quotes and everything after it.
fn without_remark(line: &str) -> &str {
    let mut quoted = false;
    for (at, byte) in line.bytes().enumerate() {
        match byte {
            b'"' => quoted = !quoted,
            b'#' if !quoted => return &line[..at],
            _ => {}
        }
    }
    line
}

/// Reads `class NAME = PREDICATE`.
fn class_line(line: &str) -> Result<(String, Predicate), ParseError> {
    const HINT: &str = "write `class hp = src-ip 192.0.2.0/24 and udp`";
    let Some(sign) = line.find('=') else {
        let end = Span::at(line.trim_end().len());
        return Err(ParseError::new(end, "expected `=` and a predicate", HINT));
    };
    let mut cursor = Cursor::new(&line[..sign])?;
    cursor.word("class");
    let name = cursor.name(HINT)?;
    cursor.finish()?;
    let behind = &line[sign + 1..];
    let skipped = behind.len() - behind.trim_start().len();
    let predicate = read_predicate(behind.trim()).map_err(|error| error.behind(sign + 1 + skipped))?;
    Ok((name, predicate))
}

/// A weight and a policy.
type Part = (f64, Box<dyn Policy>);

/// Reads `[policy] [WEIGHT *] POLICY [+ ...]`.
fn policy_line(line: &str) -> Result<Vec<Part>, ParseError> {
    let mut cursor = Cursor::new(line)?;
    cursor.word("policy");
    let mut parts = Vec::new();
    loop {
        let mut weight = 1.0;
        if let Some(Token::Number(number)) = cursor.peek() {
            weight = *number;
            cursor.advance();
            cursor.need_sign("*", "a weight precedes its policy: `0.5 * locality`")?;
        }
        parts.push((weight, one(&mut cursor)?));
        if !cursor.sign("+") {
            cursor.finish()?;
            return Ok(parts);
        }
    }
}

fn one(cursor: &mut Cursor) -> Result<Box<dyn Policy>, ParseError> {
    let place = cursor.place();
    let Some(Token::Name(name)) = cursor.peek().cloned() else { return cursor.expected("a policy", FORMS) };
    cursor.advance();
    match name.as_str() {
        "balance" => {
            let measure = if !cursor.word("by") {
                Measure::Weight
            } else if cursor.word("rate") {
                Measure::Rate
            } else if cursor.word("weight") {
                Measure::Weight
            } else {
                return cursor.expected("`rate` or `weight`", "write `balance by rate`");
            };
            Ok(Box::new(Balance { measure }))
        }
        "isolate" => {
            const HINT: &str = "write `isolate hp on 4 queues`";
            let class = cursor.name(HINT)?;
            let queues = amount(cursor, "on", &["queues", "queue"], HINT)?;
            Ok(Box::new(Isolate { class, queues }))
        }
        "priority" => {
            const HINT: &str = "write `priority hp by 8 flows`";
            let class = cursor.name(HINT)?;
            let flows_per_queue = amount(cursor, "by", &["flows", "flow"], HINT)?;
            Ok(Box::new(Priority { class, flows_per_queue }))
        }
        "static" => reserved(cursor),
        "locality" => locality(cursor),
        "expression" => {
            let place = cursor.place();
            let Some(Token::Text(text)) = cursor.peek().cloned() else {
                return cursor.expected("a formula in quotes", "write `expression \"variance(load)\"`");
            };
            cursor.advance();
            // In a quoted formula, class names have no separate quotes.
            Expression::read(&text)
                .map(|read| Box::new(read) as Box<dyn Policy>)
                .map_err(|error| error.behind(place.start + 1))
        }
        _ => Err(ParseError::new(place, format!("there is no policy {}", quoted(&name)), FORMS)),
    }
}

/// Reads `on 4 queues`.
fn amount(cursor: &mut Cursor, before: &str, units: &[&str], hint: &str) -> Result<u32, ParseError> {
    if !cursor.word(before) {
        return cursor.expected(&format!("`{before}`"), hint);
    }
    let amount = cursor.whole(hint)?;
    if units.iter().any(|unit| cursor.word(unit)) {
        Ok(amount)
    } else {
        cursor.expected(&format!("`{}`", units[0]), hint)
    }
}

/// Reads `{ hp: 0..3, be: 4..9 }`.
fn reserved(cursor: &mut Cursor) -> Result<Box<dyn Policy>, ParseError> {
    const HINT: &str = "write `static { hp: 0..3, be: 4..9 }`";
    cursor.need_sign("{", HINT)?;
    let mut classes: Vec<(String, RxQueueId, RxQueueId)> = Vec::new();
    while !cursor.sign("}") {
        let place = cursor.place();
        let name = cursor.name(HINT)?;
        if classes.iter().any(|(other, _, _)| *other == name) {
            let what = format!("class {} has queues already", quoted(&name));
            return Err(ParseError::new(place, what, "give each class one range"));
        }
        cursor.need_sign(":", HINT)?;
        let (first, last) = cursor.range(HINT)?;
        classes.push((name, RxQueueId(first), RxQueueId(last)));
        if !cursor.sign(",") && cursor.peek() != Some(&Token::Sign("}")) {
            return cursor.expected("`,` or `}`", HINT);
        }
    }
    if classes.is_empty() {
        return cursor.expected("a class", HINT);
    }
    Ok(Box::new(Reserved { classes }))
}

/// Reads nothing, or `{ 0: 1, 1: 2 }`.
fn locality(cursor: &mut Cursor) -> Result<Box<dyn Policy>, ParseError> {
    const HINT: &str = "write `locality`, or `locality { 0: 1, 1: 2 }` with processors and their queues";
    let mut policy = Locality::default();
    if cursor.sign("{") {
        while !cursor.sign("}") {
            let core = cursor.whole(HINT)?;
            cursor.need_sign(":", HINT)?;
            policy.queues.insert(core, RxQueueId(cursor.whole(HINT)?));
            if !cursor.sign(",") && cursor.peek() != Some(&Token::Sign("}")) {
                return cursor.expected("`,` or `}`", HINT);
            }
        }
    }
    Ok(Box::new(policy))
}

/// Reads arbitrary bytes as a policy. Terminates with a policy, or with an error of a line and a hint whose place is within the
/// text. A fuzz target.
#[doc(hidden)]
pub fn fuzz_steering_policy(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match read(&text, "fuzz") {
        Ok(file) => {
            let queues: Vec<RxQueueId> = (0..8).map(RxQueueId).collect();
            let mut tally = super::Tally::new(queues.clone(), 8);
            tally.intern("hp");
            assert!(!file.policy.name().is_empty());
            if let Err(problem) = file.policy.check(&queues) {
                assert!(!problem.to_string().is_empty());
            }
            file.policy.cost(&tally);
            file.policy.layout(&tally);
        }
        Err(error) => {
            let shown = error.to_string();
            assert!(shown.lines().count() == 1 + usize::from(!error.hint.is_empty()), "{shown}");
            assert!(error.line <= text.split('\n').count(), "{shown}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::Flow;
    use proptest::prelude::*;
    use weft_packet::header_match::Field;

    #[test]
    fn what_is_read_is_what_is_named() {
        for text in [
            "balance",
            "balance by rate",
            "isolate hp on 4 queues",
            "priority hp by 8 flows",
            "static { hp: 0..3, be: 4..9, x: 7 }",
            "locality",
            "locality { 0: 1, 1: 2 }",
            "expression \"variance(load) + 10 * count(class hp outside 0..3)\"",
            "1 * balance + 0.5 * locality",
        ] {
            let file = read(text, "p").expect(text);
            assert_eq!(file.policy.name(), text);
        }
    }

    #[test]
    fn classes_by_predicate_then_by_column() {
        let file =
            read("# remark\nclass hp = udp # those\n\npolicy isolate hp on 1 queue\n", "p").expect("read");
        let mut flow = crate::search::workload::slides(1).remove(0);
        assert_eq!(file.classes.of(&flow), "hp");
        flow = Flow { headers: flow.headers.exact(Field::IpProtocol, 6), class: Some("be".into()), ..flow };
        assert_eq!(file.classes.of(&flow), "be");
        flow.headers = flow.headers.without(Field::IpProtocol);
        assert_eq!(file.classes.of(&flow), "be", "only a part of its packets is UDP");
    }

    #[test]
    fn errors_have_places_and_hints() {
        for (text, shown) in [
            ("", "p:1:1: error: the policy is missing\n  hint: write `balance`"),
            ("balanced", "p:1:1: error: there is no policy `balanced`\n  hint: write `balance`"),
            (
                "isolate hp on four queues",
                "p:1:15: error: expected a whole number, found `four`\n  hint: write `isolate hp on 4 queues`",
            ),
            (
                "priority hp",
                "p:1:12: error: expected `by`, found the end\n  hint: write `priority hp by 8 flows`",
            ),
            ("\n  static { hp: 3..0 }", "p:2:16: error: the queues 3..0 go backwards\n  hint: write 0..3"),
            ("static { hp: 0, hp: 1 }", "p:1:17: error: class `hp` has queues already"),
            ("expression \"variance(lod)\"", "p:1:22: error: expected `load` or `flows`, found `lod`"),
            (
                "class hp = tpc\nbalance",
                "p:1:12: error: `tpc` is not a test of a packet\n  hint: did you mean `tcp`?",
            ),
            ("class hp udp", "p:1:13: error: expected `=` and a predicate"),
            ("0.5 locality", "p:1:5: error: expected `*`, found `locality`"),
        ] {
            let error = read(text, "p").expect_err(text).to_string();
            assert!(error.starts_with(shown), "{text:?}: {error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_ends(words in proptest::collection::vec(prop_oneof![
            Just("balance"), Just("isolate"), Just("hp"), Just("on"), Just("4"), Just("queues"), Just("{"), Just("}"), Just(":"), Just(".."),
            Just("expression"), Just("\""), Just("variance(load)"), Just("\n"), Just("class"), Just("="), Just("é"), Just("*"), Just("+"),
            Just("99999999999999999999"), Just("static"), Just("priority"), Just("by"), Just("flows"), Just("count(class hp outside 0..3)"),
        ], 0..20)) {
            fuzz_steering_policy(words.join(" ").as_bytes());
            fuzz_steering_policy(words.concat().as_bytes());
        }
    }
}
