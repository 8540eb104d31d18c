//! The core of a thread that writes packets to devices, and its priority.
//!
//! A packet enters the device below on the core of the thread that writes it: a veth puts it into that core's backlog (`veth_xmit`),
//! a NIC with XPS into that core's queue (`netdev_pick_tx`). If the scheduler moved the thread meanwhile, the packets that it
//! writes on the new core would overtake those that wait on the old one. So the thread holds its core while packets wait below,
//! and the scheduler may move it only in a sleep that begins when everything written has left, as a TCP socket changes its
//! queue (`ooo_okay`).
//!
//! A thread that is never without packets below keeps its core. If others take more than a quarter of that core's time from
//! it, it waits until everything has left, for at most [`PATIENCE`], and then lets the scheduler choose.

use rustix::event::poll;
use std::fs::File;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::FileExt;
use weft_host::affinity::Cores;
use weft_host::{clock, macvtap};
use weft_units::{Instant, Nanos};

/// The least time between two choices of the scheduler, for each device. A choice costs three system calls, and six for a device.
const INTERVAL: Nanos = Nanos::from_millis(2);
/// The interval of looks at what others take.
const LOOK: Nanos = Nanos::from_millis(100);
/// The longest wait for packets below, by a thread that lacks processor time and by one that begins.
const PATIENCE: Nanos = Nanos::from_millis(5);

/// The niceness of the threads that emulate a NIC. A NIC does not compete for the host's processors, so these threads
/// run before the applications that they serve. Without the privilege they keep the default. A real-time class would
/// starve the applications.
const NICENESS: i32 = -10;

/// Sets [`NICENESS`] for the calling thread. A refusal is ignored: the NIC works at the default niceness.
pub(crate) fn raise_thread_priority() {
    let _ = rustix::process::setpriority_process(None, NICENESS);
}

/// The sleep in which the scheduler places a thread that lacks processor time. It chooses when a thread wakes.
const PAUSE: Nanos = Nanos::from_micros(50);

/// The choice of a thread's core. The default holds none.
#[derive(Debug, Default)]
pub(crate) struct Placement {
    /// The processors that the thread may use; `None` if the kernel refuses to hold one of them.
    allowed: Option<Cores>,
    /// The processor that it holds.
    held: Option<Cores>,
    next: Instant,
    /// The least time between two choices, longer with several devices.
    interval: Nanos,
    waits: RunDelay,
}

impl Placement {
    /// Holds the calling thread's core, after what a predecessor wrote to `written` has left.
    pub(crate) fn start<'f>(now: Instant, written: impl IntoIterator<Item = BorrowedFd<'f>>) -> Self {
        let allowed = Cores::own().ok();
        let waits = RunDelay::of_this_thread(now);
        let mut placement = Self { allowed, waits, ..Self::default() };
        let _ = written.into_iter().all(|fd| drained(fd, PATIENCE));
        placement.hold(now);
        placement
    }

    /// Whether the thread holds a core.
    pub(crate) fn holds(&self) -> bool {
        self.held.is_some()
    }

    /// Whether the scheduler may choose at `now`: nothing that was written to `written` waits below.
    pub(crate) fn may_move<'f>(
        &mut self,
        now: Instant,
        written: impl IntoIterator<Item = BorrowedFd<'f>>,
    ) -> bool {
        if self.held.is_none() || now < self.next {
            return false;
        }
        let mut devices = 0;
        let moves = written.into_iter().inspect(|_| devices += 1).all(|fd| drained(fd, Nanos::ZERO));
        self.interval = Nanos(INTERVAL.get() * devices.max(1));
        moves
    }

    /// Sleeps by `sleep`, at `now`. The scheduler may choose meanwhile, if nothing that was written to `written` waits below.
    pub(crate) fn rest<T>(
        &mut self,
        (now, written): (Instant, BorrowedFd<'_>),
        sleep: impl FnOnce() -> T,
    ) -> T {
        if !self.may_move(now, [written]) {
            let slept = sleep();
            self.give_way(now, [written]);
            return slept;
        }
        self.release();
        let slept = sleep();
        self.hold(clock::now());
        slept
    }

    /// Lets the scheduler choose from now on. The thread writes nothing until it holds a core again.
    pub(crate) fn release(&mut self) {
        // Another program may have changed the processors meanwhile.
        let own = Cores::own().ok();
        if own != self.held {
            self.allowed = own;
        }
        self.held = None;
        if self.allowed.is_some_and(|allowed| allowed.hold().is_err()) {
            // Its processors are gone; the kernel's choice stays.
            self.allowed = own;
        }
    }

    /// Holds the core that the scheduler has chosen.
    pub(crate) fn hold(&mut self, now: Instant) {
        let current = Cores::current();
        self.held = (self.allowed.is_some() && current.hold().is_ok()).then_some(current);
        self.next = now + self.interval.max(INTERVAL);
    }

    /// Moves a thread that waits for its core more than a quarter of the time, if what it wrote to `written` leaves soon.
    pub(crate) fn give_way<'f>(&mut self, now: Instant, written: impl IntoIterator<Item = BorrowedFd<'f>>) {
        let starved = self.held.is_some() && self.waits.is_starved(now);
        if !starved || !written.into_iter().all(|fd| drained(fd, PATIENCE)) {
            return;
        }
        self.release();
        let pause = rustix::time::Timespec { tv_sec: 0, tv_nsec: PAUSE.get() as i64 };
        let _ = poll(&mut [], Some(&pause));
        self.hold(now);
    }
}

/// Whether everything written to `written` has left within `longest`. A device that is gone holds nothing.
fn drained(written: BorrowedFd<'_>, longest: Nanos) -> bool {
    macvtap::drained(written, longest).unwrap_or(true)
}

/// The time for which the calling thread was ready and did not run.
#[derive(Debug, Default)]
struct RunDelay {
    /// `/proc/thread-self/schedstat`; `None` where the kernel does not count (`CONFIG_SCHED_INFO`).
    counts: Option<File>,
    last: Nanos,
    looked: Instant,
}

impl RunDelay {
    fn of_this_thread(now: Instant) -> Self {
        let counts = File::open("/proc/thread-self/schedstat").ok();
        let delay = Self { counts, last: Nanos::ZERO, looked: now };
        Self { last: delay.read().unwrap_or(Nanos::ZERO), ..delay }
    }

    /// Whether the thread waited for more than a quarter of the time since the last look, at most once every [`LOOK`].
    fn is_starved(&mut self, now: Instant) -> bool {
        let elapsed = now.saturating_since(self.looked);
        if elapsed < LOOK {
            return false;
        }
        let Some(waited) = self.read() else { return false };
        let since = waited.get().saturating_sub(self.last.get());
        (self.looked, self.last) = (now, waited);
        since > elapsed.get() / 4
    }

    /// The second of the file's three numbers (Documentation/scheduler/sched-stats.rst).
    fn read(&self) -> Option<Nanos> {
        let mut text = [0; 96];
        let length = self.counts.as_ref()?.read_at(&mut text, 0).ok()?;
        let text = core::str::from_utf8(&text[..length]).ok()?;
        text.split_ascii_whitespace().nth(1)?.parse().ok().map(Nanos)
    }
}
