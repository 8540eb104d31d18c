//! Lines over a connection, each with a deadline and a longest length: a peer that is silent, slow or talks too much is an error.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use weft_host::clock;
use weft_units::Nanos;

use super::protocol::{ANSWER_MAX, MessageError};
use crate::trial::LOOK;

/// The reason that no line came, or that none could be sent.
#[derive(Debug, thiserror::Error)]
pub enum LineError {
    /// The peer closed the connection.
    #[error("the connection was closed")]
    Closed,
    /// No complete line came in time.
    #[error("no answer within {0:.0} s")]
    Silent(f64),
    /// The line is too long.
    #[error("a line of more than {0} bytes")]
    TooLong(usize),
    /// Something came although nothing was asked.
    #[error("a message that nobody asked for")]
    Unasked,
    /// The connection failed.
    #[error("the connection failed: {0}")]
    Failed(io::Error),
    /// The line is no message.
    #[error(transparent)]
    Message(#[from] MessageError),
    /// The caller asked to stop.
    #[error("stopped")]
    Stopped,
}

/// A connection of lines.
pub(super) struct LineStream<'a> {
    stream: TcpStream,
    peer: SocketAddr,
    buffer: Vec<u8>,
    stop: &'a dyn Fn() -> bool,
}

impl<'a> LineStream<'a> {
    pub(super) fn over(stream: TcpStream, stop: &'a dyn Fn() -> bool) -> Result<Self, LineError> {
        let prepare = || {
            stream.set_nonblocking(false)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(LOOK))?;
            stream.set_write_timeout(Some(LOOK))?;
            stream.peer_addr()
        };
        let peer = prepare().map_err(LineError::Failed)?;
        Ok(Self { stream, peer, buffer: Vec::new(), stop })
    }

    /// The peer's address.
    pub(super) fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// This end's address.
    pub(super) fn local(&self) -> Result<SocketAddr, LineError> {
        self.stream.local_addr().map_err(LineError::Failed)
    }

    /// Sends a line.
    pub(super) fn send(&mut self, line: &[u8]) -> Result<(), LineError> {
        const PATIENCE: Nanos = Nanos::from_secs(20);
        let deadline = clock::now() + PATIENCE;
        let mut rest = line;
        while !rest.is_empty() {
            match self.stream.write(rest) {
                Ok(0) => return Err(LineError::Closed),
                Ok(written) => rest = rest.get(written..).unwrap_or_default(),
                Err(error) if is_pause(&error) => {}
                Err(error) if is_end(&error) => return Err(LineError::Closed),
                Err(error) => return Err(LineError::Failed(error)),
            }
            if clock::now() > deadline {
                return Err(LineError::Silent(PATIENCE.as_secs_f64()));
            }
        }
        Ok(())
    }

    /// Receives a line of at most `longest` bytes, without its end.
    pub(super) fn receive(&mut self, patience: Nanos, longest: usize) -> Result<Vec<u8>, LineError> {
        let deadline = clock::now() + patience;
        let mut seen = 0;
        loop {
            if let Some(end) = self.buffer[seen..].iter().position(|byte| *byte == b'\n') {
                let mut line: Vec<u8> = self.buffer.drain(..=seen + end).collect();
                line.pop();
                return if line.len() > longest { Err(LineError::TooLong(longest)) } else { Ok(line) };
            }
            seen = self.buffer.len();
            if seen > longest.min(ANSWER_MAX) {
                return Err(LineError::TooLong(longest));
            }
            if (self.stop)() {
                return Err(LineError::Stopped);
            }
            if clock::now() > deadline {
                return Err(LineError::Silent(patience.as_secs_f64()));
            }
            self.read()?;
        }
    }

    /// Reads what has come, or waits shortly.
    fn read(&mut self) -> Result<(), LineError> {
        let mut bytes = [0; 16 * 1024];
        match self.stream.read(&mut bytes) {
            Ok(0) => Err(LineError::Closed),
            Ok(count) => {
                self.buffer.extend_from_slice(bytes.get(..count).unwrap_or_default());
                Ok(())
            }
            Err(error) if is_pause(&error) => Ok(()),
            Err(error) if is_end(&error) => Err(LineError::Closed),
            Err(error) => Err(LineError::Failed(error)),
        }
    }

    /// Fails if the peer has closed the connection, or has sent data without a request.
    pub(super) fn check_quiet(&self) -> Result<(), LineError> {
        let peek = || {
            self.stream.set_nonblocking(true)?;
            let peeked = self.stream.peek(&mut [0]);
            self.stream.set_nonblocking(false)?;
            peeked
        };
        match peek() {
            Ok(0) => Err(LineError::Closed),
            Ok(_) => Err(LineError::Unasked),
            Err(error) if is_pause(&error) && self.buffer.is_empty() => Ok(()),
            Err(error) if is_pause(&error) => Err(LineError::Unasked),
            Err(error) if is_end(&error) => Err(LineError::Closed),
            Err(error) => Err(LineError::Failed(error)),
        }
    }
}

