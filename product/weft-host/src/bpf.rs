//! eBPF: loading objects, sharing their maps with this process, and attaching programs to a device or inside the kernel.
//!
//! The life of a program, in order:
//!
//! 1. [`Object::load`] or [`Object::load_with`] gives libbpf the object's image. Read-only data is set first, since the
//!    verifier removes branches on it. Maps of others may replace the object's own (`options`), if type and sizes agree.
//! 2. A map becomes shared memory ([`SharedValue`]), a [`Table`] whose entries this process expires, or a ring buffer
//!    that it reads ([`Records`]).
//! 3. A program is attached to the egress or ingress of a device (clsact), to a cgroup (`cgroup`), or inside the kernel
//!    (`tracing`).
//! 4. Maps, programs and links may be pinned in a bpf file system (`crate::bpffs`), where they outlive this process.
//!
//! The kernel owns maps and programs, and frees them with their last reference. [`Object`] holds the references of what this
//! process loaded; [`MapFd`] and [`ProgramFd`] hold one each to a map or program of any process, found by id or by path. A filter
//! at a device holds its own reference and lives as long as the device; a [`TracingLink`] detaches on drop unless it is pinned.
//!
//! These rules hold:
//!
//! - Shared memory is read and written through atomics only ([`SharedLayout`]), because the program runs at the same time
//!   on other cores. A map is mapped only if its value has the size of the Rust type; tests compare the offsets with the
//!   object's type information ([`StructLayout`]).
//! - A name is looked up in the object at each call. A missing name or a wrong size is a [`BpfError`], never a panic.
//! - The kernel opens a pinned object of any kind without complaint, so `program` checks the kind by the descriptor's name.
//! - libbpf prints nothing; its errors are returned with the step, the object and a remedy.
//!
//! The rare branches of this file lose nothing, and so have no counters. An entry that vanishes during [`Table::retain`]
//! was deleted by the program. A failed read in [`Records`] leaves the records in the ring for the next call; the program counts
//! those that did not fit.

mod cgroup;
mod layout;
mod map;
mod options;
mod pin;
mod program;
mod tcx;
mod tracing;

use core::ops::Deref;
use core::ptr::NonNull;
use libbpf_rs::{MapCore, MapFlags, MapHandle, TC_EGRESS, TC_INGRESS, TcAttachPoint, TcHookBuilder};
use rustix::mm::{MapFlags as MmapFlags, ProtFlags};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;
use thiserror::Error;

pub use cgroup::{CgroupLink, has_new_socket_programs, has_socket_option_programs};
pub use layout::StructLayout;
pub use map::{MapFd, wait_grace_period};
pub use options::ObjectOptions;
pub use program::{ProgramFd, ProgramInfo, SkbFields, TestRun, program_info, program_maps, programs_named};
pub use tcx::{detach_tcx, has_tcx, tcx_egress};
pub use tracing::TracingLink;

/// An error of an eBPF operation.
#[derive(Debug, Error)]
pub enum BpfError {
    /// The kernel or libbpf refused a step.
    #[error("eBPF: {step} `{object}`: {source}{hint}")]
    Libbpf {
        /// The step that failed.
        step: &'static str,
        /// The map, program or device.
        object: String,
        /// The error from libbpf.
        source: libbpf_rs::Error,
        /// The remedy.
        hint: &'static str,
    },
    /// The object has no map or program of this name, or its size differs.
    #[error(
        "eBPF: the object has no {what} `{name}` of the size that this program was built for; rebuild weft"
    )]
    Absent {
        /// The kind: map or program.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// Another kind of object is pinned at the path.
    #[error("eBPF: the object pinned at `{path}` is not a {what}; another program pinned it")]
    OtherKind {
        /// The file.
        path: String,
        /// The kind that was expected: map, program or link.
        what: &'static str,
    },
    /// A map that was to replace one of the object's own differs from it.
    #[error(
        "eBPF: map `{map}` has {what} {found}, the program was built for {expected}; it belongs to another version of weft; \
         detach that version first"
    )]
    OtherMap {
        /// The map.
        map: String,
        /// The property that differs.
        what: &'static str,
        /// Its value in the map.
        found: u32,
        /// The value that the program was built for.
        expected: u32,
    },
    /// A map could not be shared with this process.
    #[error("eBPF: map `{name}` cannot be mapped into memory: {source}")]
    Mmap {
        /// The map.
        name: String,
        /// The kernel's error.
        source: rustix::io::Errno,
    },
}

/// The remedy when the kernel refuses a program.
const RIGHTS_HINT: &str =
    "; it needs root (CAP_BPF and CAP_NET_ADMIN) and Linux 5.17 or later (bpf_loop); see `weft doctor`";

