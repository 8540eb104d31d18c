//! Reads grid files.

use super::range::{self, VALUES_MAX};
use super::{Dimension, Grid, ParameterAxis, Seeds};
use crate::condition::{Condition, Known};
use crate::scalar::{Scalar, kind_of};
use std::collections::BTreeSet;
use weft_text::toml::{self, TomlItem, TomlTable};
use weft_text::{LocatedError, ParseError, quoted};

/// The greatest length of a file, in bytes; bounds time and memory.
const TEXT_MAX: usize = 4 << 20;
/// The greatest number of axes.
const AXES_MAX: usize = 64;
/// The greatest number of runs, left-out combinations included.
const RUNS_MAX: u64 = 1_000_000_000_000;

/// Reads a grid. `file` names the text in errors.
///
/// # Errors
/// The first error, with its place: the text is not TOML, a key is unknown, a value or a condition is wrong.
pub fn read(text: &str, file: &str) -> Result<Grid, LocatedError> {
    grid(text, file).map_err(|error| error.locate(file, text))
}

fn grid(text: &str, file: &str) -> Result<Grid, ParseError> {
    if text.len() > TEXT_MAX {
        let what = format!("the file has {} bytes, more than {TEXT_MAX}", text.len());
        return Err(ParseError::new(0..0, what, "leave out what is not needed"));
    }
    let map = toml::parse(text, "write texts in quotes; axes begin with [[axes]]")?;
    let root = TomlTable::root("the grid's head", &map, &[]);
    root.refuse_unknown(&["scenario", "seeds", "where", "axes"])?;
    let hint = "write `scenario = \"FILE.toml\"`, its path from this file's folder";
    let scenario = root.need("scenario", hint)?;
    let path = scenario.text_or(hint)?;
    if path.is_empty() || path.contains(weft_text::steers) {
        return Err(scenario.error(format!("{} is no path", quoted(path)), hint));
    }
    let seeds = root.get("seeds").map_or(Ok(Seeds::Range { first: 1, count: 1 }), |item| seeds(&item))?;
    let axes = match root.get("axes") {
        None => Vec::new(),
        Some(item) => axes(&item)?,
    };
    let dimensions = dimensions(&axes)?;
    let all = dimensions.iter().try_fold(seeds.len(), |all, next| all.checked_mul(next.length as u64));
    if all.is_none_or(|all| all > RUNS_MAX) {
        let place = root.get("axes").map_or(0..0, |item| item.span());
        let what = format!("the grid has more than {RUNS_MAX} runs");
        return Err(ParseError::new(place, what, "take fewer values or seeds, or several grids"));
    }
    let conditions = match root.get("where") {
        None => Vec::new(),
        Some(item) => conditions(&item, &axes, text)?,
    };
    Ok(Grid {
        scenario: path.to_owned(),
        place: scenario.span(),
        axes,
        dimensions,
        seeds,
        conditions,
        file: file.to_owned(),
        text: text.to_owned(),
    })
}

fn seeds(item: &TomlItem<'_>) -> Result<Seeds, ParseError> {
    let hint = "write `seeds = 10`, a list `seeds = [1, 2, 5]`, or `seeds = { first = 100, count = 10 }`";
    let most = i64::MAX as u64 / 2;
    if let Some(list) = item.as_list() {
        let mut seen = BTreeSet::new();
        let mut seeds = Vec::new();
        for item in list {
            let seed = item.whole(&(0..=most))?;
            if !seen.insert(seed) {
                return Err(item.error(format!("seed {seed} is given twice"), "leave it out"));
            }
            seeds.push(seed);
        }
        if seeds.is_empty() {
            return Err(item.error("there is no seed", hint));
        }
        return Ok(Seeds::List(seeds));
    }
    if let Some(table) = item.as_table("seeds") {
        table.refuse_unknown(&["first", "count"])?;
        let first = table.get("first").map_or(Ok(1), |item| item.whole(&(0..=most)))?;
        let count = table.need("count", hint)?.whole(&(1..=RUNS_MAX))?;
        return Ok(Seeds::Range { first, count });
    }
    let count = item.whole(&(1..=RUNS_MAX)).map_err(|error| error.map_hint(|_| hint.to_owned()))?;
    Ok(Seeds::Range { first: 1, count })
}

fn axes(item: &TomlItem<'_>) -> Result<Vec<ParameterAxis>, ParseError> {
    let hint = "begin each axis with [[axes]]";
    let items = item.list(hint)?;
    if items.len() > AXES_MAX {
        return Err(item.error(format!("there are more than {AXES_MAX} axes"), "take fewer"));
    }
    let mut axes: Vec<ParameterAxis> = Vec::new();
    for item in items {
        let axis = axis(&item.table("[[axes]]")?)?;
        let same = |one: &ParameterAxis| one.key == axis.key || (one.name.is_some() && one.name == axis.name);
        if axes.iter().any(same) {
            let what = format!("a second axis has the key or the name of {}", quoted(&axis.key));
            return Err(ParseError::new(
                axis.place,
                what,
                "join their values in one axis, or name it otherwise",
            ));
        }
        axes.push(axis);
    }
    Ok(axes)
}

