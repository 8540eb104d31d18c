//! Help for tests that need the kernel's cooperation.

use std::sync::atomic::{AtomicU32, Ordering};

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
    match crate::rights::require_network_rights() {
        Ok(()) => true,
        Err(why) => {
            println!("skipped: {test_name}: {why}");
            false
        }
    }
}

/// A name for a namespace or cgroup that no other test and no other run uses at the same time. It begins with the
/// run's own name, so that what a killed test leaves behind is cleaned up by the next run.
pub fn unique(role: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    crate::RunId::current().name(&format!("t{number}-{role}"))
}
