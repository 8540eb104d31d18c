//! Values and tables of a TOML file with their places, and the errors of wrong types. The readers of configurations, scenarios and grids
//! are built on these.

use crate::{ParseError, hint, hint_and_all, quoted};
use ::toml::de::{DeTable, DeValue};
use ::toml::{Spanned, Value};
use core::ops::{Range, RangeInclusive};

/// Other tools' words and those of the file, for hints.
pub type Synonyms = &'static [(&'static str, &'static str)];

/// Parses a file.
///
/// # Errors
/// When it is not TOML; `hint` says what is often wrong.
pub fn parse<'a>(text: &'a str, hint: &str) -> Result<DeTable<'a>, ParseError> {
    DeTable::parse(text).map(Spanned::into_inner).map_err(|error| {
        let what = format!("this is not TOML: {}", error.message());
        ParseError::new(error.span().unwrap_or(0..0), what, hint)
    })
}

/// A value and its key.
#[derive(Clone, Copy, Debug)]
pub struct TomlItem<'a> {
    /// The key, for messages.
    pub key: &'a str,
    value: &'a Spanned<DeValue<'a>>,
    synonyms: Synonyms,
}

impl<'a> TomlItem<'a> {
    /// The same value, called `key` in messages.
    #[must_use]
    pub fn named(self, key: &'a str) -> Self {
        Self { key, ..self }
    }

    /// The place of the value, in bytes.
    pub fn span(&self) -> Range<usize> {
        self.value.span()
    }

    /// An error at its place.
    pub fn error(&self, what: impl AsRef<str>, hint: impl AsRef<str>) -> ParseError {
        ParseError::new(self.span(), what, hint)
    }

    /// The error of a wrong type.
    pub fn mistyped(&self, expected: &str, hint: impl AsRef<str>) -> ParseError {
        let given = match self.value.get_ref() {
            DeValue::String(text) => format!("the text {}", quoted(text)),
            DeValue::Integer(number) => format!("the number {}", quoted(&number.to_string())),
            DeValue::Float(number) => format!("the number {}", quoted(number.as_str())),
            DeValue::Boolean(value) => format!("`{value}`"),
            DeValue::Datetime(_) => "a date".to_owned(),
            DeValue::Array(_) => "a list".to_owned(),
            DeValue::Table(_) => "a table".to_owned(),
        };
        self.error(format!("`{}` must be {expected}, not {given}", self.key), hint)
    }

