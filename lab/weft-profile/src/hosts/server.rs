//! The receiving host: it starts applications and samples when a client asks.
//!
//! One client is served at a time; another is refused at once. Applications listen at the address at which the client reached this
//! host, and end with the trial, with the connection, or with the trial's time limit. Nothing is changed at this host, but levels at a
//! device that its user named, which is restored when the client goes ([`crate::journal`]).

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use weft_host::perf_event::{Clock, SampleRate};
use weft_host::sock_diag::SockDiag;
use weft_host::{NetNs, affinity, clock, require_network_rights, sysctl};
use weft_report::profile::Side;
use weft_units::{Bytes, Instant, Nanos};

use super::HostsError;
use super::endpoint::{Ends, Running};
use super::framing::{LineError, LineStream, farewell};
use super::protocol::{
    self, ClientRequest, Greeting, LevelName, LoadName, REQUEST_MAX, Receiver, ServerAnswer, Text, TrialPart,
    VERSION, Welcome,
};
use crate::categories::Categories;
use crate::error::ProfileError;
use crate::iperf::FIRST_PORT;
use crate::journal::{ChangedDevice, LevelDevice};
use crate::session::others;
use crate::setup::Setup;
use crate::traffic::{Pair, TrafficLoad};
use crate::trial::{Instrument, LOOK};

/// Time limit for a client's greeting: others wait for it.
const GREETING: Nanos = Nanos::from_secs(5);
/// Time limit for a client's next request while nothing runs.
const IDLE: Nanos = Nanos::from_secs(60);

/// The answer to requests that need applications.
const NOTHING_RUNS: HostsError = HostsError::Request("no applications run; ask to serve first");

/// An event of the server, for those who watch it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ServerEvent {
    /// A client has come.
    Came(SocketAddr),
    /// A client has gone, by itself or for this reason.
    Gone(SocketAddr, Option<String>),
    /// A client was sent away, since another is served.
    Busy(SocketAddr),
}

/// The offers of a server to its clients.
#[derive(Clone, Copy, Debug)]
pub struct Offered<'a> {
    /// The table of categories.
    pub categories: &'a Categories,
    /// The device at which clients may set levels.
    pub device: Option<LevelDevice<'a>>,
}

/// A server that listens.
#[derive(Debug)]
pub struct ProfileServer {
    listener: TcpListener,
    at: SocketAddr,
}

impl ProfileServer {
    /// Listens at an address.
    ///
    /// # Errors
    /// If rights are missing, or the address is in use or not of this host.
    pub fn listen(at: SocketAddr) -> Result<Self, HostsError> {
        require_network_rights().map_err(ProfileError::from)?;
        let failed = |error| HostsError::Listen { at, error };
        let listener = TcpListener::bind(at).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let at = listener.local_addr().map_err(failed)?;
        Ok(Self { listener, at })
    }

    /// The address.
    pub fn address(&self) -> SocketAddr {
        self.at
    }

    /// Serves clients, one at a time, until `stop` says so. `heard` receives each of them.
    ///
    /// # Errors
    /// If no more connections can be accepted.
    pub fn serve(
        &self,
        offered: Offered<'_>,
        stop: &(dyn Fn() -> bool + Sync),
        heard: &(dyn Fn(&ServerEvent) + Sync),
    ) -> Result<(), HostsError> {
        let served: Mutex<Option<SocketAddr>> = Mutex::new(None);
        let ended = AtomicBool::new(false);
        let stop_all = || stop() || ended.load(Ordering::Relaxed);
        std::thread::scope(|scope| {
            let result = self.accept_all(&stop_all, |stream, peer| {
                let mut current = served.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                if let Some(other) = *current {
                    heard(&ServerEvent::Busy(peer));
                    let why =
                        Text::of(&format!("the server is measuring with {}; try again later", other.ip()));
                    return farewell(stream, &protocol::line(&ServerAnswer::Refused { why }));
                }
                *current = Some(peer);
                drop(current);
                let (served, stop_all) = (&served, &stop_all);
                scope.spawn(move || {
                    heard(&ServerEvent::Came(peer));
                    let reason =
                        client((stream, peer), offered, stop_all).err().map(|error| error.to_string());
                    *served.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = None;
                    heard(&ServerEvent::Gone(peer, reason));
                });
            });
            // A failed server ends its client too.
            ended.store(true, Ordering::Relaxed);
            result
        })
    }

