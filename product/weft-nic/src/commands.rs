//! Commands to a thread: a channel, and an eventfd that wakes the thread from its poll.
//!
//! The sender writes the command, then the eventfd. The thread reads the eventfd, then takes commands until there are no
//! more. A command is therefore never left behind a sleep.

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

/// The end of a channel to which commands are sent.
#[derive(Debug)]
pub(crate) struct Commander<T> {
    commands: Sender<T>,
    wake: Arc<OwnedFd>,
}

impl<T> Clone for Commander<T> {
    fn clone(&self) -> Self {
        Self { commands: self.commands.clone(), wake: Arc::clone(&self.wake) }
    }
}

/// The end of a channel that a thread reads.
#[derive(Debug)]
pub(crate) struct Inbox<T> {
    commands: Receiver<T>,
    wake: Arc<OwnedFd>,
}

/// Creates a channel.
pub(crate) fn commands<T>() -> Result<(Commander<T>, Inbox<T>), Errno> {
    let wake = Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?);
    let (sender, receiver) = channel();
    Ok((Commander { commands: sender, wake: Arc::clone(&wake) }, Inbox { commands: receiver, wake }))
}

impl<T> Commander<T> {
    /// Sends the command that `make` makes of a sender for the answer, and waits for that. `None` when the thread has
    /// ended.
    pub(crate) fn ask<A>(&self, make: impl FnOnce(Sender<A>) -> T) -> Option<A> {
        self.order(make)?.recv().ok()
    }

    /// As [`ask`](Self::ask), without waiting: the answer comes by the channel.
    pub(crate) fn order<A>(&self, make: impl FnOnce(Sender<A>) -> T) -> Option<Receiver<A>> {
        let (answer, answered) = channel();
        self.commands.send(make(answer)).ok()?;
        self.wake();
        Some(answered)
    }

    /// Wakes the thread. A full eventfd is readable, so a failed write does no harm.
    pub(crate) fn wake(&self) {
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }
}

impl<T> Inbox<T> {
    /// The next command, if any.
    pub(crate) fn take(&self) -> Option<T> {
        self.commands.try_recv().ok()
    }

    /// Forgets the wake-ups so far. To be called before [`take`](Self::take).
    pub(crate) fn clear(&self) {
        let _ = rustix::io::read(&self.wake, &mut [0; 8]);
    }

    /// Becomes readable with a wake-up.
    pub(crate) fn wake_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_answered_by_the_thread_and_none_by_one_that_ended() {
        let (commander, inbox) = commands::<(u32, Sender<u32>)>().expect("eventfd");
        let thread = std::thread::spawn(move || {
            loop {
                inbox.clear();
                if let Some((number, answer)) = inbox.take() {
                    return answer.send(number + 1).expect("the asker waits");
                }
                std::thread::yield_now();
            }
        });
        assert_eq!(commander.ask(|answer| (1, answer)), Some(2));
        thread.join().expect("thread");
        assert_eq!(commander.ask(|answer| (1, answer)), None);
    }
}
