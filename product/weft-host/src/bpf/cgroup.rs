//! Programs attached to a cgroup, which see the system calls of the processes in it and below it.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;

use libbpf_rs::{Link, ProgramType};

use super::{BpfError, Object, failed, refused};

/// A program attached to a cgroup. It is detached on drop. Programs of others at the same cgroup stay and run as well.
#[derive(Debug)]
pub struct CgroupLink {
    _link: Link,
}

impl Object {
    /// Attaches the program `name` (a section such as `cgroup/setsockopt`) to the cgroup with this directory.
    ///
    /// # Errors
    /// If the program or the directory is missing, or the kernel refuses it, such as below a cgroup whose program admits no
    /// other.
    pub fn attach_cgroup(&self, name: &str, directory: &Path) -> Result<CgroupLink, BpfError> {
        let opened = File::open(directory);
        let cgroup =
            opened.map_err(|e| refused("open cgroup", &directory.display().to_string(), e.into()))?;
        let program = self
            .object
            .progs_mut()
            .find(|program| program.name().to_string_lossy() == name)
            .ok_or_else(|| BpfError::Absent { what: "program", name: name.to_owned() })?;
        let link = program
            .attach_cgroup(cgroup.as_raw_fd())
            .map_err(|e| failed("attach program to a cgroup", name, e))?;
        Ok(CgroupLink { _link: link })
    }
}

/// Whether the kernel has programs for socket options (CONFIG_CGROUP_BPF).
///
/// # Errors
/// If it cannot be tried, since capabilities are missing.
pub fn has_socket_option_programs() -> Result<bool, BpfError> {
    has(ProgramType::CgroupSockopt, "cgroup/setsockopt")
}

/// Whether the kernel has programs that see new sockets (CONFIG_CGROUP_BPF).
///
/// # Errors
/// If it cannot be tried, since capabilities are missing.
pub fn has_new_socket_programs() -> Result<bool, BpfError> {
    has(ProgramType::CgroupSock, "cgroup/sock_create")
}

fn has(kind: ProgramType, section: &str) -> Result<bool, BpfError> {
    super::quiet();
    kind.is_supported().map_err(|e| refused("try a program of type", section, e))
}
