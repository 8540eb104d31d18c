//! The clients of short flows: a thread that starts flows at a rate and drives each to its end.

use super::slab::Slab;
use super::{ClientCounts, ClosingShares, ShortFlows};
use core::net::{IpAddr, SocketAddr};
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::Rng;
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use weft_host::{OsError, clock};
use weft_units::{Instant, Nanos};

/// Flows started before open ones are served again.
const STARTS: u32 = 64;
/// Interval between searches for flows that take too long.
const LOOK_THROUGH: Nanos = Nanos::from_millis(100);
/// Payload of clients; its content is irrelevant.
static PAYLOAD: [u8; 16 << 10] = [0x5a; 16 << 10];

/// The way in which a flow ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Closing {
    Orderly,
    Reset,
    Abandoned,
}

/// The event that a flow waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// The handshake, or buffer space for the bytes left to send.
    Sending { left: u32 },
    /// The server's byte.
    Answer,
    /// The server's end of stream, after ours.
    EndOfStream,
}

#[derive(Debug)]
struct Flow {
    stream: TcpStream,
    stage: Stage,
    closing: Closing,
    begun: Instant,
}

impl AsFd for Flow {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl Flow {
    /// Proceeds as far as possible without blocking. `Ok(true)` when the flow can be closed in its way, or has ended.
    fn drive(&mut self) -> std::io::Result<bool> {
        let mut buffer = [0; 16];
        loop {
            let done = match self.stage {
                Stage::Sending { left } => {
                    let piece = PAYLOAD.len().min(left as usize);
                    self.stream.write(&PAYLOAD[..piece])
                }
                Stage::Answer | Stage::EndOfStream => self.stream.read(&mut buffer),
            };
            let n = match done {
                Ok(n) => n,
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                // A socket that is still connecting: connect(2), send(2).
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(e) if e.raw_os_error() == Some(Errno::NOTCONN.raw_os_error()) => return Ok(false),
                Err(e) => return Err(e),
            };
            match self.stage {
                Stage::Sending { left } => {
                    let left = left.saturating_sub(n as u32);
                    self.stage = if left == 0 { Stage::Answer } else { Stage::Sending { left } };
                }
                Stage::Answer if n == 0 => return Err(ErrorKind::UnexpectedEof.into()),
                Stage::Answer => {
                    if self.closing != Closing::Orderly {
                        return Ok(true);
                    }
                    self.stream.shutdown(Shutdown::Write)?;
                    self.stage = Stage::EndOfStream;
                }
                Stage::EndOfStream if n == 0 => return Ok(true),
                Stage::EndOfStream => {}
            }
        }
    }
}

/// The clients of a thread.
pub(super) struct Clients<'a> {
    flows: &'a ShortFlows,
    server: IpAddr,
    begin: Instant,
    random: Pcg64Mcg,
    slab: Slab<Flow>,
    abandoned: Vec<TcpStream>,
    counts: ClientCounts,
}

/// The results of a thread. Abandoned flows live as long as this value.
#[derive(Debug)]
pub(super) struct Ended {
    /// Start of the last flow.
    pub(super) until: Instant,
    counts: ClientCounts,
    _abandoned: Vec<TcpStream>,
}

impl Ended {
    pub(super) fn add_to(&self, total: &mut ClientCounts) {
        total.started += self.counts.started;
        total.orderly += self.counts.orderly;
        total.reset += self.counts.reset;
        total.abandoned += self.counts.abandoned;
        let (to, from) = (&mut total.failed, self.counts.failed);
        to.no_port += from.no_port;
        to.refused += from.refused;
        to.reset += from.reset;
        to.timed_out += from.timed_out;
        to.other += from.other;
    }
}

impl<'a> Clients<'a> {
    pub(super) fn new(
        flows: &'a ShortFlows,
        server: IpAddr,
        number: u16,
        begin: Instant,
    ) -> Result<Self, OsError> {
        let random = Pcg64Mcg::new((u128::from(flows.seed) << 16 | u128::from(number)) << 1 | 1);
        let (abandoned, counts) = (Vec::new(), ClientCounts::default());
        Ok(Self { flows, server, begin, random, slab: Slab::new()?, abandoned, counts })
    }

