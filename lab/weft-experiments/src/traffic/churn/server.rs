//! The servers of short flows: each reads a number of bytes, answers with one, and waits for the end.

use super::slab::Slab;
use super::{SERVER_PATIENCE, SERVER_QUIET, ServerCounts};
use core::sync::atomic::{AtomicBool, Ordering};
use rustix::event::epoll::EventFlags;
use rustix::net::SocketFlags;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use weft_host::{OsError, clock};

/// The state of a connection.
#[derive(Debug)]
enum Watched {
    Listener(TcpListener),
    Connection { stream: TcpStream, left: u32 },
}

impl AsFd for Watched {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Listener(listener) => listener.as_fd(),
            Self::Connection { stream, .. } => stream.as_fd(),
        }
    }
}

/// The way in which a connection ended.
enum End {
    Orderly,
    Reset,
    Failed,
}

/// Reads the available bytes, and answers when all have arrived. Returns the end of the connection, if it has ended.
fn drive(stream: &mut TcpStream, left: &mut u32, counts: &mut ServerCounts) -> Option<End> {
    let mut buffer = [0; 16 << 10];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return Some(End::Orderly),
            Ok(n) => {
                let before = *left;
                *left = left.saturating_sub(n as u32);
                if before > 0 && *left == 0 {
                    counts.answered += 1;
                    // One byte into an empty buffer: it is accepted, or the connection is closed and the next read
                    // reports that.
                    let _ = stream.write(b"k");
                }
            }
            Err(e) if e.kind() == ErrorKind::WouldBlock => return None,
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) if matches!(e.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe) => {
                return Some(End::Reset);
            }
            Err(_) => return Some(End::Failed),
        }
    }
}

/// Serves until the clients have ended and nothing more arrives.
pub(super) fn serve(
    listeners: Vec<TcpListener>,
    bytes: u32,
    clients_ended: &AtomicBool,
) -> Result<ServerCounts, OsError> {
    let mut counts = ServerCounts::default();
    let mut slab = Slab::new()?;
    let listening = listeners.len();
    for listener in listeners {
        slab.insert(Watched::Listener(listener), EventFlags::IN)
            .map_err(|e| OsError::new("watch a listening socket", e))?;
    }
    let (mut last_busy, mut ended_at) = (clock::now(), None);
    loop {
        let events = slab.wait(20)?;
        let now = clock::now();
        if !events.is_empty() {
            last_busy = now;
        }
        for number in events {
            match slab.get_mut(number) {
                Some(Watched::Listener(listener)) => {
                    for stream in accept(listener, &mut counts) {
                        let connection = Watched::Connection { stream, left: bytes };
                        if slab.insert(connection, EventFlags::IN | EventFlags::ET).is_err() {
                            counts.failed += 1;
                        }
                    }
                }
                Some(Watched::Connection { stream, left }) => {
                    let end = drive(stream, left, &mut counts);
                    match &end {
                        Some(End::Orderly) => counts.orderly += 1,
                        Some(End::Reset) => counts.reset += 1,
                        Some(End::Failed) => counts.failed += 1,
                        None => {}
                    }
                    if end.is_some() {
                        slab.remove(number);
                    }
                }
                None => {}
            }
        }
        if clients_ended.load(Ordering::Acquire) {
            let ended = *ended_at.get_or_insert(now);
            let quiet = now.saturating_since(ended.max(last_busy)) > SERVER_QUIET;
            if quiet || now.saturating_since(ended) > SERVER_PATIENCE {
                break;
            }
        }
    }
    counts.left_open = (slab.len() - listening) as u64;
    Ok(counts)
}

/// Connections accepted before open ones are served again.
const ACCEPTS: u32 = 64;

fn accept(listener: &TcpListener, counts: &mut ServerCounts) -> Vec<TcpStream> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let accepted: Vec<_> = (0..ACCEPTS)
        .map_while(|_| rustix::net::accept_with(listener, flags).ok().map(TcpStream::from))
        .collect();
    counts.accepted += accepted.len() as u64;
    accepted
}
