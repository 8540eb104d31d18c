//! Messages on the wire: a header with the length, and JSON.
//!
//! lsp-server reads messages too, but takes any length that the header names and sets memory aside for it.

use crate::ServeError;
use lsp_server::Message;
use std::io::{BufRead, Read};

/// The longest message, in bytes: the largest policy, each byte escaped.
pub(crate) const MESSAGE_MAX: u64 = 128 << 20;
/// The longest line of a header, in bytes.
const HEADER_MAX: u64 = 1024;

/// The next message; `None` at the end of the input.
pub(crate) fn read(input: &mut impl BufRead) -> Result<Option<Message>, ServeError> {
    let mut length = None;
    loop {
        let mut line = Vec::new();
        input.by_ref().take(HEADER_MAX).read_until(b'\n', &mut line)?;
        if line.is_empty() && length.is_none() {
            return Ok(None);
        }
        let line = line.strip_suffix(b"\n").ok_or(ServeError::Header)?;
        let line = str::from_utf8(line).map_err(|_| ServeError::Header)?.trim_end();
        if line.is_empty() {
            break;
        }
        let (name, value) = line.split_once(':').ok_or(ServeError::Header)?;
        if name.eq_ignore_ascii_case("Content-Length") {
            length = Some(value.trim().parse::<u64>().map_err(|_| ServeError::Header)?);
        }
    }
    let length = length.ok_or(ServeError::Header)?;
    if length > MESSAGE_MAX {
        return Err(ServeError::TooLong);
    }
    let mut content = Vec::new();
    if input.by_ref().take(length).read_to_end(&mut content)? as u64 != length {
        return Err(ServeError::Unfinished);
    }
    Ok(Some(serde_json::from_slice(&content)?))
}
