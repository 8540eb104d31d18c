//! The single way in which tests of all crates report that they are skipped, so that skips are seen and counted.

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

/// The environment variable with the name of a file to which [`skip`] appends its lines. cargo hides the output of passing
/// tests, so `make test` lists the file.
pub const SKIPPED_LOG: &str = "WEFT_SKIPPED_LOG";

/// Reports in one line that a test is skipped, `skipped: NAME: why`, on standard output and in the file that
/// [`SKIPPED_LOG`] names. The test must then return.
///
/// # Panics
/// If the file cannot be written: a test must not be skipped unseen.
pub fn skip(test_name: &str, why: impl Display) {
    let line = skip_line(test_name, why);
    print!("{line}");
    if let Some(log) = std::env::var_os(SKIPPED_LOG) {
        append(Path::new(&log), &line).unwrap_or_else(|error| panic!("{}: {error}", log.display()));
    }
}

fn skip_line(test_name: &str, why: impl Display) -> String {
    format!("skipped: {test_name}: {}\n", why.to_string().replace('\n', " "))
}

/// Appends a line in one write, so that lines of concurrent tests do not mix.
fn append(path: &Path, line: &str) -> std::io::Result<()> {
    OpenOptions::new().append(true).create(true).open(path)?.write_all(line.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skipped_test_says_so_in_one_line() {
        assert_eq!(skip_line("some_test", "no tshark"), "skipped: some_test: no tshark\n");
        assert_eq!(skip_line("t", "two\nlines"), "skipped: t: two lines\n");
    }

    #[test]
    fn the_log_keeps_what_other_tests_wrote() {
        let path = std::env::temp_dir().join(format!("weft-skipped-log-{}", std::process::id()));
        for name in ["first", "second"] {
            append(&path, &skip_line(name, "why")).expect("written");
        }
        let text = std::fs::read_to_string(&path).expect("the log");
        std::fs::remove_file(&path).expect("removed");
        assert_eq!(text, "skipped: first: why\nskipped: second: why\n");
    }
}