    /// Starts flows until `end` or `stop`, and drives all to their ends within their time limit.
    pub(super) fn run(mut self, end: Instant, stop: &AtomicBool) -> Result<Ended, OsError> {
        let mut looked_through = clock::now();
        let until = loop {
            let now = clock::now();
            if now >= end || stop.load(Ordering::Relaxed) {
                break now;
            }
            let begun = self.start_due(now);
            self.drive_ready(if begun { 0 } else { 1 })?;
            if now.saturating_since(looked_through) > LOOK_THROUGH {
                looked_through = now;
                self.give_up(now);
            }
        };
        while self.slab.len() > 0 {
            self.drive_ready(10)?;
            self.give_up(clock::now());
        }
        Ok(Ended { until, counts: self.counts, _abandoned: self.abandoned })
    }

    fn full(&self) -> bool {
        self.slab.len() >= (self.flows.most_open / u32::from(self.flows.threads)) as usize
    }

    /// Starts the flows that are due. Returns whether any was.
    fn start_due(&mut self, now: Instant) -> bool {
        let elapsed = u128::from(now.saturating_since(self.begin).get());
        let due =
            elapsed * u128::from(self.flows.per_second) / (1_000_000_000 * u128::from(self.flows.threads));
        for begun in 0..STARTS {
            if u128::from(self.counts.started) >= due || self.full() {
                return begun > 0;
            }
            self.counts.started += 1;
            if let Err(e) = self.start(now) {
                self.counts.failed.count(&e);
            }
        }
        true
    }

    fn start(&mut self, now: Instant) -> std::io::Result<()> {
        let port = self.flows.first_port + (self.random.next_u32() % u32::from(self.flows.ports)) as u16;
        let address = SocketAddr::new(self.server, port);
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
        match rustix::net::connect(&socket, &address) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(e) => return Err(e.into()),
        }
        let closing = self.closing();
        let stage = Stage::Sending { left: self.flows.bytes };
        let flow = Flow { stream: TcpStream::from(socket), stage, closing, begun: now };
        self.slab.insert(flow, EventFlags::IN | EventFlags::OUT | EventFlags::ET).map(|_| ())
    }

    fn closing(&mut self) -> Closing {
        let ClosingShares { orderly, reset, abandoned } = self.flows.how_closed;
        let sum = u64::from(orderly) + u64::from(reset) + u64::from(abandoned);
        let draw = self.random.next_u64() % sum.max(1);
        if draw < u64::from(orderly) {
            Closing::Orderly
        } else if draw < u64::from(orderly) + u64::from(reset) {
            Closing::Reset
        } else {
            Closing::Abandoned
        }
    }

    /// Drives all flows with an event, after waiting at most `millis` for one.
    fn drive_ready(&mut self, millis: u32) -> Result<(), OsError> {
        for number in self.slab.wait(millis)? {
            let Some(flow) = self.slab.get_mut(number) else { continue };
            match flow.drive() {
                Ok(false) => {}
                Ok(true) => {
                    if let Some(flow) = self.slab.remove(number) {
                        self.close(flow);
                    }
                }
                Err(e) => {
                    self.counts.failed.count(&e);
                    self.slab.remove(number);
                }
            }
        }
        Ok(())
    }

    fn close(&mut self, flow: Flow) {
        let most = (self.flows.most_abandoned / u32::from(self.flows.threads)) as usize;
        match flow.closing {
            Closing::Orderly => self.counts.orderly += 1,
            Closing::Abandoned if self.abandoned.len() < most => {
                self.counts.abandoned += 1;
                self.abandoned.push(flow.stream);
            }
            Closing::Reset | Closing::Abandoned => {
                match rustix::net::sockopt::set_socket_linger(&flow.stream, Some(Duration::ZERO)) {
                    Ok(()) => self.counts.reset += 1,
                    Err(e) => self.counts.failed.count(&e.into()),
                }
            }
        }
    }

    /// Closes flows that exceed their time limit.
    fn give_up(&mut self, now: Instant) {
        let patience = self.flows.patience;
        for number in self.slab.numbers(|flow| now.saturating_since(flow.begun) > patience) {
            self.slab.remove(number);
            self.counts.failed.timed_out += 1;
        }
    }
}
