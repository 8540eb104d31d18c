//! An AF_XDP socket that only sends (Documentation/networking/af_xdp.rst), in copy mode, which every driver supports.
//! Its frames are passed to the driver by `__dev_direct_xmit`, bypassing qdisc and egress programs.

use core::ptr::{NonNull, from_ref};
use core::sync::atomic::{AtomicU32, Ordering};
use nix::libc::{self, c_int, c_void};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// The bytes of a chunk of the packet memory; the kernel's minimum is 2 KB.
const CHUNK: usize = 2048;
/// The entries of each ring, and the number of chunks.
const ENTRIES: u32 = 64;

/// A memory mapping that lasts as long as the value.
struct Mapping(NonNull<c_void>, usize);

// SAFETY: the memory belongs to the value and to no thread.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps anonymous memory, or `offset` of a descriptor.
    fn new(length: usize, fd: Option<(&OwnedFd, i64)>) -> Self {
        let (flags, fd, offset) = match fd {
            Some((fd, offset)) => (libc::MAP_SHARED | libc::MAP_POPULATE, fd.as_raw_fd(), offset),
            None => (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0),
        };
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address that the kernel chooses overlaps nothing.
        let at = unsafe { libc::mmap(core::ptr::null_mut(), length, rights, flags, fd, offset) };
        assert_ne!(at, libc::MAP_FAILED, "mmap: {}", std::io::Error::last_os_error());
        Self(NonNull::new(at).expect("not at 0"), length)
    }

    /// The address of `offset`, with `size` bytes after it in the mapping.
    fn at<T>(&self, offset: usize, size: usize) -> *mut T {
        assert!(offset + size <= self.1);
        // SAFETY: the place is in the mapping, which was just checked.
        unsafe { self.0.as_ptr().cast::<u8>().add(offset).cast() }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and nothing else refers to it.
        unsafe { libc::munmap(self.0.as_ptr(), self.1) };
    }
}

/// The socket.
pub(crate) struct Xsk {
    fd: OwnedFd,
    memory: Mapping,
    transmit: Mapping,
    offsets: libc::xdp_ring_offset,
    sent: u32,
}

impl Xsk {
    /// Opens a socket on queue 0 of the device, in the calling thread's namespace.
    pub(crate) fn open(ifindex: u32) -> Self {
        // SAFETY: socket(2) has no memory arguments; a descriptor that it returns has no other owner.
        let fd = unsafe {
            let fd = libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0);
            assert!(fd >= 0, "AF_XDP socket: {}", std::io::Error::last_os_error());
            OwnedFd::from_raw_fd(fd)
        };
        let memory = Mapping::new(ENTRIES as usize * CHUNK, None);
        // SAFETY: zeros are valid for these structures of numbers.
        let (mut region, mut offsets, mut address): (
            libc::xdp_umem_reg,
            libc::xdp_mmap_offsets,
            libc::sockaddr_xdp,
        ) = unsafe { core::mem::zeroed() };
        region.addr = memory.0.as_ptr() as u64;
        region.len = memory.1 as u64;
        region.chunk_size = CHUNK as u32;
        set(&fd, libc::XDP_UMEM_REG, &region);
        for ring in [libc::XDP_UMEM_FILL_RING, libc::XDP_UMEM_COMPLETION_RING, libc::XDP_TX_RING] {
            set(&fd, ring, &ENTRIES);
        }
        let mut length = size_of_val(&offsets) as u32;
        // SAFETY: the structure lives through the call and has the length given.
        let done = unsafe {
            let to = core::ptr::from_mut(&mut offsets).cast();
            libc::getsockopt(fd.as_raw_fd(), libc::SOL_XDP, libc::XDP_MMAP_OFFSETS, to, &raw mut length)
        };
        assert_eq!(done, 0, "XDP_MMAP_OFFSETS: {}", std::io::Error::last_os_error());
        let bytes = offsets.tx.desc as usize + ENTRIES as usize * size_of::<libc::xdp_desc>();
        let transmit = Mapping::new(bytes, Some((&fd, libc::XDP_PGOFF_TX_RING)));
        address.sxdp_family = libc::AF_XDP as u16;
        address.sxdp_flags = libc::XDP_COPY;
        address.sxdp_ifindex = ifindex;
        // SAFETY: the address lives through the call and has the length given.
        let bound = unsafe {
            let length = size_of_val(&address) as u32;
            libc::bind(fd.as_raw_fd(), from_ref(&address).cast(), length)
        };
        assert_eq!(bound, 0, "bind: {}", std::io::Error::last_os_error());
        Self { fd, memory, transmit, offsets: offsets.tx, sent: 0 }
    }

    /// Sends a frame. At most as many as the ring has entries, since no chunk is reused.
    pub(crate) fn send(&mut self, frame: &[u8]) {
        assert!(self.sent < ENTRIES && frame.len() <= CHUNK);
        let chunk = self.sent as usize * CHUNK;
        let descriptor = libc::xdp_desc { addr: chunk as u64, len: frame.len() as u32, options: 0 };
        let place = self.offsets.desc as usize + self.sent as usize * size_of::<libc::xdp_desc>();
        // SAFETY: `at` checks that chunk and descriptor are in their mappings. The kernel reads neither before the
        // producer count is written.
        unsafe {
            let to: *mut u8 = self.memory.at(chunk, frame.len());
            to.copy_from_nonoverlapping(frame.as_ptr(), frame.len());
            self.transmit.at::<libc::xdp_desc>(place, size_of::<libc::xdp_desc>()).write(descriptor);
        }
        self.sent += 1;
        // SAFETY: the count lies in the mapping, is aligned, and is only accessed atomically.
        let producer = unsafe { &*self.transmit.at::<AtomicU32>(self.offsets.producer as usize, 4) };
        producer.store(self.sent, Ordering::Release);
        // SAFETY: without a buffer and an address nothing is read.
        let woken = unsafe {
            libc::sendto(self.fd.as_raw_fd(), core::ptr::null(), 0, libc::MSG_DONTWAIT, core::ptr::null(), 0)
        };
        let error = std::io::Error::last_os_error();
        assert!(woken == 0 || error.raw_os_error() == Some(libc::EAGAIN), "sendto: {error}");
    }
}

fn set<T>(fd: &OwnedFd, name: c_int, value: &T) {
    // SAFETY: the value lives through the call and has the length given.
    let done = unsafe {
        libc::setsockopt(fd.as_raw_fd(), libc::SOL_XDP, name, from_ref(value).cast(), size_of::<T>() as u32)
    };
    assert_eq!(done, 0, "option {name}: {}", std::io::Error::last_os_error());
}
