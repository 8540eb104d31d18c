//! Values and tables of a file with their places, and the errors of wrong types.

use super::synonyms::SYNONYMS;
use core::ops::{Range, RangeInclusive};
use toml::Spanned;
use toml::de::{DeTable, DeValue};
use weft_text::{ParseError, hint, hint_and_all, quoted};

/// A value and its key.
#[derive(Clone, Copy)]
pub(super) struct Item<'a> {
    /// The key, for messages.
    pub(super) key: &'a str,
    value: &'a Spanned<DeValue<'a>>,
}

impl<'a> Item<'a> {
    /// Creates the item of `key`.
    pub(super) const fn new(key: &'a str, value: &'a Spanned<DeValue<'a>>) -> Self {
        Self { key, value }
    }

    /// Returns the place of the value.
    pub(super) fn span(&self) -> Range<usize> {
        self.value.span()
    }

    /// Returns an error at its place.
    pub(super) fn error(&self, what: impl AsRef<str>, hint: impl AsRef<str>) -> ParseError {
        ParseError::new(self.span(), what, hint)
    }

    /// Returns the error of a wrong type.
    pub(super) fn mistyped(&self, expected: &str, hint: impl AsRef<str>) -> ParseError {
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

    /// Returns the text, if it is one.
    pub(super) fn as_text(&self) -> Option<&'a str> {
        match self.value.get_ref() {
            DeValue::String(text) => Some(text),
            _ => None,
        }
    }

    /// Reads a text.
    pub(super) fn text(&self) -> Result<&'a str, ParseError> {
        self.as_text().ok_or_else(|| self.mistyped("a text", format!("write `{} = \"...\"`", self.key)))
    }

    /// Returns the number as written, if it is one.
    pub(super) fn as_number(&self) -> Option<String> {
        match self.value.get_ref() {
            DeValue::Integer(number) => Some(number.to_string()),
            DeValue::Float(number) => Some(number.as_str().to_owned()),
            _ => None,
        }
    }

    /// Reads a whole number in a range.
    pub(super) fn whole(&self, range: &RangeInclusive<u64>) -> Result<u64, ParseError> {
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
    pub(super) fn number(&self, possible: impl Fn(f64) -> bool, hint: &str) -> Result<f64, ParseError> {
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
    pub(super) fn boolean(&self) -> Result<bool, ParseError> {
        match self.value.get_ref() {
            DeValue::Boolean(value) => Ok(*value),
            _ => Err(self
                .mistyped("true or false", format!("write `{} = true` or `{} = false`", self.key, self.key))),
        }
    }

    /// Reads the items of a list.
    pub(super) fn list(&self, hint: &str) -> Result<impl Iterator<Item = Item<'a>> + use<'a>, ParseError> {
        let key = self.key;
        match self.value.get_ref() {
            DeValue::Array(items) => Ok(items.iter().map(move |value| Item { key, value })),
            _ => Err(self.mistyped("a list", hint)),
        }
    }

    /// Whether it is a list.
    pub(super) fn is_list(&self) -> bool {
        matches!(self.value.get_ref(), DeValue::Array(_))
    }

    /// Returns the table, if it is one. Messages call it `name`.
    pub(super) fn as_table(&self, name: &'a str) -> Option<Table<'a>> {
        match self.value.get_ref() {
            DeValue::Table(map) => Some(Table { name, map, span: self.span() }),
            _ => None,
        }
    }

    /// Reads a table.
    pub(super) fn table(&self, name: &'a str) -> Result<Table<'a>, ParseError> {
        self.as_table(name).ok_or_else(|| self.mistyped("a table", format!("write its keys below `{name}`")))
    }

    /// Reads one of `words`, alone (`"tbf"`) or with parameters (`{ tbf = ... }`). `example` shows the syntax.
    pub(super) fn choice(
        &self,
        words: &'static [&'static str],
        example: &str,
    ) -> Result<(&'static str, Option<Item<'a>>), ParseError> {
        let (word, span, inner) = match self.value.get_ref() {
            DeValue::String(text) => (text.as_ref(), self.span(), None),
            DeValue::Table(map) => {
                let mut entries = map.iter();
                let (Some((key, value)), None) = (entries.next(), entries.next()) else {
                    let what = format!("`{}` must name one thing, not {}", self.key, map.len());
                    return Err(self.error(what, format!("write {example}")));
                };
                let key_text: &'a str = key.get_ref();
                (key_text, key.span(), Some(Item::new(key_text, value)))
            }
            _ => return Err(self.mistyped("a name or a table", format!("write {example}"))),
        };
        match words.iter().find(|known| **known == word) {
            Some(known) => Ok((known, inner)),
            None => {
                let what = format!("{} is not a `{}`", quoted(word), self.key);
                Err(ParseError::new(span, what, hint_and_all(word, words, &SYNONYMS)))
            }
        }
    }
}

/// A table, and its name in messages.
#[derive(Clone)]
pub(super) struct Table<'a> {
    /// The name, as in `[network]`.
    pub(super) name: &'a str,
    map: &'a DeTable<'a>,
    span: Range<usize>,
}

impl<'a> Table<'a> {
    /// Returns the table of the whole file.
    pub(super) const fn root(map: &'a DeTable<'a>) -> Self {
        Self { name: "the file's head", map, span: 0..0 }
    }

    /// Returns the value of a key.
    pub(super) fn get(&self, key: &str) -> Option<Item<'a>> {
        let (key, value) = self.map.get_key_value(key)?;
        Some(Item::new(key.get_ref(), value))
    }

    /// Returns keys and values in the order of the file, with the places of the keys.
    pub(super) fn entries(&self) -> Vec<(Range<usize>, Item<'a>)> {
        let mut entries: Vec<_> =
            self.map.iter().map(|(key, value)| (key.span(), Item::new(key.get_ref(), value))).collect();
        entries.sort_by_key(|(span, _)| span.start);
        entries
    }

    /// Returns the place of the first present key of `keys`, or that of the table.
    pub(super) fn place(&self, keys: &[&str]) -> Range<usize> {
        keys.iter().find_map(|key| self.get(key)).map_or(self.span.clone(), |item| item.span())
    }

    /// Refuses the first key that is not in `known`.
    pub(super) fn refuse_unknown(&self, known: &[&str]) -> Result<(), ParseError> {
        for (span, item) in self.entries() {
            if !known.contains(&item.key) {
                let what = format!("unknown key {} in {}", quoted(item.key), self.name);
                return Err(ParseError::new(span, what, hint(item.key, known, &SYNONYMS)));
            }
        }
        Ok(())
    }
}
