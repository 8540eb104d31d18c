//! A process that outlives this one, to restore what this one has changed at the host.
//!
//! The guard is this program with other arguments. Its standard input is a pipe of which this process alone has the other end, so it reads
//! the end of the pipe when this process ends, however that ends. It has a separate process group, so Ctrl-C at the terminal does not
//! reach it.

use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

/// A guard, which ends with this value.
#[derive(Debug)]
pub struct Guard(Child);

impl Guard {
    /// Starts this program as a guard, with arguments that make it call [`wait_for_end`] and then restore.
    ///
    /// # Errors
    /// If no process can be started.
    pub fn start<'a>(arguments: impl IntoIterator<Item = &'a str>) -> io::Result<Self> {
        // The running program, also if its file was replaced since.
        let mut command = Command::new("/proc/self/exe");
        command.args(arguments).current_dir("/").process_group(0);
        // Errors of the guard go where this process's go.
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        command.spawn().map(Self)
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // This process has restored, or says why it could not.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits, in a guard, until the process that started it has ended or does not need it.
///
/// # Errors
/// If standard input cannot be read.
pub fn wait_for_end() -> io::Result<()> {
    let (mut input, mut bytes) = (io::stdin().lock(), [0; 64]);
    while input.read(&mut bytes)? > 0 {}
    Ok(())
}
