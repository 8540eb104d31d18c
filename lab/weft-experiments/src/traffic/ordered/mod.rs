//! Traffic that exposes a queue assignment that reorders: connections that alternate between busy and silent, and
//! threads that change cores.
//!
//! [`Mix`] has TCP connections that are busy and silent for random times, write messages of random sizes, and read
//! random amounts back, and UDP flows with numbered datagrams. All sockets are connected, and those of the clients
//! live until the end, as the order check needs ([`crate::experiments::titan::order`]). Clients change their core every few milliseconds,
//! so a flow's packets are sent from all cores in turn. Random values are drawn from the seed; the kernel's timing is
//! not reproducible.

mod client;
mod datagram;
mod pattern;
mod server;

use core::net::{IpAddr, SocketAddr};
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use rustix::thread::CpuSet;
use std::net::{TcpListener, UdpSocket};
use weft_host::{NetNs, OsError, clock, netns::NetNsError};
use weft_units::{Bytes, Nanos, Packets};

/// Time limit for the streams to arrive after the last message.
pub const DRAIN: Nanos = Nanos::from_secs(20);
/// Time limit for a connection to open.
const CONNECT_PATIENCE: Duration = Duration::from_secs(10);
/// Sleep of a thread without work.
const IDLE: Duration = Duration::from_micros(200);

/// Sizes of messages. A message is one write; TCP may join waiting ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MessageSizes {
    /// 1 byte to 128 KiB, with all orders of magnitude alike.
    Mixed,
    /// 100 to 1400 bytes: one packet each unless the connection has to wait.
    Small,
}

/// Parameters of the traffic.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mix {
    /// Number of TCP connections.
    pub connections: u32,
    /// Number of UDP flows.
    pub udp_flows: u32,
    /// Number of client threads, and of server threads, each with a port.
    pub threads: u16,
    /// Sizes of messages and, up to 1400 bytes, datagrams.
    pub sizes: MessageSizes,
    /// Average busy time of a flow.
    pub busy: Nanos,
    /// Average silent time of a flow.
    pub silent: Nanos,
    /// Interval between core changes of a client's thread.
    pub change_core: Nanos,
    /// The servers' first port.
    pub first_port: u16,
    /// Seed of all random draws.
    pub seed: u64,
}

impl Default for Mix {
    fn default() -> Self {
        Self {
            connections: 64,
            udp_flows: 8,
            threads: 2,
            sizes: MessageSizes::Mixed,
            busy: Nanos::from_millis(20),
            silent: Nanos::from_millis(20),
            change_core: Nanos::from_millis(3),
            first_port: 7000,
            seed: 1,
        }
    }
}

impl Mix {
    fn check(&self) -> Result<(), TrafficError> {
        let invalid = |why: &str| Err(TrafficError::Invalid(why.to_owned()));
        if self.threads == 0 || self.threads > 64 {
            return invalid("threads must be 1 to 64");
        }
        if self.first_port == 0 || self.first_port.checked_add(self.threads).is_none() {
            return invalid("the servers' ports must be 1 to 65535");
        }
        if self.connections + self.udp_flows == 0 || self.connections.max(self.udp_flows) > 100_000 {
            return invalid("connections and UDP flows must be 1 to 100000");
        }
        if [self.busy, self.silent, self.change_core].contains(&Nanos::ZERO) {
            return invalid("times must not be 0");
        }
        Ok(())
    }
}

/// The reason that there was no traffic.
#[derive(Debug, thiserror::Error)]
pub enum TrafficError {
    /// A setting is invalid.
    #[error("traffic: {0}")]
    Invalid(String),
    /// A system call failed.
    #[error("traffic: {0}")]
    Os(#[from] OsError),
    /// A namespace could not be entered.
    #[error("traffic: {0}")]
    NetNs(#[from] NetNsError),
    /// A thread panicked, which is a defect.
    #[error("traffic: a thread panicked, which is a bug; please report it")]
    Panicked,
}

/// Counts of the traffic.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MixReport {
    /// Connections opened.
    pub connections: u64,
    /// Connections with an error at one end.
    pub broken: u64,
    /// Ends of connections that had not read the other's end of stream by the time limit.
    pub unfinished: u64,
    /// Messages that clients began to write.
    pub messages: u64,
    /// Payload that clients wrote.
    pub sent: Bytes,
    /// Payload that servers read.
    pub delivered: Bytes,
    /// Payload that servers wrote.
    pub returned: Bytes,
    /// Payload that clients read.
    pub return_delivered: Bytes,
    /// Reads with bytes that do not belong to their place in the stream.
    pub corrupt: u64,
    /// Datagrams that clients sent.
    pub datagrams: Packets,
    /// Datagrams that the servers received.
    pub datagrams_delivered: Packets,
    /// Datagrams that the servers received after a later one of their flow.
    pub datagrams_late: Packets,
    /// Core changes of clients' threads.
    pub core_changes: u64,
    /// Duration, draining included.
    pub elapsed: Nanos,
}

impl MixReport {
    /// Whether each byte of each connection was delivered once, in its place.
    pub fn all_delivered(&self) -> bool {
        self.sent == self.delivered
            && self.returned == self.return_delivered
            && [self.corrupt, self.broken, self.unfinished] == [0; 3]
    }

