//! Values and tables of a grid file with their places.

use core::ops::Range;
use toml::Spanned;
use toml::Value;
use toml::de::{DeTable, DeValue};
use weft_text::{ParseError, hint, quoted};

/// A value and its key.
#[derive(Clone, Copy)]
pub(super) struct Item<'a> {
    pub(super) key: &'a str,
    value: &'a Spanned<DeValue<'a>>,
}

impl<'a> Item<'a> {
    pub(super) fn span(&self) -> Range<usize> {
        self.value.span()
    }

    pub(super) fn error(&self, what: impl AsRef<str>, hint: impl AsRef<str>) -> ParseError {
        ParseError::new(self.span(), what, hint)
    }

    fn mistyped(&self, expected: &str, hint: &str) -> ParseError {
        self.error(format!("`{}` must be {expected}", self.key), hint)
    }

    pub(super) fn as_text(&self) -> Option<&'a str> {
        match self.value.get_ref() {
            DeValue::String(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn text(&self, hint: &str) -> Result<&'a str, ParseError> {
        self.as_text().ok_or_else(|| self.mistyped("a text", hint))
    }

    pub(super) fn as_list(&self) -> Option<Vec<Self>> {
        match self.value.get_ref() {
            DeValue::Array(items) => Some(items.iter().map(|value| Self { key: self.key, value }).collect()),
            _ => None,
        }
    }

    pub(super) fn list(&self, hint: &str) -> Result<Vec<Self>, ParseError> {
        self.as_list().ok_or_else(|| self.mistyped("a list", hint))
    }

    pub(super) fn table(&self, name: &'a str, hint: &str) -> Result<Table<'a>, ParseError> {
        self.as_table(name).ok_or_else(|| self.mistyped("a table", hint))
    }

    pub(super) fn as_table(&self, name: &'a str) -> Option<Table<'a>> {
        match self.value.get_ref() {
            DeValue::Table(map) => Some(Table { name, map, span: self.span() }),
            _ => None,
        }
    }

    /// Reads a whole number from `least` to `most`.
    pub(super) fn whole(&self, least: u64, most: u64) -> Result<u64, ParseError> {
        let number = match self.value.get_ref() {
            DeValue::Integer(number) => u64::from_str_radix(number.as_str(), number.radix()).ok(),
            _ => None,
        };
        number.filter(|number| (least..=most).contains(number)).ok_or_else(|| {
            let hint = format!("write a whole number from {least} to {most}");
            self.error(format!("`{}` is not such a number", self.key), hint)
        })
    }

    /// Reads any value of TOML.
    pub(super) fn value(&self) -> Result<Value, ParseError> {
        value_of(self.value)
    }
}

fn value_of(value: &Spanned<DeValue<'_>>) -> Result<Value, ParseError> {
    let wrong = |what: &str| ParseError::new(value.span(), what, "write another value");
    Ok(match value.get_ref() {
        DeValue::String(text) => Value::String(text.clone().into_owned()),
        DeValue::Integer(number) => Value::Integer(
            i64::from_str_radix(number.as_str(), number.radix())
                .map_err(|_| wrong("the number is too large"))?,
        ),
        DeValue::Float(number) => {
            let number = number.as_str().parse::<f64>().ok().filter(|number| number.is_finite());
            Value::Float(number.ok_or_else(|| wrong("the number is not finite"))?)
        }
        DeValue::Boolean(flag) => Value::Boolean(*flag),
        DeValue::Datetime(_) => return Err(wrong("a date is no value of a scenario")),
        DeValue::Array(items) => Value::Array(items.iter().map(value_of).collect::<Result<_, _>>()?),
        DeValue::Table(map) => {
            let entries =
                map.iter().map(|(key, value)| Ok((key.get_ref().clone().into_owned(), value_of(value)?)));
            Value::Table(entries.collect::<Result<_, ParseError>>()?)
        }
    })
}

/// A table, and its name in messages.
pub(super) struct Table<'a> {
    name: &'a str,
    map: &'a DeTable<'a>,
    pub(super) span: Range<usize>,
}

impl<'a> Table<'a> {
    pub(super) const fn root(map: &'a DeTable<'a>) -> Self {
        Self { name: "the grid's head", map, span: 0..0 }
    }

    pub(super) fn get(&self, key: &str) -> Option<Item<'a>> {
        let (key, value) = self.map.get_key_value(key)?;
        Some(Item { key: key.get_ref(), value })
    }

    /// Returns a value that must be there.
    pub(super) fn need(&self, key: &str, hint: &str) -> Result<Item<'a>, ParseError> {
        self.get(key).ok_or_else(|| {
            ParseError::new(self.span.start..self.span.start, format!("{} lacks `{key}`", self.name), hint)
        })
    }

    /// Refuses the first key that is not in `known`.
    pub(super) fn refuse_unknown(&self, known: &[&str]) -> Result<(), ParseError> {
        let unknown = self.map.iter().filter(|(key, _)| !known.contains(&key.get_ref().as_ref()));
        match unknown.map(|(key, _)| key).min_by_key(|key| key.span().start) {
            None => Ok(()),
            Some(key) => {
                let what = format!("unknown key {} in {}", quoted(key.get_ref()), self.name);
                Err(ParseError::new(key.span(), what, hint(key.get_ref(), known, &[])))
            }
        }
    }
}
