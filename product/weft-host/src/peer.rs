//! The process at the other end of a UNIX socket.

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use rustix::process::Pid;
use std::io;
use std::os::fd::AsFd;

/// The number and the user of the process that connected to `socket`, or made the pair (`SO_PEERCRED`, unix(7)). A process outside
/// this process's PID namespace has no number: the kernel gives 0 (`pid_vnr`), which rustix's type of it cannot hold.
///
/// # Errors
/// When the kernel does not say.
pub fn credentials(socket: &impl AsFd) -> io::Result<(Option<Pid>, u32)> {
    let found = getsockopt(socket, PeerCredentials)?;
    Ok((Pid::from_raw(found.pid()), found.uid()))
}
