//! The servers: each reads, checks the bytes, and writes a random share back.

use super::datagram::Arrivals;
use super::{IDLE, MixReport, Sockets, pattern};
use core::sync::atomic::{AtomicBool, Ordering};
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::Rng;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use weft_host::clock;
use weft_units::{Bytes, Nanos};

/// Reads of one connection before the next one's turn.
const READS: u32 = 4;
/// Unsent bytes from which a connection is not read until they are written: the client's window closes.
const MOST_OWED: u64 = 1 << 20;
/// Time that the servers continue without data after the clients have ended.
const QUIET: Nanos = Nanos::from_millis(100);
/// The most time that they continue.
const MOST_QUIET: Nanos = Nanos::from_secs(1);

/// One end of a stream.
#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    received: u64,
    sent: u64,
    owed: u64,
    end_of_stream: bool,
    corrupt: u64,
    random: Pcg64Mcg,
}

/// The state of a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Idle,
    Busy,
    Ended,
    Broken,
}

impl Connection {
    /// Reads and writes as much as possible without blocking, within bounds.
    fn step(&mut self, buffer: &mut [u8]) -> State {
        match self.try_step(buffer) {
            Ok(state) => state,
            Err(e) if e.kind() == ErrorKind::Interrupted => State::Busy,
            Err(_) => State::Broken,
        }
    }

    fn try_step(&mut self, buffer: &mut [u8]) -> std::io::Result<State> {
        let mut state = State::Idle;
        for _ in 0..READS {
            if self.end_of_stream || self.owed > MOST_OWED {
                break;
            }
            match self.stream.read(buffer) {
                Ok(0) => self.end_of_stream = true,
                Ok(n) => {
                    self.corrupt += u64::from(!pattern::fits(self.received, &buffer[..n]));
                    self.received += n as u64;
                    // A quarter of the reads are answered, with a random part of their bytes.
                    if self.random.next_u32().is_multiple_of(4) {
                        self.owed += self.random.next_u64() % (n as u64 + 1);
                    }
                    state = State::Busy;
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) => return Err(e),
            }
        }
        while self.owed > 0 {
            match self.stream.write(pattern::piece(self.sent, self.owed)) {
                Ok(n) => {
                    self.sent += n as u64;
                    self.owed -= (n as u64).min(self.owed);
                    state = State::Busy;
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) => return Err(e),
            }
        }
        if self.end_of_stream && self.owed == 0 {
            self.stream.shutdown(Shutdown::Write)?;
            return Ok(State::Ended);
        }
        Ok(state)
    }

    fn count(&self, report: &mut MixReport) {
        report.delivered += Bytes(self.received);
        report.returned += Bytes(self.sent);
        report.corrupt += self.corrupt;
    }
}

/// Serves until the clients have ended (`sent_all`) and nothing more arrives.
pub(super) fn serve(sockets: Sockets, seed: u64, number: u64, sent_all: &AtomicBool) -> MixReport {
    let mut report = MixReport::default();
    let mut arrivals = Arrivals::default();
    let mut open: Vec<Connection> = Vec::new();
    let mut buffer = vec![0; pattern::PIECE];
    let (mut accepted, mut last_busy, mut ended_at) = (0u64, clock::now(), None);
    loop {
        let mut busy = false;
        while let Ok((stream, _)) = sockets.tcp.accept() {
            accepted += 1;
            if stream.set_nonblocking(true).and_then(|()| stream.set_nodelay(true)).is_err() {
                report.broken += 1;
                continue;
            }
            let stream_seed = u128::from(seed) << 64 | u128::from(number) << 32 | u128::from(accepted);
            let random = Pcg64Mcg::new(stream_seed << 1 | 1);
            let (received, sent, owed, corrupt) = (0, 0, 0, 0);
            open.push(Connection { stream, received, sent, owed, end_of_stream: false, corrupt, random });
            busy = true;
        }
        open.retain_mut(|connection| {
            let state = connection.step(&mut buffer);
            busy |= state != State::Idle;
            report.broken += u64::from(state == State::Broken);
            let stays = matches!(state, State::Idle | State::Busy);
            if !stays {
                connection.count(&mut report);
            }
            stays
        });
        busy |= arrivals.take(&sockets.udp, &mut buffer);
        let now = clock::now();
        if busy {
            last_busy = now;
        } else {
            std::thread::sleep(IDLE);
        }
        if sent_all.load(Ordering::Acquire) {
            let ended = *ended_at.get_or_insert(now);
            let quiet = open.is_empty() && now.saturating_since(last_busy) > QUIET;
            // The clients have already waited for the streams: connections open now stay so.
            if quiet || now.saturating_since(ended) > MOST_QUIET {
                break;
            }
        }
    }
    report.unfinished += open.len() as u64;
    open.iter().for_each(|connection| connection.count(&mut report));
    arrivals.count(&mut report);
    report
}
