//! The processors that this thread may use.

use crate::error::OsError;

/// The numbers of the processors that the kernel may run this thread on, ascending.
///
/// # Errors
/// If the kernel refuses the query.
pub fn own() -> Result<Vec<u32>, OsError> {
    let set = rustix::thread::sched_getaffinity(None)
        .map_err(|e| OsError::new("query the processors of this thread", e))?;
    let numbers = 0..rustix::thread::CpuSet::MAX_CPU as u32;
    Ok(numbers.filter(|cpu| set.is_set(*cpu as usize)).collect())
}

#[cfg(test)]
mod tests {
    #[test]
    fn this_thread_may_use_a_processor() {
        let own = super::own().expect("processors");
        assert!(!own.is_empty() && own.is_sorted());
    }
}
