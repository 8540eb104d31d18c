//! iperf3 as the flows: several processes, since one takes at most 128 streams, and what their JSON says of the steady part.

use super::testbed::{Path, RECEIVER};
use super::{Bottleneck, KernelTcpError};
use core::time::Duration;
use serde::Deserialize;
use weft_host::process::Output;
use weft_host::{Process, Spawn, clock};
use weft_units::{Bytes, Nanos, Packets};

/// The most streams of one iperf3 (`MAX_STREAMS` in its `iperf.h`).
const MAX_STREAMS: u32 = 128;
/// The TCP port of the first server.
const FIRST_PORT: u32 = 5201;
/// How often iperf3 counts, in seconds.
const INTERVAL: &str = "0.5";
/// How long servers may take to listen, and flows to connect through a queue that is full already.
const CONNECT_WAIT: Nanos = Nanos::from_secs(15);
/// How long a client may take to end after its time: its last exchange with the server passes the full queue.
const END_GRACE: Duration = Duration::from_secs(20);
/// States in `/proc/net/tcp`: `TCP_ESTABLISHED` and `TCP_LISTEN`.
const ESTABLISHED: &str = "01";
const LISTEN: &str = "0A";

#[derive(Debug)]
struct Pair {
    server: Process,
    client: Option<Process>,
    port: u32,
    flows: u32,
    /// When all its flows were there; its own clock starts then.
    started: Option<Nanos>,
}

/// All flows.
#[derive(Debug)]
pub(super) struct Flows(Vec<Pair>);

/// What iperf3 saw of the steady part.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Seen {
    /// Bytes of payload that each flow's receiver took, and in what time in seconds.
    pub(super) flows: Vec<(Bytes, f64)>,
    pub(super) retransmitted: Packets,
    /// Smoothed round-trip times, in microseconds, one for each flow and interval.
    pub(super) rtts_us: Vec<f64>,
}

impl Flows {
    /// Starts servers, and when they listen the clients, which send for `seconds`.
    pub(super) fn start(path: &Path, b: &Bottleneck, seconds: u64) -> Result<Self, KernelTcpError> {
        let count = b.flows.div_ceil(MAX_STREAMS);
        let mut pairs = Vec::new();
        for i in 0..count {
            let port = FIRST_PORT + i;
            let server = Spawn::new("iperf3")
                .args(["--server", "--one-off", "--version4", "--json", "--interval", INTERVAL])
                .args(["--port", &port.to_string()])
                .netns(&path.receiver)
                .stdout(Output::Capture)
                .start()?;
            // The flows are dealt out as evenly as they go.
            let flows = (b.flows + count - 1 - i) / count;
            pairs.push(Pair { server, client: None, port, flows, started: None });
        }
        let mut all = Self(pairs);
        all.wait_for(path, "the servers to listen", |pair, table| connections(table, pair.port, LISTEN) > 0)?;
        // iperf3 counts whole blocks: a few segments each, so that slow flows are counted finely too.
        let block = 4 * b.segment().get();
        for pair in &mut all.0 {
            let client = Spawn::new("iperf3")
                .args(["--client", &RECEIVER.to_string(), "--port", &pair.port.to_string()])
                .args(["--parallel", &pair.flows.to_string(), "--length", &block.to_string()])
                .args(["--time", &seconds.to_string(), "--json", "--interval", INTERVAL])
                .args(["--connect-timeout", "10000", "--congestion", &b.congestion_control])
                .netns(&path.sender)
                .stdout(Output::Capture)
                .start()?;
            pair.client = Some(client);
        }
        // Each client has a connection for control besides its flows.
        all.wait_for(path, "all flows to connect", |pair, table| {
            connections(table, pair.port, ESTABLISHED) > pair.flows
        })?;
        Ok(all)
    }

