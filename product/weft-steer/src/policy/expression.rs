//! Policies as formulas: `variance(load) + 10 * count(class "hp" outside 0..3)`.

use super::cursor::{Cursor, Token};
use super::layout::variance;
use super::{ClassId, Cost, Layout, Policy, Tally};
use weft_text::{ParseError, Span, quoted};
use weft_units::RxQueueId;

/// The maximum nesting depth of parentheses and signs: enough for users, little for the stack.
const DEPTH_MAX: u32 = 64;

/// A cost by a formula. Flows on queues outside of the usable ones are violations in addition.
#[derive(Clone, PartialEq, Debug)]
pub struct Expression {
    text: String,
    root: Node,
}

#[derive(Clone, PartialEq, Debug)]
enum Node {
    Number(f64),
    Negative(Box<Self>),
    Binary(Box<Self>, char, Box<Self>),
    Over(Statistic, Values, Option<(RxQueueId, RxQueueId)>),
    Count { class: Option<String>, inside: bool, queues: (RxQueueId, RxQueueId) },
    Spread(Option<String>),
    Pick(bool, Box<Self>, Box<Self>),
    Abs(Box<Self>),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Statistic {
    Variance,
    Deviation,
    Most,
    Least,
    Mean,
    Sum,
}

/// The values of a formula per queue.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Values {
    load: bool,
    class: Option<String>,
}

impl Expression {
    /// Reads a formula. In it, the names of classes may have quotes.
    ///
    /// # Errors
    /// The first error, with its place.
    pub fn read(text: &str) -> Result<Self, ParseError> {
        let mut cursor = Cursor::new(text)?;
        if cursor.word("cost") {
            cursor.need_sign("=", "write `cost = ...`, or the formula alone")?;
        }
        let root = sum(&mut cursor, 0)?;
        cursor.finish()?;
        Ok(Self { text: text.split_whitespace().collect::<Vec<_>>().join(" "), root })
    }
}

fn sum(cursor: &mut Cursor, depth: u32) -> Result<Node, ParseError> {
    let mut left = product(cursor, depth)?;
    loop {
        let sign = if cursor.sign("+") {
            '+'
        } else if cursor.sign("-") {
            '-'
        } else {
            return Ok(left);
        };
        left = Node::Binary(Box::new(left), sign, Box::new(product(cursor, depth)?));
    }
}

fn product(cursor: &mut Cursor, depth: u32) -> Result<Node, ParseError> {
    let mut left = factor(cursor, depth)?;
    loop {
        let sign = if cursor.sign("*") {
            '*'
        } else if cursor.sign("/") {
            '/'
        } else {
            return Ok(left);
        };
        left = Node::Binary(Box::new(left), sign, Box::new(factor(cursor, depth)?));
    }
}

fn factor(cursor: &mut Cursor, depth: u32) -> Result<Node, ParseError> {
    const HINT: &str =
        "such as `variance(load)`, `count(class \"hp\" outside 0..3)`, `max(load)` or a number";
    if depth > DEPTH_MAX {
        let what = format!("more than {DEPTH_MAX} parentheses in one another");
        return Err(ParseError::new(cursor.place(), what, "simplify it"));
    }
    if cursor.sign("-") {
        return Ok(Node::Negative(Box::new(factor(cursor, depth + 1)?)));
    }
    if cursor.sign("(") {
        let inner = sum(cursor, depth + 1)?;
        cursor.need_sign(")", "close the parenthesis")?;
        return Ok(inner);
    }
    let place = cursor.place();
    match cursor.peek().cloned() {
        Some(Token::Number(number)) => {
            cursor.advance();
            Ok(Node::Number(number))
        }
        Some(Token::Name(name)) => {
            cursor.advance();
            call(cursor, &name, place, depth)
        }
        _ => cursor.expected("a term", HINT),
    }
}

