//! Single values set in a TOML document by the path of their key: `--set host.stack.xps=true`, and the cells of an
//! experiment, which differ from its scenario in such values.

use std::fmt::Write as _;
use thiserror::Error;
use toml::{Table, Value};

/// The reason that a value could not be set.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum OverlayError {
    /// Not `path=value`.
    #[error("`{0}` is not KEY=VALUE, such as `host.stack.qdisc=fq_codel`")]
    NotASetting(String),
    /// The path is invalid.
    #[error("`{path}` is not a path of keys: {reason}")]
    Path {
        /// The path given.
        path: String,
        /// The defect.
        reason: &'static str,
    },
    /// A value begins like a TOML list, table or string, but is not one.
    #[error("`{given}` is not a value of TOML: {reason}")]
    Value {
        /// The value given.
        given: String,
        /// The parser's message.
        reason: String,
    },
    /// The path names a list that does not exist.
    #[error("`{part}` does not exist, so it has no element {index}")]
    NoList {
        /// The path up to the list.
        part: String,
        /// The index asked for.
        index: String,
    },
    /// The path names an element beyond the end of a list.
    #[error("`{part}.{index}` does not exist: `{part}` has {length}, counted from 0")]
    NoElement {
        /// The path up to the list.
        part: String,
        /// The index asked for.
        index: String,
        /// The number of the list's elements, in words.
        length: String,
    },
    /// The path continues below a value that is neither table nor list.
    #[error("`{part}` is {kind} and has no `{key}`")]
    NoTable {
        /// The path up to the value.
        part: String,
        /// The kind of the value.
        kind: &'static str,
        /// The key that was asked for.
        key: String,
    },
    /// The document itself is not TOML.
    #[error("this is not TOML: {0}")]
    Document(String),
}

/// A value with the path of its key.
#[derive(Clone, PartialEq, Debug)]
pub struct KeyedValue {
    /// Keys separated by dots; elements of lists by their index, from 0.
    pub path: String,
    /// The value.
    pub value: Value,
}

impl KeyedValue {
    /// Parses `path=value`. A value that is valid TOML is taken as such (`true`, `8`, `[1, 2]`, `{ htb = { rate =
    /// "1gbps" } }`), any other as a string, so that `fq_codel` and `10gbps` need no quotes.
    ///
    /// # Errors
    /// Fails without `=`, for an invalid path, and for a value that begins like a list, table or quoted string but is
    /// not one.
    pub fn parse(text: &str) -> Result<Self, OverlayError> {
        let (path, given) =
            split_at_equals(text).ok_or_else(|| OverlayError::NotASetting(text.to_owned()))?;
        let path = path.trim().to_owned();
        parts(&path)?;
        let given = given.trim();
        let value = match given.parse::<Value>() {
            Ok(value) => value,
            Err(error) if given.starts_with(['[', '{', '"', '\'']) => {
                let reason = error.message().to_owned();
                return Err(OverlayError::Value { given: given.to_owned(), reason });
            }
            Err(_) => Value::String(given.to_owned()),
        };
        Ok(Self { path, value })
    }
}

/// Splits at the first `=` that is not inside a quoted key.
fn split_at_equals(text: &str) -> Option<(&str, &str)> {
    let mut quoted = false;
    let equals = text.char_indices().find(|(_, c)| {
        quoted ^= *c == '"';
        *c == '=' && !quoted
    });
    equals.map(|(at, _)| (&text[..at], &text[at + 1..]))
}

/// Splits a path into keys. A key in double quotes may contain dots.
fn parts(path: &str) -> Result<Vec<String>, OverlayError> {
    let wrong = |reason| OverlayError::Path { path: path.to_owned(), reason };
    let mut keys = Vec::new();
    let mut rest = path;
    loop {
        let (key, after) = match rest.strip_prefix('"') {
            Some(inner) => {
                let (key, after) = inner.split_once('"').ok_or_else(|| wrong("a quote is not closed"))?;
                if !(after.is_empty() || after.starts_with('.')) {
                    return Err(wrong("after a quoted key comes a dot"));
                }
                (key, after)
            }
            None => rest.split_at(rest.find('.').unwrap_or(rest.len())),
        };
        if key.is_empty() {
            return Err(wrong("a key is empty"));
        }
        keys.push(key.to_owned());
        match after.strip_prefix('.') {
            Some(more) => rest = more,
            None => return Ok(keys),
        }
    }
}

