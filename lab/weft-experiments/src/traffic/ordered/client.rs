//! The clients: threads that change their core, each with a share of the flows.

use super::datagram::{self, HEADER};
use super::{CONNECT_PATIENCE, DRAIN, IDLE, MessageSizes, Mix, MixReport, TrafficError, pattern};
use core::net::{IpAddr, SocketAddr};
use core::sync::atomic::{AtomicBool, Ordering};
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::Rng;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream, UdpSocket};
use weft_host::{OsError, clock};
use weft_units::{Bytes, Instant, Nanos, Packets};

/// Messages of one flow before the next one's turn.
const BURST: u32 = 16;
/// The largest datagram; none is fragmented.
const LARGEST_DATAGRAM: u64 = 1400;
/// Reads of one connection before the next one's turn.
const READS: u32 = 4;

/// A flow's schedule: busy and silent in turn, for random times, with short pauses while it is busy.
#[derive(Debug)]
struct Rhythm {
    random: Pcg64Mcg,
    busy: bool,
    until: Instant,
    not_before: Instant,
}

impl Rhythm {
    fn new(seed: u128, mix: &Mix, now: Instant) -> Self {
        let mut random = Pcg64Mcg::new(seed << 1 | 1);
        // Flows must not all begin at once.
        let until = now + draw(&mut random, mix.silent);
        Self { random, busy: false, until, not_before: Instant::ZERO }
    }

    fn may_send(&mut self, mix: &Mix, now: Instant) -> bool {
        if now >= self.until {
            self.busy = !self.busy;
            self.until = now + draw(&mut self.random, if self.busy { mix.busy } else { mix.silent });
        }
        self.busy && now >= self.not_before
    }

    /// Pauses for up to a millisecond after one message in eight.
    fn after_message(&mut self, now: Instant) {
        if self.random.next_u32().is_multiple_of(8) {
            self.not_before = now + Nanos(u64::from(self.random.next_u32() % 1_000_000));
        }
    }

    fn size(&mut self, sizes: MessageSizes) -> u64 {
        let draw = self.random.next_u64();
        match sizes {
            MessageSizes::Small => 100 + draw % 1301,
            MessageSizes::Mixed => {
                let order = 1u64 << (draw % 17);
                order + (draw >> 8) % order
            }
        }
    }
}

/// Draws a time with this average: uniform up to its double, never 0.
fn draw(random: &mut Pcg64Mcg, average: Nanos) -> Nanos {
    Nanos(1 + random.next_u64() % average.get().saturating_mul(2).max(1))
}

/// A TCP connection.
#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    rhythm: Rhythm,
    sent: u64,
    /// Bytes left of the current message.
    left: u64,
    messages: u64,
    received: u64,
    corrupt: u64,
    shut: bool,
    end_of_stream: bool,
    broken: bool,
}

