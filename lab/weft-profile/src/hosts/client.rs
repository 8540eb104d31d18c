//! The sending host: it asks the server for its side, and joins both sides' figures.

use std::collections::BTreeMap;

use weft_facts::record::Host;
use weft_host::{clock, require_network_rights};
use weft_report::profile::{CountedBytes, Peer, Run, Side};
use weft_report::rounds::{RoundTurn, Rounds};
use weft_units::{Bytes, Nanos};

use super::endpoint::{Ends, Running};
use super::framing::LineError;
use super::join::{Halves, bits_per_second, joined};
use super::protocol::{ClientRequest, LevelName, LoadName, Receiver, SECONDS_MAX, TrialPart, Welcome};
use super::server_connection::ServerConnection;
use super::{HostPort, HostsError};
use crate::categories::Categories;
use crate::error::ProfileError;
use crate::journal::{ChangedDevice, JournalError, LevelDevice};
use crate::level::{DeviceChange, Level};
use crate::pattern::FlowLayout;
use crate::ping::Ping;
use crate::session::{Collected, SessionOptions, SessionProfile, TrialProgress, loaded_label, others};
use crate::traffic::{Pair, TrafficLoad, cores};
use crate::trial::{First, FlowFigures, Instrument, TrialResult, with_payload};

/// The name of the level that leaves all devices as they are.
pub const AS_IS: &str = "as-is";

/// Seconds that applications run longer than on one host: two hosts wait for each other.
const SPARE: u64 = 40;

/// The settings of the devices for a trial.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Turn {
    /// Those that they have anyway.
    AsIs,
    /// A level, at both hosts.
    Level(Level),
    /// A change at this host, by its name.
    Change(&'static str, DeviceChange),
}

impl Turn {
    const fn name(self) -> &'static str {
        match self {
            Self::AsIs => AS_IS,
            Self::Level(level) => level.name(),
            Self::Change(name, _) => name,
        }
    }
}

/// Trials of changes at the sender's device.
#[derive(Debug)]
pub struct Changes {
    /// The trials of each change.
    pub trials: Vec<Vec<TrialResult>>,
    /// Limits of the figures.
    pub labels: Vec<String>,
}

