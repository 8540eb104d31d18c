//! Errors of a scenario as a whole, and diagnostics of its policies.

use thiserror::Error;
use weft_policy::Diagnostic;

/// A diagnostic of a policy, and the text in which it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DiagnosticInText {
    /// The diagnostic; its file is relative to the scenario's folder, or `policy` for a text in the scenario.
    pub diagnostic: Diagnostic,
    /// The text.
    pub text: String,
}

/// The reason why a scenario cannot run although each of its values is valid.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum RunError {
    /// A name that is in no table.
    #[error("there is no {kind} named {given:?}; there are: {known}")]
    UnknownName {
        /// The kind of object.
        kind: &'static str,
        /// The given name.
        given: String,
        /// The known names.
        known: String,
    },
    /// A value that is inconsistent with others.
    #[error("{what}; {hint}")]
    Impossible {
        /// The problem.
        what: String,
        /// The remedy.
        hint: String,
    },
}

impl RunError {
    pub(crate) fn impossible(what: String, hint: &str) -> Self {
        Self::Impossible { what, hint: hint.to_owned() }
    }

    pub(crate) fn unknown_name(kind: &'static str, given: &str, known: &[&str]) -> Self {
        Self::UnknownName { kind, given: given.to_owned(), known: known.join(", ") }
    }
}
