//! Kinds of plain values: quantities with units, counts, names, lists.

use super::document::SYNONYMS;
use super::keys::{Context, Kind};
use core::marker::PhantomData;
use core::str::FromStr;
use weft_text::toml::TomlItem;
use weft_text::{ParseError, hint_and_all, quoted, steers};
use weft_units::{BitsPerSec, Bytes, Nanos, ParseUnitError};

/// The word for a disabled or absent value.
const OFF: &str = "off";

/// Formats a TOML string.
pub(super) fn text(value: &str) -> String {
    toml::Value::String(value.to_owned()).to_string()
}

/// Formats a TOML key without control characters.
pub(super) fn key(name: &str) -> String {
    format!("\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Whether a value may omit its unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Unit {
    Required,
    Optional,
}

/// Reads a quantity with a unit; `plain` is the unit that a bare number may have meant if the unit may be omitted.
fn quantity<T>(item: &TomlItem<'_>, unit: &str, with: Unit) -> Result<T, ParseError>
where
    T: FromStr<Err = ParseUnitError>,
{
    if let Some(number) = item.as_number() {
        let what = format!("`{}` needs a unit", item.key);
        let meant = number.parse::<T>().err().and_then(|error| error.meant);
        let example = meant.unwrap_or_else(|| format!("{number}{unit}"));
        return Err(item.error(what, format!("write it as text with a unit, such as \"{example}\"")));
    }
    let hint = || format!("write `{} = \"1{unit}\"`, say", item.key);
    let Some(text) = item.as_text() else { return Err(item.mistyped("a text with a unit", hint())) };
    let bare = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if with == Unit::Required && bare(text.trim()) {
        let what = format!("`{}` needs a unit", item.key);
        return Err(item.error(what, format!("write \"{}{unit}\", say", text.trim())));
    }
    if text.trim_start().starts_with('-') {
        let what = format!("`{}` cannot be negative: {}", item.key, quoted(text));
        return Err(item.error(what, hint()));
    }
    text.parse().map_err(|error: ParseUnitError| {
        let meant = error.meant.map(|meant| format!("write `{} = \"{meant}\"`", item.key));
        let what = format!("`{}`: {} is not {}", item.key, quoted(text), error.expected);
        item.error(what, meant.unwrap_or_else(hint))
    })
}

/// Formats `value` in the largest of `units` that divides it.
fn exact(value: u64, units: &[(u64, &str)], least: &str) -> String {
    let unit = units.iter().find(|(factor, _)| value > 0 && value.is_multiple_of(*factor));
    unit.map_or_else(
        || format!("\"{value}{least}\""),
        |(factor, name)| format!("\"{}{name}\"", value / factor),
    )
}

/// A number of bytes in a range.
pub(super) struct Size<const MIN: u64, const MAX: u64 = { u64::MAX }>;

impl<const MIN: u64, const MAX: u64> Kind for Size<MIN, MAX> {
    type Value = Bytes;

    fn read(item: &TomlItem<'_>, _: Context<'_>) -> Result<Bytes, ParseError> {
        let value: Bytes = quantity(item, "B", Unit::Optional)?;
        if (MIN..=MAX).contains(&value.0) {
            return Ok(value);
        }
        let most = if MAX == u64::MAX { String::new() } else { format!(" and at most \"{MAX}B\"") };
        let what = format!("`{}` cannot be {}", item.key, quoted(item.as_text().unwrap_or_default()));
        Err(item.error(what, format!("write at least \"{MIN}B\"{most}")))
    }

    fn write(value: &Bytes, _: Context<'_>) -> String {
        const UNITS: [(u64, &str); 6] = [
            (1_000_000_000, "GB"),
            (1 << 30, "GiB"),
            (1_000_000, "MB"),
            (1 << 20, "MiB"),
            (1_000, "KB"),
            (1 << 10, "KiB"),
        ];
        exact(value.0, &UNITS, "B")
    }
}

/// A time of at least `MIN` nanoseconds.
pub(super) struct Time<const MIN: u64>;

impl<const MIN: u64> Kind for Time<MIN> {
    type Value = Nanos;

    fn read(item: &TomlItem<'_>, _: Context<'_>) -> Result<Nanos, ParseError> {
        let value: Nanos = quantity(item, "ms", Unit::Required)?;
        if value.0 >= MIN {
            return Ok(value);
        }
        Err(item.error(format!("`{}` cannot be zero", item.key), "write a time such as \"10ms\""))
    }

    fn write(value: &Nanos, _: Context<'_>) -> String {
        if value.0 == 0 {
            return "\"0s\"".to_owned();
        }
        exact(value.0, &[(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")], "ns")
    }
}

/// A positive rate.
pub(super) struct Rate;

impl Kind for Rate {
    type Value = BitsPerSec;

    fn read(item: &TomlItem<'_>, _: Context<'_>) -> Result<BitsPerSec, ParseError> {
        let value: BitsPerSec = quantity(item, "gbps", Unit::Required)?;
        if value.0 > 0 {
            return Ok(value);
        }
        Err(item.error(format!("`{}` cannot be zero", item.key), "write a rate such as \"10gbps\""))
    }

    fn write(value: &BitsPerSec, _: Context<'_>) -> String {
        exact(value.0, &[(1_000_000_000, "gbps"), (1_000_000, "mbps"), (1_000, "kbps")], "bps")
    }
}

/// A whole number in a range.
pub(super) struct Count<T, const MIN: u64, const MAX: u64>(PhantomData<T>);

impl<T: TryFrom<u64> + ToString, const MIN: u64, const MAX: u64> Kind for Count<T, MIN, MAX> {
    type Value = T;

    fn read(item: &TomlItem<'_>, _: Context<'_>) -> Result<T, ParseError> {
        let value = item.whole(&(MIN..=MAX))?;
        T::try_from(value)
            .map_err(|_| item.error(format!("`{}` cannot be {value}", item.key), "write a smaller number"))
    }

    fn write(value: &T, _: Context<'_>) -> String {
        value.to_string()
    }
}

/// `true` or `false`.
pub(super) struct Flag;

impl Kind for Flag {
    type Value = bool;

    fn read(item: &TomlItem<'_>, _: Context<'_>) -> Result<bool, ParseError> {
        item.boolean()
    }

    fn write(value: &bool, _: Context<'_>) -> String {
        value.to_string()
    }
}

/// A value that may also be `"off"`.
pub(super) struct OrOff<K>(PhantomData<K>);

impl<K: Kind> Kind for OrOff<K> {
    type Value = Option<K::Value>;

    fn read(item: &TomlItem<'_>, context: Context<'_>) -> Result<Self::Value, ParseError> {
        if item.as_text() == Some(OFF) {
            return Ok(None);
        }
        let or_off = |error: ParseError| error.map_hint(|hint| format!("{hint}, or \"{OFF}\""));
        K::read(item, context).map(Some).map_err(or_off)
    }

    fn write(value: &Self::Value, context: Context<'_>) -> String {
        value.as_ref().map_or_else(|| format!("\"{OFF}\""), |value| K::write(value, context))
    }
}

/// A list.
pub(super) struct ListOf<K>(PhantomData<K>);

impl<K: Kind> Kind for ListOf<K> {
    type Value = Vec<K::Value>;

    fn read(item: &TomlItem<'_>, context: Context<'_>) -> Result<Self::Value, ParseError> {
        let items = item.list(format!("write `{} = [...]`", item.key))?;
        items.iter().map(|item| K::read(item, context)).collect()
    }

    fn write(value: &Self::Value, context: Context<'_>) -> String {
        let items: Vec<String> = value.iter().map(|value| K::write(value, context)).collect();
        format!("[{}]", items.join(", "))
    }
}

/// A name on one line; not empty.
pub(super) struct Name;

impl Kind for Name {
    type Value = String;

    fn read(item: &TomlItem<'_>, _: Context<'_>) -> Result<String, ParseError> {
        let text = item.text()?;
        if text.is_empty() || text.contains(steers) {
            let what = format!("`{}` cannot be {}", item.key, quoted(text));
            return Err(item.error(what, "write a name of visible characters on one line"));
        }
        Ok(text.to_owned())
    }

    fn write(value: &String, _: Context<'_>) -> String {
        text(value)
    }
}

/// A text of any number of lines; not empty.
pub(super) struct Text;

impl Kind for Text {
    type Value = String;

    fn read(item: &TomlItem<'_>, _: Context<'_>) -> Result<String, ParseError> {
        let text = item.text()?;
        if text.trim().is_empty() {
            return Err(item.error(format!("`{}` is empty", item.key), "write its text"));
        }
        Ok(text.to_owned())
    }

    fn write(value: &String, _: Context<'_>) -> String {
        text(value)
    }
}

/// Reads one of the names known to the program.
fn listed(item: &TomlItem<'_>, what: &str, names: &[&str]) -> Result<String, ParseError> {
    let text = item.text()?;
    if names.contains(&text) {
        return Ok(text.to_owned());
    }
    let what = format!("there is no {what} {}", quoted(text));
    Err(item.error(what, hint_and_all(text, names, &SYNONYMS)))
}

/// A congestion control.
pub(super) struct CongestionControl;

impl Kind for CongestionControl {
    type Value = String;

    fn read(item: &TomlItem<'_>, _: Context<'_>) -> Result<String, ParseError> {
        listed(item, "congestion control", crate::congestion::NAMES)
    }

    fn write(value: &String, _: Context<'_>) -> String {
        text(value)
    }
}

/// A queue assignment.
pub(super) struct Assignment;

impl Kind for Assignment {
    type Value = String;

    fn read(item: &TomlItem<'_>, _: Context<'_>) -> Result<String, ParseError> {
        listed(item, "queue assignment", crate::assignment::NAMES)
    }

    fn write(value: &String, _: Context<'_>) -> String {
        text(value)
    }
}

/// A class of the scenario, by name.
pub(super) struct Class;

impl Kind for Class {
    type Value = u16;

    fn read(item: &TomlItem<'_>, context: Context<'_>) -> Result<u16, ParseError> {
        let names: Vec<&str> = context.classes.iter().map(String::as_str).collect();
        let name = listed(item, "class", &names)?;
        let index = names.iter().position(|known| *known == name).unwrap_or_default();
        u16::try_from(index).map_err(|_| item.error("too many classes", "leave some out of `classes`"))
    }

    fn write(value: &u16, context: Context<'_>) -> String {
        text(context.classes.get(usize::from(*value)).map_or("", String::as_str))
    }
}

/// A number from 0 up to, but excluding, 1.
pub(super) struct Probability;

impl Kind for Probability {
    type Value = f64;

    fn read(item: &TomlItem<'_>, _: Context<'_>) -> Result<f64, ParseError> {
        item.number(|n| (0.0..1.0).contains(&n), "write a probability from 0 up to, but not including, 1")
    }

    fn write(value: &f64, _: Context<'_>) -> String {
        format!("{value:?}")
    }
}

/// A positive number.
pub(super) struct Factor;

impl Kind for Factor {
    type Value = f64;

    fn read(item: &TomlItem<'_>, _: Context<'_>) -> Result<f64, ParseError> {
        item.number(|n| n > 0.0, "write a number above 0")
    }

    fn write(value: &f64, _: Context<'_>) -> String {
        format!("{value:?}")
    }
}
