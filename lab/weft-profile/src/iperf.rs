//! Bulk flows by iperf3: several processes, pinned on request, and the part of their JSON results that belongs to the
//! steady part.

use core::net::IpAddr;
use core::time::Duration;

use serde::Deserialize;
use weft_host::process::{Output, Signal};
use weft_host::{Cgroup, NetNs, Process, Spawn, clock};
use weft_units::{Bytes, Instant, Packets};

use crate::applications::Applications;
use crate::connections::{CONNECT_WAIT, Connections, pause};
use crate::error::ProfileError;

/// The most streams of one iperf3 process (`MAX_STREAMS` in its `iperf.h`).
pub const MAX_STREAMS: u32 = 128;
/// The TCP port of the first server; the others follow.
pub const FIRST_PORT: u16 = 5201;
/// The program.
pub(crate) const IPERF: &str = "iperf3";
/// Interval of iperf3's counts, in seconds.
const INTERVAL: &str = "0.5";
/// Time limit for a client to end after its run: its last exchange with the server passes the full queue.
const END_GRACE: Duration = Duration::from_secs(20);

/// The arguments of a server of one client.
pub(crate) fn server(address: IpAddr, port: u16) -> Vec<String> {
    let at = ["--server", "--one-off", "--bind", &address.to_string(), "--port", &port.to_string()];
    at.map(str::to_owned).to_vec()
}

/// The arguments of a client that sends `flows` flows to the server at `address` and `port`, for `seconds`.
pub(crate) fn client((address, port): (IpAddr, u16), flows: u32, seconds: u64) -> Vec<String> {
    let (address, port) = (address.to_string(), port.to_string());
    let (flows, seconds) = (flows.to_string(), seconds.to_string());
    let to = ["--client", &address, "--port", &port, "--parallel", &flows, "--time", &seconds];
    to.into_iter().chain(["--connect-timeout", "10000"]).map(str::to_owned).collect()
}

/// The flows of one client process.
#[derive(Clone, Copy, Debug)]
pub struct Client<'a> {
    /// TCP connections besides the control connection, at most [`MAX_STREAMS`].
    pub flows: u32,
    /// The processor that the process is pinned to.
    pub cpu: Option<u32>,
    /// The local port of the first flow; the others' follow (`--cport`). `None` lets the kernel choose.
    pub first_port: Option<u16>,
    /// The cgroup to run in; `None` for that of this process.
    pub cgroup: Option<&'a Cgroup>,
}

/// The moment at which a client begins to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Start {
    /// When its own flows are connected.
    AsConnected,
    /// When the flows of all clients are connected; until then it is suspended. Otherwise the flows of one client wait for
    /// their connections, one after the other, behind the queue of another.
    Together,
}

/// All clients, and their common parameters.
#[allow(missing_debug_implementations, reason = "it has a closure")]
pub struct Senders<'a> {
    /// The namespace of the clients.
    pub sender: &'a NetNs,
    /// The namespace of the servers.
    pub receiver: &'a NetNs,
    /// The receiver's address.
    pub address: IpAddr,
    /// The clients; their servers have the ports from [`FIRST_PORT`] on.
    pub clients: Vec<Client<'a>>,
    /// The moment at which they begin to send.
    pub start: Start,
    /// Duration of sending, in seconds.
    pub seconds: u64,
    /// Bytes per write and read; `None` for iperf3's default.
    pub block: Option<Bytes>,
    /// The congestion control, by its kernel name.
    pub congestion_control: &'a str,
    /// Whether to stop waiting.
    pub cancelled: &'a dyn Fn() -> bool,
}

impl Senders<'_> {
    /// Whether a client waits for others once its flows are connected.
    fn waits_for_others(&self) -> bool {
        self.start == Start::Together && self.clients.len() > 1
    }
}

/// Divides flows among processes as evenly as possible; the first ones get one more.
pub fn deal(flows: u32, processes: u32) -> impl Iterator<Item = u32> {
    (0..processes).map(move |i| (flows + processes - 1 - i) / processes)
}

