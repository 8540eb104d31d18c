//! Short TCP flows, thousands a second: each connects, sends a few bytes, gets one byte back, and is closed orderly, reset, or
//! abandoned.
//!
//! A queue assignment counts the flows of a queue. Flows that end without a word, or faster than they are counted, are where such a
//! count drifts, so each way of ending has its share here and its count on both sides.

mod client;
mod server;
mod slab;

use super::ordered::{self, TrafficError};
use core::net::{IpAddr, SocketAddr};
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use weft_host::sysctl::{self, SysctlError};
use weft_host::{NetNs, OsError, clock};
use weft_units::{Instant, Nanos};

/// Events that one look at epoll returns at most.
const EVENTS: usize = 1024;
/// How long the servers go on after the clients have ended.
const SERVER_QUIET: Nanos = Nanos::from_millis(200);
/// How long they go on at most.
const SERVER_PATIENCE: Nanos = Nanos::from_secs(5);

/// Why there were no flows.
#[derive(Debug, thiserror::Error)]
pub enum ChurnError {
    /// Sockets, threads, namespaces.
    #[error(transparent)]
    Traffic(#[from] TrafficError),
    /// A kernel setting.
    #[error("traffic of short flows: {0}")]
    Sysctl(#[from] SysctlError),
}

impl From<OsError> for ChurnError {
    fn from(error: OsError) -> Self {
        Self::Traffic(error.into())
    }
}

/// How flows end: shares of their sum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Closings {
    /// By FIN from the client, then from the server.
    pub orderly: u32,
    /// By a reset from the client (`SO_LINGER` with time 0, socket(7)).
    pub reset: u32,
    /// Not at all while the traffic lasts: both ends keep the connection open without a packet.
    pub abandoned: u32,
}

/// The flows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ShortFlows {
    /// Flows that begin, per second.
    pub per_second: u32,
    /// What each client sends, bytes.
    pub bytes: u32,
    /// How they end.
    pub how_closed: Closings,
    /// Threads of the clients, and as many of the servers.
    pub threads: u16,
    /// Ports of the servers: a flow's is drawn, so that clients' ports suffice.
    pub ports: u16,
    /// The first of these.
    pub first_port: u16,
    /// Flows that are open at once in all, at most; those that are abandoned are not among them. While there are so many none begins.
    pub most_open: u32,
    /// Abandoned flows at most; when there are so many, a flow is reset instead.
    pub most_abandoned: u32,
    /// How long a flow may take.
    pub patience: Nanos,
    /// Seed of all that is random.
    pub seed: u64,
}

impl Default for ShortFlows {
    fn default() -> Self {
        Self {
            per_second: 10_000,
            bytes: 1000,
            how_closed: Closings { orderly: 50, reset: 49, abandoned: 1 },
            threads: 2,
            ports: 16,
            first_port: 8000,
            most_open: 4000,
            most_abandoned: 4000,
            patience: Nanos::from_secs(5),
            seed: 1,
        }
    }
}

impl ShortFlows {
    fn check(&self) -> Result<(), TrafficError> {
        let invalid = |why: &str| Err(TrafficError::Invalid(why.to_owned()));
        let Closings { orderly, reset, abandoned } = self.how_closed;
        if self.threads == 0 || self.threads > 64 || self.ports < self.threads {
            return invalid("threads must be 1 to 64, and not more than ports");
        }
        if self.first_port == 0 || self.first_port.checked_add(self.ports).is_none() {
            return invalid("the servers' ports must be 1 to 65535");
        }
        if self.per_second == 0 || self.bytes == 0 || self.most_open < u32::from(self.threads) {
            return invalid("flows per second and bytes must not be 0, and each thread needs an open flow");
        }
        if u64::from(orderly) + u64::from(reset) + u64::from(abandoned) == 0 {
            return invalid("some way of closing must have a share");
        }
        Ok(())
    }
}

/// Flows that failed, by kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Failures {
    /// No free port (EADDRNOTAVAIL).
    pub no_port: u64,
    /// Nobody listens (ECONNREFUSED).
    pub refused: u64,
    /// The other end reset it (ECONNRESET, EPIPE), or ended it early.
    pub reset: u64,
    /// It took longer than the patience.
    pub timed_out: u64,
    /// Any other error: no more files or memory.
    pub other: u64,
}

impl Failures {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.no_port + self.refused + self.reset + self.timed_out + self.other
    }

    fn count(&mut self, error: &std::io::Error) {
        use std::io::ErrorKind;
        let kind = match error.kind() {
            ErrorKind::AddrNotAvailable | ErrorKind::AddrInUse => &mut self.no_port,
            ErrorKind::ConnectionRefused => &mut self.refused,
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::UnexpectedEof => &mut self.reset,
            ErrorKind::TimedOut => &mut self.timed_out,
            _ => &mut self.other,
        };
        *kind += 1;
    }
}

/// What the clients did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ClientCounts {
    /// Flows begun.
    pub started: u64,
    /// Closed orderly, the server's end of stream read.
    pub orderly: u64,
    /// Answered, and reset.
    pub reset: u64,
    /// Answered, and kept open to the end.
    pub abandoned: u64,
    /// Failed before that.
    pub failed: Failures,
}

impl ClientCounts {
    /// Whether each flow is accounted for.
    pub fn balances(&self) -> bool {
        self.started == self.orderly + self.reset + self.abandoned + self.failed.total()
    }
}

