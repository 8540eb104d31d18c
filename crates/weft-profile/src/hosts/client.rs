//! The sending host: it asks the server for its side, and joins both sides' figures.

use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use weft_host::require_network_rights;
use weft_report::profile::{CountedBytes, Peer, Run, Side};
use weft_report::record::Host;
use weft_units::Nanos;

use super::half::{Ends, Running};
use super::join::{Halves, bits_per_second, joined};
use super::lines::{LineError, Lines};
use super::protocol::{
    self, ANSWER_MAX, Answer, Counts, Greeting, Half, LevelName, LoadName, Part, Receiver, Request,
    SECONDS_MAX, Text, VERSION, Welcome,
};
use super::{HostsError, Place};
use crate::categories::Categories;
use crate::error::ProfileError;
use crate::journal::{Changed, Device, JournalError};
use crate::level::Level;
use crate::pattern::Layout;
use crate::session::{Collected, Options, Profile, Progress, loaded_label, others};
use crate::traffic::{Load, Pair, cores};
use crate::trial::{First, Instrument, Trial};

/// The name of the level that leaves all devices as they are.
pub const AS_IS: &str = "as-is";

/// Time limit for a connection.
const CONNECT: Duration = Duration::from_secs(5);
/// Time limit for an answer, beyond the time that the request itself takes.
const PATIENCE: Nanos = Nanos::from_secs(30);

/// Seconds for which applications run longer than on one host: two hosts wait for each other.
const SPARE: u64 = 40;

/// Runs a session with the server at `to`: this host sends, the other receives. With `device` the levels of the options are set there,
/// and at the server's device if it has one, and both are restored; without, devices stay as they are. `heard` is told of each trial.
///
/// # Errors
/// If rights are missing, no server answers, a host is loaded, a trial fails, the server breaks the protocol, or the caller asks to
/// stop.
pub fn run(
    options: &Options,
    (to, device): (&Place, Option<Device<'_>>),
    categories: &Categories,
    host: Host,
    stop: &dyn Fn() -> bool,
    heard: impl FnMut(&Progress),
) -> Result<Profile, HostsError> {
    require_network_rights().map_err(ProfileError::from)?;
    let instrument = options.instrument(categories, stop);
    let changed = device.map(Changed::open).transpose()?;
    let (mut server, welcome) = Server::greet(to, &instrument)?;
    let layout = Layout::between(options.pattern, options.flows, (&options.processors, &welcome.processors));
    let name = format!(" of {}", to.host);
    let labels = vec![
        layout.shortage.clone(),
        same_machine(&welcome),
        loaded_label(options.loaded, others(&instrument)?, "")?,
        loaded_label(options.loaded, server.watch()?, &name)?,
    ];
    let peer = Peer {
        name: to.host.clone(),
        address: server.address().ip().to_canonical().to_string(),
        kernel: welcome.kernel.as_str().to_owned(),
        processors: welcome.processors.len() as u32,
    };
    let levels: Vec<Option<Level>> = match device {
        Some(_) => options.levels.iter().copied().map(Some).collect(),
        None => vec![None],
    };
    let mut session = Session {
        options,
        layout: &layout,
        instrument: &instrument,
        server,
        changed,
        unchanged: false,
        heard,
    };
    let all = session.trials(&levels)?;
    let labels = all.labels(options.rate, [labels, session.restore()?].concat());
    let names: Vec<&str> = levels.iter().map(|level| name_of(*level)).collect();
    let mut profile = all.conclude(options, (&layout, &names), categories, host, labels);
    profile.report.peer = Some(peer);
    Ok(profile)
}

/// A label if the server runs on this machine; empty if it does not.
fn same_machine(welcome: &Welcome) -> String {
    let own = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    if own.trim().is_empty() || own.trim() != welcome.boot.as_str() {
        return String::new();
    }
    "both ends run on one machine: each counts the other's network softirqs as its own".to_owned()
}

/// The server, with which a session talks.
struct Server<'a> {
    lines: Lines<'a>,
}