    fn accept_all(
        &self,
        stop: &dyn Fn() -> bool,
        mut each: impl FnMut(TcpStream, SocketAddr),
    ) -> Result<(), HostsError> {
        while !stop() {
            match self.listener.accept() {
                Ok((stream, peer)) => each(stream, peer),
                Err(error) if is_passing(error.kind()) => std::thread::sleep(LOOK),
                Err(error) => return Err(HostsError::Listen { at: self.at, error }),
            }
        }
        Ok(())
    }
}

/// Whether a later connection may be accepted although this one was not.
fn is_passing(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::WouldBlock
            | ErrorKind::Interrupted
            | ErrorKind::ConnectionAborted
            | ErrorKind::ConnectionReset
    )
}

/// Serves a client until it goes.
fn client(
    (stream, peer): (TcpStream, SocketAddr),
    Offered { categories, device }: Offered<'_>,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<(), HostsError> {
    let stop = || stop();
    // The sender's side makes the links.
    let none = Setup::default();
    let mut lines = LineStream::over(stream, &stop).map_err(|error| HostsError::Peer { peer, error })?;
    let result = greet(&mut lines, categories).and_then(|greeting| {
        let instrument = Instrument {
            categories,
            clock: greeting.clock.map(Clock::from),
            rate: SampleRate::new(greeting.sample_hz)
                .ok_or(HostsError::Request("no such rate of samples"))?,
            warm_up: Nanos::ZERO,
            span: Nanos::ZERO,
            setup: &none,
            flows: false,
            stop: &stop,
        };
        Client { lines: &mut lines, instrument: &instrument, running: None, device, changed: None }.serve()
    });
    match &result {
        Ok(()) => {}
        Err(HostsError::Peer { error: LineError::Closed, .. }) => {}
        Err(error) => {
            let why = if error.is_stop() { "the server was stopped".to_owned() } else { error.to_string() };
            lines.close_with(&protocol::line(&ServerAnswer::Refused { why: Text::of(&why) }));
        }
    }
    result
}

/// Receives the client's greeting and answers it.
fn greet(lines: &mut LineStream<'_>, categories: &Categories) -> Result<Greeting, HostsError> {
    let ClientRequest::Hello(greeting) = next(lines, GREETING)? else {
        return Err(HostsError::Request("the first request must be `hello`"));
    };
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let welcome = Welcome {
        protocol: VERSION,
        categories: Text::of(categories.version()),
        kernel: Text::of(&sysctl::release()),
        boot: Text::of(boot.trim()),
        processors: affinity::own().map_err(ProfileError::from)?,
    };
    say(lines, &ServerAnswer::Hello(welcome))?;
    Ok(greeting)
}

/// Receives a request.
fn next(lines: &mut LineStream<'_>, patience: Nanos) -> Result<ClientRequest, HostsError> {
    let peer = lines.peer();
    let line = lines.receive(patience, REQUEST_MAX);
    let request = line.and_then(|line| Ok(protocol::request(&line)?));
    request.map_err(|error| HostsError::Peer { peer, error })
}

fn say(lines: &mut LineStream<'_>, answer: &ServerAnswer) -> Result<(), HostsError> {
    let peer = lines.peer();
    lines.send(&protocol::line(answer)).map_err(|error| HostsError::Peer { peer, error })
}

/// A client that was greeted.
struct Client<'a, 'l> {
    lines: &'a mut LineStream<'l>,
    instrument: &'a Instrument<'a>,
    /// The trial, and the time at which it ends by itself.
    running: Option<(Running<'a>, Instant)>,
    /// The device for levels.
    device: Option<LevelDevice<'a>>,
    changed: Option<ChangedDevice>,
}

impl Client<'_, '_> {
    fn serve(mut self) -> Result<(), HostsError> {
        loop {
            let patience = match &self.running {
                Some((_, deadline)) => deadline.saturating_since(clock::now()),
                None => IDLE,
            };
            let request = match next(self.lines, patience) {
                // It has what it came for.
                Err(HostsError::Peer { error: LineError::Closed, .. }) if self.running.is_none() => {
                    return Ok(());
                }
                other => other?,
            };
            let answer = match request {
                ClientRequest::Hello(_) => return Err(HostsError::Request("`hello` was said before")),
                ClientRequest::Watch => ServerAnswer::Watched { share: others(self.instrument)? },
                ClientRequest::Level { level } => self.level(level)?,
                ClientRequest::Serve { load, receivers, seconds } => {
                    // The former trial's applications end first.
                    self.running = None;
                    self.start(load, &receivers, seconds)?
                }
                ClientRequest::Measure { part, span_ns } => self.measure(part, Nanos(span_ns))?,
                ClientRequest::Counts => self.counts()?,
                ClientRequest::End => {
                    self.running = None;
                    ServerAnswer::Ended
                }
            };
            say(self.lines, &answer)?;
        }
    }

