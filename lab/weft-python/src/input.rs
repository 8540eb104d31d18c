//! The forms in which callers give things: a path, a text or a dictionary, and values of scenarios.

use crate::failure::Failure;
use crate::files;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use std::path::{Path, PathBuf};
use toml::{Table, Value};
use weft_policy::decode;
use weft_units::BitsPerSec;

/// The deepest value that is read.
const DEPTH_MAX: usize = 64;

/// A text with its place.
pub(crate) struct Given {
    /// The file, or what the text is, for errors. Paths in the text count from its folder.
    pub(crate) name: String,
    /// The text.
    pub(crate) text: String,
}

impl Given {
    /// Reads what a caller gave as `what`: a dictionary, a text of at least one whole line, or a path.
    pub(crate) fn read(value: &Bound<'_, PyAny>, what: &'static str) -> Result<Self, Failure> {
        if let Ok(items) = value.cast::<PyDict>() {
            let text = table(items, &mut vec![what.to_owned()])?.to_string();
            return Ok(Self { name: what.to_owned(), text });
        }
        if let Ok(text) = value.cast::<PyString>() {
            let text = text.to_str()?;
            if text.contains('\n') {
                return Ok(Self { name: what.to_owned(), text: text.to_owned() });
            }
        }
        let path = value.extract::<PathBuf>().map_err(|_| {
            let kind = value.get_type().name().map_or_else(|_| "?".to_owned(), |name| name.to_string());
            PyTypeError::new_err(format!("the {what} must be a path, a text or a dict, not {kind}"))
        })?;
        Self::open(&path, what)
    }

    fn open(path: &Path, what: &'static str) -> Result<Self, Failure> {
        let name = path.display().to_string();
        let bytes = files::bytes(path).map_err(|error| {
            let help = "a text, in place of a path, has at least one line break";
            Failure::plain(format_args!("cannot read the {what} {name}: {error}"), help)
        })?;
        let text = decode(&name, bytes).map_err(|error| Failure::Policy(vec![*error]))?;
        Ok(Self { name, text })
    }

    /// The folder from which paths in the text count.
    pub(crate) fn folder(&self) -> PathBuf {
        Path::new(&self.name).parent().map(Path::to_owned).unwrap_or_default()
    }
}

/// Reads a value of a scenario. `at` has the keys that lead to it.
pub(crate) fn value(given: &Bound<'_, PyAny>, at: &mut Vec<String>) -> PyResult<Value> {
    if at.len() > DEPTH_MAX {
        return Err(wrong(&at[..1], "the values are nested too deeply"));
    }
    if let Ok(text) = given.cast::<PyString>() {
        return Ok(Value::String(text.to_str()?.to_owned()));
    }
    if let Ok(flag) = given.cast::<PyBool>() {
        return Ok(Value::Boolean(flag.is_true()));
    }
    if let Ok(items) = given.cast::<PyDict>() {
        return table(items, at).map(Value::Table);
    }
    if given.is_instance_of::<PyList>() || given.is_instance_of::<PyTuple>() {
        let mut list = Vec::new();
        for (index, item) in given.try_iter()?.enumerate() {
            at.push(index.to_string());
            list.push(value(&item?, at)?);
            at.pop();
        }
        return Ok(Value::Array(list));
    }
    if given.is_instance_of::<PyInt>() || given.hasattr("__index__")? {
        return given.extract().map(Value::Integer).map_err(|_| wrong(at, "the number is too large"));
    }
    if given.is_instance_of::<PyFloat>() || given.hasattr("__float__")? {
        let number = given.extract::<f64>()?;
        return if number.is_finite() {
            Ok(Value::Float(number))
        } else {
            Err(wrong(at, "the number is not finite"))
        };
    }
    let kind = given.get_type().name()?;
    Err(wrong(at, &format!("a value is a text, a number, True or False, a list or a dict, not {kind}")))
}

/// The error for a value that scenarios do not have. `at` has the keys that lead to it.
fn wrong(at: &[String], what: &str) -> PyErr {
    PyTypeError::new_err(format!("{}: {what}", at.join(".")))
}

/// Reads a dictionary with texts as keys.
pub(crate) fn table(items: &Bound<'_, PyDict>, at: &mut Vec<String>) -> PyResult<Table> {
    let mut table = Table::new();
    for (key, item) in items {
        let Ok(key) = key.extract::<String>() else {
            return Err(wrong(at, "a key is not a text"));
        };
        at.push(key.clone());
        table.insert(key, value(&item, at)?);
        at.pop();
    }
    Ok(table)
}

/// Reads a rate: a text such as `10gbps`, or a number of bits per second.
pub(crate) fn rate(given: &Bound<'_, PyAny>) -> Result<BitsPerSec, Failure> {
    let rate = match given.cast::<PyString>() {
        Ok(text) => text.to_str()?.parse::<BitsPerSec>().ok(),
        Err(_) => given.extract().map(BitsPerSec).ok(),
    };
    rate.filter(|rate| rate.get() > 0).ok_or_else(|| {
        let help = "write a text such as \"10gbps\", or a number of bits per second above 0";
        Failure::plain(format_args!("{given} is no rate of a link"), help)
    })
}
