//! Why a scenario cannot run.

use thiserror::Error;

/// Why a scenario cannot run, although its values are possible each by itself.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum RunError {
    /// A name that no table has.
    #[error("there is no {kind} named {given:?}; there are: {known}")]
    UnknownName {
        /// What kind of thing.
        kind: &'static str,
        /// The name given.
        given: String,
        /// What there is.
        known: String,
    },
    /// A value that does not fit the others.
    #[error("{what}; {hint}")]
    Impossible {
        /// What is wrong.
        what: String,
        /// What to do.
        hint: String,
    },
}
