//! Packaged programs, run inside a namespace and a cgroup.
//!
//! A program joins its cgroup and its namespace before it begins, is killed by the kernel when this process dies, and is
//! stopped when its [`Process`] is dropped. It has a session of its own: Ctrl-C at the terminal reaches this process
//! only, which then ends its programs in order.
//!
//! The kernel sends the death signal when the *thread* that forked ends, not the process. All programs are therefore
//! started by one thread that lives as long as the process does.

mod output;
mod spawner;

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::PidfdFlags;
pub use rustix::process::{Pid, Signal};

use crate::cgroup::{Cgroup, CgroupError};
use crate::error::OsError;
use crate::netns::NetNs;
use crate::programs;

pub use output::{CAPTURE_LIMIT, Output};
use output::{Captured, Stream};

/// How long a dropped process may take to end by itself after SIGTERM.
const DROP_GRACE: Duration = Duration::from_millis(500);

/// What can go wrong with a program.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// The kernel refused a call.
    #[error(transparent)]
    Os(#[from] OsError),
    /// Its cgroup cannot be joined.
    #[error(transparent)]
    Cgroup(#[from] CgroupError),
    /// The program is not installed.
    #[error("the program {program} is not installed{}", install(.package))]
    NotInstalled {
        /// Its name.
        program: String,
        /// The Debian package that has it, if known.
        package: Option<&'static str>,
    },
}

/// The result of a process operation.
pub type Result<T> = std::result::Result<T, ProcessError>;

fn install(package: &Option<&'static str>) -> String {
    package.map_or_else(String::new, |package| format!("; install it with: apt-get install {package}"))
}

/// A program about to be started.
///
/// ```no_run
/// use weft_host::{NetNs, Spawn, process::Output};
/// let ns = NetNs::anonymous()?;
/// let server = Spawn::new("iperf3").args(["-s", "-1"]).netns(&ns).stdout(Output::Capture).start()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "a program begins with start()"]
pub struct Spawn<'a> {
    program: String,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    directory: Option<PathBuf>,
    netns: Option<&'a NetNs>,
    cgroup: Option<&'a Cgroup>,
    stdin: bool,
    stdout: Output,
    stderr: Output,
}

impl<'a> Spawn<'a> {
    /// A program by its name, or by its path if that has a slash. Its output is thrown away unless said otherwise.
    pub fn new(program: impl Into<String>) -> Self {
        Spawn {
            program: program.into(),
            args: Vec::new(),
            env: Vec::new(),
            directory: None,
            netns: None,
            cgroup: None,
            stdin: false,
            stdout: Output::Null,
            stderr: Output::Null,
        }
    }

    /// Adds an argument.
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    /// Adds arguments.
    pub fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// Sets a variable of its environment.
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.env.push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Sets the directory it starts in.
    pub fn directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directory = Some(directory.into());
        self
    }

    /// The network namespace it runs in.
    pub fn netns(mut self, ns: &'a NetNs) -> Self {
        self.netns = Some(ns);
        self
    }

    /// The cgroup it runs in.
    pub fn cgroup(mut self, cgroup: &'a Cgroup) -> Self {
        self.cgroup = Some(cgroup);
        self
    }

    /// Gives it a standard input that [`Process::take_stdin`] writes to; else it reads end of file.
    pub fn stdin_piped(mut self) -> Self {
        self.stdin = true;
        self
    }

    /// Where its standard output goes.
    pub fn stdout(mut self, output: Output) -> Self {
        self.stdout = output;
        self
    }

    /// Where its error output goes.
    pub fn stderr(mut self, output: Output) -> Self {
        self.stderr = output;
        self
    }

    /// Starts it.
    pub fn start(self) -> Result<Process> {
        let Some(path) = programs::find(&self.program) else {
            let package = programs::package_of(&self.program);
            return Err(ProcessError::NotInstalled { program: self.program, package });
        };
        let action = self.to_string();
        let cgroup = self.cgroup.map(Cgroup::open_procs).transpose()?;
        let netns = self.netns.map(|ns| ns.fd().try_clone_to_owned()).transpose();
        let failed = |e: io::Error| OsError::new(&action, e);
        let netns = netns.map_err(failed)?;
        let mut command = std::process::Command::new(path);
        command.args(&self.args).envs(self.env.iter().map(|(name, value)| (name, value)));
        command.stdin(if self.stdin { Stdio::piped() } else { Stdio::null() });
        command.stdout(self.stdout.stdio().map_err(failed)?).stderr(self.stderr.stdio().map_err(failed)?);
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        let mut child = spawner::spawn(command, cgroup, netns).map_err(failed)?;
        let stdout = self.stdout.stream(child.stdout.take().map(OwnedFd::from)).map_err(failed);
        let stderr = self.stderr.stream(child.stderr.take().map(OwnedFd::from)).map_err(failed);
        let pid = Pid::from_child(&child);
        let pidfd = rustix::process::pidfd_open(pid, PidfdFlags::empty()).map_err(|e| failed(e.into()));
        // From here on a failure must not leave the child behind.
        match (stdout, stderr, pidfd) {
            (Ok(stdout), Ok(stderr), Ok(pidfd)) => {
                Ok(Process { name: self.program, child, pid, pidfd, status: None, stdout, stderr })
            }
            (stdout, stderr, pidfd) => {
                let _ = child.kill();
                let _ = child.wait();
                let errors = [stdout.err(), stderr.err(), pidfd.err()];
                Err(errors
                    .into_iter()
                    .flatten()
                    .next()
                    .unwrap_or_else(|| failed(io::Error::other("?")))
                    .into())
            }
        }
    }
}

