//! The text of a policy from the bytes of a file.

use crate::code::Code;
use crate::diagnostic::{Diagnostic, SpannedDiagnostic};
use weft_text::{LineIndex, Span};

/// Returns the text of a policy's file, or the diagnostic that says where it is no text. `name` is the file's name.
pub fn decode(name: &str, bytes: Vec<u8>) -> Result<String, Box<Diagnostic>> {
    let error = match String::from_utf8(bytes) {
        Ok(text) => return Ok(text),
        Err(error) => error,
    };
    let (end, bytes) = (error.utf8_error().valid_up_to(), error.as_bytes());
    let valid = String::from_utf8_lossy(&bytes[..end]);
    let (message, help) = match bytes {
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => (
            "the file is UTF-16 text, and a policy is UTF-8 text".to_owned(),
            "convert it, such as by `iconv -f UTF-16 -t UTF-8`",
        ),
        _ => (
            format!("the byte {:#04x} is not UTF-8 text", bytes.get(end).copied().unwrap_or_default()),
            "save the file as UTF-8, such as by `iconv -f LATIN1 -t UTF-8`",
        ),
    };
    let diagnostic = SpannedDiagnostic::new(Code::NotText, Span::at(end), message, help);
    Err(Box::new(diagnostic.locate(name, &LineIndex::new(&valid))))
}
