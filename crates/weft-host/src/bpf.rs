//! eBPF: loading an object, sharing its maps with this process, attaching to a device's egress or inside the kernel.
//!
//! [`Object`] is what this process loaded; [`MapFd`] and [`ProgramFd`] are maps and programs of any process, found by number
//! or in a bpf file system (`crate::bpffs`).

mod layout;
mod map;
mod options;
mod program;
mod tracing;

use core::ops::Deref;
use core::ptr::NonNull;
use libbpf_rs::query::ProgInfoIter;
use libbpf_rs::{MapCore, MapFlags, MapHandle, TC_EGRESS, TC_INGRESS, TcAttachPoint, TcHookBuilder};
use rustix::mm::{MapFlags as MmapFlags, ProtFlags};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;
use thiserror::Error;

pub use layout::StructLayout;
pub use map::MapFd;
pub use options::ObjectOptions;
pub use program::{ProgramFd, ProgramInfo, program_info, program_maps, programs_named};
pub use tracing::TracingLink;

/// Why an eBPF program could not be used.
#[derive(Debug, Error)]
pub enum BpfError {
    /// The kernel or libbpf refused a step.
    #[error("eBPF: {step} `{object}`: {source}{hint}")]
    Libbpf {
        /// What was tried.
        step: &'static str,
        /// On which map, program or device.
        object: String,
        /// What libbpf says.
        source: libbpf_rs::Error,
        /// What to do about it.
        hint: &'static str,
    },
    /// The object has no such map or program, or one of another size.
    #[error(
        "eBPF: the object has no {what} `{name}` of the size that this program was built for; rebuild weft"
    )]
    Absent {
        /// Map or program.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// Something else is pinned there.
    #[error("eBPF: what is pinned at `{path}` is no {what}; it was put there by another program")]
    OtherKind {
        /// The file.
        path: String,
        /// What was looked for: map, program or link.
        what: &'static str,
    },
    /// The map that was to be used in place of the object's own is another.
    #[error(
        "eBPF: map `{map}` has {what} {found}, the program was built for {expected}; it belongs to another version of weft: \
         detach that first"
    )]
    OtherMap {
        /// The map.
        map: String,
        /// What differs.
        what: &'static str,
        /// What the map has.
        found: u32,
        /// What the program was built for.
        expected: u32,
    },
    /// A map could not be shared with this process.
    #[error("eBPF: map `{name}` into memory: {source}")]
    Mmap {
        /// The map.
        name: String,
        /// What the kernel says.
        source: rustix::io::Errno,
    },
}

/// What is to do when the kernel refuses a program.
const RIGHTS_HINT: &str =
    "; it needs root (CAP_BPF and CAP_NET_ADMIN) and Linux 5.17 or later (bpf_loop); `weft doctor` says more";

fn failed(step: &'static str, object: &str, source: libbpf_rs::Error) -> BpfError {
    BpfError::Libbpf { step, object: object.to_owned(), source, hint: RIGHTS_HINT }
}

/// As [`failed`], of a step that any kernel of ours can do: only rights can be missing.
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
/// The type is `repr(C)`, made of integer atomics and padding only (every bit pattern is valid, all access is atomic), and
/// lies in memory as the C declaration of the map's value does.
pub unsafe trait SharedLayout: Sync {}

/// The value of a one-element mmapable array map, seen by this process and by the program at once.
#[derive(Debug)]
pub struct SharedValue<T: SharedLayout> {
    address: NonNull<T>,
    length: usize,
}

// SAFETY: T is Sync and reached by shared reference only; the mapping belongs to the value and is not tied to a thread.
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

/// How often a program has run and how long it took, from the kernel's run-time statistics.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RunStats {
    /// Number of runs.
    pub runs: u64,
    /// Nanoseconds spent in them.
    pub nanos: u64,
}

impl RunStats {
    /// Nanoseconds per run; `None` when the program has not run or statistics are off (`kernel.bpf_stats_enabled`).
    pub fn nanos_per_run(&self) -> Option<f64> {
        (self.runs > 0 && self.nanos > 0).then(|| self.nanos as f64 / self.runs as f64)
    }
}

/// A loaded eBPF object.
#[derive(Debug)]
pub struct Object {
    object: libbpf_rs::Object,
}