/// What the servers saw.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ServerCounts {
    /// Connections accepted.
    pub accepted: u64,
    /// Of which all bytes came.
    pub answered: u64,
    /// Ended by the client's FIN.
    pub orderly: u64,
    /// Ended by a reset.
    pub reset: u64,
    /// Still open at the end.
    pub left_open: u64,
    /// Ended by any other error.
    pub failed: u64,
}

impl ServerCounts {
    /// Whether each connection is accounted for.
    pub fn balances(&self) -> bool {
        self.accepted == self.orderly + self.reset + self.left_open + self.failed
    }
}

/// What became of the flows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ChurnReport {
    /// The clients' side.
    pub clients: ClientCounts,
    /// The servers' side.
    pub servers: ServerCounts,
    /// How long flows were begun.
    pub elapsed: Nanos,
}

impl ChurnReport {
    /// Flows that were answered and ended, or were abandoned, per second.
    pub fn per_second(&self) -> f64 {
        let done = self.clients.orderly + self.clients.reset + self.clients.abandoned;
        done as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }
}

/// Lets `sender` have enough ports for thousands of flows a second, and `receiver` enough room for new ones
/// (Documentation/networking/ip-sysctl.rst).
///
/// # Errors
/// When the kernel refuses a setting.
pub fn prepare(sender: &NetNs, receiver: &NetNs) -> Result<(), SysctlError> {
    sysctl::set(sender, "net.ipv4.ip_local_port_range", "1024 65535")?;
    // A port in TIME-WAIT may be taken again after a second.
    sysctl::set(sender, "net.ipv4.tcp_tw_reuse", "1")?;
    sysctl::set(sender, "net.ipv4.tcp_fin_timeout", "2")?;
    sysctl::set(receiver, "net.core.somaxconn", "65535")?;
    sysctl::set(receiver, "net.ipv4.tcp_max_syn_backlog", "65535")
}

/// Makes `flows` from `sender` to servers, which it starts at `server` in `receiver`, for `duration` or until `stop`. Ends
/// at the latest the flows' patience and 6 s after that; all threads have ended and all sockets are closed by then. What was
/// abandoned is closed then, after the counts are taken.
///
/// # Errors
/// When the settings cannot be, or a socket or thread cannot be made. Errors of single flows are counted.
pub fn run(
    flows: &ShortFlows,
    sender: &NetNs,
    receiver: &NetNs,
    server: IpAddr,
    duration: Duration,
    stop: &AtomicBool,
) -> Result<ChurnReport, ChurnError> {
    flows.check()?;
    prepare(sender, receiver)?;
    ordered::raise_file_limit();
    let listeners = receiver.run(|| listen(flows, server)).map_err(TrafficError::from)??;
    let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX / 4).min(u64::MAX / 4);
    let begin = clock::now();
    let end = begin + Nanos(nanos);
    let clients_ended = AtomicBool::new(false);
    let mut report = ChurnReport::default();
    let failed = |e| OsError::new("start a thread", e);
    std::thread::scope(|scope| {
        let mut servers = Vec::new();
        for sockets in listeners {
            let (bytes, ended) = (flows.bytes, &clients_ended);
            let thread = std::thread::Builder::new().name("weft-server".to_owned());
            servers.push(
                thread.spawn_scoped(scope, move || server::serve(sockets, bytes, ended)).map_err(failed),
            );
        }
        // Threads that a thread in a namespace starts are in it too.
        let clients = sender.run(|| clients(flows, server, begin, end, stop));
        clients_ended.store(true, Ordering::Release);
        let servers = ordered::join(servers);
        for client in clients.map_err(TrafficError::from)?? {
            report.elapsed = report.elapsed.max(client.until.saturating_since(begin));
            client.add_to(&mut report.clients);
        }
        for part in servers? {
            let part = part?;
            let total = &mut report.servers;
            total.accepted += part.accepted;
            total.answered += part.answered;
            total.orderly += part.orderly;
            total.reset += part.reset;
            total.left_open += part.left_open;
            total.failed += part.failed;
        }
        Ok(report)
    })
}

fn clients(
    flows: &ShortFlows,
    server: IpAddr,
    begin: Instant,
    end: Instant,
    stop: &AtomicBool,
) -> Result<Vec<client::Ended>, TrafficError> {
    std::thread::scope(|scope| {
        let start = |number: u16| {
            let thread = std::thread::Builder::new().name("weft-sender".to_owned());
            let work = move || client::Clients::new(flows, server, number, begin)?.run(end, stop);
            thread.spawn_scoped(scope, work).map_err(|e| OsError::new("start a thread", e))
        };
        let ended = ordered::join((0..flows.threads).map(start).collect())?;
        ended.into_iter().map(|client| client.map_err(TrafficError::from)).collect()
    })
}

/// The listening sockets of each server thread.
fn listen(flows: &ShortFlows, server: IpAddr) -> Result<Vec<Vec<std::net::TcpListener>>, TrafficError> {
    let mut sockets: Vec<Vec<_>> = (0..flows.threads).map(|_| Vec::new()).collect();
    for number in 0..flows.ports {
        let address = SocketAddr::new(server, flows.first_port + number);
        let socket =
            ordered::listener(address).map_err(|e| OsError::new(format!("listen at {address}"), e))?;
        sockets[usize::from(number % flows.threads)].push(socket);
    }
    Ok(sockets)
}

#[cfg(test)]
mod tests;
