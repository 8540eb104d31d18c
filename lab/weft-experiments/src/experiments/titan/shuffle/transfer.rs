//! The shuffle's application: plain TCP sockets, since iperf3 "opens up additional control connections that can impact
//! performance" (technical report, section 6). Each server has a thread that sends to all others and one that receives.
//!
//! All connections are open before the first byte is sent. A transfer is complete when the receiving application has read
//! its last byte.

use super::error::ShuffleError;
use super::settings::ShuffleSettings;
use super::testbed::Server;
use crate::traffic::ordered::{listener, raise_file_limit};
use core::net::{IpAddr, SocketAddr};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::Rng;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::thread::ScopedJoinHandle;
use weft_host::{OsError, clock};
use weft_units::{Bytes, Instant, Nanos};

/// The port on which every server listens.
const PORT: u16 = 7000;
/// Local ports: below the kernel's ephemeral ports (32768 and up).
const LOCAL_PORTS: core::ops::Range<u16> = 10_000..30_000;
/// The congestion control of all flows: the default of the papers' kernel.
const CONGESTION_CONTROL: &str = "cubic";
/// Time limit for a connection to open.
const CONNECT_PATIENCE: Duration = Duration::from_secs(10);
/// Bytes written on one connection before the next one's turn.
const PIECE: usize = 64 << 10;
/// Bytes per read.
const READ: usize = 256 << 10;
/// Longest wait of a thread between polls of the stop flag.
const LOOK: rustix::time::Timespec = rustix::time::Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
/// Interval between checks of the threads.
const NAP: Duration = Duration::from_millis(20);
/// Time for the threads to start before the first byte.
const HEAD_START: Nanos = Nanos::from_millis(20);
/// Payload; its content is irrelevant.
static PAYLOAD: [u8; PIECE] = [0x5a; PIECE];

/// A connection, and the server at its other end.
struct Peer {
    stream: TcpStream,
    server: usize,
}

/// A server's ends of its connections.
struct Ends {
    outgoing: Vec<Peer>,
    incoming: Vec<Peer>,
}

/// Open connections from every server to every other.
pub(super) struct Connections {
    ends: Vec<Ends>,
}

/// The observer of the transfers.
pub(super) struct Watch<'a> {
    /// Whether the NICs still run.
    pub(super) is_running: &'a dyn Fn() -> bool,
    /// Whether the user asked to stop.
    pub(super) stopped: &'a dyn Fn() -> bool,
    /// Receives the fraction of all bytes that has arrived.
    pub(super) progress: &'a mut dyn FnMut(f64),
}

/// Returns the local port of each server's first connection: a function of the seed.
fn first_ports(settings: &ShuffleSettings) -> Vec<u16> {
    let mut random = Pcg64Mcg::new(u128::from(settings.seed) << 1 | 1);
    let room = u64::from(LOCAL_PORTS.end - LOCAL_PORTS.start) - u64::from(settings.servers);
    (0..settings.servers).map(|_| LOCAL_PORTS.start + (random.next_u64() % room) as u16).collect()
}

fn failed(what: String) -> impl FnOnce(std::io::Error) -> ShuffleError {
    move |error| OsError::new(what, error).into()
}

fn connect(from: SocketAddr, to: SocketAddr) -> std::io::Result<TcpStream> {
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    sockopt::set_tcp_congestion(&socket, CONGESTION_CONTROL)?;
    rustix::net::bind(&socket, &from)?;
    // socket(7): the limit of sending also applies to connect(2).
    sockopt::set_socket_timeout(&socket, Timeout::Send, Some(CONNECT_PATIENCE))?;
    rustix::net::connect(&socket, &to)?;
    let stream = TcpStream::from(socket);
    stream.set_nonblocking(true)?;
    Ok(stream)
}

impl Connections {
    /// Opens a connection from every server to every other.
    pub(super) fn open(
        settings: &ShuffleSettings,
        servers: &[Server],
        stopped: &dyn Fn() -> bool,
    ) -> Result<Self, ShuffleError> {
        raise_file_limit();
        let addresses: Vec<IpAddr> = servers.iter().map(|server| server.address).collect();
        let listen = |server: &Server| {
            let at = SocketAddr::new(server.address, PORT);
            server.ns.run(|| listener(at))?.map_err(failed(format!("listen at {at}")))
        };
        let listeners: Vec<TcpListener> = servers.iter().map(listen).collect::<Result<_, _>>()?;
        let mut ends = Vec::with_capacity(servers.len());
        for ((number, server), first) in servers.iter().enumerate().zip(first_ports(settings)) {
            if stopped() {
                return Err(ShuffleError::Stopped);
            }
            let outgoing = server.ns.run(|| to_all(number, &addresses, first))??;
            ends.push(Ends { outgoing, incoming: Vec::new() });
        }
        for (listener, ends) in listeners.iter().zip(&mut ends) {
            ends.incoming = accept(listener, &addresses)?;
        }
        Ok(Self { ends })
    }

