//! Programs attached to functions of the kernel (fentry, BTF tracepoints), and iterators over kernel objects.

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::path::Path;

use libbpf_rs::{Iter, IterOpts, Link};

use super::{BpfError, MapFd, Object, failed, refused};

/// A program attached inside the kernel. It is detached on drop, unless it is pinned.
#[derive(Debug)]
pub struct TracingLink {
    link: Link,
}

impl TracingLink {
    /// The link pinned at `path`.
    ///
    /// # Errors
    /// If nothing is pinned there, or the pinned object is not a link.
    pub fn pinned(path: &Path) -> Result<Self, BpfError> {
        drop(super::pin::open_pinned("link", path)?);
        let link = Link::open(path)
            .map_err(|e| refused("open the object pinned at", &path.display().to_string(), e))?;
        Ok(Self { link })
    }

    /// Pins the link at `path` in a bpf file system. The program stays attached after this process ends, until the file is
    /// removed.
    ///
    /// # Errors
    /// If the file exists, the path is not in a bpf file system, or capabilities are missing.
    pub fn pin(&self, path: &Path) -> Result<(), BpfError> {
        super::pin::pin("pin link at", self.link.as_fd(), path)
    }

    /// The id of the attached program, for [`program_info`](super::program_info).
    ///
    /// # Errors
    /// If the kernel refuses the query.
    pub fn program_id(&self) -> Result<u32, BpfError> {
        self.link.info().map(|info| info.prog_id).map_err(|e| refused("query link of", "a program", e))
    }
}

impl Object {
    /// Attaches the tracing program `name` (sections `tp_btf/...`, `fentry/...`, `fexit/...`) to the target that its section names.
    ///
    /// # Errors
    /// If the program is missing, has another type, or the kernel refuses it.
    pub fn attach_tracing(&self, name: &str) -> Result<TracingLink, BpfError> {
        let link = self
            .programs_mut(name)?
            .attach_trace()
            .map_err(|e| failed("attach program inside the kernel", name, e))?;
        Ok(TracingLink { link })
    }

    /// Runs the iterator program `name` (a section such as `iter/bpf_sk_storage_map`) over all elements of `map`. Returns its
    /// output from `bpf_seq_write`.
    ///
    /// # Errors
    /// If the program is missing, iterates over other objects, or the kernel refuses it.
    pub fn iterate(&self, name: &str, map: &MapFd) -> Result<Vec<u8>, BpfError> {
        let link = self
            .programs_mut(name)?
            .attach_iter(map.as_fd())
            .map_err(|e| failed("attach iterator program", name, e))?;
        let iterator = Iter::new(&link).map_err(|e| failed("open iterator program", name, e))?;
        read_all(iterator).map_err(|e| refused("read iterator program", name, e.into()))
    }

    /// Runs the iterator program `name` over all objects of the kind that its section names, such as `iter/task_file`. Its output is
    /// left out.
    ///
    /// # Errors
    /// If the program is missing, or the kernel refuses it.
    pub fn run_iterator(&self, name: &str) -> Result<(), BpfError> {
        let link = self
            .programs_mut(name)?
            .attach_iter_with_opts(IterOpts::None)
            .map_err(|e| failed("attach iterator program", name, e))?;
        let iterator = Iter::new(&link).map_err(|e| failed("open iterator program", name, e))?;
        read_all(iterator).map(drop).map_err(|e| refused("read iterator program", name, e.into()))
    }

    fn programs_mut(&self, name: &str) -> Result<libbpf_rs::ProgramMut<'_>, BpfError> {
        self.object
            .progs_mut()
            .find(|p| p.name().to_string_lossy() == name)
            .ok_or_else(|| BpfError::Absent { what: "program", name: name.to_owned() })
    }
}

/// Reads to the end. `bpf_seq_read` (kernel/bpf/bpf_iter.c) returns EAGAIN after many elements without output; the next read
/// continues there.
fn read_all(mut from: impl Read) -> io::Result<Vec<u8>> {
    let mut all = Vec::new();
    let mut buffer = vec![0; 64 << 10];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(all),
            Ok(n) => all.extend_from_slice(&buffer[..n]),
            Err(e) if matches!(e.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock) => {}
            Err(e) => return Err(e),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Steps(Vec<io::Result<&'static [u8]>>);

    impl Read for Steps {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let Some(step) = self.0.pop() else { return Ok(0) };
            let bytes = step?;
            buffer[..bytes.len()].copy_from_slice(bytes);
            Ok(bytes.len())
        }
    }

    #[test]
    fn reading_goes_on_after_the_kernel_paused() {
        let pause = || Err(io::ErrorKind::WouldBlock.into());
        assert_eq!(read_all(Steps(vec![Ok(b"c"), pause(), pause(), Ok(b"ab")])).expect("read"), b"abc");
        let broken = Err(io::ErrorKind::PermissionDenied.into());
        assert!(read_all(Steps(vec![broken, Ok(b"ab")])).is_err());
    }
}