/// Sets `value` at `path`: keys separated by dots, elements of lists by their index, from 0. Missing tables are
/// added, because a scenario may omit what has a default; missing elements of lists are not. On an error the document
/// is unchanged.
///
/// # Errors
/// Fails for an invalid path, or one with a missing part: the error names it.
pub fn apply(table: &mut Table, path: &str, value: Value) -> Result<(), OverlayError> {
    let keys = parts(path)?;
    let Some((first, rest)) = keys.split_first() else { return Ok(()) };
    put(table, first, rest, &mut String::new(), value)
}

/// Sets `value` below `key` of a table; `above` is the path of the table.
fn put(
    table: &mut Table,
    key: &str,
    rest: &[String],
    above: &mut String,
    value: Value,
) -> Result<(), OverlayError> {
    extend(above, key);
    if !rest.is_empty()
        && let Some(inner) = table.get_mut(key)
    {
        return descend(inner, rest, above, value);
    }
    table.insert(key.to_owned(), nested(rest, above, value)?);
    Ok(())
}

/// Sets `value` below an existing value; `above` is its path.
fn descend(inner: &mut Value, rest: &[String], above: &mut String, value: Value) -> Result<(), OverlayError> {
    let Some((key, rest)) = rest.split_first() else {
        *inner = value;
        return Ok(());
    };
    match inner {
        Value::Table(table) => put(table, key, rest, above, value),
        Value::Array(list) => {
            let length = match list.len() {
                1 => "1 element".to_owned(),
                n => format!("{n} elements"),
            };
            let Some(element) = key.parse::<usize>().ok().and_then(|index| list.get_mut(index)) else {
                return Err(OverlayError::NoElement { part: above.clone(), index: key.clone(), length });
            };
            extend(above, key);
            descend(element, rest, above, value)
        }
        other => Err(OverlayError::NoTable { part: above.clone(), kind: kind(other), key: key.clone() }),
    }
}

/// Wraps `value` in tables named by `keys`; `above` is the path of the outermost, which does not exist yet.
fn nested(keys: &[String], above: &str, value: Value) -> Result<Value, OverlayError> {
    let Some((key, rest)) = keys.split_first() else { return Ok(value) };
    if key.bytes().all(|b| b.is_ascii_digit()) {
        return Err(OverlayError::NoList { part: above.to_owned(), index: key.clone() });
    }
    let inner = nested(rest, &format!("{above}.{key}"), value)?;
    Ok(Value::Table(Table::from_iter([(key.clone(), inner)])))
}

fn extend(path: &mut String, key: &str) {
    let dot = if path.is_empty() { "" } else { "." };
    let _ = write!(path, "{dot}{key}");
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::String(_) => "a text",
        Value::Integer(_) | Value::Float(_) => "a number",
        Value::Boolean(_) => "true or false",
        Value::Datetime(_) => "a date",
        Value::Array(_) => "a list",
        Value::Table(_) => "a table",
    }
}

