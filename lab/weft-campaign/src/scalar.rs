//! Values of parameters as conditions compare them.

use core::cmp::Ordering;
use toml::Value;
use weft_units::{BitsPerSec, Bytes, Nanos};

/// A value, with its unit if it has one.
#[derive(Clone, PartialEq, Debug)]
pub enum Scalar {
    /// A number without a unit.
    Number(f64),
    /// A size.
    Size(u64),
    /// A time.
    Time(u64),
    /// A rate.
    Rate(u64),
    /// A text that is no quantity, or a list or table as TOML.
    Text(String),
    /// True or false.
    Flag(bool),
}

/// The kind of a value, or of all values of an axis.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ScalarKind {
    /// Numbers without a unit.
    Number,
    /// Sizes.
    Size,
    /// Times.
    Time,
    /// Rates.
    Rate,
    /// Texts.
    Text,
    /// True or false.
    Flag,
    /// More than one of them.
    Mixed,
}

impl ScalarKind {
    /// Returns its name in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Number => "a number",
            Self::Size => "a size",
            Self::Time => "a time",
            Self::Rate => "a rate",
            Self::Text => "a text",
            Self::Flag => "true or false",
            Self::Mixed => "of several kinds",
        }
    }

    /// Whether its values have an order.
    pub const fn is_ordered(self) -> bool {
        matches!(self, Self::Number | Self::Size | Self::Time | Self::Rate)
    }
}

impl Scalar {
    /// Reads a value of a scenario. Texts with a unit are quantities.
    pub fn of(value: &Value) -> Self {
        match value {
            Value::Integer(number) => Self::Number(*number as f64),
            Value::Float(number) => Self::Number(*number),
            Value::Boolean(flag) => Self::Flag(*flag),
            Value::String(text) => Self::of_text(text),
            other => Self::Text(other.to_string()),
        }
    }

    /// Reads a text, which is a quantity if it is a number with a unit.
    pub fn of_text(text: &str) -> Self {
        let quantity = text.starts_with(|c: char| c.is_ascii_digit())
            && text.ends_with(|c: char| c.is_ascii_alphabetic());
        if quantity {
            if let Ok(rate) = text.parse::<BitsPerSec>() {
                return Self::Rate(rate.get());
            }
            if let Ok(size) = text.parse::<Bytes>() {
                return Self::Size(size.get());
            }
            if let Ok(time) = text.parse::<Nanos>() {
                return Self::Time(time.get());
            }
        }
        Self::Text(text.to_owned())
    }

    /// Returns its kind.
    pub const fn kind(&self) -> ScalarKind {
        match self {
            Self::Number(_) => ScalarKind::Number,
            Self::Size(_) => ScalarKind::Size,
            Self::Time(_) => ScalarKind::Time,
            Self::Rate(_) => ScalarKind::Rate,
            Self::Text(_) => ScalarKind::Text,
            Self::Flag(_) => ScalarKind::Flag,
        }
    }

    /// Compares two values of one ordered kind; `None` for others.
    pub fn order(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Number(a), Self::Number(b)) => a.partial_cmp(b),
            (Self::Size(a), Self::Size(b))
            | (Self::Time(a), Self::Time(b))
            | (Self::Rate(a), Self::Rate(b)) => Some(a.cmp(b)),
            _ => None,
        }
    }
}

/// Returns the kind of all values.
pub fn kind_of(values: &[Scalar]) -> ScalarKind {
    let mut kinds = values.iter().map(Scalar::kind);
    let first = kinds.next().unwrap_or(ScalarKind::Mixed);
    if kinds.all(|kind| kind == first) { first } else { ScalarKind::Mixed }
}
