//! Installed programs, run inside a namespace and a cgroup, and ended with this process.
//!
//! The steps of [`Spawn::start`]:
//!
//! 1. The program is found in PATH or the administrator's directories (`crate::programs`); if it is missing, the error names its
//!    package.
//! 2. `cgroup.procs` and the namespace's descriptor are opened before the fork, since the child may only make
//!    async-signal-safe calls.
//! 3. The spawner thread (`spawner`) forks. The child requests a death signal, starts a session, joins the cgroup and the
//!    namespace, and calls exec. No instruction of the program runs outside them.
//! 4. The parent opens a pidfd, and starts a reader for each captured stream (`output`).
//!
//! [`Process`] owns the child, its pidfd and its streams. Dropping it sends SIGTERM and, after `DROP_GRACE`, SIGKILL. Signals
//! go through the pidfd, so a reused process number never receives one.
//!
//! These rules hold:
//!
//! - No program outlives this process. The kernel sends the death signal when the *thread* that forked ends, so one
//!   thread, which lives as long as the process, starts all programs.
//! - Ctrl-C at the terminal reaches only this process, because each program has its own session. This process ends the
//!   programs in order.
//! - A captured stream is always read, and stored up to [`CAPTURE_LIMIT`], so a program never blocks on a full pipe.
//!   `Captured` reports the number of bytes discarded.
//!
//! Rare branches: a failure after the fork kills and reaps the child before the error returns. ESRCH from a signal means that the
//! program has ended, which is the aim. A drop that cannot stop the program relies on the death signal.

pub mod guard;
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

/// The time that a dropped process has to end after SIGTERM.
const DROP_GRACE: Duration = Duration::from_millis(500);

/// An error of a process operation.
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

/// A program to be started.
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
    /// A program by name, or by path if it contains a slash. Its output is discarded by default.
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

    /// Sets the working directory.
    pub fn directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directory = Some(directory.into());
        self
    }

    /// Sets the network namespace.
    pub fn netns(mut self, ns: &'a NetNs) -> Self {
        self.netns = Some(ns);
        self
    }

    /// Sets the cgroup.
    pub fn cgroup(mut self, cgroup: &'a Cgroup) -> Self {
        self.cgroup = Some(cgroup);
        self
    }

    /// Gives it a standard input that [`Process::take_stdin`] writes to. By default it reads end of file.
    pub fn stdin_piped(mut self) -> Self {
        self.stdin = true;
        self
    }

    /// Sets the destination of its standard output.
    pub fn stdout(mut self, output: Output) -> Self {
        self.stdout = output;
        self
    }

    /// Sets the destination of its standard error.
    pub fn stderr(mut self, output: Output) -> Self {
        self.stderr = output;
        self
    }

    /// Starts the program.
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
        // From here on, a failure must not leave the child running.
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

/// A running program. It is stopped when the value is dropped.
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
    /// Its process number.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Its name, as given to [`Spawn::new`].
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its exit status, if it has ended.
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

    /// Waits until it ends, at most `timeout`.
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

    /// Sends a signal. Has no effect if the program has ended.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        match rustix::process::pidfd_send_signal(self.pidfd.as_fd(), signal) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
            Err(e) => Err(self.failed("signal", e.into()).into()),
        }
    }

    /// Sends SIGTERM, and SIGKILL if it has not ended after `grace`.
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

    /// The pipe to its standard input if it was started with [`Spawn::stdin_piped`]; only the first call returns it.
    pub fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    /// The pipe from its standard output if it was started with [`Output::Pipe`]; only the first call returns it.
    pub fn take_stdout(&mut self) -> Option<std::fs::File> {
        self.stdout.take_pipe()
    }

    /// Its standard output so far, if [captured](Output::Capture). After the program has ended, the complete
    /// output.
    pub fn stdout(&mut self) -> Captured {
        let ended = self.status.is_some();
        self.stdout.captured(ended)
    }

    /// Its standard error so far, if [captured](Output::Capture).
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
        // A drop cannot report an error. The kernel's death signal is the last resort.
        let _ = self.stop(DROP_GRACE);
    }
}
