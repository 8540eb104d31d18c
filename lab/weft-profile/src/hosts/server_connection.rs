//! A connection to the server, as its client sees it: requests, and answers that are those that were due.

use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use weft_units::Nanos;

use super::framing::{LineError, LineStream};
use super::protocol::{
    self, ANSWER_MAX, ClientRequest, EndCounts, Greeting, Half, LevelName, ServerAnswer, Text, TrialPart,
    VERSION, Welcome,
};
use super::{HostPort, HostsError};
use crate::error::ProfileError;
use crate::trial::Instrument;

/// Time limit for a connection.
const CONNECT: Duration = Duration::from_secs(5);
/// Time limit for an answer, beyond the time that the request itself takes.
const PATIENCE: Nanos = Nanos::from_secs(30);

/// The connection to the server of a session.
pub(super) struct ServerConnection<'a> {
    lines: LineStream<'a>,
}

impl<'a> ServerConnection<'a> {
    /// Connects and greets.
    pub(super) fn greet(to: &HostPort, instrument: &Instrument<'a>) -> Result<(Self, Welcome), HostsError> {
        let mut server = Self { lines: connect(to, instrument.stop)? };
        let ours = instrument.categories.version();
        let greeting = Greeting {
            protocol: VERSION,
            categories: Text::of(ours),
            clock: instrument.clock.map(Into::into),
            sample_hz: instrument.rate.hertz(),
        };
        let welcome = match server.ask(&ClientRequest::Hello(greeting), PATIENCE)? {
            ServerAnswer::Hello(welcome) => welcome,
            other => return Err(server.unexpected(&other, "hello")),
        };
        if welcome.categories != Text::of(ours) {
            let theirs = welcome.categories.as_str().to_owned();
            return Err(HostsError::Tables { theirs, ours: ours.to_owned() });
        }
        Ok((server, welcome))
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.lines.peer()
    }

    fn broken(&self, error: LineError) -> HostsError {
        HostsError::Peer { peer: self.address(), error }
    }

    pub(super) fn unexpected(&self, found: &ServerAnswer, wanted: &'static str) -> HostsError {
        HostsError::Unexpected { peer: self.address(), found: found.name(), wanted }
    }

    pub(super) fn ask(
        &mut self,
        request: &ClientRequest,
        patience: Nanos,
    ) -> Result<ServerAnswer, HostsError> {
        self.quiet()?;
        self.lines.send(&protocol::line(request)).map_err(|error| self.broken(error))?;
        self.hear(patience)
    }

    /// Fails if the server has closed the connection or talks although nothing was asked, with its reason if that is one.
    pub(super) fn quiet(&mut self) -> Result<(), HostsError> {
        match self.lines.check_quiet() {
            Err(LineError::Unasked) => match self.hear(PATIENCE) {
                Err(refused @ HostsError::Refused { .. }) => Err(refused),
                _ => Err(self.broken(LineError::Unasked)),
            },
            other => other.map_err(|error| self.broken(error)),
        }
    }

    pub(super) fn hear(&mut self, patience: Nanos) -> Result<ServerAnswer, HostsError> {
        let line = self.lines.receive(patience, ANSWER_MAX);
        let answer = line.and_then(|line| Ok(protocol::answer(&line)?)).map_err(|e| self.broken(e))?;
        match answer {
            ServerAnswer::Refused { why } => {
                Err(HostsError::Refused { peer: self.address(), why: why.as_str().to_owned() })
            }
            other => Ok(other),
        }
    }

    pub(super) fn watch(&mut self) -> Result<f64, HostsError> {
        match self.ask(&ClientRequest::Watch, PATIENCE)? {
            ServerAnswer::Watched { share } => Ok(share),
            other => Err(self.unexpected(&other, "watched")),
        }
    }

    /// Sets a level at the server's device, or restores it; returns whether it has one.
    pub(super) fn level(&mut self, level: Option<LevelName>) -> Result<bool, HostsError> {
        match self.ask(&ClientRequest::Level { level }, PATIENCE)? {
            ServerAnswer::Levelled { changed } => Ok(changed),
            other => Err(self.unexpected(&other, "levelled")),
        }
    }

    /// Starts the receiving applications; returns their ports.
    pub(super) fn serve(&mut self, request: &ClientRequest, count: usize) -> Result<Vec<u16>, HostsError> {
        match self.ask(request, PATIENCE)? {
            ServerAnswer::Listening { ports } if ports.len() == count => Ok(ports),
            other => Err(self.unexpected(&other, "listening")),
        }
    }

    pub(super) fn begin(&mut self, part: TrialPart, span: Nanos) -> Result<(), HostsError> {
        match self.ask(&ClientRequest::Measure { part, span_ns: span.get() }, PATIENCE)? {
            ServerAnswer::Begun => Ok(()),
            other => Err(self.unexpected(&other, "begun")),
        }
    }

    pub(super) fn measured(&mut self, part: TrialPart) -> Result<Half, HostsError> {
        match self.hear(PATIENCE)? {
            ServerAnswer::Measured(half) if half.samples.is_some() == (part == TrialPart::Sampled) => {
                Ok(half)
            }
            other => Err(self.unexpected(&other, "measured")),
        }
    }

    pub(super) fn counts(&mut self) -> Result<EndCounts, HostsError> {
        match self.ask(&ClientRequest::Counts, PATIENCE)? {
            ServerAnswer::Counted(counts) => Ok(counts),
            other => Err(self.unexpected(&other, "counted")),
        }
    }

    pub(super) fn end(&mut self) -> Result<(), HostsError> {
        match self.ask(&ClientRequest::End, PATIENCE)? {
            ServerAnswer::Ended => Ok(()),
            other => Err(self.unexpected(&other, "ended")),
        }
    }
}

/// Connects to the first address that answers.
fn connect<'a>(to: &HostPort, stop: &'a dyn Fn() -> bool) -> Result<LineStream<'a>, HostsError> {
    let mut failed = None;
    for at in to.addresses()? {
        if stop() {
            return Err(ProfileError::Stopped.into());
        }
        match TcpStream::connect_timeout(&at, CONNECT) {
            Ok(stream) => {
                return LineStream::over(stream, stop).map_err(|error| HostsError::Peer { peer: at, error });
            }
            Err(error) => failed = Some(HostsError::NoServer { at, error, port: to.port }),
        }
    }
    let none = || HostsError::Unknown { host: to.host.clone(), reason: "it has no address".to_owned() };
    Err(failed.unwrap_or_else(none))
}
