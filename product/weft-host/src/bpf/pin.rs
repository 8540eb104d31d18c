//! Objects that are pinned in a bpffs.

use super::{BpfError, refused};
use libbpf_rs::libbpf_sys;
use std::ffi::CString;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Pins a map, program or link.
pub(super) fn pin(step: &'static str, fd: BorrowedFd<'_>, path: &Path) -> Result<(), BpfError> {
    let name = file_name(path)?;
    // SAFETY: the path is a zero-terminated string that is live for the call; the descriptor is borrowed.
    match unsafe { libbpf_sys::bpf_obj_pin(fd.as_raw_fd(), name.as_ptr()) } {
        0 => Ok(()),
        _ => Err(refused(step, &path.display().to_string(), std::io::Error::last_os_error().into())),
    }
}

/// Opens the object pinned at `path` if it is a `what`: "map", "program" or "link". The kernel opens an object of any kind,
/// and answers queries for another kind with wrong data. Only the descriptor's name shows the kind
/// (`anon_inode_getfd` in kernel/bpf/syscall.c).
pub(super) fn open_pinned(what: &'static str, path: &Path) -> Result<OwnedFd, BpfError> {
    let (name, object) = (file_name(path)?, path.display().to_string());
    // SAFETY: the path is a zero-terminated string that is live for the call.
    let fd = unsafe { libbpf_sys::bpf_obj_get(name.as_ptr()) };
    if fd < 0 {
        return Err(refused("open the object pinned at", &object, std::io::Error::last_os_error().into()));
    }
    // SAFETY: the call has just returned this new descriptor, which nothing else owns.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    let kind = std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()))
        .map_err(|e| refused("query the object pinned at", &object, e.into()))?;
    let expected = match what {
        "map" => "anon_inode:bpf-map",
        "program" => "anon_inode:bpf-prog",
        _ => "anon_inode:bpf-link",
    };
    match kind.as_os_str() == expected {
        true => Ok(fd),
        false => Err(BpfError::OtherKind { path: object, what }),
    }
}

fn file_name(path: &Path) -> Result<CString, BpfError> {
    CString::new(path.as_os_str().as_bytes())
        .map_err(|_| BpfError::Absent { what: "path", name: path.display().to_string() })
}