fn axis(table: &TomlTable<'_>) -> Result<ParameterAxis, ParseError> {
    table.refuse_unknown(&["key", "name", "values", "range", "zip"])?;
    let hint = "write `key = \"flows.0.count\"`, a key of the scenario as `weft sim --set` takes it";
    let key = table.need("key", hint)?;
    let path = key.text_or(hint)?;
    if path.is_empty() {
        return Err(key.error("the key is empty", hint));
    }
    if path == "seed" {
        return Err(key.error("the seed is no parameter", "write `seeds = ...` in the grid's head"));
    }
    let name = match table.get("name") {
        None => None,
        Some(item) => Some(short(&item)?),
    };
    let word = |key: &str| -> Result<Option<String>, ParseError> {
        let item = table.get(key);
        item.map(|item| Ok(item.text_or("write a name in quotes")?.to_owned())).transpose()
    };
    let given = "write either `values = [...]` or `range = { from = ..., to = ..., count = ... }`";
    let (values, place) = match (table.get("values"), table.get("range")) {
        (Some(list), None) => {
            let items = list.list(given)?;
            (items.iter().map(TomlItem::value).collect::<Result<Vec<_>, _>>()?, list)
        }
        (None, Some(item)) => (range::values(&item)?, item),
        _ => return Err(key.error("the axis has no values, or two kinds of them", given)),
    };
    if values.is_empty() || values.len() > VALUES_MAX {
        let what = format!("an axis has from 1 to {VALUES_MAX} values, not {}", values.len());
        return Err(place.error(what, given));
    }
    let scalars = values.iter().map(Scalar::of).collect();
    Ok(ParameterAxis { key: path.to_owned(), name, values, scalars, zip: word("zip")?, place: key.span() })
}

/// Reads the short name of an axis.
fn short(item: &TomlItem<'_>) -> Result<String, ParseError> {
    let hint = "write a word of letters, digits and `_`, such as `name = \"flows\"`";
    let name = item.text_or(hint)?;
    let fits = name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !["and", "or", "not", "true", "false"].contains(&name);
    if fits { Ok(name.to_owned()) } else { Err(item.error(format!("{} is no name", quoted(name)), hint)) }
}

/// Puts axes together that advance together, in the order of the first of each.
fn dimensions(axes: &[ParameterAxis]) -> Result<Vec<Dimension>, ParseError> {
    let mut all: Vec<Dimension> = Vec::new();
    for (index, axis) in axes.iter().enumerate() {
        let length = axis.values.len();
        let beside = |dimension: &&mut Dimension| axes[dimension.axes[0]].zip == axis.zip;
        match all.iter_mut().filter(|_| axis.zip.is_some()).find(beside) {
            None => all.push(Dimension { axes: vec![index], length }),
            Some(dimension) if dimension.length == length => dimension.axes.push(index),
            Some(dimension) => {
                let what = format!("zipped axes have as many values each: {} and {length}", dimension.length);
                return Err(ParseError::new(
                    axis.place.clone(),
                    what,
                    "add or remove values, or leave out `zip`",
                ));
            }
        }
    }
    for dimension in &all {
        let mut seen = BTreeSet::new();
        for at in 0..dimension.length {
            let values = dimension.axes.iter().map(|axis| axes[*axis].values[at].to_string());
            let values: Vec<String> = values.collect();
            if let Some(twice) = (!seen.insert(values.clone())).then(|| values.join(", ")) {
                let place = axes[dimension.axes[0]].place.clone();
                let what = format!("the value {twice} is there twice");
                let hint = "leave one out; a range of whole numbers has at most one value for each";
                return Err(ParseError::new(place, what, hint));
            }
        }
    }
    Ok(all)
}

fn conditions(item: &TomlItem<'_>, axes: &[ParameterAxis], text: &str) -> Result<Vec<Condition>, ParseError> {
    let known: Vec<Known<'_>> = axes
        .iter()
        .map(|axis| Known { name: axis.name.as_deref(), key: &axis.key, kind: kind_of(&axis.scalars) })
        .collect();
    let hint = "write a condition such as `where = \"flows >= queues\"`, or a list of them";
    let items = item.as_list().unwrap_or_else(|| vec![*item]);
    let read = |item: &TomlItem<'_>| {
        let condition = item.text_or(hint)?;
        Condition::parse(condition, &known).map_err(|error| placed(error, item, condition, text))
    };
    items.iter().map(read).collect()
}

/// Places the error of a condition in the file: within the text if the file has it as it is, without escapes.
fn placed(error: ParseError, item: &TomlItem<'_>, condition: &str, text: &str) -> ParseError {
    let span = item.span();
    let inner = text.get(span.start + 1..span.end.saturating_sub(1));
    if inner == Some(condition) {
        return error.behind(span.start + 1);
    }
    item.error(&error.what, &error.hint)
}
