//! A process that keeps descriptors beyond the end of the process that uses them, however that ends.
//!
//! A device lives as long as a descriptor of it. A service whose devices must survive its crash or its upgrade gives
//! duplicates to a keeper, with a state that says what they are. systemd has such a store
//! (docs/FILE_DESCRIPTOR_STORE.md of systemd); the keeper serves hosts without it, and has no limit of a unit.
//!
//! The keeper ([`serve`]) is a separate process that listens on a UNIX socket and serves one user after the other:
//!
//! | request | meaning |
//! |---|---|
//! | `K` name, one descriptor | keep it under the name; an older one of that name is closed |
//! | `D` name | close it |
//! | `S` bytes | keep the state in place of the former |
//! | `G` | give: the state, then each name with its descriptor, then an empty message |
//! | `Q` | close everything and end |
//!
//! Every request has an answer, which confirms to a user what is kept. Only processes of the keeper's user are
//! served (`SO_PEERCRED`). A user that disappears is no error: that is when the keeper is needed. The keeper ends with `Q`,
//! when the first user goes before it has kept anything, and when no process can reach it any more, because its socket's file
//! is gone.

use crate::descriptors::{self, Message, PassError};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};

const KEEP: u8 = b'K';
const DROP: u8 = b'D';
const STATE: u8 = b'S';
const GIVE: u8 = b'G';
const QUIT: u8 = b'Q';
/// The answer to a request that was carried out, and to one that was not understood.
const DONE: u8 = b'.';
const UNKNOWN: u8 = b'?';

/// Errors of a user of the keeper.
#[derive(Debug, thiserror::Error)]
pub enum KeeperError {
    /// No keeper answers at the socket.
    #[error("no keeper of descriptors at {path}: {error}")]
    Absent {
        /// The socket.
        path: String,
        /// The reason.
        error: io::Error,
    },
    /// The connection failed.
    #[error("the keeper of descriptors: {0}")]
    Pass(#[from] PassError),
    /// The keeper ended, or did not understand a request.
    #[error(
        "the keeper of descriptors ended or is of another version; stop the service once, which ends the keeper, and start it again"
    )]
    Refused,
}

/// The kept state and descriptors.
#[derive(Debug, Default)]
pub struct Kept {
    /// The state.
    pub state: Vec<u8>,
    /// The descriptors by name.
    pub descriptors: BTreeMap<String, OwnedFd>,
}

impl Kept {
    /// Whether nothing is kept.
    pub fn is_empty(&self) -> bool {
        self.state.is_empty() && self.descriptors.is_empty()
    }
}

/// A connection to a keeper.
#[derive(Debug)]
pub struct Keeper {
    socket: UnixStream,
}

impl Keeper {
    /// Connects to the keeper at `path`.
    ///
    /// # Errors
    /// When none answers.
    pub fn connect(path: &Path) -> Result<Self, KeeperError> {
        let absent = |error| KeeperError::Absent { path: path.display().to_string(), error };
        Ok(Self { socket: UnixStream::connect(path).map_err(absent)? })
    }

    /// Uses a connected socket.
    pub fn over(socket: UnixStream) -> Self {
        Self { socket }
    }

    /// Keeps a duplicate of `descriptor` under `name`.
    ///
    /// # Errors
    /// When the keeper does not answer.
    pub fn keep(&self, name: &str, descriptor: BorrowedFd<'_>) -> Result<(), KeeperError> {
        self.ask(KEEP, name.as_bytes(), &[descriptor])
    }

    /// Closes the descriptor `name`, if there is one.
    ///
    /// # Errors
    /// When the keeper does not answer.
    pub fn forget(&self, name: &str) -> Result<(), KeeperError> {
        self.ask(DROP, name.as_bytes(), &[])
    }

    /// Keeps `state` in place of the former one.
    ///
    /// # Errors
    /// When the keeper does not answer.
    pub fn set_state(&self, state: &[u8]) -> Result<(), KeeperError> {
        self.ask(STATE, state, &[])
    }

    /// Ends the keeper, and closes all that it keeps.
    ///
    /// # Errors
    /// When the keeper does not answer.
    pub fn quit(&self) -> Result<(), KeeperError> {
        self.ask(QUIT, &[], &[])
    }

    /// Duplicates of all that is kept.
    ///
    /// # Errors
    /// When the keeper does not answer.
    pub fn give(&self) -> Result<Kept, KeeperError> {
        descriptors::send(&self.socket, &[GIVE], &[])?;
        let mut kept = Kept { state: self.next()?.bytes, ..Kept::default() };
        loop {
            let Message { bytes, mut descriptors } = self.next()?;
            let Some(descriptor) = descriptors.pop() else { return Ok(kept) };
            kept.descriptors.insert(String::from_utf8_lossy(&bytes).into_owned(), descriptor);
        }
    }