    /// Starts all transfers together, and waits until all are complete. Returns the time of each, by sending server,
    /// in the order of the receiving ones.
    pub(super) fn transfer(
        &self,
        settings: &ShuffleSettings,
        watch: &mut Watch<'_>,
    ) -> Result<Vec<Vec<Nanos>>, ShuffleError> {
        let begin = clock::now() + HEAD_START;
        let job = Job {
            transfer: settings.transfer,
            begin,
            end: AtomicBool::new(false),
            arrived: AtomicU64::new(0),
        };
        let received = std::thread::scope(|scope| {
            let mut senders = Vec::new();
            let mut receivers = Vec::new();
            let mut started = Ok(());
            for (ends, job) in self.ends.iter().zip(core::iter::repeat(&job)) {
                let named = |name: &str| std::thread::Builder::new().name(name.to_owned());
                let sender = named("weft-sender").spawn_scoped(scope, || job.send(&ends.outgoing));
                let receiver = named("weft-receiver").spawn_scoped(scope, || job.receive(&ends.incoming));
                started = started.and(sender.map(|thread| senders.push(thread)));
                started = started.and(receiver.map(|thread| receivers.push(thread)));
            }
            let waited = started
                .map_err(failed("start a thread".to_owned()))
                .and_then(|()| wait(&job, settings, &senders, &receivers, watch));
            job.end.store(true, Ordering::Relaxed);
            let sent = joined(senders);
            let received = joined(receivers);
            // The reason for the stop is more useful than the error of threads that were stopped.
            waited?;
            sent?;
            received
        })?;
        Ok(by_sender(&received))
    }
}

/// Connects a server to all others, from local ports starting at `first`.
fn to_all(number: usize, addresses: &[IpAddr], first: u16) -> Result<Vec<Peer>, ShuffleError> {
    let others = addresses.iter().enumerate().filter(|(other, _)| *other != number);
    let open = |((server, address), port): ((usize, &IpAddr), u16)| {
        let (from, to) = (SocketAddr::new(addresses[number], port), SocketAddr::new(*address, PORT));
        let stream = connect(from, to).map_err(failed(format!("connect {from} to {to}")))?;
        Ok(Peer { stream, server })
    };
    others.zip(first..).map(open).collect()
}

