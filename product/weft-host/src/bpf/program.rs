//! Programs of any process: the kernel's information about them, their maps, and pinning.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use libbpf_rs::libbpf_sys::{self, bpf_prog_info};
use libbpf_rs::query::ProgInfoIter;

use super::pin::{open_pinned, pin};
use super::{BpfError, MapFd, RunStats, refused};
use crate::netlink::c_string;
use weft_units::Nanos;

/// A loaded program of this or another process, held open.
#[derive(Debug)]
pub struct ProgramFd {
    fd: OwnedFd,
    id: u32,
}

impl ProgramFd {
    pub(super) fn of(fd: BorrowedFd<'_>, object: &str) -> Result<Self, BpfError> {
        let fd = fd.try_clone_to_owned().map_err(|e| refused("duplicate program", object, e.into()))?;
        let id =
            libbpf_rs::Program::id_from_fd(fd.as_fd()).map_err(|e| refused("query program", object, e))?;
        Ok(Self { fd, id })
    }

    /// The program with kernel id `id`, from any process (`BPF_PROG_GET_FD_BY_ID`).
    ///
    /// # Errors
    /// If there is no such program, or CAP_SYS_ADMIN is missing.
    pub fn by_id(id: u32) -> Result<Self, BpfError> {
        let fd = libbpf_rs::Program::fd_from_id(id)
            .map_err(|e| refused("open program number", &id.to_string(), e))?;
        Ok(Self { fd, id })
    }

    /// The program pinned at `path`.
    ///
    /// # Errors
    /// If nothing is pinned there, or the pinned object is not a program.
    pub fn pinned(path: &Path) -> Result<Self, BpfError> {
        let object = path.display().to_string();
        let fd = open_pinned("program", path)?;
        Self::of(fd.as_fd(), &object)
    }

    /// Pins the program at `path` in a bpf file system. It outlives this process until the file is removed.
    ///
    /// # Errors
    /// If the file exists, the path is not in a bpf file system, or capabilities are missing.
    pub fn pin(&self, path: &Path) -> Result<(), BpfError> {
        pin("pin program at", self.fd.as_fd(), path)
    }

    /// Runs a program of type `syscall` once in the calling thread. The program may change `context`.
    ///
    /// # Errors
    /// If it has another type, or the kernel refuses to run it.
    pub fn run(&self, context: &mut [u8]) -> Result<u32, BpfError> {
        let mut options = libbpf_sys::bpf_test_run_opts {
            sz: size_of::<libbpf_sys::bpf_test_run_opts>() as libbpf_sys::size_t,
            ctx_in: context.as_mut_ptr().cast(),
            ctx_size_in: context.len() as u32,
            ..Default::default()
        };
        // SAFETY: the kernel reads and writes at most `ctx_size_in` bytes at `ctx_in`, which are those of `context`, borrowed for
        // writing; the other pointers are null.
        let result = unsafe { libbpf_sys::bpf_prog_test_run_opts(self.fd.as_raw_fd(), &raw mut options) };
        if result != 0 {
            let reason = std::io::Error::from_raw_os_error(-result);
            return Err(refused("run program number", &self.id.to_string(), reason.into()));
        }
        Ok(options.retval)
    }

    /// Runs a classifier `repeat` times on `frame`, which the kernel neither sends nor receives (`BPF_PROG_TEST_RUN`).
    ///
    /// # Errors
    /// If it has another type, or the kernel refuses to run it.
    pub fn test(&self, frame: &[u8], given: SkbFields, repeat: u32) -> Result<TestRun, BpfError> {
        let mut context = [0; SkbFields::BYTES];
        context[SkbFields::MARK..SkbFields::MARK + 4].copy_from_slice(&given.mark.to_ne_bytes());
        context[SkbFields::PRIORITY..].copy_from_slice(&given.priority.to_ne_bytes());
        let mut options = libbpf_sys::bpf_test_run_opts {
            sz: size_of::<libbpf_sys::bpf_test_run_opts>() as libbpf_sys::size_t,
            data_in: frame.as_ptr().cast(),
            data_size_in: frame.len() as u32,
            ctx_in: context.as_ptr().cast(),
            ctx_size_in: context.len() as u32,
            repeat: i32::try_from(repeat).unwrap_or(i32::MAX),
            ..Default::default()
        };
        // SAFETY: the kernel reads the given numbers of bytes at `data_in` and `ctx_in`, those of `frame` and `context`, which are
        // live for the call, and writes to neither, since the pointers for output are null.
        let result = unsafe { libbpf_sys::bpf_prog_test_run_opts(self.fd.as_raw_fd(), &raw mut options) };
        if result != 0 {
            let reason = std::io::Error::from_raw_os_error(-result);
            return Err(refused("test program number", &self.id.to_string(), reason.into()));
        }
        Ok(TestRun { result: options.retval, mean: Nanos(options.duration.into()) })
    }

