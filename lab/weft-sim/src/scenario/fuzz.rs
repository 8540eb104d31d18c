//! The fuzz target: guarantees for arbitrary bytes read as a scenario or a cost file.

use super::{read, write};
use crate::cost::Costs;
use weft_policy::FileError;
use weft_text::LocatedError;

/// The file's name in errors.
const FILE: &str = "fuzz.toml";

/// Reads `data` as a scenario, with the same text as its cost file, and as a cost file. Panics if an error points outside the
/// text or is not two lines, or if a scenario does not survive writing and reading.
pub fn fuzz_scenario(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match read(&text, FILE, &mut |_| Ok(text.clone().into_owned())) {
        Ok(scenario) => {
            let written = write(&scenario);
            let again = read(&written, FILE, &mut |path| {
                Err(FileError::Unreadable(format!("{path} is not asked for")))
            });
            assert_eq!(again.as_ref(), Ok(&scenario), "{written}");
        }
        Err(error) => check(&error, &text),
    }
    if let Err(error) = Costs::read(&text, FILE) {
        check(&error, &text);
    }
}

/// Checks the guarantees of an error.
fn check(error: &LocatedError, text: &str) {
    assert_eq!(error.to_string().lines().count(), 2, "two lines: {error}");
    assert!(!error.what.is_empty() && !error.hint.is_empty(), "{error}");
    let line = text.split('\n').nth(error.line - 1);
    let columns = line.map(|line| line.chars().count());
    assert!(columns.is_some_and(|columns| error.column <= columns + 1), "{error} is outside the text");
    assert!(error.render(weft_text::Style::Plain).contains(&error.file), "{error}");
}
