//! Help for tests that need the kernel's cooperation.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::rights::RightsError;

/// Whether this test may make namespaces and links. If not, prints the one line that says so:
/// `skipped: NAME: why`. A test begins with
///
/// ```
/// # fn test() {
/// if !weft_host::testing::privileged("name_of_the_test") {
///     return;
/// }
/// # }
/// ```
pub fn privileged(test_name: &str) -> bool {
    match skip_line(test_name, crate::rights::require_network_rights()) {
        None => true,
        Some(line) => {
            println!("{line}");
            false
        }
    }
}

fn skip_line(test_name: &str, rights: Result<(), RightsError>) -> Option<String> {
    rights.err().map(|why| format!("skipped: {test_name}: {why}"))
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
        let line =
            skip_line("some_test", Err(RightsError { missing: vec!["CAP_NET_ADMIN"] })).expect("skipped");
        assert!(line.starts_with("skipped: some_test: ") && line.contains("CAP_NET_ADMIN"), "{line}");
        assert!(!line.contains('\n'));
        assert_eq!(skip_line("some_test", Ok(())), None);
        assert_ne!(unique("a"), unique("a"));
    }
}
