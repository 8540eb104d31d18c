//! Conversion of documents to and from JSON text. The caller writes and reads files.

use serde::Serialize;

use crate::record::Document;

/// The reason why a text is not the requested document.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// Not JSON, or a field is missing or has the wrong type.
    #[error("not a {expected} document: {source}")]
    Malformed {
        /// The expected schema.
        expected: &'static str,
        /// The parser's error, with line and column.
        source: serde_json::Error,
    },
    /// A document of another kind or version.
    #[error("a document of schema {found:?}, where {expected:?} was expected")]
    OtherSchema {
        /// The expected schema.
        expected: &'static str,
        /// The `schema` field of the text.
        found: String,
    },
}

/// `value` as indented JSON with a newline at the end.
///
/// # Errors
/// If a map has keys that are not strings, which no document of this crate has.
pub fn to_json_pretty<T: Serialize>(value: &T) -> Result<String, serde_json::Error> {
    let mut text = serde_json::to_string_pretty(value)?;
    text.push('\n');
    Ok(text)
}

/// Parses a document and checks that its `schema` is the one that this version writes.
///
/// # Errors
/// [`ReadError::OtherSchema`] if `schema` has another value, [`ReadError::Malformed`] for all other errors.
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
