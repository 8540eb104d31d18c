//! Help for tests that need the kernel's cooperation.

use std::fmt::Display;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

pub use weft_units::testing::{SKIPPED_LOG, skip};

use crate::programs;

/// Whether this test may make namespaces and links. If not, reports it as skipped ([`skip`]). A test begins with
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

/// Whether a required program is installed. If not, reports the test as skipped ([`skip`]), with the program's Debian package.
pub fn has_program(test_name: &str, program: &str) -> bool {
    if programs::find(program).is_some() {
        return true;
    }
    let package = programs::package_of(program).unwrap_or(program);
    skip(test_name, format_args!("no {program} (Debian package {package})"));
    false
}

/// Lets no other test of this process begin that calls this, until the value is dropped: for tests that use all processors, since
/// the load of one would be the pause of another.
#[must_use = "the others begin when it is dropped"]
pub fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A name for a namespace or cgroup that no other test or run uses at the same time. It begins with the run's name, so that
/// the next run removes what a killed test leaves behind.
pub fn unique(role: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    crate::RunId::current().name(&format!("t{number}-{role}"))
}

/// The time allowed to what must come. A machine with other load may run no thread of a test for seconds.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// The time between two checks of the condition.
const LOOK: Duration = Duration::from_millis(5);

/// Waits until `holds`, for at most `patience`. Returns whether it holds.
#[must_use = "what did not come fails the test"]
pub fn until(patience: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + patience;
    loop {
        // The time is read first: a thread that is stopped after it checks once more.
        let over = Instant::now() > end;
        if holds() {
            return true;
        }
        if over {
            return false;
        }
        sleep(LOOK);
    }
}

/// Waits until `holds`.
///
/// # Panics
/// If it does not within [`PATIENCE`], with the name of what is missing.
#[track_caller]
pub fn wait_for(what: impl Display, holds: impl FnMut() -> bool) {
    assert!(until(PATIENCE, holds), "not within {PATIENCE:?}: {what}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        assert_ne!(unique("a"), unique("a"));
    }
}
