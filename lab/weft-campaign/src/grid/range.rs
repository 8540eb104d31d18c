//! Ranges of values: from one number to another, by steps or as a number of values, evenly or by equal factors.

use toml::Value;
use weft_text::toml::TomlItem;
use weft_text::{ParseError, quoted};

/// The greatest number of values of an axis.
pub(super) const VALUES_MAX: usize = 1_000_000;

/// Units whose quantities are whole numbers.
const INDIVISIBLE: [&str; 3] = ["B", "ns", "bps"];

/// The form in which numbers of a range are written.
#[derive(Clone, PartialEq, Eq)]
enum Form {
    /// As whole numbers.
    Whole,
    /// As numbers with a point.
    Real,
    /// As texts with a unit.
    Unit(String),
}

impl Form {
    fn value(&self, number: f64) -> Value {
        let rounded = format!("{number:.5e}").parse::<f64>().unwrap_or(number);
        match self {
            Self::Whole => Value::Integer(number.round() as i64),
            Self::Real => Value::Float(rounded),
            Self::Unit(unit) if INDIVISIBLE.contains(&unit.as_str()) => {
                Value::String(format!("{}{unit}", number.round()))
            }
            Self::Unit(unit) => Value::String(format!("{rounded}{unit}")),
        }
    }
}

/// Reads `{ from = .., to = .., step | count = .., scale = .. }` as values.
pub(super) fn values(item: &TomlItem<'_>) -> Result<Vec<Value>, ParseError> {
    let hint =
        "write `range = { from = 1, to = 64, count = 7, scale = \"log\" }`, or `step` in place of `count`";
    let table = item.table("a range").map_err(|error| error.map_hint(|_| hint.to_owned()))?;
    table.refuse_unknown(&["from", "to", "step", "count", "scale"])?;
    let (first, last) = (table.need("from", hint)?, table.need("to", hint)?);
    let ((from, form), (to, other)) = (number(&first)?, number(&last)?);
    if form != other && (matches!(form, Form::Unit(_)) || matches!(other, Form::Unit(_))) {
        return Err(last.error("the ends of a range have different units", "write both with the same unit"));
    }
    let form = if form == other { form } else { Form::Real };
    let logarithmic = match table.get("scale").map(|scale| (scale.as_text(), scale)) {
        None | Some((Some("linear"), _)) => false,
        Some((Some("log"), _)) => true,
        Some((_, scale)) => {
            return Err(scale.error("this is no scale", "write \"linear\", the default, or \"log\""));
        }
    };
    if to < from {
        return Err(last.error("the range ends before it begins", "exchange `from` and `to`"));
    }
    if logarithmic && from <= 0.0 {
        return Err(first
            .error("a logarithmic range begins above zero", "write a greater `from`, or leave out `scale`"));
    }
    let numbers = match (table.get("step"), table.get("count")) {
        (Some(step), None) => by_step(&step, (from, to), (&form, logarithmic))?,
        (None, Some(count)) => by_count(&count, (from, to), logarithmic)?,
        _ => return Err(item.error("a range has either a `step` or a `count`", hint)),
    };
    Ok(numbers.into_iter().map(|number| form.value(number)).collect())
}

fn by_step(
    item: &TomlItem<'_>,
    (from, to): (f64, f64),
    (form, logarithmic): (&Form, bool),
) -> Result<Vec<f64>, ParseError> {
    let (step, of) = number(item)?;
    if logarithmic {
        if step <= 1.0 || matches!(of, Form::Unit(_)) {
            return Err(item.error(
                "the step of a logarithmic range is a factor above 1",
                "write `step = 2` for 1, 2, 4, ...",
            ));
        }
        let steps = ((to / from).ln() / step.ln() + 1e-9).floor();
        return listed(item, steps, |i| from * step.powf(i));
    }
    let fits = match (form, &of) {
        (Form::Unit(unit), Form::Unit(given)) => unit == given,
        (Form::Unit(_), _) | (_, Form::Unit(_)) => false,
        (Form::Whole, other) => *other == Form::Whole,
        _ => true,
    };
    if step <= 0.0 || !fits {
        let hint =
            "write a step above zero with the unit of `from` and `to`; whole numbers have a whole step";
        return Err(item.error("the step does not fit the range", hint));
    }
    listed(item, ((to - from) / step + 1e-9).floor(), |i| from + step * i)
}

fn by_count(item: &TomlItem<'_>, (from, to): (f64, f64), logarithmic: bool) -> Result<Vec<f64>, ParseError> {
    let count = item.whole(&(1..=VALUES_MAX as u64))?;
    if count == 1 && from < to {
        return Err(
            item.error("a range from one value to another has at least two", "write `count = 2` or more")
        );
    }
    let steps = (count - 1) as f64;
    let at = |i: f64| match (i, logarithmic) {
        (i, _) if i == steps => to,
        (i, true) => from * (to / from).powf(i / steps),
        (i, false) => from + (to - from) * (i / steps),
    };
    listed(item, steps, at)
}

/// Lists the numbers of the steps 0 to `steps`.
fn listed(item: &TomlItem<'_>, steps: f64, at: impl Fn(f64) -> f64) -> Result<Vec<f64>, ParseError> {
    if !(0.0..VALUES_MAX as f64).contains(&steps) {
        return Err(item.error(format!("the range has more than {VALUES_MAX} values"), "take larger steps"));
    }
    Ok((0..=steps as u32).map(|i| at(f64::from(i))).collect())
}

/// Reads a number with its form.
fn number(item: &TomlItem<'_>) -> Result<(f64, Form), ParseError> {
    let wrong = |given: &str| {
        item.error(
            format!("{given} is not a number, with or without a unit"),
            "write a number such as 8 or 0.5, or a quantity such as \"10gbps\"",
        )
    };
    // Beyond this whole numbers are not exact.
    let exact = |number: f64| number.abs() <= 9e15;
    match item.value()? {
        Value::Integer(number) if exact(number as f64) => Ok((number as f64, Form::Whole)),
        Value::Float(number) => Ok((number, Form::Real)),
        Value::String(text) => {
            let digits = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
            let (number, unit) = text.split_at(digits);
            match number.parse::<f64>() {
                Ok(number) if exact(number) && !unit.trim().is_empty() => {
                    Ok((number, Form::Unit(unit.trim().to_owned())))
                }
                _ => Err(wrong(&quoted(&text))),
            }
        }
        _ => Err(wrong("this")),
    }
}
