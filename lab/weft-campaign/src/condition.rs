//! Conditions of a grid: comparisons of axes and values, joined by `and`, `or` and `not`.
//!
//! ```text
//! any        = all { "or" all }
//! all        = one { "and" one }
//! one        = "not" one | "(" any ")" | operand ( "==" | "!=" | "<" | "<=" | ">" | ">=" ) operand
//! operand    = the name or the key of an axis | number | number with unit | 'text' | "true" | "false"
//! ```
//!
//! There is nothing else: no arithmetic, no functions. Kinds are checked when the grid is read, so a condition cannot fail later.

use crate::scalar::{Scalar, ScalarKind};
use core::cmp::Ordering;
use core::ops::Range;
use weft_text::{ParseError, hint, quoted};

/// The greatest nesting of parentheses and `not`; bounds the stack.
const DEPTH_MAX: usize = 64;

/// A condition that refers to axes by their index.
#[derive(Clone, PartialEq, Debug)]
pub struct Condition(Test);

#[derive(Clone, PartialEq, Debug)]
enum Test {
    Compare(Operand, Comparison, Operand),
    Not(Box<Test>),
    All(Vec<Test>),
    Any(Vec<Test>),
}

#[derive(Clone, PartialEq, Debug)]
enum Operand {
    Axis(usize),
    Value(Scalar),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Comparison {
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// Spellings of comparisons; the longer ones first.
const COMPARISONS: [(&str, Comparison); 6] = [
    ("==", Comparison::Equal),
    ("!=", Comparison::Unequal),
    ("<=", Comparison::LessOrEqual),
    (">=", Comparison::GreaterOrEqual),
    ("<", Comparison::Less),
    (">", Comparison::Greater),
];

/// An axis in the form that conditions use.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// Its short name, if it has one.
    pub name: Option<&'a str>,
    /// The key that it sets.
    pub key: &'a str,
    /// The kind of its values.
    pub kind: ScalarKind,
}

impl Condition {
    /// Reads a condition over the given axes.
    ///
    /// # Errors
    /// The first error, with its place in `text`.
    pub fn parse(text: &str, axes: &[Known<'_>]) -> Result<Self, ParseError> {
        let mut reader = Reader { text, at: 0, axes };
        let test = reader.any(0)?;
        reader.space();
        match reader.rest() {
            "" => Ok(Self(test)),
            rest => Err(reader.error(
                reader.at..text.len(),
                format!("{} is left over", quoted(rest)),
                "join comparisons with `and` or `or`",
            )),
        }
    }

    /// Whether it holds, where `value` returns the value of an axis.
    pub fn holds<'a>(&'a self, value: &dyn Fn(usize) -> &'a Scalar) -> bool {
        holds(&self.0, value)
    }
}

fn holds<'a>(test: &'a Test, value: &dyn Fn(usize) -> &'a Scalar) -> bool {
    let get = |operand: &'a Operand| match operand {
        Operand::Axis(axis) => value(*axis),
        Operand::Value(given) => given,
    };
    match test {
        Test::Compare(left, comparison, right) => compare(get(left), *comparison, get(right)),
        Test::Not(inner) => !holds(inner, value),
        Test::All(parts) => parts.iter().all(|part| holds(part, value)),
        Test::Any(parts) => parts.iter().any(|part| holds(part, value)),
    }
}

