//! The clients: flows with one outstanding request each, as with memaslap's `-c16`.

use super::protocol::{Answer, Command, HEADER, LARGEST_VALUE, answer, request};
use super::testbed::{CLIENT_PORT, SERVER, SERVER_PORT, address};
use super::{Class, IsolationError};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::Rng;
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::thread::JoinHandle;
use weft_host::{NetNs, OsError, clock};
use weft_steer::Flow;
use weft_units::{FlowKey, Instant, Nanos, Protocol};

/// The number of keys; they are set before the experiment begins.
pub(super) const KEYS: u32 = 100;
/// Buffer size for a datagram of either direction.
const DATAGRAM: usize = HEADER + LARGEST_VALUE + 256;
/// Stack size of a flow's thread: it holds a datagram and little else.
const STACK: usize = 128 << 10;

/// Parameters of the flows' requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mix {
    pub(super) value: usize,
    pub(super) set_percent: u32,
    pub(super) timeout: Nanos,
}

/// Running counts of a class's clients, for an observer.
#[derive(Debug, Default)]
pub(super) struct Live {
    pub(super) answered: AtomicU64,
    pub(super) latency_ns: AtomicU64,
}

/// An answered request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Completion {
    /// Arrival of the answer, on the monotonic clock.
    pub(super) at: Instant,
    /// Time since the request was first sent.
    pub(super) latency: Nanos,
}

/// Outcomes of requests. Every datagram is answered, timed out, or abandoned.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RequestCounts {
    /// Datagrams sent.
    pub sent: u64,
    /// Datagrams that the client's kernel refused to send; they count as timed out or abandoned.
    pub refused: u64,
    /// Datagrams answered in time.
    pub answered: u64,
    /// Datagrams not answered in time: the request was sent again.
    pub timed_out: u64,
    /// Datagrams outstanding when the client ended, and not answered in time.
    pub abandoned: u64,
    /// Answers that arrived after the time-out.
    pub late: u64,
    /// Answers to `get` without the key, and errors: included in the answered.
    pub errors: u64,
}

impl RequestCounts {
    /// Whether every datagram is accounted for.
    pub fn balances(&self) -> bool {
        self.sent + self.refused == self.answered + self.timed_out + self.abandoned
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.sent += other.sent;
        self.refused += other.refused;
        self.answered += other.answered;
        self.timed_out += other.timed_out;
        self.abandoned += other.abandoned;
        self.late += other.late;
        self.errors += other.errors;
    }
}

/// The results of a flow.
#[derive(Debug)]
pub(super) struct FlowLog {
    pub(super) key: FlowKey,
    pub(super) counts: RequestCounts,
    pub(super) completions: Vec<Completion>,
    /// Kept open until the NIC has stopped: the kernel would answer a late datagram to a closed socket by ICMP.
    _socket: UdpSocket,
}

/// Returns the five-tuples of a client's flows.
pub(super) fn keys(class: Class, number: u32, flows: u16) -> impl Iterator<Item = FlowKey> {
    (0..flows).map(move |flow| FlowKey {
        src: address(class, number),
        dst: SERVER,
        sport: CLIENT_PORT + flow,
        dport: SERVER_PORT,
        protocol: Protocol::UDP,
    })
}

/// Returns the flows of a client, for a planner.
pub(super) fn flows(class: Class, number: u32, flows: u16) -> Vec<Flow> {
    let class_name = Some(class.name().to_owned());
    keys(class, number, flows).map(|key| Flow { class: class_name.clone(), ..Flow::new(&key) }).collect()
}

/// A running client.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) class: Class,
    pub(super) number: u32,
    pub(super) joined: Instant,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<FlowLog>>,
}

/// A client that has ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) class: Class,
    pub(super) number: u32,
    pub(super) joined: Instant,
    pub(super) left: Instant,
    pub(super) flows: Vec<FlowLog>,
}