impl<'a> Server<'a> {
    /// Connects and greets.
    fn greet(to: &Place, instrument: &Instrument<'a>) -> Result<(Self, Welcome), HostsError> {
        let mut server = Self { lines: connect(to, instrument.stop)? };
        let ours = instrument.categories.version();
        let greeting = Greeting {
            protocol: VERSION,
            categories: Text::of(ours),
            clock: instrument.clock.map(Into::into),
            sample_hz: instrument.rate.hertz(),
        };
        let welcome = match server.ask(&Request::Hello(greeting), PATIENCE)? {
            Answer::Hello(welcome) => welcome,
            other => return Err(server.unexpected(&other, "hello")),
        };
        if welcome.categories != Text::of(ours) {
            let theirs = welcome.categories.as_str().to_owned();
            return Err(HostsError::Tables { theirs, ours: ours.to_owned() });
        }
        Ok((server, welcome))
    }

    fn address(&self) -> SocketAddr {
        self.lines.peer()
    }

    fn broken(&self, error: LineError) -> HostsError {
        HostsError::Peer { peer: self.address(), error }
    }

    fn unexpected(&self, found: &Answer, wanted: &'static str) -> HostsError {
        HostsError::Unexpected { peer: self.address(), found: found.name(), wanted }
    }

    fn ask(&mut self, request: &Request, patience: Nanos) -> Result<Answer, HostsError> {
        self.quiet()?;
        self.lines.send(&protocol::line(request)).map_err(|error| self.broken(error))?;
        self.hear(patience)
    }

    /// Fails if the server has closed the connection or talks although nothing was asked, with its reason if that is one.
    fn quiet(&mut self) -> Result<(), HostsError> {
        match self.lines.check_quiet() {
            Err(LineError::Unasked) => match self.hear(PATIENCE) {
                Err(refused @ HostsError::Refused { .. }) => Err(refused),
                _ => Err(self.broken(LineError::Unasked)),
            },
            other => other.map_err(|error| self.broken(error)),
        }
    }

    fn hear(&mut self, patience: Nanos) -> Result<Answer, HostsError> {
        let line = self.lines.receive(patience, ANSWER_MAX);
        let answer = line.and_then(|line| Ok(protocol::answer(&line)?)).map_err(|e| self.broken(e))?;
        match answer {
            Answer::Refused { why } => {
                Err(HostsError::Refused { peer: self.address(), why: why.as_str().to_owned() })
            }
            other => Ok(other),
        }
    }

    fn watch(&mut self) -> Result<f64, HostsError> {
        match self.ask(&Request::Watch, PATIENCE)? {
            Answer::Watched { share } => Ok(share),
            other => Err(self.unexpected(&other, "watched")),
        }
    }

    /// Sets a level at the server's device, or restores it; returns whether it has one.
    fn level(&mut self, level: Option<LevelName>) -> Result<bool, HostsError> {
        match self.ask(&Request::Level { level }, PATIENCE)? {
            Answer::Levelled { changed } => Ok(changed),
            other => Err(self.unexpected(&other, "levelled")),
        }
    }

    /// Starts the receiving applications; returns their ports.
    fn serve(&mut self, request: &Request, count: usize) -> Result<Vec<u16>, HostsError> {
        match self.ask(request, PATIENCE)? {
            Answer::Listening { ports } if ports.len() == count => Ok(ports),
            other => Err(self.unexpected(&other, "listening")),
        }
    }

    fn begin(&mut self, part: Part, span: Nanos) -> Result<(), HostsError> {
        match self.ask(&Request::Measure { part, span_ns: span.get() }, PATIENCE)? {
            Answer::Begun => Ok(()),
            other => Err(self.unexpected(&other, "begun")),
        }
    }

    fn measured(&mut self, part: Part) -> Result<Half, HostsError> {
        match self.hear(PATIENCE)? {
            Answer::Measured(half) if half.samples.is_some() == (part == Part::Sampled) => Ok(half),
            other => Err(self.unexpected(&other, "measured")),
        }
    }

    fn counts(&mut self) -> Result<Counts, HostsError> {
        match self.ask(&Request::Counts, PATIENCE)? {
            Answer::Counted(counts) => Ok(counts),
            other => Err(self.unexpected(&other, "counted")),
        }
    }

    fn end(&mut self) -> Result<(), HostsError> {
        match self.ask(&Request::End, PATIENCE)? {
            Answer::Ended => Ok(()),
            other => Err(self.unexpected(&other, "ended")),
        }
    }
}