    /// The text, if it is one.
    pub fn as_text(&self) -> Option<&'a str> {
        match self.value.get_ref() {
            DeValue::String(text) => Some(text),
            _ => None,
        }
    }

    /// Reads a text.
    ///
    /// # Errors
    /// When it is something else.
    pub fn text(&self) -> Result<&'a str, ParseError> {
        self.text_or(format!("write `{} = \"...\"`", self.key))
    }

    /// As [`Self::text`], with a hint.
    ///
    /// # Errors
    /// When it is something else.
    pub fn text_or(&self, hint: impl AsRef<str>) -> Result<&'a str, ParseError> {
        self.as_text().ok_or_else(|| self.mistyped("a text", hint))
    }

    /// The number as written, if it is one.
    pub fn as_number(&self) -> Option<String> {
        match self.value.get_ref() {
            DeValue::Integer(number) => Some(number.to_string()),
            DeValue::Float(number) => Some(number.as_str().to_owned()),
            _ => None,
        }
    }

    /// Reads a whole number in a range.
    ///
    /// # Errors
    /// When it is something else.
    pub fn whole(&self, range: &RangeInclusive<u64>) -> Result<u64, ParseError> {
        let hint = if *range.end() == u64::MAX {
            format!("write a whole number of at least {}", range.start())
        } else {
            format!("write a whole number from {} to {}", range.start(), range.end())
        };
        let DeValue::Integer(number) = self.value.get_ref() else {
            return Err(self.mistyped("a whole number", hint));
        };
        let value = u64::from_str_radix(number.as_str(), number.radix()).ok().filter(|n| range.contains(n));
        value.ok_or_else(|| {
            self.error(format!("`{}` cannot be {}", self.key, quoted(&number.to_string())), hint)
        })
    }

    /// Reads a number without a unit that `possible` accepts.
    ///
    /// # Errors
    /// When it is something else.
    pub fn number(&self, possible: impl Fn(f64) -> bool, hint: &str) -> Result<f64, ParseError> {
        let value = match self.value.get_ref() {
            DeValue::Integer(number) => {
                i64::from_str_radix(number.as_str(), number.radix()).ok().map(|n| n as f64)
            }
            DeValue::Float(number) => number.as_str().parse::<f64>().ok(),
            _ => return Err(self.mistyped("a number", hint)),
        };
        let given = self.as_number().unwrap_or_default();
        let value = value.filter(|n| n.is_finite() && possible(*n));
        value.ok_or_else(|| self.error(format!("`{}` cannot be {}", self.key, quoted(&given)), hint))
    }

    /// Reads `true` or `false`.
    ///
    /// # Errors
    /// When it is something else.
    pub fn boolean(&self) -> Result<bool, ParseError> {
        match self.value.get_ref() {
            DeValue::Boolean(value) => Ok(*value),
            _ => Err(self
                .mistyped("true or false", format!("write `{} = true` or `{} = false`", self.key, self.key))),
        }
    }

    /// The items of a list, if it is one.
    pub fn as_list(&self) -> Option<Vec<Self>> {
        match self.value.get_ref() {
            DeValue::Array(items) => Some(items.iter().map(|value| Self { value, ..*self }).collect()),
            _ => None,
        }
    }

    /// Reads the items of a list.
    ///
    /// # Errors
    /// When it is something else.
    pub fn list(&self, hint: impl AsRef<str>) -> Result<Vec<Self>, ParseError> {
        self.as_list().ok_or_else(|| self.mistyped("a list", hint))
    }

    /// The table, if it is one. Messages call it `name`.
    pub fn as_table(&self, name: &'a str) -> Option<TomlTable<'a>> {
        match self.value.get_ref() {
            DeValue::Table(map) => Some(TomlTable { name, map, span: self.span(), synonyms: self.synonyms }),
            _ => None,
        }
    }

    /// Reads a table.
    ///
    /// # Errors
    /// When it is something else.
    pub fn table(&self, name: &'a str) -> Result<TomlTable<'a>, ParseError> {
        self.as_table(name).ok_or_else(|| self.mistyped("a table", format!("write its keys below `{name}`")))
    }

    /// Reads one of `words`, alone (`"tbf"`) or with parameters (`{ tbf = ... }`). `example` shows the syntax.
    ///
    /// # Errors
    /// When it is something else.
    pub fn choice(
        &self,
        words: &'static [&'static str],
        example: &str,
    ) -> Result<(&'static str, Option<TomlItem<'a>>), ParseError> {
        let (word, span, inner) = match self.value.get_ref() {
            DeValue::String(text) => (text.as_ref(), self.span(), None),
            DeValue::Table(map) => {
                let mut entries = map.iter();
                let (Some((key, value)), None) = (entries.next(), entries.next()) else {
                    let what = format!("`{}` must name one thing, not {}", self.key, map.len());
                    return Err(self.error(what, format!("write {example}")));
                };
                let key_text: &'a str = key.get_ref();
                (key_text, key.span(), Some(Self { key: key_text, value, ..*self }))
            }
            _ => return Err(self.mistyped("a name or a table", format!("write {example}"))),
        };
        match words.iter().find(|known| **known == word) {
            Some(known) => Ok((known, inner)),
            None => {
                let what = format!("{} is not a `{}`", quoted(word), self.key);
                Err(ParseError::new(span, what, hint_and_all(word, words, self.synonyms)))
            }
        }
    }

    /// Reads any value but a date.
    ///
    /// # Errors
    /// When it is a date, or a number that is too large or not finite.
    pub fn value(&self) -> Result<Value, ParseError> {
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
        DeValue::Datetime(_) => return Err(wrong("a date is no value here")),
        DeValue::Array(items) => Value::Array(items.iter().map(value_of).collect::<Result<_, _>>()?),
        DeValue::Table(map) => {
            let entries =
                map.iter().map(|(key, value)| Ok((key.get_ref().clone().into_owned(), value_of(value)?)));
            Value::Table(entries.collect::<Result<_, ParseError>>()?)
        }
    })
}

