//! Documents to and from JSON text. Where the text is written to is the caller's business.

use serde::Serialize;

use crate::record::Document;

/// Why a text is not the document that was asked for.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// Not JSON, or a field is missing or of another type.
    #[error("not a {expected} document: {source}")]
    Malformed {
        /// The schema that was asked for.
        expected: &'static str,
        /// What the parser found, with line and column.
        source: serde_json::Error,
    },
    /// A document of another kind or version.
    #[error("a document of schema {found:?}, where {expected:?} was expected")]
    OtherSchema {
        /// The schema that was asked for.
        expected: &'static str,
        /// The `schema` field of the text.
        found: String,
    },
}

/// `value` as indented JSON with a newline at the end.
///
/// # Errors
/// When a map has keys that are not strings, which no document of this crate has.
pub fn to_json_pretty<T: Serialize>(value: &T) -> Result<String, serde_json::Error> {
    let mut text = serde_json::to_string_pretty(value)?;
    text.push('\n');
    Ok(text)
}

/// Reads a document and checks that its `schema` is the one this version writes.
///
/// # Errors
/// [`ReadError::OtherSchema`] when `schema` names something else, [`ReadError::Malformed`] for everything else.
pub fn from_json<T: Document>(text: &str) -> Result<T, ReadError> {
    #[derive(serde::Deserialize)]
    struct Head {
        schema: String,
    }
    let malformed = |source| ReadError::Malformed { expected: T::SCHEMA, source };
    let head: Head = serde_json::from_str(text).map_err(malformed)?;
    if head.schema != T::SCHEMA {
        return Err(ReadError::OtherSchema { expected: T::SCHEMA, found: head.schema });
    }
    serde_json::from_str(text).map_err(malformed)
}
