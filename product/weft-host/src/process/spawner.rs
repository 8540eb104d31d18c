//! The thread that forks, and the child's steps between fork and exec.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::{Mutex, OnceLock, mpsc};

use rustix::process::{Pid, Signal};
use rustix::thread::LinkNameSpaceType;

struct Job {
    command: Command,
    answer: mpsc::Sender<io::Result<Child>>,
}

/// Starts `command` from the spawner thread. The child first joins the cgroup (a writable `cgroup.procs`) and the network
/// namespace.
pub(super) fn spawn(
    mut command: Command,
    cgroup: Option<OwnedFd>,
    netns: Option<OwnedFd>,
) -> io::Result<Child> {
    let parent = rustix::process::getpid();
    let prepare = move || in_child(parent, cgroup.as_ref(), netns.as_ref());
    // SAFETY: between fork and exec only async-signal-safe calls are made: `in_child` makes plain system calls on
    // descriptors opened before, and neither allocates nor takes a lock.
    unsafe { command.pre_exec(prepare) };
    let (answer, answered) = mpsc::channel();
    queue()?.send(Job { command, answer }).map_err(|_| gone())?;
    answered.recv().map_err(|_| gone())?
}

fn in_child(parent: Pid, cgroup: Option<&OwnedFd>, netns: Option<&OwnedFd>) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    // If the parent died before the line above, no signal will be sent.
    if rustix::process::getppid() != Some(parent) {
        return Err(io::Error::from_raw_os_error(libc::ESRCH));
    }
    rustix::process::setsid()?;
    if let Some(procs) = cgroup {
        rustix::io::write(procs, b"0")?;
    }
    if let Some(ns) = netns {
        rustix::thread::move_into_link_name_space(ns.as_fd(), Some(LinkNameSpaceType::Network))?;
    }
    Ok(())
}

/// The channel to this process's spawner thread, which is started at first use and never ends.
fn queue() -> io::Result<mpsc::Sender<Job>> {
    static QUEUE: OnceLock<Mutex<Option<mpsc::Sender<Job>>>> = OnceLock::new();
    let slot = QUEUE.get_or_init(|| Mutex::new(None));
    let mut slot = slot.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(queue) = slot.as_ref() {
        return Ok(queue.clone());
    }
    let (queue, jobs) = mpsc::channel::<Job>();
    std::thread::Builder::new().name("weft-spawner".into()).spawn(move || {
        for mut job in jobs {
            // If the receiver is gone, the child is dropped without being reaped, but keeps its death signal.
            let _ = job.answer.send(job.command.spawn());
        }
    })?;
    *slot = Some(queue.clone());
    Ok(queue)
}

fn gone() -> io::Error {
    io::Error::other("the thread that starts programs has ended")
}
