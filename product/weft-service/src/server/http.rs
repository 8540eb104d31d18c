//! A responder of HTTP/1.1 for `GET /metrics`, and for nothing else.
//!
//! A scraper on this host sends one short request. The responder reads at most [`HEAD_MAX`] bytes, answers once, and ends the
//! connection, so it needs no thread, no runtime and no limits beyond these.

use super::outbox::Outbox;
use crate::metrics::MetricsFormat;
use rustix::event::PollFlags;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// The longest head of a request.
const HEAD_MAX: usize = 8 << 10;
/// The time for request and answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// A stream to a scraper.
#[derive(Debug)]
enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

/// A connection of a scraper.
#[derive(Debug)]
pub(super) struct Scrape {
    stream: Stream,
    head: Vec<u8>,
    out: Outbox,
    state: State,
    since: Instant,
}

/// The state of a scrape.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Reading,
    Answering,
    Over,
}

impl Scrape {
    /// A scrape over a socket of the file system.
    pub(super) fn unix(stream: UnixStream, now: Instant) -> Option<Self> {
        stream.set_nonblocking(true).ok()?;
        Some(Self::new(Stream::Unix(stream), now))
    }

    /// A scrape over TCP.
    pub(super) fn tcp(stream: TcpStream, now: Instant) -> Option<Self> {
        stream.set_nonblocking(true).ok()?;
        Some(Self::new(Stream::Tcp(stream), now))
    }

    fn new(stream: Stream, now: Instant) -> Self {
        Self { stream, head: Vec::new(), out: Outbox::default(), state: State::Reading, since: now }
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        match &self.stream {
            Stream::Unix(stream) => stream.as_fd(),
            Stream::Tcp(stream) => stream.as_fd(),
        }
    }

    pub(super) fn interest(&self) -> PollFlags {
        if self.state == State::Reading { PollFlags::IN } else { PollFlags::OUT }
    }

    /// Whether the connection is to be dropped.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        self.state == State::Over || now >= self.since + PATIENCE
    }

    /// Reads or writes, as the socket allows. `metrics` makes the text.
    pub(super) fn ready(&mut self, metrics: impl FnOnce(MetricsFormat) -> String) {
        if self.state == State::Reading {
            self.read(metrics);
        }
        if self.state == State::Answering {
            let sent = match &mut self.stream {
                Stream::Unix(stream) => self.out.send(stream),
                Stream::Tcp(stream) => self.out.send(stream),
            };
            if sent.is_err() || self.out.is_empty() {
                self.state = State::Over;
            }
        }
    }

    fn read(&mut self, metrics: impl FnOnce(MetricsFormat) -> String) {
        let mut buffer = [0; HEAD_MAX];
        match self.stream.read(&mut buffer) {
            Ok(0) => self.state = State::Over,
            Ok(read) => {
                self.head.extend_from_slice(buffer.get(..read).unwrap_or_default());
                if let Some(answer) = answer(&self.head, metrics) {
                    self.out.push(answer);
                    self.state = State::Answering;
                }
            }
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(_) => self.state = State::Over,
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.read(buffer),
            Self::Tcp(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.write(bytes),
            Self::Tcp(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The answer to a request, once its head is complete or too long.
fn answer(head: &[u8], metrics: impl FnOnce(MetricsFormat) -> String) -> Option<Vec<u8>> {
    let complete = head.windows(4).any(|w| w == b"\r\n\r\n") || head.windows(2).any(|w| w == b"\n\n");
    if !complete {
        return (head.len() >= HEAD_MAX)
            .then(|| response("431 Request Header Fields Too Large", "text/plain", ""));
    }
    let line = head.split(|b| *b == b'\r' || *b == b'\n').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let mut words = line.split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = target.split('?').next().unwrap_or_default();
    Some(match (method, path) {
        ("GET", "/metrics") => {
            let format = MetricsFormat::accepted(&accept(head));
            response("200 OK", format.content_type(), &metrics(format))
        }
        ("GET", _) => response("404 Not Found", "text/plain", "the metrics are at /metrics\n"),
        _ => response("405 Method Not Allowed", "text/plain", "only GET\n"),
    })
}

/// The value of the header `Accept`.
fn accept(head: &[u8]) -> String {
    let text = String::from_utf8_lossy(head);
    let values = text.lines().filter_map(|line| line.split_once(':'));
    let accepted = values.filter(|(name, _)| name.eq_ignore_ascii_case("accept")).map(|(_, value)| value);
    accepted.collect::<Vec<_>>().join(",")
}

fn response(status: &str, content: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\nContent-Type: {content}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}")
        .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(head: &str) -> Option<String> {
        answer(head.as_bytes(), |format| format!("{format:?}\n"))
            .map(|bytes| String::from_utf8(bytes).expect("UTF-8"))
    }

    #[test]
    fn metrics_are_answered_and_nothing_else() {
        let good = said("GET /metrics?x HTTP/1.1\r\nHost: h\r\n\r\n").expect("complete");
        assert!(good.starts_with("HTTP/1.1 200 OK\r\n") && good.ends_with("\r\n\r\nClassic\n"), "{good}");
        let open =
            said("GET /metrics HTTP/1.1\r\nACCEPT: application/openmetrics-text\r\n\r\n").expect("complete");
        assert!(open.contains("version=1.0.0") && open.ends_with("OpenMetrics\n"), "{open}");
        assert!(said("GET / HTTP/1.1\r\n\r\n").expect("complete").starts_with("HTTP/1.1 404"));
        assert!(said("POST /metrics HTTP/1.1\r\n\r\n").expect("complete").starts_with("HTTP/1.1 405"));
        assert!(said("\r\n\r\n").expect("complete").starts_with("HTTP/1.1 405"));
        assert_eq!(said("GET /metrics HTTP/1.1\r\nHost"), None);
        assert!(said(&"x".repeat(HEAD_MAX)).expect("too long").starts_with("HTTP/1.1 431"));
    }
}
