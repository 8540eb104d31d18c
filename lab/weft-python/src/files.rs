//! Files that callers, scenarios and policies name.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::Path;
use weft_policy::syntax::TEXT_MAX;
use weft_policy::{FileError, FileText, TenantFiles, Wanted};

/// Tenants' files, relative to the folder of the file that names them.
pub(crate) struct Beside;

impl TenantFiles for Beside {
    fn read(&self, wanted: Wanted<'_>) -> Result<FileText, FileError> {
        let path = Path::new(wanted.named_in).parent().unwrap_or(Path::new("")).join(wanted.path);
        Ok(FileText { text: text(&path)?, name: path.display().to_string() })
    }
}

/// The text of a file that a scenario or a policy names.
pub(crate) fn text(path: &Path) -> Result<String, FileError> {
    let name = path.display().to_string();
    let text = bytes(path).and_then(|bytes| {
        String::from_utf8(bytes).map_err(|_| io::Error::new(ErrorKind::InvalidData, "it is not UTF-8 text"))
    });
    text.map_err(|error| match error.kind() {
        ErrorKind::NotFound => FileError::Missing(name),
        _ => FileError::Unreadable(format!("{name}: {error}")),
    })
}

/// The bytes of a regular file of at most [`TEXT_MAX`]: anything else may be endless.
pub(crate) fn bytes(path: &Path) -> io::Result<Vec<u8>> {
    let wrong = |what: String| io::Error::new(ErrorKind::InvalidData, what);
    if !fs::metadata(path)?.is_file() {
        return Err(wrong("it is not a file".to_owned()));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(TEXT_MAX as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > TEXT_MAX {
        return Err(wrong(format!("it has more than {TEXT_MAX} bytes")));
    }
    Ok(bytes)
}
