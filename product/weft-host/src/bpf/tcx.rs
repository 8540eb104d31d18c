//! Programs at a device's egress that run before all filters (tcx, Linux 6.6). They are attached without a link, and stay until
//! the device goes.

use super::{BpfError, Object, ProgramFd, failed};
use libbpf_rs::libbpf_sys;
use std::io;
use std::os::fd::AsRawFd;

/// The most programs at a place (`BPF_MPROG_MAX`, include/linux/bpf_mprog.h).
const PROGRAMS_MAX: usize = 64;

/// The ids of the programs at the egress of device `ifindex` of the calling thread's namespace, in the order in which they run;
/// empty on a kernel without tcx.
///
/// # Errors
/// If the device does not exist, or capabilities are missing.
pub fn tcx_egress(ifindex: u32) -> Result<Vec<u32>, BpfError> {
    Ok(query(ifindex)?.unwrap_or_default())
}

/// Whether device `ifindex` of the calling thread's namespace has a place for tcx programs.
///
/// # Errors
/// As [`tcx_egress`].
pub fn has_tcx(ifindex: u32) -> Result<bool, BpfError> {
    Ok(query(ifindex)?.is_some())
}

/// Detaches the tcx program with this id from the egress of device `ifindex` of the calling thread's namespace.
///
/// # Errors
/// If it is not attached there.
pub fn detach_tcx(program: u32, ifindex: u32) -> Result<(), BpfError> {
    detach(&ProgramFd::by_id(program)?, ifindex)
}

/// The programs at the egress of a device; `None` on a kernel without tcx.
fn query(ifindex: u32) -> Result<Option<Vec<u32>>, BpfError> {
    let mut ids = vec![0_u32; PROGRAMS_MAX];
    let mut query = libbpf_sys::bpf_prog_query_opts {
        sz: size_of::<libbpf_sys::bpf_prog_query_opts>() as libbpf_sys::size_t,
        prog_ids: ids.as_mut_ptr(),
        ..Default::default()
    };
    query.__bindgen_anon_1.count = PROGRAMS_MAX as u32;
    // SAFETY: the kernel writes at most `count` ids to `prog_ids`, which are those of the vector; the other pointers are null.
    // The structure is borrowed for writing.
    let result = unsafe {
        libbpf_sys::bpf_prog_query_opts(ifindex as i32, libbpf_sys::BPF_TCX_EGRESS, &raw mut query)
    };
    match -result {
        0 => {}
        // Before Linux 6.6 the kind of place is unknown.
        libc::EINVAL => return Ok(None),
        error => {
            let error = io::Error::from_raw_os_error(error);
            return Err(failed("read the tcx programs of interface", &ifindex.to_string(), error.into()));
        }
    }
    // SAFETY: both fields of the union are the same number.
    ids.truncate(unsafe { query.__bindgen_anon_1.count } as usize);
    Ok(Some(ids))
}

impl ProgramFd {
    /// Attaches this program after all others at the egress of device `ifindex` of the calling thread's namespace.
    ///
    /// # Errors
    /// If the kernel refuses it or has no tcx.
    pub fn attach_last(&self, ifindex: u32) -> Result<(), BpfError> {
        attach(self, ifindex, libbpf_sys::BPF_F_AFTER, None)
    }
}

impl Object {
    /// Attaches `program` before all others at the egress of device `ifindex` of the calling thread's namespace; where it is
    /// attached already, it moves there.
    ///
    /// # Errors
    /// If the program is missing, or the kernel refuses it or has no tcx.
    pub fn attach_first(&self, program: &str, ifindex: u32) -> Result<(), BpfError> {
        let program = self.program_fd(program)?;
        if tcx_egress(ifindex)?.contains(&program.id()) {
            detach(&program, ifindex)?;
        }
        attach(&program, ifindex, libbpf_sys::BPF_F_BEFORE, None)
    }

    /// Puts `program` in the place of tcx program `former` at the egress of device `ifindex` of the calling thread's namespace.
    ///
    /// # Errors
    /// If one of the programs is missing, or the kernel refuses it.
    pub fn replace_tcx(&self, program: &str, ifindex: u32, former: u32) -> Result<(), BpfError> {
        let former = ProgramFd::by_id(former)?;
        attach(&self.program_fd(program)?, ifindex, libbpf_sys::BPF_F_REPLACE, Some(&former))
    }
}

fn attach(
    program: &ProgramFd,
    ifindex: u32,
    flags: u32,
    replaced: Option<&ProgramFd>,
) -> Result<(), BpfError> {
    let mut options = libbpf_sys::bpf_prog_attach_opts {
        sz: size_of::<libbpf_sys::bpf_prog_attach_opts>() as libbpf_sys::size_t,
        flags,
        ..Default::default()
    };
    if let Some(replaced) = replaced {
        options.__bindgen_anon_1.replace_prog_fd = replaced.as_fd().as_raw_fd();
    }
    // SAFETY: the options are live for the call and have no pointers; the descriptors are borrowed.
    let result = unsafe {
        libbpf_sys::bpf_prog_attach_opts(
            program.as_fd().as_raw_fd(),
            ifindex as i32,
            libbpf_sys::BPF_TCX_EGRESS,
            &raw const options,
        )
    };
    done("attach program by tcx to interface", ifindex, result)
}

fn detach(program: &ProgramFd, ifindex: u32) -> Result<(), BpfError> {
    let options = libbpf_sys::bpf_prog_detach_opts {
        sz: size_of::<libbpf_sys::bpf_prog_detach_opts>() as libbpf_sys::size_t,
        ..Default::default()
    };
    // SAFETY: as in `attach`.
    let result = unsafe {
        libbpf_sys::bpf_prog_detach_opts(
            program.as_fd().as_raw_fd(),
            ifindex as i32,
            libbpf_sys::BPF_TCX_EGRESS,
            &raw const options,
        )
    };
    done("detach program by tcx from interface", ifindex, result)
}

fn done(step: &'static str, ifindex: u32, result: i32) -> Result<(), BpfError> {
    match result {
        0 => Ok(()),
        error => Err(failed(step, &ifindex.to_string(), io::Error::from_raw_os_error(-error).into())),
    }
}
