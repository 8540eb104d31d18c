//! Bulk flows by iperf3: several processes, pinned on request, and the part of their JSON results that belongs to the
//! steady part.

use core::net::IpAddr;
use core::time::Duration;
use serde::Deserialize;
use weft_host::netns::NetNsError;
use weft_host::process::{Output, ProcessError, Signal};
use weft_host::{Cgroup, NetNs, OsError, Process, Spawn, clock};
use weft_units::{Bytes, Instant, Nanos, Packets};

/// The most streams of one iperf3 process (`MAX_STREAMS` in its `iperf.h`).
pub(crate) const MAX_STREAMS: u32 = 128;
/// The TCP port of the first server; the others follow.
pub(crate) const FIRST_PORT: u16 = 5201;
/// Interval of iperf3's counts, in seconds.
const INTERVAL: &str = "0.5";
/// Time limit for servers to listen, and for flows to connect through a full queue.
const CONNECT_WAIT: Nanos = Nanos::from_secs(15);
/// Time limit for a client to end after its run: its last exchange with the server passes the full queue.
const END_GRACE: Duration = Duration::from_secs(20);
/// States in `/proc/net/tcp`: `TCP_ESTABLISHED` and `TCP_LISTEN`.
const ESTABLISHED: &str = "01";
const LISTEN: &str = "0A";

/// The reason that flows could not be sent.
#[derive(Debug, thiserror::Error)]
pub enum IperfError {
    /// A step did not complete in time.
    #[error("waited too long for {0}; is the machine busy?")]
    Late(&'static str),
    /// iperf3 failed, or wrote an unreadable result.
    #[error("iperf3: {0}")]
    Said(String),
    /// The caller asked to stop.
    #[error("stopped")]
    Stopped,
    /// A step on a namespace failed.
    #[error(transparent)]
    NetNs(#[from] NetNsError),
    /// A program could not be run.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// Another system call failed.
    #[error(transparent)]
    Os(#[from] OsError),
}

/// The flows of one client process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Client<'a> {
    /// TCP connections besides the control connection, at most [`MAX_STREAMS`].
    pub(crate) flows: u32,
    /// The processor that the process is pinned to.
    pub(crate) cpu: Option<u32>,
    /// The local port of the first flow; the others' follow (`--cport`). `None` lets the kernel choose.
    pub(crate) first_port: Option<u16>,
    /// The cgroup to run in; `None` for that of this process.
    pub(crate) cgroup: Option<&'a Cgroup>,
}

/// The moment at which a client begins to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Start {
    /// When its own flows are connected.
    AsConnected,
    /// When the flows of all clients are connected; until then it is suspended. Otherwise the flows of one client wait for
    /// their connections, one after the other, behind the queue of another.
    Together,
}

/// All clients, and their common parameters.
pub(crate) struct Senders<'a> {
    pub(crate) sender: &'a NetNs,
    pub(crate) receiver: &'a NetNs,
    /// The receiver's address.
    pub(crate) address: IpAddr,
    pub(crate) clients: Vec<Client<'a>>,
    /// The moment at which they begin to send.
    pub(crate) start: Start,
    /// Duration of sending, in seconds.
    pub(crate) seconds: u64,
    /// Bytes per write and read; `None` for iperf3's default.
    pub(crate) block: Option<Bytes>,
    /// The congestion control, by its kernel name.
    pub(crate) congestion_control: &'a str,
    /// Whether to stop waiting.
    pub(crate) cancelled: &'a dyn Fn() -> bool,
}

impl Senders<'_> {
    /// Whether a client waits for others once its flows are connected.
    fn waits_for_others(&self) -> bool {
        self.start == Start::Together && self.clients.len() > 1
    }
}

/// Divides flows among processes as evenly as possible; the first ones get one more.
pub(crate) fn deal(flows: u32, processes: u32) -> impl Iterator<Item = u32> {
    (0..processes).map(move |i| (flows + processes - 1 - i) / processes)
}

#[derive(Debug)]
struct Pair {
    server: Process,
    client: Option<Process>,
    port: u16,
    flows: u32,
    /// When all flows of the client were connected; its own clock starts then.
    started: Option<Instant>,
}

/// All flows. Running processes are killed when the value is dropped.
#[derive(Debug)]
pub(crate) struct Flows(Vec<Pair>);

/// iperf3's counts of the steady part.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Seen {
    /// The ports of each flow: the receiver's and the sender's. The control connections are not among them.
    pub(crate) flows: Vec<(u16, u16)>,
    pub(crate) retransmitted: Packets,
    /// Smoothed round-trip times, in microseconds, one per flow and interval.
    pub(crate) rtts_us: Vec<f64>,
}