fn failed(step: &'static str, object: &str, source: libbpf_rs::Error) -> BpfError {
    BpfError::Libbpf { step, object: object.to_owned(), source, hint: RIGHTS_HINT }
}

/// An error of a step that every supported kernel has, so that only missing capabilities can be the cause.
fn refused(step: &'static str, object: &str, source: libbpf_rs::Error) -> BpfError {
    let hint = match source.kind() {
        libbpf_rs::ErrorKind::PermissionDenied => {
            "; it needs root (CAP_BPF, CAP_NET_ADMIN and CAP_SYS_ADMIN)"
        }
        _ => "",
    };
    BpfError::Libbpf { step, object: object.to_owned(), source, hint }
}

/// A type that may be shared with an eBPF program through an mmapable map.
///
/// # Safety
/// The type is `repr(C)` and consists of integer atomics and padding only, so that every bit pattern is valid and all
/// access is atomic. Its layout is that of the map's value in C.
pub unsafe trait SharedLayout: Sync {}

/// The value of a one-element mmapable array map, in memory shared with the program.
#[derive(Debug)]
pub struct SharedValue<T: SharedLayout> {
    address: NonNull<T>,
    length: usize,
}

// SAFETY: T is Sync and accessed through shared references only; the mapping belongs to the value and is not tied to a thread.
unsafe impl<T: SharedLayout> Send for SharedValue<T> {}
// SAFETY: as above.
unsafe impl<T: SharedLayout> Sync for SharedValue<T> {}

impl<T: SharedLayout> SharedValue<T> {
    fn map(name: &str, fd: BorrowedFd<'_>) -> Result<Self, BpfError> {
        let length = size_of::<T>().next_multiple_of(rustix::param::page_size());
        // SAFETY: a fresh shared mapping at an address of the kernel's choice; nothing else in this process refers to it.
        let address = unsafe {
            rustix::mm::mmap(
                core::ptr::null_mut(),
                length,
                ProtFlags::READ | ProtFlags::WRITE,
                MmapFlags::SHARED,
                fd,
                0,
            )
        }
        .map_err(|source| BpfError::Mmap { name: name.to_owned(), source })?;
        let address = NonNull::new(address.cast::<T>())
            .ok_or_else(|| BpfError::Mmap { name: name.to_owned(), source: rustix::io::Errno::INVAL })?;
        Ok(Self { address, length })
    }
}

impl<T: SharedLayout> Deref for SharedValue<T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: the mapping is page-aligned, at least as long as T, lives as long as self, and any bits are a valid T
        // (the contract of SharedLayout).
        unsafe { self.address.as_ref() }
    }
}

impl<T: SharedLayout> Drop for SharedValue<T> {
    fn drop(&mut self) {
        // SAFETY: address and length are those of the mapping made in `map`; no reference outlives self.
        let _ = unsafe { rustix::mm::munmap(self.address.as_ptr().cast(), self.length) };
    }
}

/// The number of a program's runs and their total time, from the kernel's run-time statistics.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RunStats {
    /// Number of runs.
    pub runs: u64,
    /// Total time of the runs, in nanoseconds.
    pub nanos: u64,
}

/// The statistics of an open program (`bpf_prog_show_fdinfo`, kernel/bpf/syscall.c).
fn fdinfo_stats(program: BorrowedFd<'_>) -> std::io::Result<RunStats> {
    let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", program.as_raw_fd()))?;
    let field = |name: &str| {
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let number = value.and_then(|value| value.trim().parse().ok());
        number.ok_or_else(|| std::io::Error::other(format!("its fdinfo has no {name}")))
    };
    Ok(RunStats { runs: field("run_cnt")?, nanos: field("run_time_ns")? })
}

impl RunStats {
    /// Nanoseconds per run; `None` when the program has not run or statistics are off (`kernel.bpf_stats_enabled`).
    pub fn nanos_per_run(&self) -> Option<f64> {
        (self.runs > 0 && self.nanos > 0).then(|| self.nanos as f64 / self.runs as f64)
    }
}

/// The place of a filter among those of its device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FilterId {
    /// Its number within its priority.
    pub handle: u32,
    /// Its priority.
    pub priority: u32,
}

/// A loaded eBPF object.
#[derive(Debug)]
pub struct Object {
    object: libbpf_rs::Object,
}

impl Object {
    /// Loads an object file's image, with `rodata` as its read-only data.
    ///
    /// # Errors
    /// If the kernel refuses the program (missing capabilities, kernel too old), or the image has no read-only data of that size.
    pub fn load(image: &[u8], rodata: &[u8]) -> Result<Self, BpfError> {
        Self::load_reusing(image, rodata, &[])
    }