    /// The kernel's id of the program.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// The program's descriptor.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The fields of a packet's `struct __sk_buff` that [`ProgramFd::test`] sets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SkbFields {
    /// The mark.
    pub mark: u32,
    /// The priority.
    pub priority: u32,
}

impl SkbFields {
    /// The offsets in `struct __sk_buff` (linux/bpf.h), and the end of the last field.
    const MARK: usize = 8;
    const PRIORITY: usize = 32;
    const BYTES: usize = 36;
}

/// The outcome of [`ProgramFd::test`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TestRun {
    /// The program's result in the last run.
    pub result: u32,
    /// The mean time of a run.
    pub mean: Nanos,
}

/// The kernel's information about a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramInfo {
    /// Its id.
    pub id: u32,
    /// Its name as the kernel stores it: at most 15 bytes.
    pub name: String,
    /// The hash of its instructions.
    pub tag: [u8; 8],
    /// The number and time of its runs; zero while statistics are off (`kernel.bpf_stats_enabled`).
    pub stats: RunStats,
    /// Runs that were skipped because the program was already running on the same CPU (tracing programs only).
    pub recursion_misses: u64,
}

/// The kernel's information about the program with id `id`.
///
/// # Errors
/// If there is no such program, or CAP_SYS_ADMIN is missing.
pub fn program_info(id: u32) -> Result<ProgramInfo, BpfError> {
    let program = ProgramFd::by_id(id)?;
    let info = info(&program, &mut [])?;
    let name = c_string(&info.name.map(|letter| letter as u8));
    Ok(ProgramInfo {
        id,
        name,
        tag: info.tag,
        stats: RunStats { runs: info.run_cnt, nanos: info.run_time_ns },
        recursion_misses: info.recursion_misses,
    })
}

/// The ids of the loaded programs with the kernel name `name` (its first 15 bytes), from any process. Empty without
/// CAP_SYS_ADMIN.
pub fn programs_named(name: &str) -> Vec<u32> {
    let named = |info: &libbpf_rs::query::ProgramInfo| info.name == name;
    ProgInfoIter::default().filter(named).map(|info| info.id).collect()
}

/// The maps of the program with id `id`: their ids, for [`MapFd::by_id`], and their names.
///
/// # Errors
/// If there is no such program, or CAP_SYS_ADMIN is missing.
pub fn program_maps(id: u32) -> Result<Vec<(u32, String)>, BpfError> {
    let program = ProgramFd::by_id(id)?;
    let count = info(&program, &mut [])?.nr_map_ids as usize;
    // The maps of a program do not change once it is loaded.
    let mut ids = vec![0; count];
    let written = info(&program, &mut ids)?.nr_map_ids as usize;
    ids.truncate(written);
    ids.into_iter().map(|map| Ok((map, MapFd::by_id(map)?.name()))).collect()
}

/// Reads `struct bpf_prog_info`, and writes the ids of the maps to `maps`.
fn info(program: &ProgramFd, maps: &mut [u32]) -> Result<bpf_prog_info, BpfError> {
    let mut info = bpf_prog_info {
        nr_map_ids: maps.len() as u32,
        map_ids: maps.as_mut_ptr() as u64,
        ..bpf_prog_info::default()
    };
    let mut length = size_of::<bpf_prog_info>() as u32;
    // SAFETY: the kernel reads and writes at most `length` bytes of the structure, whose only pointer and count are those of
    // `maps`, which is borrowed for writing; both are live for the call.
    let result = unsafe {
        libbpf_sys::bpf_obj_get_info_by_fd(program.fd.as_raw_fd(), (&raw mut info).cast(), &raw mut length)
    };
    match result {
        0 => Ok(info),
        _ => Err(refused(
            "query program number",
            &program.id.to_string(),
            std::io::Error::last_os_error().into(),
        )),
    }
}