/// Connects to the first address that answers.
fn connect<'a>(to: &Place, stop: &'a dyn Fn() -> bool) -> Result<Lines<'a>, HostsError> {
    let mut failed = None;
    for at in to.addresses()? {
        if stop() {
            return Err(ProfileError::Stopped.into());
        }
        match TcpStream::connect_timeout(&at, CONNECT) {
            Ok(stream) => {
                return Lines::over(stream, stop).map_err(|error| HostsError::Peer { peer: at, error });
            }
            Err(error) => failed = Some(HostsError::NoServer { at, error, port: to.port }),
        }
    }
    let none = || HostsError::Unknown { host: to.host.clone(), reason: "it has no address".to_owned() };
    Err(failed.unwrap_or_else(none))
}

/// The trials of a session.
struct Session<'a, H> {
    options: &'a Options,
    layout: &'a Layout,
    instrument: &'a Instrument<'a>,
    server: Server<'a>,
    /// The device of the levels.
    changed: Option<Changed>,
    /// Whether the server has no device for them.
    unchanged: bool,
    heard: H,
}

fn name_of(level: Option<Level>) -> &'static str {
    level.map_or(AS_IS, Level::name)
}

impl<'a, H: FnMut(&Progress)> Session<'a, H> {
    fn trials(&mut self, levels: &[Option<Level>]) -> Result<Collected, HostsError> {
        let mut all = Collected::default();
        let of = self.options.repeats * levels.len() as u32;
        for repeat in 1..=self.options.repeats {
            for level in crate::session::rotated(levels, repeat) {
                if let Some(level) = level {
                    self.level(level)?;
                }
                let before = self.sent()?;
                let trial = self.trial(repeat).map_err(|error| self.reason(error))?;
                self.check_path(before, &trial.run)?;
                all.done += 1;
                let level = name_of(level);
                let progress =
                    Progress { done: all.done, of, level: level.to_owned(), run: trial.run.clone() };
                (self.heard)(&progress);
                all.add(level, trial);
            }
        }
        Ok(all)
    }

    /// The server's reason, if it has given one, for an error of this side: its end ends the applications of both.
    fn reason(&mut self, error: HostsError) -> HostsError {
        const SHORT: Nanos = Nanos::from_secs(2);
        if !matches!(error, HostsError::Profile(ProfileError::Ended { .. })) {
            return error;
        }
        match self.server.hear(SHORT) {
            Err(
                theirs @ (HostsError::Refused { .. } | HostsError::Peer { error: LineError::Closed, .. }),
            ) => theirs,
            _ => error,
        }
    }

    /// Sets a level at both hosts.
    fn level(&mut self, level: Level) -> Result<(), HostsError> {
        let name = LevelName::of(level).ok_or(JournalError::NotHere(level.name()))?;
        if let Some(changed) = &mut self.changed {
            changed.set(level)?;
        }
        self.unchanged = !self.server.level(Some(name))?;
        Ok(())
    }

    /// Bytes that the device has sent.
    fn sent(&self) -> Result<Option<u64>, HostsError> {
        let sent = self.changed.as_ref().map(Changed::sent).transpose();
        Ok(sent.map_err(JournalError::from)?)
    }

    /// Fails if the flows' bytes did not leave by the device. Some drivers count late, so a quarter of them is enough.
    fn check_path(&self, before: Option<u64>, run: &Run) -> Result<(), HostsError> {
        let (Some(before), Some(now), Some(changed)) = (before, self.sent()?, &self.changed) else {
            return Ok(());
        };
        let (sent, acked) = (now.saturating_sub(before), run.counted.map_or(0, |counted| counted.acked));
        if sent.saturating_mul(4) < acked {
            return Err(HostsError::NotOnPath { device: changed.device().to_owned(), sent, acked });
        }
        Ok(())
    }

