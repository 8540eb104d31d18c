//! Iterators that stay: pinned in a bpf file system, read like files.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::{BpfError, MapFd, Object, failed};

impl Object {
    /// Pins the iterator program `name` over all elements of `map` at `path` in a bpf file system: whoever reads the file runs
    /// it ([`read_iterator`]).
    ///
    /// # Errors
    /// When there is no such program, it iterates over something else, or the kernel refuses it.
    pub fn pin_iterator(&self, name: &str, map: &MapFd, path: &Path) -> Result<(), BpfError> {
        let program = self.object.progs_mut().find(|p| p.name().to_string_lossy() == name);
        let program = program.ok_or_else(|| BpfError::Absent { what: "program", name: name.to_owned() })?;
        let mut link =
            program.attach_iter(map.as_fd()).map_err(|e| failed("attach iterator program", name, e))?;
        link.pin(path).map_err(|e| failed("pin iterator program", name, e))
    }
}

/// Runs the iterator that is pinned at `path`; returns what it wrote.
///
/// # Errors
/// When the file cannot be read.
pub fn read_iterator(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut all = Vec::new();
    let mut file = File::open(path)?;
    loop {
        match file.read_to_end(&mut all) {
            Ok(_) => return Ok(all),
            // bpf_seq_read (kernel/bpf/bpf_iter.c) pauses so after very many elements without output.
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}