impl Connection {
    /// Reads and writes within bounds and without blocking. Returns whether anything was done.
    fn step(&mut self, mix: &Mix, now: Instant, ending: bool, buffer: &mut [u8]) -> bool {
        if self.broken || self.end_of_stream {
            return false;
        }
        let done = self.read(buffer).and_then(|read| Ok(self.write(mix, now, ending)? | read));
        match done {
            Ok(done) => done,
            Err(e) if e.kind() == ErrorKind::Interrupted => true,
            Err(_) => {
                self.broken = true;
                true
            }
        }
    }

    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<bool> {
        for turn in 0..READS {
            match self.stream.read(buffer) {
                Ok(0) => {
                    self.end_of_stream = true;
                    // Servers end their stream after ours.
                    self.broken |= !self.shut;
                    return Ok(true);
                }
                Ok(n) => {
                    self.corrupt += u64::from(!pattern::fits(self.received, &buffer[..n]));
                    self.received += n as u64;
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(turn > 0),
                Err(e) => return Err(e),
            }
        }
        Ok(true)
    }

    fn write(&mut self, mix: &Mix, now: Instant, ending: bool) -> std::io::Result<bool> {
        if self.shut {
            return Ok(false);
        }
        if ending {
            self.stream.shutdown(Shutdown::Write)?;
            self.shut = true;
            return Ok(true);
        }
        for turn in 0..BURST {
            if self.left == 0 {
                if !self.rhythm.may_send(mix, now) {
                    return Ok(turn > 0);
                }
                self.left = self.rhythm.size(mix.sizes);
                self.messages += 1;
            }
            match self.stream.write(pattern::piece(self.sent, self.left)) {
                Ok(n) => {
                    self.sent += n as u64;
                    self.left -= (n as u64).min(self.left);
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(turn > 0),
                Err(e) => return Err(e),
            }
            if self.left == 0 {
                self.rhythm.after_message(now);
            }
        }
        Ok(true)
    }

    fn over(&self) -> bool {
        self.broken || self.end_of_stream
    }

    fn count(&self, report: &mut MixReport) {
        report.connections += 1;
        report.broken += u64::from(self.broken);
        report.unfinished += u64::from(!self.over());
        report.messages += self.messages;
        report.sent += Bytes(self.sent);
        report.return_delivered += Bytes(self.received);
        report.corrupt += self.corrupt;
    }
}

/// A UDP flow.
#[derive(Debug)]
struct DatagramFlow {
    socket: UdpSocket,
    number: u32,
    rhythm: Rhythm,
    sent: u64,
}

impl DatagramFlow {
    fn step(&mut self, mix: &Mix, now: Instant, buffer: &mut [u8]) -> bool {
        for turn in 0..BURST {
            if !self.rhythm.may_send(mix, now) {
                return turn > 0;
            }
            let length = self.rhythm.size(mix.sizes).clamp(HEADER as u64, LARGEST_DATAGRAM) as usize;
            datagram::write_header(buffer, self.number, self.sent);
            // A full buffer, or a device that drops: UDP promises no more.
            if self.socket.send(&buffer[..length]).is_err() {
                return turn > 0;
            }
            self.sent += 1;
            self.rhythm.after_message(now);
        }
        true
    }
}

/// A thread's share of the flows, all connected.
#[derive(Debug, Default)]
pub(super) struct Worker {
    number: u64,
    connections: Vec<Connection>,
    datagrams: Vec<DatagramFlow>,
}

/// Opens all flows from the calling thread's namespace.
pub(super) fn open(mix: &Mix, server: IpAddr) -> Result<Vec<Worker>, TrafficError> {
    let threads = u32::from(mix.threads);
    let mut workers: Vec<Worker> =
        (0..u64::from(mix.threads)).map(|number| Worker { number, ..Worker::default() }).collect();
    let seed = |kind: u128, flow: u32| u128::from(mix.seed) << 56 | kind << 48 | u128::from(flow);
    // Clients of one thread connect to servers of all threads.
    let target = |flow: u32| {
        let port = mix.first_port + ((flow / threads) % threads) as u16;
        SocketAddr::new(server, port)
    };
    for flow in 0..mix.connections {
        let address = target(flow);
        let stream = connect(address).map_err(|e| OsError::new(format!("connect to {address}"), e))?;
        let rhythm = Rhythm::new(seed(1, flow), mix, clock::now());
        let (sent, left, messages, received, corrupt) = (0, 0, 0, 0, 0);
        let (shut, end_of_stream, broken) = (false, false, false);
        let connection = Connection {
            stream,
            rhythm,
            sent,
            left,
            messages,
            received,
            corrupt,
            shut,
            end_of_stream,
            broken,
        };
        workers[(flow % threads) as usize].connections.push(connection);
    }
    for number in 0..mix.udp_flows {
        let address = target(number);
        let socket = connect_udp(address)
            .map_err(|e| OsError::new(format!("connect a UDP socket to {address}"), e))?;
        let rhythm = Rhythm::new(seed(2, number), mix, clock::now());
        workers[(number % threads) as usize].datagrams.push(DatagramFlow { socket, number, rhythm, sent: 0 });
    }
    Ok(workers)
}

fn connect(address: SocketAddr) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, CONNECT_PATIENCE)?;
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    Ok(stream)
}

fn connect_udp(address: SocketAddr) -> std::io::Result<UdpSocket> {
    let any = if address.is_ipv4() {
        IpAddr::V4(core::net::Ipv4Addr::UNSPECIFIED)
    } else {
        IpAddr::V6(core::net::Ipv6Addr::UNSPECIFIED)
    };
    let socket = UdpSocket::bind(SocketAddr::new(any, 0))?;
    socket.connect(address)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

impl Worker {
    /// Sends until `end` or `stop`, then reads until the streams have ended. Also returns the sockets of the UDP
    /// flows.
    pub(super) fn run(mut self, mix: &Mix, end: Instant, stop: &AtomicBool) -> (MixReport, Vec<UdpSocket>) {
        let mut report = MixReport::default();
        let mut buffer = vec![0; pattern::PIECE];
        let cores = super::cores();
        let (mut core, mut change_at) = (self.number as usize, clock::now());
        let mut ending_since = None;
        loop {
            let now = clock::now();
            if now >= change_at && cores.len() > 1 {
                core += 1;
                report.core_changes += u64::from(super::move_to(cores[core % cores.len()]));
                change_at = now + mix.change_core;
            }
            if ending_since.is_none() && (now >= end || stop.load(Ordering::Relaxed)) {
                ending_since = Some(now);
            }
            let ending = ending_since.is_some();
            let mut done = false;
            for connection in &mut self.connections {
                done |= connection.step(mix, now, ending, &mut buffer);
            }
            if let Some(since) = ending_since {
                let over = self.connections.iter().all(Connection::over);
                if over || now.saturating_since(since) > DRAIN {
                    break;
                }
            } else {
                for flow in &mut self.datagrams {
                    done |= flow.step(mix, now, &mut buffer);
                }
            }
            if !done {
                std::thread::sleep(IDLE);
            }
        }
        self.connections.iter().for_each(|connection| connection.count(&mut report));
        report.datagrams = Packets(self.datagrams.iter().map(|flow| flow.sent).sum());
        (report, self.datagrams.into_iter().map(|flow| flow.socket).collect())
    }
}