    /// Restores the devices of both hosts; returns labels about them.
    fn restore(&mut self) -> Result<Vec<String>, HostsError> {
        let Some(changed) = self.changed.take() else { return Ok(Vec::new()) };
        let mut labels = Vec::new();
        let device = changed.device().to_owned();
        let left = changed.restore()?;
        if !left.is_empty() {
            let left = left.join(", ");
            labels
                .push(format!("{left} of {device} was changed by somebody else during the runs, and stays"));
        }
        self.server.level(None)?;
        if self.unchanged {
            labels.push(
                "the server has no --device, so the receiver's MTU and GRO are not the levels': only the sender's device followed"
                    .to_owned(),
            );
        }
        Ok(labels)
    }

    /// One trial: applications of its own, measured without the instrument and with it.
    fn trial(&mut self, repeat: u32) -> Result<Trial, HostsError> {
        let mut running = self.start()?;
        let server = &mut self.server;
        running.rest(self.instrument.warm_up, || server.quiet())?;
        let parts = match First::of(repeat) {
            First::Bare => [Part::Bare, Part::Sampled],
            First::Sampled => [Part::Sampled, Part::Bare],
        };
        let (mut bare_bps, mut sampled) = (0.0, None);
        for part in parts {
            let halves = both(part, self.instrument.span, &mut running, server)?;
            match part {
                Part::Bare => bare_bps = bits_per_second(self.options.load, &halves),
                Part::Sampled => sampled = Some(joined(self.options.load, halves)?),
            }
        }
        let connections = compare(&mut running, server)?;
        server.end()?;
        // Both parts were measured, one of them with samples.
        let mut trial = sampled.ok_or(HostsError::Request("nothing was sampled"))?;
        (trial.run.repeat, trial.run.bare_bps) = (repeat, bare_bps);
        trial.run.counted = Some(connections);
        Ok(trial)
    }

    /// Starts the applications of both sides.
    fn start(&mut self) -> Result<Running<'a>, HostsError> {
        let load = self.options.load;
        let cores = cores(self.layout);
        let seconds = self.instrument.seconds() + SPARE;
        if seconds > SECONDS_MAX {
            return Err(HostsError::Request(
                "a trial between two hosts lasts at most four hours; give a shorter --span",
            ));
        }
        let request = Request::Serve {
            load: match load {
                Load::Bulk => LoadName::Bulk,
                Load::Requests(bytes) => LoadName::Requests(bytes.get()),
            },
            receivers: cores.iter().map(|one| Receiver { cpu: one.receiver, flows: one.flows }).collect(),
            seconds,
        };
        let ports = self.server.serve(&request, cores.len())?;
        let to = self.server.address().ip().to_canonical();
        let ends = Ends { side: Side::Sender, peer: to, ports: ports.iter().copied().collect() };
        let mut running = Running::new(load, ends, self.instrument)?;
        for (one, port) in cores.iter().zip(ports) {
            let pair = Pair { sender: one.sender, receiver: one.receiver, to, port, flows: one.flows };
            running
                .applications
                .send(&running.ns, (load, &[]), &pair, seconds)
                .map_err(ProfileError::from)?;
        }
        running.wait_flowing(cores.iter().map(|one| u64::from(one.flows)).sum())?;
        Ok(running)
    }
}

/// Measures a part at both sides at once: the server begins, then this side.
fn both(
    part: Part,
    span: Nanos,
    running: &mut Running<'_>,
    server: &mut Server<'_>,
) -> Result<Halves, HostsError> {
    let ready = match part {
        Part::Bare => None,
        Part::Sampled => Some(running.prepare()?),
    };
    server.begin(part, span)?;
    // The server may have measured before this side has; then its answer waits.
    let nothing = || Ok(());
    let sender = match ready {
        None => running.bare(span, nothing)?,
        Some(ready) => running.sampled(ready, span, nothing)?,
    };
    Ok(Halves { sender, receiver: server.measured(part)? })
}

/// Compares the counts of both ends since the flows were opened.
fn compare(running: &mut Running<'_>, server: &mut Server<'_>) -> Result<CountedBytes, HostsError> {
    let before = running.counts()?;
    let received = server.counts()?.received;
    let after = running.counts()?;
    // The opening of a connection is acknowledged as a byte.
    let acked = before.acked.saturating_sub(before.connections);
    if received < acked || received > after.sent {
        return Err(HostsError::Counts { acked, received, sent: after.sent });
    }
    Ok(CountedBytes { acked, received, sent: after.sent })
}