impl Client {
    /// Starts client `number` of a class: a thread for each flow, with a socket in `ns`.
    pub(super) fn start(
        ns: &NetNs,
        (class, number): (Class, u32),
        flows: u16,
        mix: Mix,
        seed: u64,
        live: &Arc<Live>,
    ) -> Result<Self, IsolationError> {
        let failed =
            |e: std::io::Error| OsError::new(format!("start client {number} of {}", class.name()), e);
        let open = |key: FlowKey| -> std::io::Result<(FlowKey, UdpSocket)> {
            let socket = UdpSocket::bind(SocketAddr::new(key.src, key.sport))?;
            socket.connect(SocketAddr::new(key.dst, key.dport))?;
            socket.set_read_timeout(Some(Duration::from_nanos(mix.timeout.get().max(1))))?;
            Ok((key, socket))
        };
        let sockets: Vec<_> = ns
            .run(|| keys(class, number, flows).map(open).collect::<Result<_, _>>())
            .map_err(weft_host::link::LinkError::from)?
            .map_err(failed)?;
        let stop = Arc::new(AtomicBool::new(false));
        let mut client =
            Self { class, number, joined: clock::now(), stop, threads: Vec::with_capacity(sockets.len()) };
        for (index, (key, socket)) in sockets.into_iter().enumerate() {
            let (stop, live) = (Arc::clone(&client.stop), Arc::clone(live));
            let stream = u128::from(seed) << 64 | u128::from(number) << 32 | index as u128;
            let seeded = Pcg64Mcg::new(stream << 1 | u128::from(class == Class::BestEffort));
            let flow = FlowRun { socket, mix, random: seeded, id: 0, counts: RequestCounts::default() };
            let thread = std::thread::Builder::new().name("weft-client".to_owned()).stack_size(STACK);
            client.threads.push(thread.spawn(move || flow.run(key, &stop, &live)).map_err(failed)?);
        }
        Ok(client)
    }

    /// Asks the flows to end once their outstanding requests have.
    pub(super) fn ask_to_end(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Waits until the flows have ended.
    pub(super) fn end(mut self) -> Result<Ended, IsolationError> {
        self.ask_to_end();
        let joined = core::mem::take(&mut self.threads).into_iter().map(JoinHandle::join);
        let flows: Result<Vec<_>, _> = joined.collect();
        let (class, number, joined) = (self.class, self.number, self.joined);
        let flows = flows.map_err(|_| IsolationError::ClientPanicked)?;
        Ok(Ended { class, number, joined, left: clock::now(), flows })
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // After an error elsewhere, too, the threads must not outlive the namespaces.
        self.ask_to_end();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// The state of a running flow.
struct FlowRun {
    socket: UdpSocket,
    mix: Mix,
    random: Pcg64Mcg,
    id: u16,
    counts: RequestCounts,
}

impl FlowRun {
    fn run(mut self, key: FlowKey, stop: &AtomicBool, live: &Live) -> FlowLog {
        let (mut out, mut buffer) = (Vec::with_capacity(DATAGRAM), [0; DATAGRAM]);
        let mut completions = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            let draw = self.random.next_u32();
            let set = draw % 100 < self.mix.set_percent;
            let command = if set { Command::Set } else { Command::Get };
            let number = self.random.next_u32() % KEYS;
            let sent_at = clock::now();
            let answered = loop {
                self.id = self.id.wrapping_add(1);
                request(&mut out, self.id, command, number, self.mix.value);
                match self.ask(&out, &mut buffer) {
                    Some(answer) => break Some(answer),
                    None if stop.load(Ordering::Relaxed) => break None,
                    None => self.counts.timed_out += 1,
                }
            };
            let Some(answer) = answered else {
                self.counts.abandoned += 1;
                break;
            };
            self.counts.answered += 1;
            if !fits(command, answer) {
                self.counts.errors += 1;
            }
            let at = clock::now();
            let latency = at.saturating_since(sent_at);
            live.answered.fetch_add(1, Ordering::Relaxed);
            live.latency_ns.fetch_add(latency.get(), Ordering::Relaxed);
            completions.push(Completion { at, latency });
        }
        FlowLog { key, counts: self.counts, completions, _socket: self.socket }
    }

    /// Sends a request and waits for its answer until the time-out.
    fn ask(&mut self, out: &[u8], buffer: &mut [u8]) -> Option<Answer> {
        let until = clock::now() + self.mix.timeout;
        if self.socket.send(out).is_err() {
            self.counts.refused += 1;
            std::thread::sleep(Duration::from_nanos(self.mix.timeout.get()));
            return None;
        }
        self.counts.sent += 1;
        loop {
            match self.socket.recv(buffer) {
                Ok(length) => match answer(&buffer[..length]) {
                    Some((id, answer)) if id == self.id => return Some(answer),
                    _ => self.counts.late += 1,
                },
                // A connected socket reports refusals; the time-out continues.
                Err(e) if matches!(e.kind(), ErrorKind::ConnectionRefused | ErrorKind::Interrupted) => {}
                Err(_) => return None,
            }
            if clock::now() >= until {
                return None;
            }
        }
    }
}

/// Whether an answer is valid for the request.
fn fits(command: Command, answer: Answer) -> bool {
    match command {
        Command::Get => matches!(answer, Answer::Value(_)),
        Command::Set => answer == Answer::Stored,
    }
}