fn call(cursor: &mut Cursor, name: &str, place: Span, depth: u32) -> Result<Node, ParseError> {
    let statistic = match name {
        "variance" => Some(Statistic::Variance),
        "stddev" => Some(Statistic::Deviation),
        "max" => Some(Statistic::Most),
        "min" => Some(Statistic::Least),
        "mean" => Some(Statistic::Mean),
        "sum" => Some(Statistic::Sum),
        "count" | "spread" | "abs" | "larger" | "smaller" => None,
        _ => {
            let known = "variance, stddev, max, min, mean, sum, count, spread, abs, larger and smaller";
            let what = format!("there is no function {}", quoted(name));
            return Err(ParseError::new(place, what, format!("there are {known}")));
        }
    };
    cursor.need_sign("(", &format!("write `{name}(...)`"))?;
    let node = match (statistic, name) {
        (Some(statistic), _) => over(cursor, statistic)?,
        (None, "count") => count(cursor)?,
        (None, "spread") => Node::Spread(class(cursor)?),
        (None, "abs") => Node::Abs(Box::new(sum(cursor, depth + 1)?)),
        (None, _) => {
            let first = sum(cursor, depth + 1)?;
            cursor.need_sign(",", &format!("write `{name}(a, b)`"))?;
            Node::Pick(name == "larger", Box::new(first), Box::new(sum(cursor, depth + 1)?))
        }
    };
    cursor.need_sign(")", "close the parenthesis")?;
    Ok(node)
}

/// Reads `class "hp"`, if it is next.
fn class(cursor: &mut Cursor) -> Result<Option<String>, ParseError> {
    if cursor.word("class") { cursor.name("write `class \"hp\"`").map(Some) } else { Ok(None) }
}

/// Reads `load`, `flows`, `load of class "hp"` or `load on 0..3`.
fn over(cursor: &mut Cursor, statistic: Statistic) -> Result<Node, ParseError> {
    let load = if cursor.word("load") {
        true
    } else if cursor.word("flows") {
        false
    } else {
        return cursor.expected(
            "`load` or `flows`",
            "such as `variance(load)` or `max(flows of class \"hp\" on 0..3)`",
        );
    };
    let class = if cursor.word("of") {
        let Some(class) = class(cursor)? else {
            return cursor.expected("`class`", "write `of class \"hp\"`");
        };
        Some(class)
    } else {
        None
    };
    let queues = if cursor.word("on") { Some(queues(cursor)?) } else { None };
    Ok(Node::Over(statistic, Values { load, class }, queues))
}

fn queues(cursor: &mut Cursor) -> Result<(RxQueueId, RxQueueId), ParseError> {
    cursor
        .range("queues are written `0..3`, ends included")
        .map(|(first, last)| (RxQueueId(first), RxQueueId(last)))
}

/// Reads `class "hp" outside 0..3` or `flows on 0`.
fn count(cursor: &mut Cursor) -> Result<Node, ParseError> {
    let class = class(cursor)?;
    if class.is_none() && !cursor.word("flows") {
        return cursor.expected(
            "`class` or `flows`",
            "such as `count(class \"hp\" outside 0..3)` or `count(flows on 0)`",
        );
    }
    let inside = if cursor.word("on") {
        true
    } else if cursor.word("outside") {
        false
    } else {
        return cursor.expected("`on` or `outside`", "such as `count(class \"hp\" outside 0..3)`");
    };
    Ok(Node::Count { class, inside, queues: queues(cursor)? })
}

impl Node {
    /// Adds the names of the classes of this part of a formula.
    fn classes<'a>(&'a self, found: &mut Vec<&'a str>) {
        match self {
            Self::Number(_) => {}
            Self::Negative(inner) | Self::Abs(inner) => inner.classes(found),
            Self::Binary(left, _, right) | Self::Pick(_, left, right) => {
                left.classes(found);
                right.classes(found);
            }
            Self::Over(_, Values { class, .. }, _) | Self::Count { class, .. } | Self::Spread(class) => {
                found.extend(class.as_deref());
            }
        }
    }

    fn value(&self, tally: &Tally) -> f64 {
        match self {
            Self::Number(number) => *number,
            Self::Negative(inner) => -inner.value(tally),
            Self::Abs(inner) => inner.value(tally).abs(),
            Self::Pick(larger, a, b) => {
                let (a, b) = (a.value(tally), b.value(tally));
                if *larger { a.max(b) } else { a.min(b) }
            }
            Self::Binary(left, sign, right) => {
                let (left, right) = (left.value(tally), right.value(tally));
                match sign {
                    '+' => left + right,
                    '-' => left - right,
                    '*' => left * right,
                    _ => left / right,
                }
            }
            Self::Over(statistic, values, queues) => values.statistic(*statistic, *queues, tally),
            Self::Count { class, inside, queues } => {
                let classes = classes(class.as_deref(), tally);
                let counted =
                    tally.all_queues().filter(|queue| (queues.0..=queues.1).contains(queue) == *inside);
                counted
                    .map(|queue| {
                        classes.iter().map(|class| f64::from(tally.flows(*class, queue))).sum::<f64>()
                    })
                    .sum()
            }
            Self::Spread(class) => {
                classes(class.as_deref(), tally).iter().map(|class| f64::from(tally.spread_of(*class))).sum()
            }
        }
    }
}

