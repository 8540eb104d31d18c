//! Errors of a scenario as a whole.

use thiserror::Error;

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
