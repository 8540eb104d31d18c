//! Help for tests that need the kernel's cooperation.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

/// The environment variable that names a file to which [`skip`] appends its lines: cargo hides what a passing test
/// prints, and `make test` lists them.
pub const SKIPPED_LOG: &str = "WEFT_SKIPPED_LOG";

/// Whether this test may make namespaces and links. If not, it is skipped, by [`skip`]. A test begins with
///
/// ```
/// # fn test() {
/// if !weft_host::testing::privileged("name_of_the_test") {
///     return;
/// }
/// # }
/// ```
pub fn privileged(test_name: &str) -> bool {
    match crate::rights::require_network_rights() {
        Ok(()) => true,
        Err(why) => {
            skip(test_name, why);
            false
        }
    }
}

/// Says in one line that a test is skipped, `skipped: NAME: why`, on standard output and in the file that
/// [`SKIPPED_LOG`] names. The test then returns.
///
/// # Panics
/// If that file cannot be written: a test must not be skipped unseen.
pub fn skip(test_name: &str, why: impl std::fmt::Display) {
    let line = skip_line(test_name, why);
    print!("{line}");
    if let Some(log) = std::env::var_os(SKIPPED_LOG) {
        append(Path::new(&log), &line).unwrap_or_else(|error| panic!("{}: {error}", log.display()));
    }
}

fn skip_line(test_name: &str, why: impl std::fmt::Display) -> String {
    format!("skipped: {test_name}: {}\n", why.to_string().replace('\n', " "))
}

/// One write, so that lines of tests that run at the same time do not mix.
fn append(path: &Path, line: &str) -> std::io::Result<()> {
    OpenOptions::new().append(true).create(true).open(path)?.write_all(line.as_bytes())
}

/// A name for a namespace or cgroup that no other test and no other run uses at the same time. It begins with the
/// run's own name, so that what a killed test leaves behind is cleaned up by the next run.
pub fn unique(role: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    crate::RunId::current().name(&format!("t{number}-{role}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skipped_test_says_so_in_one_line() {
        let why = crate::RightsError { missing: vec!["CAP_NET_ADMIN"] };
        let line = skip_line("some_test", why);
        assert!(line.starts_with("skipped: some_test: ") && line.contains("CAP_NET_ADMIN"), "{line}");
        assert_eq!(skip_line("t", "two\nlines"), "skipped: t: two lines\n");
    }

    #[test]
    fn the_log_keeps_what_other_tests_wrote() {
        let path = std::env::temp_dir().join(unique("skipped-log"));
        for name in ["first", "second"] {
            append(&path, &skip_line(name, "why")).expect("written");
        }
        let text = std::fs::read_to_string(&path).expect("the log");
        std::fs::remove_file(&path).expect("removed");
        assert_eq!(text, "skipped: first: why\nskipped: second: why\n");
    }

    #[test]
    fn names_are_unique() {
        assert_ne!(unique("a"), unique("a"));
    }
}
