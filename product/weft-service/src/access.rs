//! The rights of callers: who is at the other end of a socket, and what that user may do.
//!
//! A tenant's file is also changed by the user to whom the tenant's cgroup is delegated (`delegation`). Otherwise:
//!
//! A caller that may open the socket may read. To write, a caller must be root or the daemon's own user, or polkit must
//! allow it: the daemon asks by `pkcheck`, which may let the caller's agent request a password. The answer comes later, so
//! an [`AccessCheck`] is a process that the daemon's loop waits for with the sockets, for at most 25 s.

use crate::service::Caller;
use rustix::process::{Pid, PidfdFlags, getuid, pidfd_open};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use weft_host::{peer, programs};

/// The action of polkit that allows writing.
pub const ACTION: &str = "io.weft.manage";
/// The longest wait for polkit: a client waits for 30 s.
const PATIENCE: Duration = Duration::from_secs(25);

/// The process at the other end of a socket, when it connected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PeerProcess {
    /// Its number; `None` for a process outside this process's PID namespace, where it has none.
    pub pid: Option<Pid>,
    /// Its user.
    pub uid: u32,
}

impl PeerProcess {
    /// The process at the other end of `socket`.
    ///
    /// # Errors
    /// When the kernel does not say.
    pub fn of(socket: impl AsFd) -> io::Result<Self> {
        let (pid, uid) = peer::credentials(&socket)?;
        Ok(Self { pid, uid })
    }

    /// Whether it may write without asking polkit.
    pub fn is_admin(self) -> bool {
        self.uid == 0 || self.uid == getuid().as_raw()
    }

    /// The caller of a request.
    pub fn caller(self) -> Caller {
        Caller { uid: self.uid, is_admin: self.is_admin() }
    }
}

/// The answer of a check.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AccessVerdict {
    /// The caller may.
    Allowed,
    /// The caller may not, for this reason.
    Refused(String),
    /// The answer is not there yet.
    Open,
}

/// A question to polkit under way. Dropping it ends the question.
#[derive(Debug)]
pub struct AccessCheck {
    child: Child,
    ended: OwnedFd,
    until: Instant,
}

impl AccessCheck {
    /// Asks polkit whether `peer` may write.
    ///
    /// # Errors
    /// With the reason for a refusal, in a line.
    pub fn start(peer: PeerProcess) -> Result<Self, NoPolkit> {
        let program = programs::find("pkcheck").ok_or(NoPolkit::Missing)?;
        let pid = peer.pid.ok_or(NoPolkit::Elsewhere)?;
        let start = start_time(pid).ok_or(NoPolkit::Gone)?;
        let subject = format!("{},{start},{}", pid.as_raw_nonzero(), peer.uid);
        let mut command = Command::new(program);
        command.args(["--action-id", ACTION, "--process", &subject, "--allow-user-interaction"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(|e| NoPolkit::Failed(e.to_string()))?;
        match pidfd_open(Pid::from_child(&child), PidfdFlags::empty()) {
            Ok(ended) => Ok(Self { child, ended, until: Instant::now() + PATIENCE }),
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(NoPolkit::Failed(error.to_string()))
            }
        }
    }

    /// The descriptor that is readable when the answer is there.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.ended.as_fd()
    }

    /// The answer, if it is there.
    pub fn verdict(&mut self) -> AccessVerdict {
        match self.child.try_wait() {
            Ok(Some(status)) if status.success() => AccessVerdict::Allowed,
            Ok(Some(_)) => {
                AccessVerdict::Refused(format!("polkit does not allow {ACTION} to this user; ask root"))
            }
            Ok(None) if Instant::now() < self.until => AccessVerdict::Open,
            Ok(None) => AccessVerdict::Refused("polkit did not answer in time".to_owned()),
            Err(error) => AccessVerdict::Refused(format!("polkit could not be asked: {error}")),
        }
    }
}

impl Drop for AccessCheck {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reasons why polkit cannot be asked.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NoPolkit {
    /// No `pkcheck`.
    #[error("only root may; there is no polkit here that could allow it to others")]
    Missing,
    /// The caller has no number here.
    #[error("only root may; the caller is outside this daemon's PID namespace, so polkit cannot be asked")]
    Elsewhere,
    /// The caller has ended.
    #[error("only root may; the caller has ended, so polkit cannot be asked")]
    Gone,
    /// It could not be started.
    #[error("only root may; polkit could not be asked: {0}")]
    Failed(String),
}

/// The start time of a process in clock ticks. With it polkit distinguishes the process from a later one of the same
/// number: field 22 of proc_pid_stat(5).
fn start_time(pid: Pid) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    // The name in parentheses may hold spaces and parentheses.
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn the_peer_of_a_pair_is_this_process() {
        let (a, _b) = UnixStream::pair().expect("a pair");
        let peer = PeerProcess::of(&a).expect("credentials");
        let pid = peer.pid.expect("it has a number");
        assert_eq!(pid.as_raw_nonzero().get(), i32::try_from(std::process::id()).expect("a pid"));
        assert!(peer.is_admin(), "the daemon's own user");
        assert!(start_time(pid).is_some_and(|ticks| ticks > 0));
    }

    /// The name of the test below, and the variable that it sets to run itself in another PID namespace.
    const ELSEWHERE: &str = "access::tests::a_peer_outside_the_pid_namespace_has_no_number";
    const INSIDE: &str = "WEFT_TEST_PEER_ON_STDIN";

    #[test]
    fn a_peer_outside_the_pid_namespace_has_no_number() {
        if std::env::var_os(INSIDE).is_some() {
            let peer = PeerProcess::of(io::stdin()).expect("credentials");
            assert_eq!(peer.pid, None);
            let refused = AccessCheck::start(peer).expect_err("no process to ask about");
            assert!(matches!(refused, NoPolkit::Elsewhere | NoPolkit::Missing), "{refused}");
            return;
        }
        if !weft_host::testing::privileged("a_peer_outside_the_pid_namespace_has_no_number") {
            return;
        }
        // Made here, so that its peer is this process.
        let (a, _b) = UnixStream::pair().expect("a pair");
        let mut inside = Command::new("unshare");
        inside.args(["--pid", "--fork"]).arg(std::env::current_exe().expect("this program"));
        inside.args(["--exact", ELSEWHERE, "--nocapture"]).env(INSIDE, "1");
        let output = inside.stdin(OwnedFd::from(a)).output().expect("unshare of util-linux");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
    }

    #[test]
    fn another_user_is_no_admin() {
        let (a, _b) = UnixStream::pair().expect("a pair");
        let mut peer = PeerProcess::of(&a).expect("credentials");
        peer.uid = getuid().as_raw().wrapping_add(54_321);
        assert!(!peer.is_admin() && !peer.caller().is_admin);
    }
}