impl Flows {
    /// Starts the servers, then the clients, and waits until all flows are connected.
    pub(crate) fn start(senders: &Senders<'_>) -> Result<Self, IperfError> {
        let mut pairs = Vec::new();
        for (client, port) in senders.clients.iter().zip(FIRST_PORT..) {
            let server = Spawn::new("iperf3")
                .args(["--server", "--one-off", "--json", "--interval", INTERVAL])
                .args(["--bind", &senders.address.to_string(), "--port", &port.to_string()])
                .netns(senders.receiver)
                .stdout(Output::Capture)
                .start()?;
            pairs.push(Pair { server, client: None, port, flows: client.flows, started: None });
        }
        let mut all = Self(pairs);
        all.wait_for(senders, "the servers to listen", |pair, table| {
            connections(table, pair.port, LISTEN) > 0
        })?;
        for (pair, client) in all.0.iter_mut().zip(&senders.clients) {
            pair.client = Some(start_client(senders, client, pair.port)?);
        }
        // Each client has a control connection besides its flows.
        all.wait_for(senders, "all flows to connect", |pair, table| {
            connections(table, pair.port, ESTABLISHED) > pair.flows
        })?;
        if senders.waits_for_others() {
            all.signal_clients(Signal::CONT)?;
            let now = clock::now();
            all.0.iter_mut().for_each(|pair| pair.started = Some(now));
        }
        Ok(all)
    }

    fn signal_clients(&self, signal: Signal) -> Result<(), ProcessError> {
        let mut clients = self.0.iter().filter_map(|pair| pair.client.as_ref());
        clients.try_for_each(|client| client.signal(signal))
    }

