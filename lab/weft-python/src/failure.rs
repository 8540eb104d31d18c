//! Errors as exceptions: `weftline.Error`, with the place of the error where it has one.

use core::fmt::Display;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use weft_campaign::campaign::CampaignError;
use weft_policy::Diagnostic;
use weft_text::LocatedError;

/// The reason that a function does not return.
pub(crate) enum Failure {
    /// An error in a text.
    Located(LocatedError),
    /// Errors of a policy, and its other diagnostics.
    Policy(Vec<Diagnostic>),
    /// Any other error, and its remedy, which may be empty.
    Plain(String, String),
    /// An exception of a callback, or of a signal.
    Python(PyErr),
}

impl Failure {
    /// An error without a place.
    pub(crate) fn plain(what: impl Display, help: &str) -> Self {
        Self::Plain(what.to_string(), help.to_owned())
    }

    fn exception(self, py: Python<'_>) -> PyResult<PyErr> {
        let fields = PyDict::new(py);
        let message = match self {
            Self::Python(error) => return Ok(error),
            Self::Plain(message, help) => {
                fields.set_item("help", help)?;
                message
            }
            Self::Located(LocatedError { file, line, column, what, hint, .. }) => {
                place(&fields, file, (line, column), hint)?;
                what
            }
            Self::Policy(all) => {
                let first = all.iter().find(|one| one.is_error());
                let message = first.map_or_else(String::new, |first| first.message.clone());
                if let Some(first) = first.cloned() {
                    place(&fields, first.file, (first.start.line, first.start.column), first.help)?;
                }
                let all = all.iter().map(|found| diagnostic(py, found));
                fields.set_item("diagnostics", all.collect::<PyResult<Vec<_>>>()?)?;
                message
            }
        };
        let class = py.import("weftline._error")?.getattr("Error")?;
        Ok(PyErr::from_value(class.call((message,), Some(&fields))?))
    }
}

/// Makes a `weftline.Diagnostic`.
pub(crate) fn diagnostic<'py>(py: Python<'py>, found: &Diagnostic) -> PyResult<Bound<'py, PyAny>> {
    let class = py.import("weftline._types")?.getattr("Diagnostic")?;
    let (severity, code, place) = (found.severity.as_str(), found.code.as_str(), found.start);
    class.call1((severity, code, &found.message, &found.file, place.line, place.column, &found.help))
}

fn place(
    fields: &Bound<'_, PyDict>,
    file: String,
    (line, column): (usize, usize),
    help: String,
) -> PyResult<()> {
    fields.set_item("file", file)?;
    fields.set_item("line", line)?;
    fields.set_item("column", column)?;
    fields.set_item("help", help)
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> Self {
        Python::attach(|py| failure.exception(py).unwrap_or_else(|error| error))
    }
}

impl From<PyErr> for Failure {
    fn from(error: PyErr) -> Self {
        Self::Python(error)
    }
}

impl From<LocatedError> for Failure {
    fn from(error: LocatedError) -> Self {
        Self::Located(error)
    }
}

impl From<CampaignError> for Failure {
    fn from(error: CampaignError) -> Self {
        match error {
            CampaignError::Text(error) => Self::Located(error),
            other => Self::plain(other, ""),
        }
    }
}