    fn next(&self) -> Result<Message, KeeperError> {
        descriptors::receive(&self.socket)?.ok_or(KeeperError::Refused)
    }

    fn ask(&self, what: u8, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> Result<(), KeeperError> {
        descriptors::send(&self.socket, &[&[what], bytes].concat(), descriptors)?;
        if self.next()?.bytes == [DONE] { Ok(()) } else { Err(KeeperError::Refused) }
    }
}

/// Whether a process may still connect to `listener`, whose file was `file` at the start: an address without a file has none
/// to lose.
fn is_reachable(listener: &UnixListener, file: Option<(u64, u64)>) -> bool {
    let has_name = listener.local_addr().is_ok_and(|address| address.as_pathname().is_some());
    !has_name || (file.is_some() && file_of(listener) == file)
}

/// The socket file of `listener`: its device and its number.
fn file_of(listener: &UnixListener) -> Option<(u64, u64)> {
    let address = listener.local_addr().ok()?;
    let found = std::fs::metadata(address.as_pathname()?).ok()?;
    Some((found.dev(), found.ino()))
}

/// Something that a keeper does beside its users.
pub trait Watch {
    /// Looks at what is kept; `changed`: other descriptors than at the last call. Returns the time until the next call, unless
    /// something changes before.
    fn look(&mut self, kept: &Kept, changed: bool) -> Duration;
}

/// A watch that does nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Idle;

impl Watch for Idle {
    fn look(&mut self, _: &Kept, _: bool) -> Duration {
        LOOK
    }
}

/// The longest time between two looks whether the socket of a keeper without a user still has its file.
const LOOK: Duration = Duration::from_secs(2);

/// A keeper at work.
struct Server<W> {
    kept: Kept,
    changed: bool,
    watch: W,
}

impl<W: Watch> Server<W> {
    /// Waits until `fd` is readable. Returns false if `LOOK` has passed first.
    fn wait(&mut self, fd: impl AsFd) -> io::Result<bool> {
        let end = Instant::now() + LOOK;
        loop {
            let pause = self.watch.look(&self.kept, core::mem::take(&mut self.changed));
            let now = Instant::now();
            if now >= end {
                return Ok(false);
            }
            let pause = pause.min(end - now);
            let timeout = Timespec { tv_sec: pause.as_secs() as i64, tv_nsec: pause.subsec_nanos().into() };
            match poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&timeout)) {
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => return Ok(true),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn serve_user(&mut self, socket: &UnixStream) -> Result<After, PassError> {
        loop {
            while !self.wait(socket)? {}
            let Some(message) = descriptors::receive(socket)? else { return Ok(After::GoOn) };
            self.changed |= matches!(message.bytes.first(), Some(&(KEEP | DROP)));
            if answer(socket, message, &mut self.kept)? == After::End {
                return Ok(After::End);
            }
        }
    }
}

/// Serves the users of the listening socket that is this process's standard input, in a separate session, so that nothing
/// that ends its first user's session ends it.
///
/// # Errors
/// When the standard input is no such socket, or fails.
pub fn serve_standard_input(watch: impl Watch) -> io::Result<()> {
    let listener = UnixListener::from(io::stdin().as_fd().try_clone_to_owned()?);
    listener.local_addr()?;
    // Fails for the first process of a group, which has a session already.
    let _ = rustix::process::setsid();
    serve(&listener, watch)
}

/// Serves the users of `listener`, one after the other, until one requests the end, with `watch` beside them.
///
/// # Errors
/// When the listener fails. Failures of a connection only end that.
pub fn serve(listener: &UnixListener, watch: impl Watch) -> io::Result<()> {
    let mut server = Server { kept: Kept::default(), changed: false, watch };
    let (file, own) = (file_of(listener), rustix::process::getuid());
    loop {
        if !server.wait(listener)? {
            if !is_reachable(listener, file) {
                return Ok(());
            }
            continue;
        }
        let (socket, _) = listener.accept()?;
        if !crate::peer::credentials(&socket).is_ok_and(|(_, uid)| uid == own.as_raw()) {
            continue;
        }
        if matches!(server.serve_user(&socket), Ok(After::End)) || server.kept.is_empty() {
            return Ok(());
        }
    }
}

/// The keeper's next step after a request or a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum After {
    GoOn,
    End,
}

fn answer(socket: &UnixStream, message: Message, kept: &mut Kept) -> Result<After, PassError> {
    let Message { bytes, mut descriptors } = message;
    let (what, rest) = bytes.split_first().map_or((0, &[][..]), |(what, rest)| (*what, rest));
    let name = || String::from_utf8_lossy(rest).into_owned();
    let mut after = After::GoOn;
    match (what, descriptors.pop()) {
        (KEEP, Some(descriptor)) => _ = kept.descriptors.insert(name(), descriptor),
        (DROP, None) => _ = kept.descriptors.remove(&name()),
        (STATE, None) => kept.state = rest.to_vec(),
        (GIVE, None) => return give(socket, kept),
        (QUIT, None) => {
            *kept = Kept::default();
            after = After::End;
        }
        _ => {
            descriptors::send(socket, &[UNKNOWN], &[])?;
            return Ok(After::GoOn);
        }
    }
    descriptors::send(socket, &[DONE], &[])?;
    Ok(after)
}

fn give(socket: &UnixStream, kept: &Kept) -> Result<After, PassError> {
    descriptors::send(socket, &kept.state, &[])?;
    for (name, descriptor) in &kept.descriptors {
        descriptors::send(socket, name.as_bytes(), &[descriptor.as_fd()])?;
    }
    descriptors::send(socket, &[], &[])?;
    Ok(After::GoOn)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::thread::JoinHandle;

    fn keeper() -> (tempfile::TempDir, std::path::PathBuf, JoinHandle<io::Result<()>>) {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("keeper");
        let listener = UnixListener::bind(&path).expect("bind");
        (folder, path, std::thread::spawn(move || serve(&listener, Idle)))
    }

    #[test]
    fn descriptors_and_state_survive_their_user_and_go_with_the_keeper() {
        let (_folder, path, thread) = keeper();
        let (mut reader, writer) = std::io::pipe().expect("pipe");
        let first = Keeper::connect(&path).expect("connect");
        assert!(first.give().expect("give").is_empty());
        first.keep("ring 0", writer.as_fd()).expect("keep");
        first.keep("ring 1", reader.as_fd()).expect("keep");
        first.set_state(b"{}").expect("state");
        first.forget("ring 1").expect("forget");
        first.forget("unknown").expect("forgetting nothing is no error");
        drop((first, writer));
        let second = Keeper::connect(&path).expect("connect");
        let kept = second.give().expect("give");
        assert_eq!(kept.state, b"{}");
        assert_eq!(kept.descriptors.keys().collect::<Vec<_>>(), ["ring 0"]);
        rustix::io::write(&kept.descriptors["ring 0"], b"kept").expect("write");
        drop(kept);
        second.quit().expect("quit");
        thread.join().expect("thread").expect("serve");
        let mut text = String::new();
        reader.read_to_string(&mut text).expect("all writers are closed");
        assert_eq!(text, "kept");
    }

    #[test]
    fn a_request_that_is_not_understood_changes_nothing() {
        let (_folder, path, thread) = keeper();
        let user = Keeper::connect(&path).expect("connect");
        user.set_state(b"state").expect("state");
        for bytes in [&b""[..], b"K", b"Zname", &[0xff; 300]] {
            descriptors::send(&user.socket, bytes, &[]).expect("send");
            assert_eq!(user.next().expect("an answer").bytes, [UNKNOWN]);
        }
        // A user that ends within a message.
        let broken = Keeper::connect(&path).expect("connect");
        drop(user);
        std::io::Write::write_all(&mut &broken.socket, &[0, 0, 1]).expect("write");
        drop(broken);
        let user = Keeper::connect(&path).expect("connect");
        assert_eq!(user.give().expect("give").state, b"state");
        user.quit().expect("quit");
        thread.join().expect("thread").expect("serve");
        assert!(matches!(Keeper::connect(&path), Err(KeeperError::Absent { .. })));
    }

    /// A relative address that a change of the working directory has lost, or a file that is gone: both kept the keeper for
    /// ever once.
    #[test]
    fn a_keeper_whose_file_is_gone_before_it_looks_ends() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("keeper");
        let listener = UnixListener::bind(&path).expect("bind");
        std::fs::remove_file(&path).expect("remove");
        serve(&listener, Idle).expect("it ends");
    }

    #[test]
    fn a_keeper_whose_user_kept_nothing_ends() {
        let (_folder, path, thread) = keeper();
        drop(Keeper::connect(&path).expect("connect"));
        thread.join().expect("thread").expect("serve");
    }
}