impl Object {
    /// Loads an object file's image, its read-only data set to `rodata` first.
    ///
    /// # Errors
    /// When the kernel refuses the program (no rights, too old) or the image has no read-only data of that size.
    pub fn load(image: &[u8], rodata: &[u8]) -> Result<Self, BpfError> {
        Self::load_with(
            image,
            &ObjectOptions { name: "doorbell", rodata: Some(rodata), ..Default::default() },
        )
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
    /// When there is no such map, its value is not as large as `T`, or it cannot be mapped.
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
    /// When there is no such map or the kernel refuses the element (index out of range, size).
    pub fn set_element(&self, name: &str, index: u32, value: &[u8]) -> Result<(), BpfError> {
        self.map(name)?
            .update(&index.to_ne_bytes(), value, MapFlags::ANY)
            .map_err(|e| failed("write map", name, e))
    }

    /// A handle of the map `name`, by which another object or process can use it.
    ///
    /// # Errors
    /// When there is no such map or its descriptor cannot be duplicated.
    pub fn map_fd(&self, name: &str) -> Result<MapFd, BpfError> {
        let map = self.map(name)?;
        MapFd::new(MapHandle::try_from(&map).map_err(|e| failed("duplicate map", name, e))?, name)
    }

    /// A handle of the map `name` that can be used from another thread.
    ///
    /// # Errors
    /// When there is no such map or its descriptor cannot be duplicated.
    pub fn table(&self, name: &str) -> Result<Table, BpfError> {
        let map = self.map(name)?;
        let handle = MapHandle::try_from(&map).map_err(|e| failed("duplicate map", name, e))?;
        Ok(Table { handle })
    }

    /// Attaches `program` to the egress (clsact) of device `ifindex` of the calling thread's network namespace. It goes
    /// away with the device.
    ///
    /// # Errors
    /// When there is no such program or the kernel refuses it.
    pub fn attach_egress(&self, program: &str, ifindex: u32) -> Result<(), BpfError> {
        self.attach(program, ifindex, TC_EGRESS)
    }

    /// Attaches `program` to the ingress (clsact) of device `ifindex`; otherwise as [`attach_egress`](Self::attach_egress).
    ///
    /// # Errors
    /// When there is no such program or the kernel refuses it.
    pub fn attach_ingress(&self, program: &str, ifindex: u32) -> Result<(), BpfError> {
        self.attach(program, ifindex, TC_INGRESS)
    }

    fn attach(&self, program: &str, ifindex: u32, point: TcAttachPoint) -> Result<(), BpfError> {
        let prog = self.program(program)?;
        let mut builder = TcHookBuilder::new(prog.as_fd());
        let mut hook = builder.ifindex(ifindex as i32).hook(point);
        hook.create().map_err(|e| failed("add clsact to interface", &ifindex.to_string(), e))?;
        hook.attach().map_err(|e| failed("attach program to interface", &ifindex.to_string(), e))?;
        Ok(())
    }

    fn program(&self, name: &str) -> Result<libbpf_rs::Program<'_>, BpfError> {
        self.object
            .progs()
            .find(|p| p.name().to_string_lossy() == name)
            .ok_or_else(|| BpfError::Absent { what: "program", name: name.to_owned() })
    }

    /// A handle of the program `name`, by which a filter can name it.
    ///
    /// # Errors
    /// When there is no such program, it was not loaded, or its descriptor cannot be duplicated.
    pub fn program_fd(&self, name: &str) -> Result<ProgramFd, BpfError> {
        ProgramFd::of(self.program(name)?.as_fd(), name)
    }

    /// The run-time statistics of `program`; zeros while they are switched off.
    ///
    /// # Errors
    /// When there is no such program or its id cannot be read.
    pub fn run_stats(&self, program: &str) -> Result<RunStats, BpfError> {
        let prog = self.program(program)?;
        let id =
            libbpf_rs::Program::id_from_fd(prog.as_fd()).map_err(|e| failed("query program", program, e))?;
        let info = ProgInfoIter::default().find(|info| info.id == id);
        Ok(info
            .map_or_else(RunStats::default, |info| RunStats { runs: info.run_cnt, nanos: info.run_time_ns }))
    }

    /// The ring buffer maps `name` and `wakes`; `on_record` is called for each record of the first by [`Records::consume`].
    /// The second holds nothing but wake-ups, for which there is room however full the first is.
    ///
    /// # Errors
    /// When there is no such map or it cannot be mapped.
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

/// libbpf prints to standard error by itself; what matters is in our errors.
fn quiet() {
    libbpf_rs::set_print(None);
}

/// The reading end of a ring buffer map.
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
    /// Hands on all records that are there, without waiting.
    pub fn consume(&self) {
        let _ = self.ring.consume();
    }

    /// Waits for a wake-up, at most `timeout`, and hands on the records.
    pub fn wait(&self, timeout: Duration) {
        let _ = self.ring.poll(timeout);
    }

    /// The descriptor that becomes readable when the program wakes this end.
    pub fn wake_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the epoll descriptor belongs to the ring buffer and lives as long as it, which self borrows.
        unsafe { BorrowedFd::borrow_raw(self.ring.epoll_fd()) }
    }
}

/// A hash map that this process tidies while the program uses it.
#[derive(Debug)]
pub struct Table {
    handle: MapHandle,
}

impl Table {
    /// Passes over the first `skip` elements, calls `keep` for each of the next `bound` and deletes those for which it says
    /// no. Returns how many were looked at. Elements that change meanwhile may be seen twice or not at all.
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