/// A table, and its name in messages.
#[derive(Clone, Debug)]
pub struct TomlTable<'a> {
    /// The name, as in `[network]`.
    name: &'a str,
    map: &'a DeTable<'a>,
    span: Range<usize>,
    synonyms: Synonyms,
}

impl<'a> TomlTable<'a> {
    /// The table of the whole file.
    pub const fn root(name: &'a str, map: &'a DeTable<'a>, synonyms: Synonyms) -> Self {
        Self { name, map, span: 0..0, synonyms }
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<TomlItem<'a>> {
        let (key, value) = self.map.get_key_value(key)?;
        Some(TomlItem { key: key.get_ref(), value, synonyms: self.synonyms })
    }

    /// The value of a key that must be there.
    ///
    /// # Errors
    /// When it is not.
    pub fn need(&self, key: &str, hint: &str) -> Result<TomlItem<'a>, ParseError> {
        let missing = || {
            ParseError::new(self.span.start..self.span.start, format!("{} lacks `{key}`", self.name), hint)
        };
        self.get(key).ok_or_else(missing)
    }

    /// Keys and values in the order of the file, with the places of the keys.
    pub fn entries(&self) -> Vec<(Range<usize>, TomlItem<'a>)> {
        let item = |(key, value): (&'a Spanned<_>, _)| {
            let text: &::toml::de::DeString<'a> = key.get_ref();
            (key.span(), TomlItem { key: text.as_ref(), value, synonyms: self.synonyms })
        };
        let mut entries: Vec<_> = self.map.iter().map(item).collect();
        entries.sort_by_key(|(span, _)| span.start);
        entries
    }

    /// The place of the first present key of `keys`, or that of the table.
    pub fn place(&self, keys: &[&str]) -> Range<usize> {
        keys.iter().find_map(|key| self.get(key)).map_or(self.span.clone(), |item| item.span())
    }

    /// Refuses the key at `span` if it is not in `known`.
    ///
    /// # Errors
    /// When it is not.
    pub fn refuse_unless_known(
        &self,
        (span, key): (Range<usize>, &str),
        known: &[&str],
    ) -> Result<(), ParseError> {
        if known.contains(&key) {
            return Ok(());
        }
        let what = format!("unknown key {} in {}", quoted(key), self.name);
        Err(ParseError::new(span, what, hint(key, known, self.synonyms)))
    }

    /// Refuses the first key that is not in `known`.
    ///
    /// # Errors
    /// When there is one.
    pub fn refuse_unknown(&self, known: &[&str]) -> Result<(), ParseError> {
        self.entries()
            .into_iter()
            .try_for_each(|(span, item)| self.refuse_unless_known((span, item.key), known))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYNONYMS: Synonyms = &[("bandwidth", "rate")];

    #[test]
    fn keys_come_in_the_order_of_the_file_and_synonyms_reach_inner_tables() {
        let text = "z = 1\n[a]\nbandwidth = 2\n";
        let map = parse(text, "write TOML").expect("TOML");
        let root = TomlTable::root("the file", &map, SYNONYMS);
        assert_eq!(root.entries().iter().map(|(_, item)| item.key).collect::<Vec<_>>(), ["z", "a"]);
        let inner = root.get("a").expect("a").table("[a]").expect("a table");
        let error = inner.refuse_unknown(&["rate", "delay"]).expect_err("unknown").locate("f", text);
        assert_eq!(
            error.to_string(),
            "f:3:1: error: unknown key `bandwidth` in [a]\n  hint: did you mean `rate`?"
        );
    }

    #[test]
    fn a_wrong_type_says_what_was_given_and_where() {
        let text = "a = [1, \"x\"]\n";
        let map = parse(text, "write TOML").expect("TOML");
        let list = TomlTable::root("the file", &map, SYNONYMS).get("a").expect("a").list("").expect("a list");
        assert_eq!(list[0].whole(&(0..=9)), Ok(1));
        let error = list[1].whole(&(0..=9)).expect_err("a text").locate("f", text);
        assert_eq!(
            error.to_string(),
            "f:1:9: error: `a` must be a whole number, not the text `x`\n  hint: write a whole number from 0 to 9"
        );
        assert!(parse("a b", "write TOML").is_err());
    }
}
