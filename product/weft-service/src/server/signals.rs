//! Signals as bytes on a socket, so that poll waits for them too.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR2};
use signal_hook::{flag, low_level};
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The signals that end the daemon.
const ENDING: [i32; 2] = [SIGTERM, SIGINT];

/// A request by signal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Signal {
    /// SIGHUP.
    Reload,
    /// SIGUSR2.
    HandOver,
    /// SIGTERM or SIGINT.
    End(i32),
}

/// Caught signals.
#[derive(Debug)]
pub(super) struct Signals {
    wake: UnixStream,
    hangup: Arc<AtomicBool>,
    hand_over: Arc<AtomicBool>,
    ending: [Arc<AtomicBool>; 2],
}

impl Signals {
    /// Catches signals from now on. A second SIGTERM or SIGINT ends the process at once; the kernel then removes the ports
    /// with the process's namespace.
    pub(super) fn catch() -> io::Result<Self> {
        let (wake, sender) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        let hangup = Arc::new(AtomicBool::new(false));
        flag::register(SIGHUP, Arc::clone(&hangup))?;
        let hand_over = Arc::new(AtomicBool::new(false));
        flag::register(SIGUSR2, Arc::clone(&hand_over))?;
        let ending = ENDING.map(|_| Arc::new(AtomicBool::new(false)));
        for (signal, asked) in ENDING.iter().zip(&ending) {
            // Before the flag is set: the first signal finds it unset.
            flag::register_conditional_shutdown(*signal, 128 + signal, Arc::clone(asked))?;
            flag::register(*signal, Arc::clone(asked))?;
        }
        for signal in [SIGHUP, SIGUSR2, SIGTERM, SIGINT] {
            low_level::pipe::register(signal, sender.try_clone()?)?;
        }
        Ok(Self { wake, hangup, hand_over, ending })
    }

    /// The descriptor that is readable after a signal.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// The signals since the last call.
    pub(super) fn take(&mut self) -> Vec<Signal> {
        let mut bytes = [0; 64];
        while matches!(self.wake.read(&mut bytes), Ok(read) if read > 0) {}
        let hangup = self.hangup.swap(false, Ordering::SeqCst).then_some(Signal::Reload);
        let hand_over = self.hand_over.swap(false, Ordering::SeqCst).then_some(Signal::HandOver);
        let ending = ENDING.iter().zip(&self.ending).filter(|(_, asked)| asked.load(Ordering::SeqCst));
        ending.map(|(signal, _)| Signal::End(*signal)).chain(hand_over).chain(hangup).collect()
    }
}