impl fmt::Display for Spawn<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "start {}", self.program)?;
        if let Some(ns) = self.netns {
            write!(f, " in network namespace {ns}")?;
        }
        if let Some(cgroup) = self.cgroup {
            write!(f, " in cgroup {}", cgroup.path().display())?;
        }
        Ok(())
    }
}

/// A program that was started. It is stopped when the value is dropped.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    pid: Pid,
    pidfd: OwnedFd,
    status: Option<ExitStatus>,
    stdout: Stream,
    stderr: Stream,
}

impl Process {
    /// Its number.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Its name, as it was asked for.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How it ended, if it has.
    pub fn try_wait(&mut self) -> Result<Option<ExitStatus>> {
        if self.status.is_none() {
            self.status = self.child.try_wait().map_err(|e| self.failed("wait for", e))?;
        }
        Ok(self.status)
    }

    /// Waits until it ends.
    pub fn wait(&mut self) -> Result<ExitStatus> {
        let status = self.child.wait().map_err(|e| self.failed("wait for", e))?;
        self.status = Some(status);
        Ok(status)
    }

    /// Waits until it ends, but no longer than `timeout`.
    pub fn wait_timeout(&mut self, timeout: Duration) -> Result<Option<ExitStatus>> {
        let deadline = Instant::now() + timeout;
        loop {
            if let Some(status) = self.try_wait()? {
                return Ok(Some(status));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            let left = Timespec::try_from(left).ok();
            let mut ready = [PollFd::new(&self.pidfd, PollFlags::IN)];
            match poll(&mut ready, left.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(self.failed("wait for", e.into()).into()),
            }
        }
    }

    /// Sends it a signal; nothing happens if it has ended.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        match rustix::process::pidfd_send_signal(self.pidfd.as_fd(), signal) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
            Err(e) => Err(self.failed("signal", e.into()).into()),
        }
    }

    /// Asks it to end (SIGTERM), and after `grace` makes it (SIGKILL).
    pub fn stop(&mut self, grace: Duration) -> Result<ExitStatus> {
        if let Some(status) = self.try_wait()? {
            return Ok(status);
        }
        self.signal(Signal::TERM)?;
        if let Some(status) = self.wait_timeout(grace)? {
            return Ok(status);
        }
        self.signal(Signal::KILL)?;
        self.wait()
    }

    /// The pipe to its standard input, once, if it was started with [`Spawn::stdin_piped`].
    pub fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    /// The pipe from its standard output, once, if it was started with [`Output::Pipe`].
    pub fn take_stdout(&mut self) -> Option<std::fs::File> {
        self.stdout.take_pipe()
    }

    /// What it has written to its standard output so far, if that is [captured](Output::Capture). After it has
    /// ended: all of it.
    pub fn stdout(&mut self) -> Captured {
        let ended = self.status.is_some();
        self.stdout.captured(ended)
    }

    /// What it has written to its error output so far, if that is [captured](Output::Capture).
    pub fn stderr(&mut self) -> Captured {
        let ended = self.status.is_some();
        self.stderr.captured(ended)
    }

    fn failed(&self, deed: &str, error: io::Error) -> OsError {
        OsError::new(format!("{deed} {} (process {})", self.name, self.pid.as_raw_nonzero()), error)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Nobody can be told here. The kernel's death signal is the last resort.
        let _ = self.stop(DROP_GRACE);
    }
}