    fn add(&mut self, other: &Self) {
        self.connections += other.connections;
        self.broken += other.broken;
        self.unfinished += other.unfinished;
        self.messages += other.messages;
        self.sent += other.sent;
        self.delivered += other.delivered;
        self.returned += other.returned;
        self.return_delivered += other.return_delivered;
        self.corrupt += other.corrupt;
        self.datagrams += other.datagrams;
        self.datagrams_delivered += other.datagrams_delivered;
        self.datagrams_late += other.datagrams_late;
        self.core_changes += other.core_changes;
    }
}

/// Sends `mix` from `sender` to the servers, which it starts at `server` in `receiver`, for `duration` or until
/// `stop`; then lets the streams drain. Returns at the latest [`DRAIN`] and a second later; all threads have ended by
/// then.
///
/// # Errors
/// Fails for invalid settings, and when a socket or thread cannot be made. Errors of single connections are counted.
pub fn run(
    mix: &Mix,
    sender: &NetNs,
    receiver: &NetNs,
    server: IpAddr,
    duration: Duration,
    stop: &AtomicBool,
) -> Result<MixReport, TrafficError> {
    mix.check()?;
    raise_file_limit();
    let listeners = receiver.run(|| listen(mix, server))??;
    let clients = sender.run(|| client::open(mix, server))??;
    let begin = clock::now();
    let end = begin + Nanos(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX / 4).min(u64::MAX / 4));
    let sent_all = AtomicBool::new(false);
    let mut report = MixReport::default();
    let result = std::thread::scope(|scope| {
        let spawn_failed = |e| OsError::new("start a thread", e);
        let mut servers = Vec::new();
        for (number, sockets) in listeners.into_iter().enumerate() {
            let (seed, last) = (mix.seed, &sent_all);
            let work = move || server::serve(sockets, seed, number as u64, last);
            let thread = std::thread::Builder::new().name("weft-server".to_owned());
            servers.push(thread.spawn_scoped(scope, work).map_err(spawn_failed));
        }
        let mut senders = Vec::new();
        for worker in clients {
            let work = move || worker.run(mix, end, stop);
            let thread = std::thread::Builder::new().name("weft-sender".to_owned());
            senders.push(thread.spawn_scoped(scope, work).map_err(spawn_failed));
        }
        // Clients keep their UDP sockets until the servers have ended.
        let senders = join(senders);
        sent_all.store(true, Ordering::Release);
        let servers = join(servers);
        for (part, _sockets) in &senders? {
            report.add(part);
        }
        servers?.iter().for_each(|part| report.add(part));
        Ok::<_, TrafficError>(())
    });
    report.elapsed = clock::now().saturating_since(begin);
    result.map(|()| report)
}

type Started<'scope, T> = Result<std::thread::ScopedJoinHandle<'scope, T>, OsError>;

/// Joins all threads, also after one that could not be started.
pub(super) fn join<T>(threads: Vec<Started<'_, T>>) -> Result<Vec<T>, TrafficError> {
    let ended: Vec<_> = threads.into_iter().map(|t| t.map(std::thread::ScopedJoinHandle::join)).collect();
    ended.into_iter().map(|end| end?.map_err(|_| TrafficError::Panicked)).collect()
}

/// The sockets of a server's thread.
struct Sockets {
    tcp: TcpListener,
    udp: UdpSocket,
}

/// Receive buffer of a datagram socket: the reader may not run for a scheduling period at full rate.
const DATAGRAM_BUFFER: usize = 16 << 20;

fn listen(mix: &Mix, server: IpAddr) -> Result<Vec<Sockets>, TrafficError> {
    let open = |number: u16| {
        let address = SocketAddr::new(server, mix.first_port + number);
        let sockets = || {
            let tcp = listener(address)?;
            let udp = UdpSocket::bind(address)?;
            udp.set_nonblocking(true)?;
            rustix::net::sockopt::set_socket_recv_buffer_size_force(&udp, DATAGRAM_BUFFER)?;
            Ok(Sockets { tcp, udp })
        };
        Ok(sockets().map_err(|e: std::io::Error| OsError::new(format!("listen at {address}"), e))?)
    };
    (0..mix.threads).map(open).collect()
}

/// Opens a non-blocking listening socket with the largest backlog that the kernel allows.
pub(crate) fn listener(address: SocketAddr) -> std::io::Result<TcpListener> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType};
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    rustix::net::sockopt::set_socket_reuseaddr(&socket, true)?;
    rustix::net::bind(&socket, &address)?;
    // listen(2): the kernel cuts the backlog to net.core.somaxconn.
    rustix::net::listen(&socket, 1 << 16)?;
    Ok(socket.into())
}

/// Raises this process's limit of open files to its maximum. If that fails, opening sockets reports it.
pub(crate) fn raise_file_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

/// Returns the cores that this thread may use.
pub(crate) fn cores() -> Vec<usize> {
    let allowed = rustix::thread::sched_getaffinity(None);
    allowed.map_or_else(|_| Vec::new(), |set| (0..CpuSet::MAX_CPU).filter(|&i| set.is_set(i)).collect())
}

/// Pins this thread to a core. Has no effect where the kernel refuses.
pub(crate) fn move_to(core: usize) -> bool {
    let mut set = CpuSet::new();
    set.set(core);
    rustix::thread::sched_setaffinity(None, &set).is_ok()
}

#[cfg(test)]
mod tests;