/// Returns a document's text with settings applied in order. Comments and the order of keys are lost.
///
/// # Errors
/// Fails if the text is not TOML, or part of a path does not exist.
pub fn overlaid(text: &str, settings: &[KeyedValue]) -> Result<String, OverlayError> {
    let document = |error: &dyn std::fmt::Display| OverlayError::Document(error.to_string());
    let mut table: Table = text.parse().map_err(|error: toml::de::Error| document(&error.message()))?;
    for setting in settings {
        apply(&mut table, &setting.path, setting.value.clone())?;
    }
    toml::to_string(&table).map_err(|error| document(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        "seed = 1\n[host.stack]\nqdisc = \"fq_codel\"\n[[flows]]\ncount = 1\n[[flows]]\ncores = [1, 2]\n";

    fn set(text: &str) -> Result<Table, OverlayError> {
        let setting = KeyedValue::parse(text)?;
        let mut table: Table = TEXT.parse().expect("TOML");
        let before = table.clone();
        let result = apply(&mut table, &setting.path, setting.value);
        assert!(result.is_ok() || table == before, "{text} changes nothing when it fails");
        result.map(|()| table)
    }

    #[test]
    fn values_land_where_their_path_says() {
        let host = |table: &Table| table["host"]["stack"].clone();
        assert_eq!(set("seed=7").expect("set")["seed"], Value::Integer(7));
        assert_eq!(
            host(&set("host.stack.qdisc=pfifo_fast").expect("set"))["qdisc"].as_str(),
            Some("pfifo_fast")
        );
        let new = set("host.stack.xps = false").expect("set");
        assert_eq!(host(&new)["xps"], Value::Boolean(false));
        assert_eq!(host(&new)["qdisc"].as_str(), Some("fq_codel"), "what stands beside it stays");
        assert_eq!(set("flows.1.count=48").expect("set")["flows"][1]["count"], Value::Integer(48));
        assert_eq!(set("flows.1.cores.0=5").expect("set")["flows"][1]["cores"][0], Value::Integer(5));
        let made = set("network.switch.buffer=1MB").expect("set");
        assert_eq!(made["network"]["switch"]["buffer"].as_str(), Some("1MB"));
        let choice = set("host.stack.qdisc={ htb = { rate = \"1gbps\" } }").expect("set");
        assert_eq!(host(&choice)["qdisc"]["htb"]["rate"].as_str(), Some("1gbps"));
        assert_eq!(set("network.\"a.b=c\".d=1").expect("set")["network"]["a.b=c"]["d"], Value::Integer(1));
        assert_eq!(set("flows=[]").expect("set")["flows"], Value::Array(Vec::new()));
    }

    #[test]
    fn errors_name_the_part_that_does_not_exist() {
        for (text, said) in [
            ("flows.2.count=1", "`flows.2` does not exist: `flows` has 2 elements, counted from 0"),
            ("flows.count=1", "`flows.count` does not exist: `flows` has 2 elements, counted from 0"),
            (
                "flows.1.cores.-1=1",
                "`flows.1.cores.-1` does not exist: `flows.1.cores` has 2 elements, counted from 0",
            ),
            ("probes.0.size=1", "`probes` does not exist, so it has no element 0"),
            ("a.b.c.1.d=1", "`a.b.c` does not exist, so it has no element 1"),
            ("seed.x.y=1", "`seed` is a number and has no `x`"),
            ("host.stack.qdisc.htb=1", "`host.stack.qdisc` is a text and has no `htb`"),
            ("host..x=1", "`host..x` is not a path of keys: a key is empty"),
            ("=1", "`` is not a path of keys: a key is empty"),
            ("\"a=1", "`\"a=1` is not KEY=VALUE, such as `host.stack.qdisc=fq_codel`"),
            ("\"a\"b=1", "`\"a\"b` is not a path of keys: after a quoted key comes a dot"),
            ("seed", "`seed` is not KEY=VALUE, such as `host.stack.qdisc=fq_codel`"),
        ] {
            assert_eq!(set(text).expect_err(text).to_string(), said);
        }
        let error = set("flows.1.cores=[1, 2").expect_err("a list without an end");
        assert!(error.to_string().starts_with("`[1, 2` is not a value of TOML: "), "{error}");
        assert!(matches!(overlaid("a = \n", &[]), Err(OverlayError::Document(_))));
    }

    #[test]
    fn a_value_cannot_bring_keys_along() {
        let table = set("seed=1\nduration = \"9s\"").expect("a text");
        assert!(!table.contains_key("duration") && table["seed"].is_str());
    }

    #[test]
    fn an_overlaid_text_reads_back() {
        let settings = ["seed=3", "flows.0.count=48"].map(|text| KeyedValue::parse(text).expect(text));
        let table: Table = overlaid(TEXT, &settings).expect("text").parse().expect("TOML");
        assert_eq!((&table["seed"], &table["flows"][0]["count"]), (&Value::Integer(3), &Value::Integer(48)));
        assert_eq!(table["flows"][1]["cores"][1], Value::Integer(2));
        let unchanged: Table = overlaid(TEXT, &[]).expect("text").parse().expect("TOML");
        assert_eq!(unchanged, TEXT.parse::<Table>().expect("TOML"));
    }
}
