//! The drops of the qdisc at the root of a port's near end: packets that the egress program has announced, and that reach
//! no ring.
//!
//! A veth has no qdisc until a user installs one; a TAP has the FIFOs above its rings. Two losses are in no counter of the
//! kernel, and are noted here: a qdisc that is removed takes its count along, and a link that goes down empties its qdisc.

use std::sync::{Mutex, MutexGuard, PoisonError};
use weft_host::link::Numbered;
use weft_host::tc::{Handle, QdiscCounters, TcDevice, TcError};

/// The qdisc at the root of a link, whichever it is at the time.
#[derive(Debug)]
pub(super) struct RootQdisc(Mutex<State>);

#[derive(Debug)]
struct State {
    device: TcDevice,
    /// The drops of the qdisc that is there now, at the last reading.
    last: u64,
    /// The drops of those before it, and the packets that waited when the link went down.
    before: u64,
}

impl RootQdisc {
    /// Opens the counters of the qdisc at the root of `link`.
    pub(super) fn of(link: &Numbered) -> Result<Self, TcError> {
        Ok(Self(Mutex::new(State { device: TcDevice::of(link)?, last: 0, before: 0 })))
    }

    /// Goes on at `link`, the same device in another namespace: the kernel has removed its qdisc on the way
    /// (`dev_change_net_namespace`).
    pub(super) fn follow(&self, link: &Numbered) -> Result<(), TcError> {
        let device = TcDevice::of(link)?;
        let mut state = self.lock();
        let before = state.before + state.last;
        *state = State { device, last: 0, before };
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The packets dropped so far. A link without a qdisc adds none.
    pub(super) fn dropped(&self) -> u64 {
        let mut state = self.lock();
        let now = state.read().map_or(0, |counters| counters.dropped.get());
        state.count(now)
    }

    /// As [`dropped`](Self::dropped), for a link that always has a qdisc.
    ///
    /// # Errors
    /// When it has none, or no longer exists.
    pub(super) fn dropped_of_present(&self) -> Result<u64, TcError> {
        let mut state = self.lock();
        let now = state.read()?.dropped.get();
        Ok(state.count(now))
    }

    /// Notes what waits, which the link is about to lose.
    pub(super) fn purge(&self) {
        let mut state = self.lock();
        state.before += state.read().map_or(0, |counters| counters.backlog.packets.get());
    }
}

impl State {
    /// Reads the counters of the root, which for `mq` are those of all queues.
    fn read(&mut self) -> Result<QdiscCounters, TcError> {
        match self.device.root()? {
            Some(root) => Ok(root.counters),
            None => Err(TcError::NotThere { device: self.device.to_string(), handle: Handle::ROOT }),
        }
    }

    /// Notes a reading. A count below the last one is that of another qdisc.
    fn count(&mut self, now: u64) -> u64 {
        if now < self.last {
            self.before += self.last;
        }
        self.last = now;
        self.before + now
    }
}
