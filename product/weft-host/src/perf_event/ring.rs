//! A perf event of one processor, and the ring into which the kernel writes its records.
//!
//! The mapping has a page for the kernel and [`DATA_PAGES`] pages of data. The kernel writes records up to `data_head` and never
//! beyond `data_tail` plus the size, since the mapping is writable (`perf_output_begin`, kernel/events/ring_buffer.c): what lies
//! between tail and head does not change until the tail is moved.

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use libbpf_rs::libbpf_sys::{self, perf_event_attr};
use rustix::mm::{MapFlags, ProtFlags};

use super::{Clock, SampleRate};
use crate::error::OsError;

/// Pages of data, a power of two: 512 KB, half a second of deep call chains at 4 kHz.
const DATA_PAGES: usize = 128;
/// Offsets of `data_head` and `data_tail` in `struct perf_event_mmap_page`.
const HEAD: usize = 1024;
const TAIL: usize = 1032;
/// The fields of a sample, which `record` reads in this order.
pub(super) const SAMPLE_TYPE: u32 = libbpf_sys::PERF_SAMPLE_IP
    | libbpf_sys::PERF_SAMPLE_TID
    | libbpf_sys::PERF_SAMPLE_CPU
    | libbpf_sys::PERF_SAMPLE_PERIOD
    | libbpf_sys::PERF_SAMPLE_CALLCHAIN;
/// The process number that means all processes.
const EVERYBODY: libc::pid_t = -1;
/// `PERF_FLAG_FD_CLOEXEC`.
const CLOSE_ON_EXEC: libc::c_ulong = 8;
/// `PERF_EVENT_IOC_ENABLE`, which has no argument.
const ENABLE: libc::Ioctl = 0x2400;

/// An event with its ring. Both end when the value is dropped.
#[derive(Debug)]
pub(super) struct Ring {
    event: OwnedFd,
    cpu: u32,
    address: NonNull<u8>,
    page: usize,
}

// SAFETY: the mapping belongs to the value and is not tied to a thread.
unsafe impl Send for Ring {}

impl Ring {
    /// Opens the event, which is off until [`Self::enable`].
    pub(super) fn open(clock: Clock, rate: SampleRate, cpu: u32) -> Result<Self, OsError> {
        let failed = |e: io::Error| {
            OsError::new(format!("sample processor {cpu} by {}", clock.name()), e).needs("CAP_PERFMON")
        };
        let event = open_event(&attributes(clock, rate), EVERYBODY, cpu as libc::c_int).map_err(failed)?;
        let page = rustix::param::page_size();
        // SAFETY: a fresh shared mapping at an address of the kernel's choice; nothing else refers to it.
        let address = unsafe {
            rustix::mm::mmap(
                core::ptr::null_mut(),
                page * (1 + DATA_PAGES),
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                event.as_fd(),
                0,
            )
        }
        .map_err(|e| failed(e.into()))?;
        let address =
            NonNull::new(address.cast()).ok_or_else(|| failed(io::ErrorKind::InvalidData.into()))?;
        Ok(Self { event, cpu, address, page })
    }

    /// Starts the event.
    pub(super) fn enable(&self) -> Result<(), OsError> {
        // SAFETY: the request has no argument; the descriptor is that of a perf event.
        match unsafe { libc::ioctl(self.event.as_raw_fd(), ENABLE, 0) } {
            0 => Ok(()),
            _ => Err(OsError::new(
                format!("start sampling processor {}", self.cpu),
                io::Error::last_os_error(),
            )),
        }
    }

    /// Appends the records that have arrived to `out`, and frees their room.
    pub(super) fn take(&self, out: &mut Vec<u8>) {
        let size = self.page * DATA_PAGES;
        // Acquire: the records are read after the head that announces them.
        let head = self.field(HEAD).load(Ordering::Acquire);
        let tail = self.field(TAIL).load(Ordering::Relaxed);
        let length = usize::try_from(head.wrapping_sub(tail)).unwrap_or(0).min(size);
        let start = (tail % size as u64) as usize;
        let first = length.min(size - start);
        self.copy(start, first, out);
        self.copy(0, length - first, out);
        // Release: the kernel may overwrite the records only after they were read.
        self.field(TAIL).store(head, Ordering::Release);
    }

    fn field(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: the offsets are below the page's size and multiples of 8, the mapping is aligned to a page and lives as long
        // as self, and both sides access these fields atomically.
        unsafe { &*self.address.as_ptr().add(offset).cast::<AtomicU64>() }
    }

    /// Copies `length` bytes of the data from `start`; together they do not exceed the data.
    fn copy(&self, start: usize, length: usize, out: &mut Vec<u8>) {
        // SAFETY: start + length is within the data pages behind the first page, and the kernel does not write between tail and
        // head until the tail moves.
        out.extend_from_slice(unsafe {
            core::slice::from_raw_parts(self.address.as_ptr().add(self.page + start), length)
        });
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: address and length are those of the mapping made in `open`; no reference outlives self.
        let _ = unsafe { rustix::mm::munmap(self.address.as_ptr().cast(), self.page * (1 + DATA_PAGES)) };
    }
}

fn attributes(clock: Clock, rate: SampleRate) -> perf_event_attr {
    let (kind, config) = match clock {
        Clock::Cycles => (libbpf_sys::PERF_TYPE_HARDWARE, libbpf_sys::PERF_COUNT_HW_CPU_CYCLES),
        Clock::CpuClock => (libbpf_sys::PERF_TYPE_SOFTWARE, libbpf_sys::PERF_COUNT_SW_CPU_CLOCK),
    };
    let mut attributes = perf_event_attr {
        type_: kind,
        size: size_of::<perf_event_attr>() as u32,
        config: u64::from(config),
        sample_type: u64::from(SAMPLE_TYPE),
        ..perf_event_attr::default()
    };
    attributes.__bindgen_anon_1.sample_freq = u64::from(rate.hertz());
    attributes.set_freq(1);
    attributes.set_disabled(1);
    attributes.set_exclude_hv(1);
    // Symbols of programs are not read.
    attributes.set_exclude_callchain_user(1);
    attributes
}

/// Opens an event of a process on a processor; -1 means all.
pub(super) fn open_event(
    attributes: &perf_event_attr,
    pid: libc::pid_t,
    cpu: libc::c_int,
) -> io::Result<OwnedFd> {
    let no_group: libc::c_int = -1;
    // SAFETY: perf_event_open(attr, pid, cpu, group, flags) reads `size` bytes at `attr`, a live structure of that size.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            std::ptr::from_ref(attributes),
            pid,
            cpu,
            no_group,
            CLOSE_ON_EXEC,
        )
    };
    match libc::c_int::try_from(fd) {
        // SAFETY: the call has just returned this new descriptor, which nothing else owns.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}