    fn map(&self, name: &str) -> Result<libbpf_rs::Map<'_>, BpfError> {
        self.object
            .maps()
            .find(|m| m.name().to_string_lossy() == name)
            .ok_or_else(|| BpfError::Absent { what: "map", name: name.to_owned() })
    }

    /// The map `name` as shared memory.
    ///
    /// # Errors
    /// If the map is missing, its value differs in size from `T`, or it cannot be mapped.
    pub fn shared<T: SharedLayout>(&self, name: &str) -> Result<SharedValue<T>, BpfError> {
        let map = self.map(name)?;
        if map.value_size() as usize != size_of::<T>() {
            return Err(BpfError::Absent { what: "map", name: name.to_owned() });
        }
        SharedValue::map(name, map.as_fd())
    }

    /// Writes element `index` of the array map `name`.
    ///
    /// # Errors
    /// If the map is missing or the kernel refuses the element (index out of range, wrong size).
    pub fn set_element(&self, name: &str, index: u32, value: &[u8]) -> Result<(), BpfError> {
        self.map(name)?
            .update(&index.to_ne_bytes(), value, MapFlags::ANY)
            .map_err(|e| failed("write map", name, e))
    }

    /// The values of element `index` of the per-CPU array map `name`, one for each possible CPU.
    ///
    /// # Errors
    /// If the map is missing or of another type, or the kernel has no such element.
    pub fn per_cpu(&self, name: &str, index: u32) -> Result<Vec<Vec<u8>>, BpfError> {
        let values = self.map(name)?.lookup_percpu(&index.to_ne_bytes(), MapFlags::ANY);
        let absent = || BpfError::Absent { what: "map", name: name.to_owned() };
        values.map_err(|e| failed("read map", name, e))?.ok_or_else(absent)
    }

    /// A handle of the map `name`, for use by another object or process.
    ///
    /// # Errors
    /// If the map is missing or its descriptor cannot be duplicated.
    pub fn map_fd(&self, name: &str) -> Result<MapFd, BpfError> {
        let map = self.map(name)?;
        MapFd::new(MapHandle::try_from(&map).map_err(|e| failed("duplicate map", name, e))?, name)
    }

    /// A handle of the map `name` that can be used from another thread.
    ///
    /// # Errors
    /// If the map is missing or its descriptor cannot be duplicated.
    pub fn table(&self, name: &str) -> Result<Table, BpfError> {
        let map = self.map(name)?;
        let handle = MapHandle::try_from(&map).map_err(|e| failed("duplicate map", name, e))?;
        Ok(Table { handle })
    }

    /// Attaches `program` to the egress (clsact) of device `ifindex` in the calling thread's network namespace. The kernel
    /// removes it with the device.
    ///
    /// # Errors
    /// If the program is missing or the kernel refuses it.
    pub fn attach_egress(&self, program: &str, ifindex: u32) -> Result<FilterId, BpfError> {
        self.attach(program, ifindex, TC_EGRESS, None)
    }

    /// Attaches `program` to the ingress (clsact) of device `ifindex`; otherwise like [`attach_egress`](Self::attach_egress).
    ///
    /// # Errors
    /// If the program is missing or the kernel refuses it.
    pub fn attach_ingress(&self, program: &str, ifindex: u32) -> Result<FilterId, BpfError> {
        self.attach(program, ifindex, TC_INGRESS, None)
    }

    /// Puts `program` in the place of filter `filter` at the egress of device `ifindex`, in one step: each packet passes one of
    /// the two programs.
    ///
    /// # Errors
    /// If the program is missing or the kernel refuses it.
    pub fn replace_egress(
        &self,
        program: &str,
        ifindex: u32,
        filter: FilterId,
    ) -> Result<FilterId, BpfError> {
        self.attach(program, ifindex, TC_EGRESS, Some(filter))
    }

    /// Puts `program` in the place of filter `filter` at the ingress; otherwise like [`replace_egress`](Self::replace_egress).
    ///
    /// # Errors
    /// If the program is missing or the kernel refuses it.
    pub fn replace_ingress(
        &self,
        program: &str,
        ifindex: u32,
        filter: FilterId,
    ) -> Result<FilterId, BpfError> {
        self.attach(program, ifindex, TC_INGRESS, Some(filter))
    }

    fn attach(
        &self,
        program: &str,
        ifindex: u32,
        point: TcAttachPoint,
        former: Option<FilterId>,
    ) -> Result<FilterId, BpfError> {
        let prog = self.program(program)?;
        let mut builder = TcHookBuilder::new(prog.as_fd());
        builder.ifindex(ifindex as i32);
        if let Some(FilterId { handle, priority }) = former {
            builder.handle(handle).priority(priority).replace(true);
        }
        let mut hook = builder.hook(point);
        hook.create().map_err(|e| failed("add clsact to interface", &ifindex.to_string(), e))?;
        let hook =
            hook.attach().map_err(|e| failed("attach program to interface", &ifindex.to_string(), e))?;
        Ok(FilterId { handle: hook.get_handle(), priority: hook.get_priority() })
    }

    fn program(&self, name: &str) -> Result<libbpf_rs::Program<'_>, BpfError> {
        self.object
            .progs()
            .find(|p| p.name().to_string_lossy() == name)
            .ok_or_else(|| BpfError::Absent { what: "program", name: name.to_owned() })
    }

    /// A handle of the program `name`, to which a filter can refer.
    ///
    /// # Errors
    /// If the program is missing, was not loaded, or its descriptor cannot be duplicated.
    pub fn program_fd(&self, name: &str) -> Result<ProgramFd, BpfError> {
        ProgramFd::of(self.program(name)?.as_fd(), name)
    }

    /// The run-time statistics of `program`; zero while statistics are off.
    ///
    /// # Errors
    /// If the program is missing or its id cannot be read.
    pub fn run_stats(&self, program: &str) -> Result<RunStats, BpfError> {
        let prog = self.program(program)?;
        // The library has these only for all programs of the host in turn, of which many ports make many.
        fdinfo_stats(prog.as_fd()).map_err(|e| failed("query program", program, e.into()))
    }

    /// A reader of the ring buffer maps `name` and `wakes`. [`Records::consume`] calls `on_record` for each record of the first.
    /// The second carries wake-ups only, so that a wake-up finds room even when the first is full.
    ///
    /// # Errors
    /// If a map is missing or cannot be mapped.
    pub fn records<'a>(
        &self,
        name: &str,
        wakes: &str,
        mut on_record: impl FnMut(&[u8]) + 'a,
    ) -> Result<Records<'a>, BpfError> {
        let handle =
            |name: &str| MapHandle::try_from(&self.map(name)?).map_err(|e| failed("duplicate map", name, e));
        let maps = [handle(name)?, handle(wakes)?];
        let mut builder = libbpf_rs::RingBufferBuilder::new();
        let take = move |record: &[u8]| {
            on_record(record);
            0
        };
        builder.add(&maps[0], take).map_err(|e| failed("map ring buffer", name, e))?;
        builder.add(&maps[1], |_| 0).map_err(|e| failed("map ring buffer", wakes, e))?;
        let ring = builder.build().map_err(|e| failed("map ring buffer", name, e))?;
        Ok(Records { ring, _maps: maps })
    }
}