/// Sends a last line and closes, so that the peer can read it: unread bytes of the peer's would reset the connection.
pub(super) fn farewell(mut stream: TcpStream, line: &[u8]) {
    const LINGER: Duration = Duration::from_millis(200);
    let settings = [stream.set_nonblocking(false), stream.set_read_timeout(Some(LINGER))];
    if settings.iter().all(Result::is_ok) && stream.set_write_timeout(Some(LINGER)).is_ok() {
        // A loss of the last line is not reported.
        let _ = stream.write_all(line);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let _ = stream.read(&mut [0; 4096]);
    }
}

impl LineStream<'_> {
    /// Sends a last line and closes.
    pub(super) fn close_with(self, line: &[u8]) {
        farewell(self.stream, line);
    }
}

fn is_pause(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

fn is_end(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionReset
            | ErrorKind::BrokenPipe
            | ErrorKind::ConnectionAborted
            | ErrorKind::UnexpectedEof
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, TcpListener};
    use weft_host::testing::privileged;
    use weft_host::{NetNs, link};

    /// A connection on the loopback of a namespace, whose other end does what the test requests.
    fn peer(does: impl FnOnce(TcpStream) + Send + 'static) -> TcpStream {
        let ns = NetNs::anonymous().expect("a namespace");
        link::set_up(&ns, "lo").expect("up");
        let connect = || {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
            let near = TcpStream::connect(listener.local_addr()?)?;
            Ok::<_, io::Error>((near, listener.accept()?.0))
        };
        let (near, far) = ns.run(connect).expect("enter").expect("a connection");
        std::thread::spawn(move || does(far));
        near
    }

    #[test]
    fn lines_come_one_by_one_and_an_end_is_seen() {
        let talk = |mut far: TcpStream| {
            for part in [&b"one\ntw"[..], b"o\n", b"three"] {
                far.write_all(part).expect("write");
                std::thread::sleep(Duration::from_millis(5));
            }
        };
        if !privileged("lines_come_one_by_one_and_an_end_is_seen") {
            return;
        }
        let mut lines = LineStream::over(peer(talk), &|| false).expect("a connection");
        let mut next = || lines.receive(Nanos::from_secs(30), 100);
        assert_eq!([next().expect("one"), next().expect("two")], [b"one".to_vec(), b"two".to_vec()]);
        assert!(matches!(next(), Err(LineError::Closed)));
    }

    #[test]
    fn silence_too_much_and_a_stop_are_errors() {
        if !privileged("silence_too_much_and_a_stop_are_errors") {
            return;
        }
        let quiet = |far: TcpStream| {
            // Until the other end is closed.
            let _ = (&far).read(&mut [0]);
        };
        let mut lines = LineStream::over(peer(quiet), &|| false).expect("a connection");
        lines.check_quiet().expect("quiet");
        assert!(matches!(lines.receive(Nanos::from_millis(1), 100), Err(LineError::Silent(_))));
        let endless = |mut far: TcpStream| while far.write_all(&[b'x'; 1000]).is_ok() {};
        let mut lines = LineStream::over(peer(endless), &|| false).expect("a connection");
        assert!(matches!(lines.receive(Nanos::from_secs(30), 5000), Err(LineError::TooLong(5000))));
        assert!(matches!(lines.check_quiet(), Err(LineError::Unasked)));
        let mut lines = LineStream::over(peer(quiet), &|| true).expect("a connection");
        assert!(matches!(lines.receive(Nanos::from_secs(30), 100), Err(LineError::Stopped)));
    }
}