    /// Waits until `ready` holds for each pair; notes when that was.
    fn wait_for(
        &mut self,
        path: &Path,
        what: &'static str,
        ready: impl Fn(&Pair, &str) -> bool,
    ) -> Result<(), KernelTcpError> {
        let deadline = clock::now() + CONNECT_WAIT;
        self.0.iter_mut().for_each(|pair| pair.started = None);
        loop {
            // Of this thread: /proc/net is that of the process's first one.
            let read = path.receiver.run(|| std::fs::read_to_string("/proc/thread-self/net/tcp"))?;
            let table =
                read.map_err(|e| weft_host::OsError::new("read the receiver's TCP connections", e))?;
            let now = clock::now();
            for pair in self.0.iter_mut().filter(|pair| pair.started.is_none()) {
                pair.started = ready(pair, &table).then_some(now);
            }
            if self.0.iter().all(|pair| pair.started.is_some()) {
                return Ok(());
            }
            self.check()?;
            if now > deadline {
                return Err(KernelTcpError::Late(what));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// When the first client's own time began: it ends first.
    pub(super) fn first_start(&self) -> Nanos {
        self.0.iter().filter_map(|pair| pair.started).min().unwrap_or(Nanos::ZERO)
    }

    /// A process that has ended has failed.
    pub(super) fn check(&mut self) -> Result<(), KernelTcpError> {
        for pair in &mut self.0 {
            for process in pair.client.iter_mut().chain([&mut pair.server]) {
                if process.try_wait()?.is_some() {
                    return Err(KernelTcpError::Iperf(said(&process.stdout().text())));
                }
            }
        }
        Ok(())
    }

    /// Waits for the clients to end, and reads what both sides counted between `from` and `to`. The senders' sockets must
    /// have had the congestion control `wanted`.
    pub(super) fn finish(mut self, wanted: &str, from: Nanos, to: Nanos) -> Result<Seen, KernelTcpError> {
        let mut seen = Seen::default();
        let mut used_by_sender = Vec::new();
        for pair in &mut self.0 {
            let origin = pair.started.unwrap_or(from);
            for process in pair.client.iter_mut().chain([&mut pair.server]) {
                let Some(status) = process.wait_timeout(END_GRACE)? else {
                    return Err(KernelTcpError::Late("iperf3 to end"));
                };
                let text = process.stdout().text();
                if !status.success() {
                    return Err(KernelTcpError::Iperf(said(&text)));
                }
                let document: Document =
                    serde_json::from_str(&text).map_err(|e| KernelTcpError::Iperf(e.to_string()))?;
                used_by_sender.extend(document.end.sender_tcp_congestion.clone());
                add(&mut seen, document, origin, from, to);
            }
        }
        if used_by_sender.is_empty() || used_by_sender.iter().any(|used| used != wanted) {
            return Err(KernelTcpError::Iperf(format!("the senders used {used_by_sender:?}, not {wanted}")));
        }
        Ok(seen)
    }
}

/// How many connections of the table have this local port and state.
fn connections(table: &str, port: u32, state: &str) -> u32 {
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
    intervals: Vec<Interval>,
    #[serde(default)]
    end: End,
    error: Option<String>,
}

#[derive(Deserialize, Default)]
struct End {
    /// What the client reads back from its sockets.
    sender_tcp_congestion: Option<String>,
}

#[derive(Deserialize)]
struct Interval {
    streams: Vec<Stream>,
}

/// A flow in an interval. Only the sender knows `retransmits` and `rtt` (from `TCP_INFO`, in microseconds).
#[derive(Deserialize)]
struct Stream {
    socket: i64,
    start: f64,
    end: f64,
    seconds: f64,
    bytes: u64,
    sender: bool,
    retransmits: Option<u64>,
    rtt: Option<f64>,
}

/// Adds the intervals that lie in the steady part. `origin` is when the document's own time began.
fn add(seen: &mut Seen, document: Document, origin: Nanos, from: Nanos, to: Nanos) {
    let first = from.saturating_sub(origin).as_secs_f64();
    let last = to.saturating_sub(origin).as_secs_f64();
    let streams = document.intervals.into_iter().flat_map(|interval| interval.streams);
    let mut flows: Vec<(i64, Bytes, f64)> = Vec::new();
    for stream in streams.filter(|s| s.start >= first && s.end <= last) {
        if stream.sender {
            seen.retransmitted += Packets(stream.retransmits.unwrap_or(0));
            seen.rtts_us.extend(stream.rtt.filter(|rtt| *rtt > 0.0));
        } else if let Some(flow) = flows.iter_mut().find(|flow| flow.0 == stream.socket) {
            flow.1 += Bytes(stream.bytes);
            flow.2 += stream.seconds;
        } else {
            flows.push((stream.socket, Bytes(stream.bytes), stream.seconds));
        }
    }
    seen.flows.extend(flows.into_iter().map(|(_, bytes, seconds)| (bytes, seconds)));
}

/// The reason that iperf3 gave.
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
    fn connections_are_counted_by_local_port_and_state() {
        assert_eq!(connections(TABLE, 5201, LISTEN), 1);
        assert_eq!(connections(TABLE, 5201, ESTABLISHED), 2);
        assert_eq!(connections(TABLE, 5202, ESTABLISHED), 1);
        assert_eq!(connections("", 5201, ESTABLISHED), 0);
    }

    fn stream(socket: u32, start: f64, bytes: u32, sender: &str) -> String {
        let end = start + 0.5;
        format!(
            r#"{{"socket":{socket},"start":{start},"end":{end},"seconds":0.5,"bytes":{bytes},"omitted":false,{sender}}}"#
        )
    }

    #[test]
    fn only_whole_intervals_of_the_steady_part_count() {
        let interval = |streams: &[String]| format!(r#"{{"streams":[{}],"sum":{{}}}}"#, streams.join(","));
        let document = |side: &str| {
            let rows = [0.0, 0.5, 1.0, 1.5]
                .map(|at| interval(&[stream(5, at, 100, side), stream(7, at, 300, side)]));
            format!(r#"{{"start":{{}},"intervals":[{}],"end":{{}}}}"#, rows.join(","))
        };
        let (origin, from, to) =
            (Nanos::from_secs(10), Nanos::from_millis(10_400), Nanos::from_millis(11_600));
        let read = |text: &str| serde_json::from_str::<Document>(text).expect("a document");
        let mut seen = Seen::default();
        add(&mut seen, read(&document(r#""sender":false"#)), origin, from, to);
        assert_eq!(seen.flows, [(Bytes(200), 1.0), (Bytes(600), 1.0)]);
        let client = document(r#""sender":true,"retransmits":2,"rtt":500"#);
        add(&mut seen, read(&client), origin, from, to);
        assert_eq!(seen.retransmitted, Packets(8));
        assert_eq!(seen.rtts_us, [500.0; 4]);
        assert_eq!(seen.flows.len(), 2, "the sender's bytes are not payload received");
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