    /// Waits until `ready` holds for each pair, and records when that was.
    fn wait_for(
        &mut self,
        senders: &Senders<'_>,
        what: &'static str,
        ready: impl Fn(&Pair, &str) -> bool,
    ) -> Result<(), IperfError> {
        let deadline = clock::now() + CONNECT_WAIT;
        self.0.iter_mut().for_each(|pair| pair.started = None);
        loop {
            let table = table(senders.receiver, senders.address)?;
            let now = clock::now();
            for pair in self.0.iter_mut().filter(|pair| pair.started.is_none()) {
                pair.started = ready(pair, &table).then_some(now);
                let waits = pair.started.is_some() && senders.waits_for_others();
                // Servers wait before there is a client.
                if let Some(client) = pair.client.as_ref().filter(|_| waits) {
                    client.signal(Signal::STOP)?;
                }
            }
            if self.0.iter().all(|pair| pair.started.is_some()) {
                return Ok(());
            }
            self.check()?;
            if (senders.cancelled)() {
                return Err(IperfError::Stopped);
            }
            if now > deadline {
                return Err(IperfError::Late(what));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Returns when the first client's own time began: that client ends first.
    pub(crate) fn first_start(&self) -> Instant {
        self.0.iter().filter_map(|pair| pair.started).min().unwrap_or(Instant::ZERO)
    }

    /// Returns the ids of all processes, senders and receivers.
    pub(crate) fn pids(&self) -> Vec<i32> {
        let processes = self.0.iter().flat_map(|pair| pair.client.iter().chain([&pair.server]));
        processes.map(|process| process.pid().as_raw_nonzero().get()).collect()
    }

    /// Fails if a process has ended, which it must not do by itself.
    pub(crate) fn check(&mut self) -> Result<(), IperfError> {
        for pair in &mut self.0 {
            for process in pair.client.iter_mut().chain([&mut pair.server]) {
                if process.try_wait()?.is_some() {
                    return Err(IperfError::Said(said(&process.stdout().text())));
                }
            }
        }
        Ok(())
    }

    /// Waits for the processes to end, and reads the senders' counts between `from` and `to`. Fails unless the senders'
    /// sockets had the congestion control `wanted`.
    pub(crate) fn finish(mut self, wanted: &str, from: Instant, to: Instant) -> Result<Seen, IperfError> {
        let mut seen = Seen::default();
        let mut used_by_sender = Vec::new();
        for pair in &mut self.0 {
            let origin = pair.started.unwrap_or(from);
            if let Some(client) = &mut pair.client {
                let document: Document =
                    serde_json::from_str(&ended(client)?).map_err(|e| IperfError::Said(e.to_string()))?;
                used_by_sender.extend(document.end.sender_tcp_congestion.clone());
                add(&mut seen, document, origin, from, to);
            }
            ended(&mut pair.server)?;
        }
        if used_by_sender.is_empty() || used_by_sender.iter().any(|used| used != wanted) {
            return Err(IperfError::Said(format!("the senders used {used_by_sender:?}, not {wanted}")));
        }
        Ok(seen)
    }
}

/// Waits for a process to end, and returns its output.
fn ended(process: &mut Process) -> Result<String, IperfError> {
    let status = process.wait_timeout(END_GRACE)?.ok_or(IperfError::Late("iperf3 to end"))?;
    let text = process.stdout().text();
    if status.success() { Ok(text) } else { Err(IperfError::Said(said(&text))) }
}

/// Starts a client of the server at `port`.
fn start_client(senders: &Senders<'_>, client: &Client<'_>, port: u16) -> Result<Process, IperfError> {
    let mut spawn = Spawn::new("iperf3")
        .args(["--client", &senders.address.to_string(), "--port", &port.to_string()])
        .args(["--parallel", &client.flows.to_string(), "--time", &senders.seconds.to_string()])
        .args(["--json", "--interval", INTERVAL, "--connect-timeout", "10000"])
        .args(["--congestion", senders.congestion_control])
        .netns(senders.sender)
        .stdout(Output::Capture);
    if let Some(cgroup) = client.cgroup {
        spawn = spawn.cgroup(cgroup);
    }
    if let Some(block) = senders.block {
        spawn = spawn.args(["--length", &block.get().to_string()]);
    }
    if let Some(cpu) = client.cpu {
        spawn = spawn.args(["--affinity", &cpu.to_string()]);
    }
    if let Some(first) = client.first_port {
        spawn = spawn.args(["--cport", &first.to_string()]);
    }
    Ok(spawn.start()?)
}

impl Drop for Flows {
    fn drop(&mut self) {
        // All are signalled before any is waited for, clients first: otherwise each would take its grace period in
        // turn.
        let clients = self.0.iter().filter_map(|pair| pair.client.as_ref());
        for process in clients.chain(self.0.iter().map(|pair| &pair.server)) {
            let _ = process.signal(Signal::KILL);
        }
    }
}

/// Waits until a server in `receiver` listens at `port` of `address`.
pub(crate) fn wait_until_listening(
    receiver: &NetNs,
    address: IpAddr,
    port: u16,
    cancelled: &dyn Fn() -> bool,
) -> Result<(), IperfError> {
    let deadline = clock::now() + CONNECT_WAIT;
    while connections(&table(receiver, address)?, port, LISTEN) == 0 {
        if cancelled() {
            return Err(IperfError::Stopped);
        }
        if clock::now() > deadline {
            return Err(IperfError::Late("a server to listen"));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// Reads the receiver's connection table.
fn table(receiver: &NetNs, address: IpAddr) -> Result<String, IperfError> {
    let read = receiver.run(|| std::fs::read_to_string(table_of(address)))?;
    Ok(read.map_err(|e| OsError::new("read the receiver's TCP connections", e))?)
}

/// Returns the connection table of the address's family, for this thread: `/proc/net` is that of the process's first
/// thread.
fn table_of(address: IpAddr) -> &'static str {
    match address {
        IpAddr::V4(_) => "/proc/thread-self/net/tcp",
        IpAddr::V6(_) => "/proc/thread-self/net/tcp6",
    }
}

/// Returns the number of the table's connections with this local port and state.
fn connections(table: &str, port: u16, state: &str) -> u32 {
    let port = format!(":{port:04X}");
    let matches = |line: &&str| {
        let mut fields = line.split_whitespace().skip(1);
        fields.next().is_some_and(|local| local.ends_with(&port)) && fields.nth(1) == Some(state)
    };
    u32::try_from(table.lines().filter(matches).count()).unwrap_or(u32::MAX)
}

#[derive(Deserialize)]
struct Document {
    #[serde(default)]
    start: Started,
    #[serde(default)]
    intervals: Vec<Interval>,
    #[serde(default)]
    end: End,
    error: Option<String>,
}

#[derive(Deserialize, Default)]
struct Started {
    /// The flows' connections.
    #[serde(default)]
    connected: Vec<Connected>,
}

#[derive(Deserialize)]
struct Connected {
    local_port: u16,
    remote_port: u16,
}

#[derive(Deserialize, Default)]
struct End {
    /// The congestion control that the client read back from its sockets.
    sender_tcp_congestion: Option<String>,
}

#[derive(Deserialize)]
struct Interval {
    streams: Vec<Stream>,
}

/// A flow's counts in an interval. Only the sender has `retransmits` and `rtt` (from `TCP_INFO`, in microseconds).
#[derive(Deserialize)]
struct Stream {
    start: f64,
    end: f64,
    retransmits: Option<u64>,
    rtt: Option<f64>,
}

/// Adds a client's flows, and its intervals within the steady part. `origin` is the zero of the document's times.
fn add(seen: &mut Seen, document: Document, origin: Instant, from: Instant, to: Instant) {
    let first = from.saturating_since(origin).as_secs_f64();
    let last = to.saturating_since(origin).as_secs_f64();
    seen.flows.extend(document.start.connected.iter().map(|flow| (flow.remote_port, flow.local_port)));
    let streams = document.intervals.into_iter().flat_map(|interval| interval.streams);
    for stream in streams.filter(|s| s.start >= first && s.end <= last) {
        seen.retransmitted += Packets(stream.retransmits.unwrap_or(0));
        seen.rtts_us.extend(stream.rtt.filter(|rtt| *rtt > 0.0));
    }
}

/// Returns the reason that iperf3 gave.
fn said(text: &str) -> String {
    let document: Option<Document> = serde_json::from_str(text).ok();
    document
        .and_then(|document| document.error)
        .unwrap_or_else(|| "it ended early without a message".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "  sl  local_address rem_address   st tx_queue\n   \
        0: 00000000:1451 00000000:0000 0A 00000000:00000000\n   \
        1: 0102610A:1451 0101610A:A001 01 00000000:00000000\n   \
        2: 0102610A:1451 0101610A:A002 01 00000000:00000000\n   \
        3: 0102610A:1452 0101610A:1451 01 00000000:00000000\n";

    #[test]
    fn flows_are_dealt_evenly() {
        for (flows, processes) in [(12, 2), (3, 2), (1, 3), (1024, 8), (0, 2)] {
            let dealt: Vec<u32> = deal(flows, processes).collect();
            assert_eq!(dealt.iter().sum::<u32>(), flows);
            assert_eq!(dealt.len(), processes as usize);
            let (least, most) = (dealt.iter().min(), dealt.iter().max());
            assert!(most.zip(least).is_some_and(|(most, least)| most - least <= 1), "{dealt:?}");
        }
    }

    #[test]
    fn connections_are_counted_by_local_port_and_state() {
        assert_eq!(connections(TABLE, 5201, LISTEN), 1);
        assert_eq!(connections(TABLE, 5201, ESTABLISHED), 2);
        assert_eq!(connections(TABLE, 5202, ESTABLISHED), 1);
        assert_eq!(connections("", 5201, ESTABLISHED), 0);
    }

    #[test]
    fn only_whole_intervals_of_the_steady_part_count() {
        let stream = |start: f64| {
            let end = start + 0.5;
            format!(r#"{{"start":{start},"end":{end},"seconds":0.5,"bytes":1,"retransmits":2,"rtt":500}}"#)
        };
        let rows = [0.0, 0.5, 1.0, 1.5]
            .map(|at| format!(r#"{{"streams":[{},{}],"sum":{{}}}}"#, stream(at), stream(at)));
        let connected = [40_001, 40_003].map(|port| format!(r#"{{"local_port":{port},"remote_port":5201}}"#));
        let document = format!(
            r#"{{"start":{{"connected":[{}]}},"intervals":[{}],"end":{{}}}}"#,
            connected.join(","),
            rows.join(",")
        );
        let (origin, from, to) =
            (Instant::from_secs(10), Instant::from_millis(10_400), Instant::from_millis(11_600));
        let mut seen = Seen::default();
        add(&mut seen, serde_json::from_str(&document).expect("a document"), origin, from, to);
        assert_eq!(seen.flows, [(5201, 40_001), (5201, 40_003)]);
        assert_eq!(seen.retransmitted, Packets(8));
        assert_eq!(seen.rtts_us, [500.0; 4]);
    }

    #[test]
    fn the_reason_is_passed_on_and_the_congestion_control_read() {
        let end = r#"{"intervals":[],"end":{"sender_tcp_congestion":"cubic"}}"#;
        let document: Document = serde_json::from_str(end).expect("a document");
        assert_eq!(document.end.sender_tcp_congestion.as_deref(), Some("cubic"));
        assert_eq!(said(r#"{"error":"unable to connect"}"#), "unable to connect");
        assert!(said("").contains("without a message"));
    }
}
