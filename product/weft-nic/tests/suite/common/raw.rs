//! Packet sockets, which may go around the qdisc.

use crate::common::bench::Bench;
use nix::libc;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use weft_host::link;
use weft_host::netns::NetNs;

/// A raw packet socket on the port. `protocol` is the declared protocol of its frames (`sll_protocol`).
pub(crate) struct Raw {
    fd: OwnedFd,
    to: libc::sockaddr_ll,
}

impl Raw {
    pub(crate) fn open(bench: &Bench, protocol: u16) -> Self {
        Self::open_at(&bench.bed.sender, "port0", protocol)
    }

    /// A raw packet socket on `device` of `ns`.
    pub(crate) fn open_at(ns: &NetNs, device: &str, protocol: u16) -> Self {
        let index = link::index(ns, device).expect("device");
        // SAFETY: socket(2) has no memory arguments; a descriptor that it returns has no other owner.
        let open = || unsafe {
            let fd = libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0);
            assert!(fd >= 0, "packet socket: {}", std::io::Error::last_os_error());
            OwnedFd::from_raw_fd(fd)
        };
        let fd = ns.run(open).expect("namespace");
        // SAFETY: zeros are a valid sockaddr_ll.
        let mut to: libc::sockaddr_ll = unsafe { core::mem::zeroed() };
        to.sll_family = libc::AF_PACKET as u16;
        to.sll_ifindex = index as i32;
        to.sll_protocol = protocol.to_be();
        Self { fd, to }
    }

    pub(crate) fn set(&self, level: i32, name: i32, value: i32) {
        set_option(&self.fd, level, name, value);
    }

    pub(crate) fn around_the_qdisc(self) -> Self {
        self.set(libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, 1);
        self
    }

    pub(crate) fn send(&self, frame: &[u8]) {
        let length = size_of::<libc::sockaddr_ll>() as u32;
        // SAFETY: frame and address live through the call, with the lengths given.
        let sent = unsafe {
            let to = core::ptr::from_ref(&self.to).cast();
            libc::sendto(self.fd.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0, to, length)
        };
        let error = std::io::Error::last_os_error();
        // So that a sender sees drops of its packets at the egress.
        let refused = sent < 0 && error.raw_os_error() == Some(libc::ENOBUFS);
        assert!(refused || sent == frame.len() as isize, "{sent}: {error}");
    }
}

/// Sets an option of a socket whose value is of four bytes.
pub(crate) fn set_option(socket: &impl AsRawFd, level: i32, name: i32, value: i32) {
    let length = size_of::<i32>() as u32;
    // SAFETY: the option's value is an int, which lives through the call.
    let done = unsafe {
        libc::setsockopt(socket.as_raw_fd(), level, name, core::ptr::from_ref(&value).cast(), length)
    };
    assert_eq!(done, 0, "{name}: {}", std::io::Error::last_os_error());
}
