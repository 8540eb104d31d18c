//! The open sockets of a thread, by the numbers that epoll returns.

use super::EVENTS;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use std::os::fd::{AsFd, OwnedFd};
use weft_host::OsError;

#[derive(Debug)]
struct Slot<T> {
    used: u32,
    value: Option<T>,
}

/// Values watched by an epoll instance. A value's number has its slot and the slot's use count, so that an event of a
/// removed value is not taken for its successor's.
pub(super) struct Slab<T> {
    epoll: OwnedFd,
    slots: Vec<Slot<T>>,
    free: Vec<usize>,
    events: Vec<Event>,
}

impl<T: AsFd> Slab<T> {
    pub(super) fn new() -> Result<Self, OsError> {
        let epoll =
            epoll::create(CreateFlags::CLOEXEC).map_err(|e| OsError::new("make an epoll instance", e))?;
        Ok(Self { epoll, slots: Vec::new(), free: Vec::new(), events: Vec::with_capacity(EVENTS) })
    }

    /// Returns the number of values.
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Adds a value and watches its socket, which may be ready already. Returns the value's number. On an error the
    /// value is dropped.
    pub(super) fn insert(&mut self, value: T, flags: EventFlags) -> std::io::Result<u64> {
        let index = self.free.last().copied().unwrap_or(self.slots.len());
        if index == self.slots.len() {
            self.slots.push(Slot { used: 0, value: None });
            self.free.push(index);
        }
        let slot = &mut self.slots[index];
        slot.used = slot.used.wrapping_add(1);
        let number = u64::from(slot.used) << 32 | index as u64;
        epoll::add(&self.epoll, value.as_fd(), EventData::new_u64(number), flags)?;
        slot.value = Some(value);
        self.free.pop();
        Ok(number)
    }

    fn index(&self, number: u64) -> Option<usize> {
        let (index, used) = ((number & 0xffff_ffff) as usize, (number >> 32) as u32);
        let slot = self.slots.get(index)?;
        (slot.used == used && slot.value.is_some()).then_some(index)
    }

    /// Returns the value, if it has not been removed.
    pub(super) fn get_mut(&mut self, number: u64) -> Option<&mut T> {
        let index = self.index(number)?;
        self.slots[index].value.as_mut()
    }

    /// Removes the value. Its socket is watched until it is closed; its events match no value.
    pub(super) fn remove(&mut self, number: u64) -> Option<T> {
        let index = self.index(number)?;
        self.free.push(index);
        self.slots[index].value.take()
    }

    /// Returns the numbers of the values that satisfy `which`.
    pub(super) fn numbers(&self, which: impl Fn(&T) -> bool) -> Vec<u64> {
        let found = self.slots.iter().enumerate().filter(|(_, slot)| slot.value.as_ref().is_some_and(&which));
        found.map(|(index, slot)| u64::from(slot.used) << 32 | index as u64).collect()
    }

    /// Waits for events, at most `millis`, and returns the numbers of the values with one.
    pub(super) fn wait(&mut self, millis: u32) -> Result<Vec<u64>, OsError> {
        self.events.clear();
        let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(millis.min(999)) * 1_000_000 };
        let spare = rustix::buffer::spare_capacity(&mut self.events);
        match epoll::wait(&self.epoll, spare, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(OsError::new("wait for sockets", e)),
        }
        Ok(self.events.iter().map(|event| event.data.u64()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::fd::BorrowedFd;

    struct Named(UdpSocket, &'static str);

    impl AsFd for Named {
        fn as_fd(&self) -> BorrowedFd<'_> {
            self.0.as_fd()
        }
    }

    #[test]
    fn a_number_is_not_used_again() {
        let named = |name| Named(UdpSocket::bind("127.0.0.1:0").expect("socket"), name);
        let mut slab = Slab::new().expect("epoll");
        let first = slab.insert(named("first"), EventFlags::IN).expect("watched");
        assert_eq!((slab.len(), slab.get_mut(first).map(|n| n.1)), (1, Some("first")));
        assert_eq!((slab.remove(first).map(|n| n.1), slab.remove(first).is_none()), (Some("first"), true));
        let second = slab.insert(named("second"), EventFlags::IN).expect("watched");
        assert!(slab.get_mut(first).is_none());
        assert_eq!(slab.get_mut(second).map(|n| n.1), Some("second"));
        assert_eq!(slab.numbers(|_| true), [second]);
        assert_eq!(slab.numbers(|value| value.1 == "first"), [] as [u64; 0]);
        assert_eq!((slab.len(), slab.wait(1).expect("waited")), (1, vec![]));
    }

    #[test]
    fn what_cannot_be_watched_leaves_no_trace() {
        let mut slab = Slab::new().expect("epoll");
        // A plain file has no events: epoll_ctl(2), EPERM.
        assert!(slab.insert(std::fs::File::open("/proc/self/exe").expect("file"), EventFlags::IN).is_err());
        assert_eq!((slab.len(), slab.numbers(|_| true)), (0, vec![]));
    }

    #[test]
    fn events_have_the_number_of_their_value() {
        let mut slab = Slab::new().expect("epoll");
        let listener = TcpListener::bind("127.0.0.1:0").expect("listens");
        let mut client = TcpStream::connect(listener.local_addr().expect("address")).expect("connects");
        let (stream, _) = listener.accept().expect("accepts");
        let number = slab.insert(stream, EventFlags::IN).expect("watched");
        assert!(slab.wait(1).expect("waited").is_empty());
        client.write_all(b"x").expect("written");
        assert_eq!(slab.wait(900).expect("waited"), [number]);
    }
}