/// Returns the class with a name, if it occurs; all classes without a name.
fn classes(name: Option<&str>, tally: &Tally) -> Vec<ClassId> {
    match name {
        Some(name) => tally.class(name).into_iter().collect(),
        None => tally.class_ids().collect(),
    }
}

impl Values {
    fn statistic(&self, statistic: Statistic, queues: Option<(RxQueueId, RxQueueId)>, tally: &Tally) -> f64 {
        let classes = classes(self.class.as_deref(), tally);
        let one = |queue: RxQueueId| {
            let value = |class: &ClassId| {
                if self.load { tally.load(*class, queue) } else { f64::from(tally.flows(*class, queue)) }
            };
            classes.iter().map(value).sum::<f64>()
        };
        let wanted = |queue: &&RxQueueId| queues.is_none_or(|(first, last)| (first..=last).contains(*queue));
        let values = tally.queues().iter().filter(wanted).map(|queue| one(*queue));
        let count = values.clone().count();
        if count == 0 {
            return 0.0;
        }
        match statistic {
            Statistic::Variance => variance(values),
            Statistic::Deviation => variance(values).sqrt(),
            Statistic::Most => values.fold(f64::MIN, f64::max),
            Statistic::Least => values.fold(f64::MAX, f64::min),
            Statistic::Mean => values.sum::<f64>() / count as f64,
            Statistic::Sum => values.sum(),
        }
    }
}

impl Policy for Expression {
    fn name(&self) -> String {
        format!("expression {:?}", self.text)
    }

    fn classes(&self) -> Vec<&str> {
        let mut found = Vec::new();
        self.root.classes(&mut found);
        found
    }

    fn cost(&self, tally: &Tally) -> Cost {
        Cost { violations: Layout::single(tally.queues()).violations(tally), value: self.root.value(tally) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Item;

    /// Two classes on four queues: loads 1, 2, 3, 10.
    fn tally() -> Tally {
        let mut tally = Tally::new((0..4).map(RxQueueId).collect(), 4);
        let (hp, be) = (tally.intern("hp"), tally.intern("be"));
        for (class, load, queue) in [(hp, 1, 0), (hp, 2, 1), (be, 3, 2), (be, 4, 3), (hp, 6, 3)] {
            tally.add(Item { class, load, core: None }, Some(RxQueueId(queue)));
        }
        tally
    }

    #[test]
    fn values_by_hand() {
        let tally = tally();
        for (text, value) in [
            ("1 + 2 * 3 - -4 / 2", 9.0),
            ("(1 + 2) * 3", 9.0),
            ("cost = variance(load)", 12.5),
            ("stddev(load)", 12.5_f64.sqrt()),
            ("max(load) - min(load) + mean(load)", 13.0),
            ("sum(load of class \"hp\")", 9.0),
            ("max(flows of class hp on 2..3)", 1.0),
            ("10 * count(class \"hp\" outside 0..1)", 10.0),
            ("count(flows on 3)", 2.0),
            ("count(class \"none\" on 0..9) + spread() + sum(load on 8..9)", 0.0),
            ("larger(1, abs(-2)) + smaller(1, 2)", 3.0),
        ] {
            let read = Expression::read(text).expect(text);
            assert!((read.cost(&tally).value - value).abs() < 1e-12, "{text}: {}", read.cost(&tally));
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, at, message) in [
            ("", 0, "expected a term, found the end"),
            ("1 +", 3, "expected a term, found the end"),
            ("varianz(load)", 0, "there is no function `varianz`"),
            ("variance(weight)", 9, "expected `load` or `flows`, found `weight`"),
            ("count(class \"hp\" 0..3)", 17, "expected `on` or `outside`, found `0`"),
            ("count(flows on 3..1)", 15, "the queues 3..1 go backwards"),
            ("1 2", 2, "expected the end, found `2`"),
            ("1 § 2", 2, "has no meaning here"),
            ("count(class \"hp", 12, "the quote is not closed"),
        ] {
            let wrong = Expression::read(text).expect_err(text);
            assert!(wrong.span.start == at && wrong.what.contains(message), "{text}: {wrong:?}");
        }
        assert!(Expression::read(&"(".repeat(100_000)).is_err_and(|error| error.what.contains("64")));
        assert!(Expression::read(&"-".repeat(100_000)).is_err());
    }
}
