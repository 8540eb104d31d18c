//! Work in a separate thread, without the interpreter's lock, so that other threads of Python continue and Ctrl-C is seen.

use crate::failure::Failure;
use pyo3::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// The time between two looks for a signal.
pub(crate) const LOOK: Duration = Duration::from_millis(100);

/// Calls `work` and waits for its result. A signal's exception ends the wait; what then remains of the work is done unseen, and dropped.
pub(crate) fn interruptible<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Failure> {
    let (sender, mut receiver) = mpsc::sync_channel(1);
    let work = move || {
        // The receiver is gone after a signal.
        let _ = sender.send(catch_unwind(AssertUnwindSafe(work)));
    };
    let spawned = thread::Builder::new().name("weftline".to_owned()).spawn(work);
    spawned.map_err(|error| Failure::plain(format_args!("cannot start a thread: {error}"), ""))?;
    loop {
        let (back, result) = py.detach(move || {
            let result = receiver.recv_timeout(LOOK);
            (receiver, result)
        });
        receiver = back;
        match result {
            Ok(Ok(done)) => return Ok(done),
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
            Ok(Err(_)) | Err(RecvTimeoutError::Disconnected) => return Err(defect()),
        }
    }
}

/// The error for a panic, whose message is on standard error.
fn defect() -> Failure {
    Failure::plain("weftline has a defect: its work ended early", "please report what was called, and how")
}
