//! The processors that this thread may use.

use crate::error::OsError;
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

/// The numbers of the processors that the kernel may run this thread on, ascending.
///
/// # Errors
/// If the kernel refuses the query.
pub fn own() -> Result<Vec<u32>, OsError> {
    let set = Cores::own()?.0;
    let numbers = 0..CpuSet::MAX_CPU as u32;
    Ok(numbers.filter(|cpu| set.is_set(*cpu as usize)).collect())
}

/// A set of processors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cores(CpuSet);

impl Cores {
    /// The processors that the kernel may run this thread on.
    ///
    /// # Errors
    /// If the kernel refuses the query, such as with more processors than a set holds (1,024).
    pub fn own() -> Result<Self, OsError> {
        sched_getaffinity(None).map(Self).map_err(|e| OsError::new("query the processors of this thread", e))
    }

    /// The processor that runs this thread.
    #[must_use]
    pub fn current() -> Self {
        let mut set = CpuSet::new();
        set.set(sched_getcpu());
        Self(set)
    }

    /// Lets the kernel run this thread on these processors alone.
    ///
    /// # Errors
    /// If the set has no processor that this thread's cpuset allows, or the kernel refuses.
    pub fn hold(&self) -> Result<(), OsError> {
        sched_setaffinity(None, &self.0).map_err(|e| OsError::new("choose the processors of this thread", e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_thread_may_use_a_processor() {
        let own = super::own().expect("processors");
        assert!(!own.is_empty() && own.is_sorted());
    }

    #[test]
    fn a_thread_holds_the_processor_that_runs_it() {
        // A thread of its own, since the setting stays.
        let held = std::thread::spawn(|| {
            let before = Cores::own().expect("processors");
            let current = Cores::current();
            current.hold().expect("held");
            assert_eq!((Cores::own().expect("processors"), own().expect("processors").len()), (current, 1));
            before.hold().expect("free");
            assert_eq!(Cores::own().expect("processors"), before);
        });
        held.join().expect("the thread");
    }
}