/// Stops libbpf from printing to standard error; the errors here carry its messages.
fn quiet() {
    libbpf_rs::set_print(None);
}

/// The reader of a ring buffer map.
pub struct Records<'a> {
    ring: libbpf_rs::RingBuffer<'a>,
    _maps: [MapHandle; 2],
}

impl core::fmt::Debug for Records<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Records").finish_non_exhaustive()
    }
}

impl Records<'_> {
    /// Delivers all pending records without waiting.
    pub fn consume(&self) {
        let _ = self.ring.consume();
    }

    /// Waits for a wake-up, at most `timeout`, and delivers the records.
    pub fn wait(&self, timeout: Duration) {
        let _ = self.ring.poll(timeout);
    }

    /// The descriptor that becomes readable when the program sends a wake-up.
    pub fn wake_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the epoll descriptor belongs to the ring buffer and lives as long as it, which self borrows.
        unsafe { BorrowedFd::borrow_raw(self.ring.epoll_fd()) }
    }
}

/// A hash map whose entries this process expires while the program uses it.
#[derive(Debug)]
pub struct Table {
    handle: MapHandle,
}

impl Table {
    /// Skips the first `skip` elements, calls `keep` for each of the next `bound`, and deletes each one that gives false.
    /// Returns the number of elements checked. Elements that change at the same time may be seen twice or missed.
    pub fn retain(&self, skip: usize, bound: usize, mut keep: impl FnMut(&[u8], &[u8]) -> bool) -> usize {
        let mut seen = 0;
        let mut idle = Vec::new();
        for key in self.handle.keys().skip(skip).take(bound) {
            seen += 1;
            if let Ok(Some(value)) = self.handle.lookup(&key, MapFlags::ANY)
                && !keep(&key, &value)
            {
                idle.push(key);
            }
        }
        for key in &idle {
            let _ = self.handle.delete(key);
        }
        seen
    }

    /// The map's descriptor.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }
}