fn compare(left: &Scalar, comparison: Comparison, right: &Scalar) -> bool {
    let order = left.order(right);
    match comparison {
        Comparison::Equal => order.map_or(left == right, Ordering::is_eq),
        Comparison::Unequal => !order.map_or(left == right, Ordering::is_eq),
        Comparison::Less => order.is_some_and(Ordering::is_lt),
        Comparison::LessOrEqual => order.is_some_and(Ordering::is_le),
        Comparison::Greater => order.is_some_and(Ordering::is_gt),
        Comparison::GreaterOrEqual => order.is_some_and(Ordering::is_ge),
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    axes: &'a [Known<'a>],
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn space(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    fn error(&self, span: Range<usize>, what: impl AsRef<str>, hint: impl AsRef<str>) -> ParseError {
        ParseError::new(span, what, hint)
    }

    /// Takes a word if it is next.
    fn word(&mut self, word: &str) -> bool {
        self.space();
        let next = self.rest().strip_prefix(word);
        let taken = next.is_some_and(|after| !after.starts_with(continues));
        self.at += if taken { word.len() } else { 0 };
        taken
    }

    fn mark(&mut self, mark: char) -> bool {
        self.space();
        let taken = self.rest().starts_with(mark);
        self.at += if taken { mark.len_utf8() } else { 0 };
        taken
    }

    fn any(&mut self, depth: usize) -> Result<Test, ParseError> {
        let mut parts = vec![self.all(depth)?];
        while self.word("or") {
            parts.push(self.all(depth)?);
        }
        Ok(Test::Any(parts))
    }

    fn all(&mut self, depth: usize) -> Result<Test, ParseError> {
        let mut parts = vec![self.one(depth)?];
        while self.word("and") {
            parts.push(self.one(depth)?);
        }
        Ok(Test::All(parts))
    }

    fn one(&mut self, depth: usize) -> Result<Test, ParseError> {
        if depth > DEPTH_MAX {
            let here = self.at..self.at;
            return Err(self.error(
                here,
                "the condition is nested too deeply",
                "write several conditions instead",
            ));
        }
        if self.word("not") {
            return Ok(Test::Not(Box::new(self.one(depth + 1)?)));
        }
        if self.mark('(') {
            let open = self.at - 1;
            let inner = self.any(depth + 1)?;
            if !self.mark(')') {
                return Err(self.error(open..open + 1, "the parenthesis is not closed", "add `)`"));
            }
            return Ok(inner);
        }
        self.space();
        let begin = self.at;
        let left = self.operand()?;
        let comparison = self.comparison()?;
        let right = self.operand()?;
        let kinds = [&left, &right].map(|operand| self.kind(operand));
        let equality = matches!(comparison, Comparison::Equal | Comparison::Unequal);
        let same = kinds[0] == kinds[1] && (kinds[0].is_ordered() || equality);
        let fits = same || (equality && kinds.contains(&ScalarKind::Mixed));
        if !fits {
            let what = match kinds {
                [left, right] if left == right => {
                    format!("values that are {} have no order", left.name())
                }
                [left, right] => format!(
                    "a value that is {} cannot be compared with one that is {}",
                    left.name(),
                    right.name()
                ),
            };
            let hint = "compare numbers with numbers, and quantities with quantities of the same unit; others only by == and !=";
            return Err(self.error(begin..self.at, what, hint));
        }
        Ok(Test::Compare(left, comparison, right))
    }

    fn kind(&self, operand: &Operand) -> ScalarKind {
        match operand {
            Operand::Axis(axis) => self.axes.get(*axis).map_or(ScalarKind::Mixed, |axis| axis.kind),
            Operand::Value(value) => value.kind(),
        }
    }

    fn comparison(&mut self) -> Result<Comparison, ParseError> {
        self.space();
        let found = COMPARISONS.iter().find(|(spelling, _)| self.rest().starts_with(spelling));
        let Some((spelling, comparison)) = found else {
            let here = self.at..self.text.len();
            return Err(self.error(
                here,
                "a comparison is missing here",
                "write one of == != < <= > >= between two values",
            ));
        };
        self.at += spelling.len();
        Ok(*comparison)
    }

    fn operand(&mut self) -> Result<Operand, ParseError> {
        self.space();
        let rest = self.rest();
        if let Some(quote) = rest.chars().next().filter(|c| matches!(c, '\'' | '"')) {
            let inner = &rest[1..];
            let Some(end) = inner.find(quote) else {
                return Err(self.error(self.at..self.text.len(), "the text does not end", "close the quote"));
            };
            self.at += end + 2;
            return Ok(Operand::Value(Scalar::of_text(&inner[..end])));
        }
        let length = rest.find(|c| !continues(c)).unwrap_or(rest.len());
        let span = self.at..self.at + length;
        let word = &rest[..length];
        if word.is_empty() {
            let hint = "write the name of an axis, a number, a quantity such as 10gbps, or a text in quotes";
            return Err(self.error(span, "a value is missing here", hint));
        }
        self.at += length;
        if let Some(axis) = self.axes.iter().position(|axis| axis.name == Some(word) || axis.key == word) {
            return Ok(Operand::Axis(axis));
        }
        if word.starts_with(|c: char| c.is_ascii_digit() || c == '-') {
            let number = word.replace('_', "").parse::<f64>().ok().filter(|number| number.is_finite());
            return match (number, Scalar::of_text(word)) {
                (Some(number), _) => Ok(Operand::Value(Scalar::Number(number))),
                (None, Scalar::Text(_)) => Err(self.error(
                    span,
                    format!("{} is neither a number nor a quantity", quoted(word)),
                    "write a number such as 8, or a quantity such as 10gbps, 64KB or 50us",
                )),
                (None, quantity) => Ok(Operand::Value(quantity)),
            };
        }
        match word {
            "true" => Ok(Operand::Value(Scalar::Flag(true))),
            "false" => Ok(Operand::Value(Scalar::Flag(false))),
            _ => {
                let names: Vec<&str> = self.axes.iter().map(|axis| axis.name.unwrap_or(axis.key)).collect();
                let what = format!("there is no axis {}", quoted(word));
                Err(self.error(span, what, hint(word, &names, &[])))
            }
        }
    }
}

/// Whether a word continues with a character.
fn continues(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '.' | '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    const AXES: [Known<'static>; 4] = [
        Known { name: Some("flows"), key: "flows.0.count", kind: ScalarKind::Number },
        Known { name: None, key: "host.nic.transmit_queues", kind: ScalarKind::Number },
        Known { name: Some("rate"), key: "network.rate", kind: ScalarKind::Rate },
        Known { name: Some("qdisc"), key: "host.stack.qdisc", kind: ScalarKind::Text },
    ];

    fn holds(text: &str) -> bool {
        let values = [
            Scalar::Number(12.0),
            Scalar::Number(8.0),
            Scalar::Rate(10_000_000_000),
            Scalar::Text("fq_codel".to_owned()),
        ];
        let condition = Condition::parse(text, &AXES).unwrap_or_else(|error| panic!("{text}: {error}"));
        condition.holds(&|axis| &values[axis])
    }

    #[test]
    fn comparisons_are_by_value_and_unit() {
        for text in [
            "flows >= host.nic.transmit_queues",
            "flows.0.count == 12 and rate == 10gbps",
            "rate<=10000mbps and rate > '9.5gbps'",
            "flows < 5 or flows > 10",
            "not flows < 5 and not (flows == 12 and rate == 1gbps)",
            "qdisc != 'pfifo_fast'",
            "true == true or flows == 1",
            "flows != -3",
        ] {
            assert!(holds(text), "{text}");
        }
        for text in ["flows < host.nic.transmit_queues", "flows == 1 or rate == 1gbps and flows == 12"] {
            assert!(!holds(text), "{text}");
        }
    }

    #[test]
    fn errors_have_a_place_and_a_remedy() {
        for (text, place, what) in [
            ("flow >= 3", 0..4, "there is no axis `flow`"),
            ("flows = 3", 6..9, "a comparison is missing here"),
            ("flows >= ", 9..9, "a value is missing here"),
            ("flows >= 10gbps", 0..15, "a value that is a number cannot be compared with one that is a rate"),
            ("qdisc < 'x'", 0..11, "values that are a text have no order"),
            ("(flows == 1", 0..1, "the parenthesis is not closed"),
            ("flows == 1 flows == 2", 11..21, "`flows == 2` is left over"),
            ("qdisc == 'x", 9..11, "the text does not end"),
            ("flows == 1x", 9..11, "`1x` is neither a number nor a quantity"),
        ] {
            let error = Condition::parse(text, &AXES).expect_err(text);
            assert_eq!((error.what.as_str(), &error.span), (what, &place.into()), "{text}");
            assert!(!error.hint.is_empty(), "{text}");
        }
        let deep = Condition::parse(&"(".repeat(100_000), &AXES).expect_err("too deep");
        assert!(deep.what.contains("deep"), "{deep}");
        assert!(Condition::parse(&"not ".repeat(100_000), &AXES).is_err());
    }
}