#[derive(Debug)]
struct Pair {
    port: u16,
    flows: u32,
    /// When all flows of the client were connected; its own clock starts then.
    started: Option<Instant>,
}

/// All flows. Running processes are killed when the value is dropped.
#[derive(Debug)]
pub struct Flows {
    clients: Applications,
    servers: Applications,
    pairs: Vec<Pair>,
}

/// iperf3's counts of the steady part.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Seen {
    /// The ports of each flow: the receiver's and the sender's. The control connections are not among them.
    pub flows: Vec<(u16, u16)>,
    /// Retransmitted segments.
    pub retransmitted: Packets,
    /// Smoothed round-trip times, in microseconds, one per flow and interval.
    pub rtts_us: Vec<f64>,
}

impl Flows {
    /// Starts the servers, then the clients, and waits until all flows are connected.
    ///
    /// # Errors
    /// If iperf3 is missing or fails, or if the flows do not connect in time.
    pub fn start(senders: &Senders<'_>) -> Result<Self, ProfileError> {
        let (clients, servers) = (Applications::none(IPERF), Applications::none(IPERF));
        let mut all = Self { clients, servers, pairs: Vec::new() };
        for (client, port) in senders.clients.iter().zip(FIRST_PORT..) {
            let server = Spawn::new(IPERF)
                .args(server(senders.address, port))
                .args(["--json", "--interval", INTERVAL])
                .netns(senders.receiver)
                .stdout(Output::Capture);
            all.servers.processes.push(server.start()?);
            all.pairs.push(Pair { port, flows: client.flows, started: None });
        }
        all.wait_for(senders, "the servers to listen", |pair, seen| seen.listens(pair.port))?;
        for (client, port) in senders.clients.iter().zip(FIRST_PORT..) {
            all.clients.processes.push(start_client(senders, client, port)?);
        }
        // Each client has a control connection besides its flows.
        all.wait_for(senders, "all flows to connect", |pair, seen| seen.established(pair.port) > pair.flows)?;
        if senders.waits_for_others() {
            all.clients.processes.iter().try_for_each(|client| client.signal(Signal::CONT))?;
            let now = clock::now();
            all.pairs.iter_mut().for_each(|pair| pair.started = Some(now));
        }
        Ok(all)
    }

    /// Waits until `ready` holds for each pair, and records when that was.
    fn wait_for(
        &mut self,
        senders: &Senders<'_>,
        what: &'static str,
        ready: impl Fn(&Pair, &Connections) -> bool,
    ) -> Result<(), ProfileError> {
        let deadline = clock::now() + CONNECT_WAIT;
        self.pairs.iter_mut().for_each(|pair| pair.started = None);
        loop {
            let seen = Connections::read(senders.receiver, senders.address)?;
            let now = clock::now();
            for (number, pair) in self.pairs.iter_mut().enumerate().filter(|(_, pair)| pair.started.is_none())
            {
                pair.started = ready(pair, &seen).then_some(now);
                let waits = pair.started.is_some() && senders.waits_for_others();
                // Servers wait before there is a client.
                if let Some(client) = self.clients.processes.get(number).filter(|_| waits) {
                    client.signal(Signal::STOP)?;
                }
            }
            if self.pairs.iter().all(|pair| pair.started.is_some()) {
                return Ok(());
            }
            self.check()?;
            pause(senders.cancelled, deadline, what)?;
        }
    }

    /// Returns when the first client's own time began: that client ends first.
    pub fn first_start(&self) -> Instant {
        self.pairs.iter().filter_map(|pair| pair.started).min().unwrap_or(Instant::ZERO)
    }

    /// Returns the ids of all processes, senders and receivers.
    pub fn pids(&self) -> Vec<i32> {
        let processes = self.clients.processes.iter().chain(&self.servers.processes);
        processes.map(|process| process.pid().as_raw_nonzero().get()).collect()
    }

