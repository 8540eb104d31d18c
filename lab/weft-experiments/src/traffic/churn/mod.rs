//! Short TCP flows, thousands per second: each connects, sends a few bytes, reads one byte back, and is closed
//! orderly, reset, or abandoned.
//!
//! A queue assignment counts the flows of a queue. Its counts drift where flows end without a packet, or faster than
//! they are counted. So each way of ending has a share here, and a count on both sides.

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

/// The most events that one epoll wait returns.
const EVENTS: usize = 1024;
/// Time that the servers continue after the clients have ended.
const SERVER_QUIET: Nanos = Nanos::from_millis(200);
/// The most time that they continue.
const SERVER_PATIENCE: Nanos = Nanos::from_secs(5);

/// The reason that there was no traffic.
#[derive(Debug, thiserror::Error)]
pub enum ChurnError {
    /// A step on sockets, threads or namespaces failed.
    #[error(transparent)]
    Traffic(#[from] TrafficError),
    /// A kernel setting could not be changed.
    #[error("traffic of short flows: {0}")]
    Sysctl(#[from] SysctlError),
}

impl From<OsError> for ChurnError {
    fn from(error: OsError) -> Self {
        Self::Traffic(error.into())
    }
}

/// Shares of the ways in which flows end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClosingShares {
    /// FIN from the client, then from the server.
    pub orderly: u32,
    /// Reset from the client (`SO_LINGER` with time 0, socket(7)).
    pub reset: u32,
    /// None while the traffic lasts: both ends keep the connection open without a packet.
    pub abandoned: u32,
}

/// Parameters of the flows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ShortFlows {
    /// Flows started per second.
    pub per_second: u32,
    /// Bytes that each client sends.
    pub bytes: u32,
    /// Shares of the ways in which they end.
    pub how_closed: ClosingShares,
    /// Number of client threads, and of server threads.
    pub threads: u16,
    /// Ports of the servers. Each flow draws one, so that the clients' ports suffice.
    pub ports: u16,
    /// The first of the servers' ports.
    pub first_port: u16,
    /// The most open flows in all, without abandoned ones. At this number no flow is started.
    pub most_open: u32,
    /// The most abandoned flows; at this number a flow is reset instead.
    pub most_abandoned: u32,
    /// Time limit of a flow.
    pub patience: Nanos,
    /// Seed of all random draws.
    pub seed: u64,
}

impl Default for ShortFlows {
    fn default() -> Self {
        Self {
            per_second: 10_000,
            bytes: 1000,
            how_closed: ClosingShares { orderly: 50, reset: 49, abandoned: 1 },
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
        let ClosingShares { orderly, reset, abandoned } = self.how_closed;
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
            return invalid("at least one way of closing must have a share");
        }
        Ok(())
    }
}

/// Failed flows, by reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Failures {
    /// No free port (EADDRNOTAVAIL).
    pub no_port: u64,
    /// No listening socket (ECONNREFUSED).
    pub refused: u64,
    /// Reset by the other end (ECONNRESET, EPIPE), or ended early by it.
    pub reset: u64,
    /// Time limit exceeded.
    pub timed_out: u64,
    /// Any other error: no file descriptors or memory left.
    pub other: u64,
}

impl Failures {
    /// Returns the sum of all reasons.
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

/// The clients' counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ClientCounts {
    /// Flows started.
    pub started: u64,
    /// Flows closed orderly, with the server's end of stream read.
    pub orderly: u64,
    /// Flows answered, and reset.
    pub reset: u64,
    /// Flows answered, and kept open to the end.
    pub abandoned: u64,
    /// Flows that failed before that.
    pub failed: Failures,
}

impl ClientCounts {
    /// Whether every flow is accounted for.
    pub fn balances(&self) -> bool {
        self.started == self.orderly + self.reset + self.abandoned + self.failed.total()
    }
}

/// The servers' counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ServerCounts {
    /// Connections accepted.
    pub accepted: u64,
    /// Accepted connections whose bytes all arrived.
    pub answered: u64,
    /// Connections ended by the client's FIN.
    pub orderly: u64,
    /// Connections ended by a reset.
    pub reset: u64,
    /// Connections open at the end.
    pub left_open: u64,
    /// Connections ended by any other error.
    pub failed: u64,
}

impl ServerCounts {
    /// Whether every connection is accounted for.
    pub fn balances(&self) -> bool {
        self.accepted == self.orderly + self.reset + self.left_open + self.failed
    }
}

/// The counts of both sides.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ChurnReport {
    /// The clients' side.
    pub clients: ClientCounts,
    /// The servers' side.
    pub servers: ServerCounts,
    /// The span in which flows were started.
    pub elapsed: Nanos,
}

impl ChurnReport {
    /// Returns flows per second that were answered and ended, or abandoned.
    pub fn per_second(&self) -> f64 {
        let done = self.clients.orderly + self.clients.reset + self.clients.abandoned;
        done as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }
}

/// Sets up `sender` with enough ports for thousands of flows per second, and `receiver` with a backlog for them
/// (Documentation/networking/ip-sysctl.rst).
///
/// # Errors
/// Fails when the kernel refuses a setting.
pub fn prepare(sender: &NetNs, receiver: &NetNs) -> Result<(), SysctlError> {
    sysctl::set(sender, "net.ipv4.ip_local_port_range", "1024 65535")?;
    // Allows reuse of a port in TIME-WAIT after a second.
    sysctl::set(sender, "net.ipv4.tcp_tw_reuse", "1")?;
    sysctl::set(sender, "net.ipv4.tcp_fin_timeout", "2")?;
    sysctl::set(receiver, "net.core.somaxconn", "65535")?;
    sysctl::set(receiver, "net.ipv4.tcp_max_syn_backlog", "65535")
}

/// Makes `flows` from `sender` to servers, which it starts at `server` in `receiver`, for `duration` or until `stop`.
/// Returns at the latest the flows' time limit and 6 s later; all threads have ended and all sockets are closed by
/// then. Abandoned connections are closed after the counts are taken.
///
/// # Errors
/// Fails for invalid settings, and when a socket or thread cannot be made. Errors of single flows are counted.
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
        // Threads inherit the namespace of the thread that starts them.
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

/// Opens the listening sockets of each server thread.
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
