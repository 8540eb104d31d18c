//! The files of tenants, read from where a policy names them.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use weft_policy::syntax::TEXT_MAX;
use weft_policy::{FileError, FileText, TenantFiles, Wanted};

/// Files relative to the folder of the file that names them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Beside;

impl TenantFiles for Beside {
    fn read(&self, wanted: Wanted<'_>) -> Result<FileText, FileError> {
        let path = Path::new(wanted.named_in).parent().unwrap_or(Path::new("")).join(wanted.path);
        Ok(FileText { text: read(&path)?, name: path.display().to_string() })
    }
}

/// The text of the file at `path`.
///
/// # Errors
/// When it does not exist, or is not a regular file of text of at most [`TEXT_MAX`] bytes.
pub fn read(path: &Path) -> Result<String, FileError> {
    let name = path.display().to_string();
    text(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => FileError::Missing(name),
        _ => FileError::Unreadable(format!("{name}: {error}")),
    })
}

/// The text of a regular file of at most [`TEXT_MAX`] bytes: anything else may be endless.
fn text(path: &Path) -> io::Result<String> {
    let wrong = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
    if !std::fs::metadata(path)?.is_file() {
        return Err(wrong("it is not a file".to_owned()));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(TEXT_MAX as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > TEXT_MAX {
        return Err(wrong(format!("it has more than {TEXT_MAX} bytes")));
    }
    String::from_utf8(bytes).map_err(|_| wrong("it is not UTF-8 text".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_beside_the_one_that_names_them() {
        let named_in = concat!(env!("CARGO_MANIFEST_DIR"), "/../../policies/op.weft");
        let read = |path: &str| Beside.read(Wanted { tenant: "a", path, named_in });
        let found = read("figure1.weft").expect("a text");
        assert!(found.name.ends_with("/policies/figure1.weft"), "{}", found.name);
        assert!(matches!(read("b"), Err(FileError::Missing(name)) if name.ends_with("/b")));
        for path in ["../policies", "/dev/zero"] {
            let error = read(path).expect_err(path).to_string();
            assert!(error.ends_with("it is not a file"), "{error}");
        }
    }
}