    /// Fails if a process has ended, which it must not do by itself.
    ///
    /// # Errors
    /// Then.
    pub fn check(&mut self) -> Result<(), ProfileError> {
        self.clients.check()?;
        self.servers.check()
    }

    /// Waits for the processes to end, and reads the senders' counts between `from` and `to`.
    ///
    /// # Errors
    /// If a process fails or does not end, or if the senders' sockets had not the congestion control `wanted`.
    pub fn finish(mut self, wanted: &str, from: Instant, to: Instant) -> Result<Seen, ProfileError> {
        let mut seen = Seen::default();
        let mut used_by_sender = Vec::new();
        let servers = self.servers.processes.iter_mut();
        for ((pair, client), server) in self.pairs.iter().zip(&mut self.clients.processes).zip(servers) {
            let origin = pair.started.unwrap_or(from);
            let document: Document =
                serde_json::from_str(&ended(client)?).map_err(|e| ProfileError::Iperf(e.to_string()))?;
            used_by_sender.extend(document.end.sender_tcp_congestion.clone());
            add(&mut seen, document, origin, from, to);
            ended(server)?;
        }
        if used_by_sender.is_empty() || used_by_sender.iter().any(|used| used != wanted) {
            return Err(ProfileError::Iperf(format!("the senders used {used_by_sender:?}, not {wanted}")));
        }
        Ok(seen)
    }
}

/// Waits for a process to end, and returns its output.
fn ended(process: &mut Process) -> Result<String, ProfileError> {
    let status = process.wait_timeout(END_GRACE)?.ok_or(ProfileError::Late("iperf3 to end"))?;
    let text = process.stdout().text();
    if status.success() {
        return Ok(text);
    }
    Err(ProfileError::Iperf(reason(&text).unwrap_or_else(|| "it ended early without a message".to_owned())))
}

/// Starts a client of the server at `port`.
fn start_client(senders: &Senders<'_>, one: &Client<'_>, port: u16) -> Result<Process, ProfileError> {
    let mut spawn = Spawn::new(IPERF)
        .args(client((senders.address, port), one.flows, senders.seconds))
        .args(["--json", "--interval", INTERVAL])
        .args(["--congestion", senders.congestion_control])
        .netns(senders.sender)
        .stdout(Output::Capture);
    if let Some(cgroup) = one.cgroup {
        spawn = spawn.cgroup(cgroup);
    }
    if let Some(block) = senders.block {
        spawn = spawn.args(["--length", &block.get().to_string()]);
    }
    if let Some(cpu) = one.cpu {
        spawn = spawn.args(["--affinity", &cpu.to_string()]);
    }
    if let Some(first) = one.first_port {
        spawn = spawn.args(["--cport", &first.to_string()]);
    }
    Ok(spawn.start()?)
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

/// The reason in the JSON that iperf3 wrote, if it wrote any.
pub(crate) fn reason(text: &str) -> Option<String> {
    serde_json::from_str::<Document>(text).ok()?.error
}

impl Applications {
    /// Fails if an application has ended, which it must not do by itself.
    pub(crate) fn check(&mut self) -> Result<(), ProfileError> {
        for process in &mut self.processes {
            if process.try_wait()?.is_some() {
                let stdout = process.stdout().text();
                let said = reason(&stdout).unwrap_or(stdout);
                let said = [process.stderr().text(), said].concat();
                // sockperf says why, and then that it ends.
                let why = said.lines().find(|line| line.contains("ERROR"));
                let last = || said.lines().rev().find(|line| !line.trim().is_empty());
                let said = why.or_else(last).unwrap_or("without a message").trim().to_owned();
                return Err(ProfileError::Ended { program: self.program.to_owned(), said });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(reason(r#"{"error":"unable to connect"}"#).as_deref(), Some("unable to connect"));
        assert_eq!((reason("iperf3: no"), reason("{}")), (None, None));
    }
}
