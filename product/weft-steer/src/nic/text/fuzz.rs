//! The fuzz target: guarantees for arbitrary bytes read as a model.

use super::{read, write};

/// Reads `data` as a model. Panics if an error points outside of the text or is not two lines, or if a model does not survive
/// writing and reading.
pub fn fuzz(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match read(&text, "fuzz.nic") {
        Ok(nic) => {
            let written = write(&nic);
            assert_eq!(read(&written, "written.nic").as_ref(), Ok(&nic), "{written}");
        }
        Err(error) => {
            assert_eq!(error.to_string().lines().count(), 2, "two lines: {error}");
            assert!(!error.what.is_empty() && !error.hint.is_empty(), "{error}");
            let columns = text.split('\n').nth(error.line - 1).map(|line| line.chars().count());
            assert!(
                columns.is_some_and(|columns| error.column <= columns + 1),
                "{error} is outside of the text"
            );
        }
    }
}