/// Runs trials of changes at this host's device in turns, with the server at `to`, and restores the device. The trials have the flows one
/// by one, and pings. Levels of the options are not used.
///
/// # Errors
/// As [`run`].
pub fn changes(
    options: &SessionOptions,
    (to, device): (&HostPort, LevelDevice<'_>),
    changes: &[(&'static str, DeviceChange)],
    categories: &Categories,
    stop: &dyn Fn() -> bool,
    heard: impl FnMut(&TrialProgress),
) -> Result<Changes, HostsError> {
    require_network_rights().map_err(ProfileError::from)?;
    let instrument = Instrument { flows: true, ..options.instrument(categories, stop) };
    let changed = Some(ChangedDevice::open(device)?);
    let (server, welcome) = ServerConnection::greet(to, &instrument)?;
    let layout = FlowLayout::between(
        options.pattern,
        options.flows,
        (&options.trials.processors, &welcome.processors),
    );
    let mut session = Session::new((options, &layout, &instrument), (server, changed), heard);
    let mut labels = vec![layout.shortage.clone(), same_machine(&welcome)];
    labels.extend(session.watch(to)?);
    let turns: Vec<Turn> = changes.iter().map(|(name, change)| Turn::Change(name, *change)).collect();
    let mut trials: Vec<Vec<TrialResult>> = turns.iter().map(|_| Vec::new()).collect();
    session.trials(&turns, |turn, trial| {
        if let Some((of, _)) = trials.iter_mut().zip(&turns).find(|(_, one)| **one == turn) {
            of.push(trial);
        }
    })?;
    labels.extend(session.restore()?);
    labels.retain(|label| !label.is_empty());
    Ok(Changes { trials, labels })
}

/// Runs a session with the server at `to`: this host sends, the other receives. With `device` the levels of the options are set there,
/// and at the server's device if it has one, and both are restored; without, devices stay as they are. `heard` receives each trial.
///
/// # Errors
/// If rights are missing, no server answers, a host is loaded, a trial fails, the server breaks the protocol, or the caller asks to
/// stop.
pub fn run(
    options: &SessionOptions,
    (to, device): (&HostPort, Option<LevelDevice<'_>>),
    categories: &Categories,
    host: Host,
    stop: &dyn Fn() -> bool,
    heard: impl FnMut(&TrialProgress),
) -> Result<SessionProfile, HostsError> {
    require_network_rights().map_err(ProfileError::from)?;
    let instrument = options.instrument(categories, stop);
    let changed = device.map(ChangedDevice::open).transpose()?;
    let (server, welcome) = ServerConnection::greet(to, &instrument)?;
    let layout = FlowLayout::between(
        options.pattern,
        options.flows,
        (&options.trials.processors, &welcome.processors),
    );
    let mut session = Session::new((options, &layout, &instrument), (server, changed), heard);
    let mut labels = vec![layout.shortage.clone(), same_machine(&welcome)];
    labels.extend(session.watch(to)?);
    let peer = Peer {
        name: to.host.clone(),
        address: session.server.address().ip().to_canonical().to_string(),
        kernel: welcome.kernel.as_str().to_owned(),
        processors: welcome.processors.len() as u32,
    };
    let turns: Vec<Turn> = match device {
        Some(_) => options.levels.iter().copied().map(Turn::Level).collect(),
        None => vec![Turn::AsIs],
    };
    let mut all = Collected::default();
    session.trials(&turns, |turn, trial| all.add(turn.name(), trial))?;
    let labels = all.labels(options.trials.rate, [labels, session.restore()?].concat());
    let names: Vec<&str> = turns.iter().map(|turn| turn.name()).collect();
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

/// The trials of a session.
struct Session<'a, H> {
    options: &'a SessionOptions,
    layout: &'a FlowLayout,
    instrument: &'a Instrument<'a>,
    server: ServerConnection<'a>,
    /// The device of the levels.
    changed: Option<ChangedDevice>,
    /// Whether a level was set, and the server has a device for it; `None` without a level.
    followed: Option<bool>,
    heard: H,
}

impl<'a, H: FnMut(&TrialProgress)> Session<'a, H> {
    fn new(
        (options, layout, instrument): (&'a SessionOptions, &'a FlowLayout, &'a Instrument<'a>),
        (server, changed): (ServerConnection<'a>, Option<ChangedDevice>),
        heard: H,
    ) -> Self {
        Self { options, layout, instrument, server, changed, followed: None, heard }
    }

    /// Watches both hosts; returns labels, which may be empty.
    fn watch(&mut self, to: &HostPort) -> Result<[String; 2], HostsError> {
        let name = format!(" of {}", to.host);
        Ok([
            loaded_label(self.options.trials.loaded, others(self.instrument)?, "")?,
            loaded_label(self.options.trials.loaded, self.server.watch()?, &name)?,
        ])
    }

    fn trials(&mut self, turns: &[Turn], mut keep: impl FnMut(Turn, TrialResult)) -> Result<(), HostsError> {
        let repeats = self.options.trials.repeats;
        let trial = |RoundTurn { variant, round, done, of }: RoundTurn<'_, Turn>| {
            match *variant {
                Turn::AsIs => {}
                Turn::Level(level) => self.level(level)?,
                Turn::Change(name, change) => {
                    self.changed.as_mut().map_or(Ok(()), |changed| changed.change(name, change))?;
                }
            }
            let before = self.sent()?;
            let trial = with_payload(|| self.trial(round)).map_err(|error| self.reason(error))?;
            self.check_path(before, &trial.run)?;
            let level = variant.name().to_owned();
            (self.heard)(&TrialProgress { done, of, level, run: trial.run.clone() });
            keep(*variant, trial);
            Ok(())
        };
        Rounds::measure(repeats, turns, &|| false, trial).map(drop)
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
        self.followed = Some(self.server.level(Some(name))?);
        Ok(())
    }

    /// Bytes that the device has sent.
    fn sent(&self) -> Result<Option<u64>, HostsError> {
        let sent = self.changed.as_ref().map(ChangedDevice::sent).transpose();
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
        if self.followed.is_some() {
            self.server.level(None)?;
        }
        if self.followed == Some(false) {
            labels.push(
                "the server has no --device, so the receiver's MTU and GRO are not the levels': only the sender's device followed"
                    .to_owned(),
            );
        }
        Ok(labels)
    }

    /// One trial: separate applications, measured without the instrument and with it.
    fn trial(&mut self, repeat: u32) -> Result<TrialResult, HostsError> {
        let mut running = self.start()?;
        let server = &mut self.server;
        running.rest(self.instrument.warm_up, || server.quiet())?;
        let parts = match First::of(repeat) {
            First::Bare => [TrialPart::Bare, TrialPart::Sampled],
            First::Sampled => [TrialPart::Sampled, TrialPart::Bare],
        };
        let (mut bare_bps, mut sampled, mut flows) = (0.0, None, None);
        for part in parts {
            let watched = match part {
                TrialPart::Bare if self.instrument.flows => Some(Watched::start(&mut running)?),
                _ => None,
            };
            let halves = both(part, self.instrument.span, &mut running, server)?;
            flows = watched.map(|watched| watched.end(&mut running, self.layout)).transpose()?.or(flows);
            match part {
                TrialPart::Bare => bare_bps = bits_per_second(self.options.load, &halves),
                TrialPart::Sampled => sampled = Some(joined(self.options.load, halves)?),
            }
        }
        let connections = compare(&mut running, server)?;
        server.end()?;
        // Both parts were measured, one of them with samples.
        let mut trial = sampled.ok_or(HostsError::Request("nothing was sampled"))?;
        (trial.run.repeat, trial.run.bare_bps, trial.flows) = (repeat, bare_bps, flows);
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
        let request = ClientRequest::Serve {
            load: match load {
                TrafficLoad::Bulk => LoadName::Bulk,
                TrafficLoad::Requests(bytes) => LoadName::Requests(bytes.get()),
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

/// The flows of a part one by one, and pings beside them.
struct Watched {
    ping: Ping,
    at: weft_units::Instant,
    acked: BTreeMap<u64, u64>,
}

impl Watched {
    fn start(running: &mut Running<'_>) -> Result<Self, HostsError> {
        let ping = Ping::start(&running.ns, running.ends.peer).map_err(ProfileError::from)?;
        Ok(Self { ping, at: clock::now(), acked: running.acked()? })
    }

    fn end(self, running: &mut Running<'_>, layout: &FlowLayout) -> Result<FlowFigures, HostsError> {
        let (acked, span) = (running.acked()?, clock::now().saturating_since(self.at));
        let since =
            |(flow, bytes): (&u64, &u64)| bytes.saturating_sub(self.acked.get(flow).copied().unwrap_or(0));
        let mut received: Vec<u64> = acked.iter().map(since).collect();
        // iperf3 has connections for control beside the flows, which carry next to nothing.
        received.sort_unstable_by(|a, b| b.cmp(a));
        received.truncate(layout.flows.len());
        let round_trips = self.ping.finish().map_err(ProfileError::from)?;
        Ok(FlowFigures { received: received.into_iter().map(Bytes).collect(), span, round_trips })
    }
}

/// Measures a part at both sides at once: the server begins, then this side.
fn both(
    part: TrialPart,
    span: Nanos,
    running: &mut Running<'_>,
    server: &mut ServerConnection<'_>,
) -> Result<Halves, HostsError> {
    let ready = match part {
        TrialPart::Bare => None,
        TrialPart::Sampled => Some(running.prepare()?),
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
fn compare(running: &mut Running<'_>, server: &mut ServerConnection<'_>) -> Result<CountedBytes, HostsError> {
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