    fn level(&mut self, level: Option<LevelName>) -> Result<ServerAnswer, HostsError> {
        // Connections keep the segments of the level at which they were opened.
        self.running = None;
        let Some(device) = self.device else { return Ok(ServerAnswer::Levelled { changed: false }) };
        match level {
            None => drop(self.changed.take().map(ChangedDevice::restore).transpose()?),
            Some(level) => {
                let mut changed = self.changed.take().map_or_else(|| ChangedDevice::open(device), Ok)?;
                let set = changed.set(level.level());
                self.changed = Some(changed);
                set?;
            }
        }
        Ok(ServerAnswer::Levelled { changed: true })
    }

    fn start(
        &mut self,
        load: LoadName,
        receivers: &[Receiver],
        seconds: u64,
    ) -> Result<ServerAnswer, HostsError> {
        let load = match load {
            LoadName::Bulk => TrafficLoad::Bulk,
            LoadName::Requests(bytes) => TrafficLoad::Requests(Bytes(bytes)),
        };
        let own = affinity::own().map_err(ProfileError::from)?;
        if !receivers.iter().all(|one| own.contains(&one.cpu)) {
            return Err(HostsError::Request("a processor that the server may not use was asked for"));
        }
        let peer = self.lines.peer();
        let at = self.lines.local().map_err(|error| HostsError::Peer { peer, error })?.ip().to_canonical();
        let ports = free_ports(at, receivers.len(), load)?;
        let ends = Ends {
            side: Side::Receiver,
            peer: peer.ip().to_canonical(),
            ports: ports.iter().copied().collect::<BTreeSet<u16>>(),
        };
        let mut running = Running::new(load, ends, self.instrument)?;
        for (one, port) in receivers.iter().zip(&ports) {
            let pair = Pair { sender: one.cpu, receiver: one.cpu, to: at, port: *port, flows: one.flows };
            running.applications.serve(&running.ns, load, &pair).map_err(ProfileError::from)?;
        }
        running.wait_listening()?;
        self.running = Some((running, clock::now() + Nanos::from_secs(seconds)));
        Ok(ServerAnswer::Listening { ports })
    }

    fn counts(&mut self) -> Result<ServerAnswer, HostsError> {
        let (running, _) = self.running.as_mut().ok_or(NOTHING_RUNS)?;
        Ok(ServerAnswer::Counted(running.counts()?))
    }

    fn measure(&mut self, part: TrialPart, span: Nanos) -> Result<ServerAnswer, HostsError> {
        let (running, deadline) = self.running.as_mut().ok_or(NOTHING_RUNS)?;
        if clock::now() + span > *deadline {
            return Err(HostsError::Request("the part would last longer than the trial"));
        }
        let peer = self.lines.peer();
        let half = match part {
            TrialPart::Bare => {
                say(self.lines, &ServerAnswer::Begun)?;
                let lines = &self.lines;
                let quiet = || lines.check_quiet().map_err(|error| HostsError::Peer { peer, error });
                running.bare(span, quiet)?
            }
            TrialPart::Sampled => {
                let ready = running.prepare()?;
                say(self.lines, &ServerAnswer::Begun)?;
                let lines = &self.lines;
                let quiet = || lines.check_quiet().map_err(|error| HostsError::Peer { peer, error });
                running.sampled(ready, span, quiet)?
            }
        };
        Ok(ServerAnswer::Measured(half))
    }
}

/// Ports of this address at which an application can listen, from the first on. A former connection that the kernel still remembers
/// keeps sockperf from its port, and does not keep iperf3, which sets SO_REUSEADDR.
fn free_ports(at: IpAddr, count: usize, load: TrafficLoad) -> Result<Vec<u16>, HostsError> {
    const TRIED: usize = 10_000;
    let ns = NetNs::current().map_err(ProfileError::from)?;
    let remembered: BTreeSet<u16> = match load {
        TrafficLoad::Bulk => BTreeSet::new(),
        TrafficLoad::Requests(_) => {
            SockDiag::open(&ns)?.tcp()?.iter().map(|(socket, _)| socket.local.port()).collect()
        }
    };
    let free = |port: &u16| !remembered.contains(port) && TcpListener::bind((at, *port)).is_ok();
    let ports: Vec<u16> = (FIRST_PORT..).take(TRIED).filter(free).take(count).collect();
    if ports.len() < count {
        return Err(HostsError::Request("too few free TCP ports for the applications"));
    }
    Ok(ports)
}