/// Accepts a connection from every other server.
fn accept(listener: &TcpListener, addresses: &[IpAddr]) -> Result<Vec<Peer>, ShuffleError> {
    let mut incoming = Vec::with_capacity(addresses.len());
    let until = clock::now() + Nanos::from_secs(10);
    while incoming.len() + 1 < addresses.len() {
        match listener.accept() {
            Ok((stream, from)) => {
                let server = addresses.iter().position(|address| *address == from.ip());
                let Some(server) = server else { continue };
                stream.set_nonblocking(true).map_err(failed("accept a connection".to_owned()))?;
                incoming.push(Peer { stream, server });
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock && clock::now() < until => {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(error) => return Err(failed("accept a connection".to_owned())(error)),
        }
    }
    Ok(incoming)
}

/// A transfer that was read to its end.
struct Received {
    from: usize,
    took: Nanos,
}

/// State that all threads share.
struct Job {
    transfer: Bytes,
    begin: Instant,
    end: AtomicBool,
    arrived: AtomicU64,
}

impl Job {
    fn ended(&self) -> bool {
        self.end.load(Ordering::Relaxed)
    }

    /// Returns the peers that are ready for `what`, after waiting at most [`LOOK`].
    fn ready(peers: &[(&Peer, u64)], what: PollFlags) -> Result<Vec<bool>, ShuffleError> {
        let mut fds: Vec<PollFd<'_>> =
            peers.iter().map(|(peer, _)| PollFd::from_borrowed_fd(peer.stream.as_fd(), what)).collect();
        match poll(&mut fds, Some(&LOOK)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(failed("wait for connections".to_owned())(error.into())),
        }
        Ok(fds.iter().map(|fd| !fd.revents().is_empty()).collect())
    }

    /// Sends to all peers, from `begin` on, a piece to each that has buffer space.
    fn send(&self, outgoing: &[Peer]) -> Result<(), ShuffleError> {
        std::thread::sleep(Duration::from(self.begin.saturating_since(clock::now())));
        let mut open: Vec<(&Peer, u64)> = outgoing.iter().map(|peer| (peer, self.transfer.get())).collect();
        while !open.is_empty() && !self.ended() {
            let ready = Self::ready(&open, PollFlags::OUT)?;
            for ((peer, left), _) in open.iter_mut().zip(ready).filter(|(_, ready)| *ready) {
                let cut = failed(format!("send to server {}", peer.server));
                let piece = PIECE.min(usize::try_from(*left).unwrap_or(PIECE));
                match (&peer.stream).write(&PAYLOAD[..piece]) {
                    Ok(n) => *left -= n as u64,
                    Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                    Err(error) => return Err(cut(error)),
                }
                if *left == 0 {
                    let cut = failed(format!("end the stream to server {}", peer.server));
                    peer.stream.shutdown(Shutdown::Write).map_err(cut)?;
                }
            }
            open.retain(|(_, left)| *left > 0);
        }
        Ok(())
    }

    /// Reads from all peers to their ends, and records when each was complete.
    fn receive(&self, incoming: &[Peer]) -> Result<Vec<Received>, ShuffleError> {
        let mut open: Vec<(&Peer, u64)> = incoming.iter().map(|peer| (peer, 0)).collect();
        let mut complete = Vec::with_capacity(incoming.len());
        let mut buffer = vec![0; READ];
        while !open.is_empty() && !self.ended() {
            let ready = Self::ready(&open, PollFlags::IN)?;
            let mut still = Vec::with_capacity(open.len());
            for ((peer, mut got), ready) in open.into_iter().zip(ready) {
                let read =
                    if ready { (&peer.stream).read(&mut buffer) } else { Err(ErrorKind::WouldBlock.into()) };
                match read {
                    Ok(0) if got == self.transfer.get() => continue,
                    Ok(0) => return Err(self.wrong(peer, got)),
                    Ok(n) => {
                        got += n as u64;
                        self.arrived.fetch_add(n as u64, Ordering::Relaxed);
                        if got == self.transfer.get() {
                            complete.push(Received {
                                from: peer.server,
                                took: clock::now().saturating_since(self.begin),
                            });
                        } else if got > self.transfer.get() {
                            return Err(self.wrong(peer, got));
                        }
                    }
                    Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                    Err(error) => return Err(failed(format!("receive from server {}", peer.server))(error)),
                }
                still.push((peer, got));
            }
            open = still;
        }
        Ok(complete)
    }

    fn wrong(&self, peer: &Peer, got: u64) -> ShuffleError {
        ShuffleError::Cut { from: peer.server, got: Bytes(got), of: self.transfer }
    }
}

type Thread<'scope, T> = ScopedJoinHandle<'scope, Result<T, ShuffleError>>;

/// Waits until all threads have ended or one has to stop.
fn wait<S, R>(
    job: &Job,
    settings: &ShuffleSettings,
    senders: &[Thread<'_, S>],
    receivers: &[Thread<'_, R>],
    watch: &mut Watch<'_>,
) -> Result<(), ShuffleError> {
    let until = job.begin + settings.patience();
    let all = settings.of_server().get().saturating_mul(u64::from(settings.servers));
    while !receivers.iter().all(Thread::is_finished) || !senders.iter().all(Thread::is_finished) {
        if (watch.stopped)() {
            return Err(ShuffleError::Stopped);
        }
        if !(watch.is_running)() {
            return Err(ShuffleError::NicEnded);
        }
        let arrived = job.arrived.load(Ordering::Relaxed);
        if clock::now() > until {
            return Err(ShuffleError::Late {
                arrived: Bytes(arrived),
                of: Bytes(all),
                patience: settings.patience(),
            });
        }
        (watch.progress)(arrived as f64 / all.max(1) as f64);
        std::thread::sleep(NAP);
    }
    Ok(())
}

fn joined<T>(threads: Vec<Thread<'_, T>>) -> Result<Vec<T>, ShuffleError> {
    let ended: Vec<_> = threads.into_iter().map(ScopedJoinHandle::join).collect();
    ended.into_iter().map(|end| end.map_err(|_| ShuffleError::Panicked)?).collect()
}

/// Returns the receivers' results by sender.
fn by_sender(received: &[Vec<Received>]) -> Vec<Vec<Nanos>> {
    let of = |sender: usize| {
        let all = received.iter().flatten();
        all.filter(|one| one.from == sender).map(|one| one.took).collect()
    };
    (0..received.len()).map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn local_ports_follow_from_the_seed_and_leave_room() {
        let ports = |seed| first_ports(&ShuffleSettings { seed, servers: 64, ..ShuffleSettings::default() });
        assert_eq!(ports(3), ports(3));
        assert_ne!(ports(3), ports(4));
        let all: BTreeSet<u16> = (0..200).flat_map(ports).collect();
        assert!(all.iter().all(|first| LOCAL_PORTS.contains(first) && LOCAL_PORTS.contains(&(first + 63))));
        assert!(all.len() > 5000, "{}", all.len());
    }

    #[test]
    fn completions_are_a_senders() {
        let at = |from, took| Received { from, took: Nanos(took) };
        let received = vec![vec![at(1, 10), at(2, 20)], vec![at(2, 5), at(0, 6)], vec![at(0, 1), at(1, 2)]];
        let expected = [[6, 1], [10, 2], [20, 5]].map(|times| times.map(Nanos).to_vec());
        assert_eq!(by_sender(&received), expected);
    }
}
