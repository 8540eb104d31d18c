//! The daemon's loop: one thread, one poll over sockets, signals and the processes that ask polkit.
//!
//! A turn of the loop, in this order:
//! 1. Poll, until something is ready or the next tick is due.
//! 2. Signals: SIGHUP reloads the configuration, SIGTERM and SIGINT end the loop and the ports, SIGUSR2 only the loop.
//! 3. New connections are accepted. Where there is no room, the one that is idle for longest makes room.
//! 4. Each connection reads and writes, and one call is answered: of the connection that has waited for longest since its last
//!    answer. So no client starves another.
//! 5. One step of what calls have begun: a port that has sent its packets is removed, or the next port of a reload is made.
//! 6. The tick, four times a second: read the data path, follow the uplink, raise alarms, notify the service manager.
//!
//! The service manager's watchdog measures whether the loop goes round: it is served between the steps of a turn, at least four times in
//! its interval. So nothing in a turn may last longer than a second or two: a call compiles a policy of bounded cost (`budget`
//! of weft-policy), makes a port, or begins something that steps carry on.
//!
//! Bounds: connections, bytes held for them in all, the time that one may hold an incomplete call or an unread answer,
//! and questions to polkit. Each bound ends one connection and leaves the others alone. A client that does not read gets no
//! second answer: a connection is not read while an answer waits to be sent.
//!
//! The loop waits for the data path while a port is made, some tenths of a second. Packets do not wait for it.

mod connection;
mod http;
mod outbox;
mod signals;

use crate::access::PeerProcess;
use crate::data_path::DataPathError;
use crate::log::Log;
use crate::metrics;
use crate::notify::Manager;
use crate::service::{Caller, DaemonService, LOOK, Later, PendingAnswer};
use crate::sockets::{MetricsSocket, Sockets};
use connection::Connection;
use http::Scrape;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signals::{Signal, Signals};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;
use std::time::{Duration, Instant};
use weft_control::error::ControlError;
use weft_control::interface::{Reply, Request};
use weft_facts::status::ServiceStatus;

/// The interval in which the data path is read.
const TICK: Duration = Duration::from_millis(250);
/// The number of ticks between two states for the service manager.
const STATUS_TICKS: u32 = 40;
/// The signs of life in the interval of the service manager's watchdog.
const SIGNS: u32 = 4;
/// The most connections to the control socket.
pub const CONNECTIONS_MAX: usize = 128;
/// The most connections for metrics.
const SCRAPES_MAX: usize = 16;
/// The most connections accepted in a turn.
const ACCEPT_MAX: usize = 64;
/// The most bytes of incomplete calls, of all connections: four of the longest.
const HELD_MAX: usize = 64 << 20;
/// The most questions to polkit at a time.
pub(crate) const CHECKS_MAX: usize = 4;

/// The reason for the end of the loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// A signal requested it.
    Signal(i32),
    /// A successor takes over.
    HandOver,
    /// The transmit worker ended by itself.
    WorkerEnded,
}

/// Errors of the loop.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// Signals cannot be caught.
    #[error("cannot catch signals: {0}")]
    Signals(io::Error),
    /// Poll failed.
    #[error("cannot wait for the sockets: {0}")]
    Poll(io::Error),
    /// The data path failed at the end.
    #[error(transparent)]
    DataPath(#[from] DataPathError),
}

/// The object of an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Token {
    Signals,
    Control,
    Metrics,
    Connection(usize),
    Check(usize),
    Scrape(usize),
}

/// The state that calls change.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) service: DaemonService,
    pub(crate) manager: Manager,
    pub(crate) log: Rc<Log>,
    /// Whether the manager waits for the end of a reload.
    reloading: bool,
}

/// The daemon's loop.
#[derive(Debug)]
pub struct Server {
    context: Context,
    sockets: Sockets,
    signals: Signals,
    connections: Vec<Connection>,
    scrapes: Vec<Scrape>,
    next_tick: Instant,
    next_alive: Option<Instant>,
    ticks: u32,
    /// The number of turns so far.
    turns: u64,
    /// Whether the last turn took a step of what calls have begun.
    stepped: bool,
    /// Whether a signal requested a reload that has not begun.
    reload_wanted: bool,
    /// The reload that a signal requested.
    reload: Option<Later>,
}

impl Server {
    /// A loop over `service`. Signals are caught from now on.
    ///
    /// # Errors
    /// When signals cannot be caught.
    pub fn new(
        service: DaemonService,
        sockets: Sockets,
        manager: Manager,
        log: Rc<Log>,
    ) -> Result<Self, ServerError> {
        let signals = Signals::catch().map_err(ServerError::Signals)?;
        let now = Instant::now();
        let next_alive = manager.watchdog().map(|_| now);
        Ok(Self {
            context: Context { service, manager, log, reloading: false },
            sockets,
            signals,
            connections: Vec::new(),
            scrapes: Vec::new(),
            next_tick: now,
            next_alive,
            ticks: 0,
            turns: 0,
            stepped: false,
            reload_wanted: false,
            reload: None,
        })
    }

    /// Serves until a signal or the end of the transmit worker, and then removes everything, or leaves it to a successor.
    ///
    /// # Errors
    /// When poll fails, or the data path failed before.
    pub fn run(mut self) -> Result<End, ServerError> {
        self.tick(Instant::now());
        let headline = headline(self.context.service.latest());
        self.context.manager.ready(&headline);
        let end = loop {
            if let Some(end) = self.turn()? {
                break end;
            }
        };
        self.context.manager.stopping();
        match end {
            End::HandOver => self.context.service.hand_over()?,
            End::Signal(_) | End::WorkerEnded => self.context.service.finish()?,
        }
        Ok(end)
    }

    fn turn(&mut self) -> Result<Option<End>, ServerError> {
        let events = self.wait(Instant::now())?;
        let now = Instant::now();
        if events.iter().any(|(token, _)| *token == Token::Signals)
            && let Some(end) = self.signals()
        {
            return Ok(Some(end));
        }
        for (token, flags) in &events {
            match *token {
                Token::Connection(index) => {
                    if let Some(connection) = self.connections.get_mut(index) {
                        connection.ready(*flags, now);
                    }
                }
                Token::Scrape(index) => {
                    let latest = self.context.service.latest();
                    if let Some(scrape) = self.scrapes.get_mut(index) {
                        scrape.ready(|format| metrics::in_format(latest, format));
                    }
                }
                Token::Signals | Token::Control | Token::Metrics | Token::Check(_) => {}
            }
        }
        self.answer(now);
        self.alive();
        self.stepped = self.context.advance();
        self.alive();
        self.reload();
        self.bound_memory();
        self.connections.retain(|connection| !connection.is_over(now));
        self.scrapes.retain(|scrape| !scrape.is_over(now));
        if events.iter().any(|(token, _)| *token == Token::Control) {
            self.accept(now);
        }
        if events.iter().any(|(token, _)| *token == Token::Metrics) {
            self.accept_scrapes(now);
        }
        if now >= self.next_tick {
            self.tick(now);
        }
        Ok(self.context.service.has_ended().then_some(End::WorkerEnded))
    }

    /// Waits for events, or for the next time at which something is due.
    fn wait(&self, now: Instant) -> Result<Vec<(Token, PollFlags)>, ServerError> {
        let mut tokens = vec![Token::Signals, Token::Control];
        let mut fds = vec![
            PollFd::from_borrowed_fd(self.signals.fd(), PollFlags::IN),
            PollFd::new(self.sockets.control.listener(), PollFlags::IN),
        ];
        let mut add = |token, fd, flags| {
            tokens.push(token);
            fds.push(PollFd::from_borrowed_fd(fd, flags));
        };
        if let Some(fd) = self.metrics_fd() {
            add(Token::Metrics, fd, PollFlags::IN);
        }
        for (index, connection) in self.connections.iter().enumerate() {
            add(Token::Connection(index), connection.fd(), connection.interest());
            if let Some(check) = connection.check() {
                add(Token::Check(index), check, PollFlags::IN);
            }
        }
        for (index, scrape) in self.scrapes.iter().enumerate() {
            add(Token::Scrape(index), scrape.fd(), scrape.interest());
        }
        let step = match (self.stepped, self.context.service.is_busy()) {
            (true, _) => Some(now),
            (false, busy) => busy.then_some(now + LOOK),
        };
        let due =
            self.connections.iter().filter_map(|c| c.due(now)).chain([self.next_tick]).chain(step).min();
        let span = due.unwrap_or(now).saturating_duration_since(now);
        let timeout = Timespec { tv_sec: span.as_secs() as i64, tv_nsec: i64::from(span.subsec_nanos()) };
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(ServerError::Poll(error.into())),
        }
        let events = fds.iter().map(PollFd::revents).zip(tokens);
        Ok(events.filter(|(flags, _)| !flags.is_empty()).map(|(flags, token)| (token, flags)).collect())
    }

    fn metrics_fd(&self) -> Option<BorrowedFd<'_>> {
        match self.sockets.metrics.as_ref()? {
            MetricsSocket::Unix(bound) => Some(bound.listener().as_fd()),
            MetricsSocket::Tcp(listener) => Some(listener.as_fd()),
        }
    }

    fn signals(&mut self) -> Option<End> {
        for signal in self.signals.take() {
            match signal {
                Signal::Reload => self.reload_wanted = true,
                Signal::HandOver => return Some(End::HandOver),
                Signal::End(number) => return Some(End::Signal(number)),
            }
        }
        None
    }

    /// Begins the reload that a signal requested, and says how it ended.
    fn reload(&mut self) {
        let ended = self.reload.as_ref().and_then(Later::answer);
        let failed = |error: &ControlError| format!("the configuration is not reloaded: {error}");
        match &ended {
            Some(Ok(Reply::Reload(reply))) => reply.warnings.iter().for_each(|w| self.context.log.warning(w)),
            Some(Err(error)) => self.context.log.error(&failed(error)),
            Some(Ok(_)) | None => {}
        }
        if ended.is_some() {
            self.reload = None;
        }
        if self.reload_wanted && !self.context.service.is_reloading() {
            self.reload_wanted = false;
            match self.context.handle(Request::Reload, Caller::ROOT) {
                Ok(PendingAnswer::Later(later)) => self.reload = Some(later),
                Ok(PendingAnswer::Now(_)) => {}
                Err(error) => self.context.log.error(&failed(&error)),
            }
        }
    }

    /// Answers one call, of the connection that has waited for longest since its last answer. What needs no work of the daemon's is
    /// sent to all.
    fn answer(&mut self, now: Instant) {
        self.turns += 1;
        let checks = self.connections.iter().filter(|c| c.check().is_some()).count();
        self.connections.iter_mut().for_each(|connection| connection.tell(&self.context, now));
        let next = self.connections.iter_mut().filter(|c| c.has_call()).min_by_key(|c| c.served());
        if let Some(connection) = next {
            connection.answer(&mut self.context, checks < CHECKS_MAX, (self.turns, now));
        }
    }

    /// Ends the connection that holds most, while all together hold too much.
    fn bound_memory(&mut self) {
        while self.connections.iter().map(Connection::held).sum::<usize>() > HELD_MAX {
            let most = self.connections.iter_mut().max_by_key(|connection| connection.held());
            if let Some(most) = most {
                most.refuse("its clients send too much at once");
            }
        }
    }

    fn accept(&mut self, now: Instant) {
        for _ in 0..ACCEPT_MAX {
            match self.sockets.control.listener().accept() {
                Ok((stream, _)) => {
                    let Ok(peer) = PeerProcess::of(&stream) else { continue };
                    if stream.set_nonblocking(true).is_err() {
                        continue;
                    }
                    if self.connections.len() >= CONNECTIONS_MAX {
                        self.make_room();
                    }
                    self.connections.push(Connection::new(stream, peer, (self.turns, now)));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // No descriptor is left, or the client is gone already.
                Err(_) => return self.make_room(),
            }
        }
    }

    /// Ends the connection that is idle for longest, of the user with most connections.
    fn make_room(&mut self) {
        let count = |uid| self.connections.iter().filter(|c| c.peer().uid == uid).count();
        let Some(uid) = self.connections.iter().map(|c| c.peer().uid).max_by_key(|uid| count(*uid)) else {
            return;
        };
        let candidates = self.connections.iter().enumerate().filter(|(_, c)| c.peer().uid == uid);
        let victim = candidates.min_by_key(|(_, connection)| connection.active()).map(|(index, _)| index);
        if let Some(index) = victim {
            self.connections.swap_remove(index);
        }
    }

    fn accept_scrapes(&mut self, now: Instant) {
        for _ in 0..SCRAPES_MAX {
            let accepted = match self.sockets.metrics.as_ref() {
                Some(MetricsSocket::Unix(bound)) => {
                    bound.listener().accept().map(|(s, _)| Scrape::unix(s, now))
                }
                Some(MetricsSocket::Tcp(listener)) => listener.accept().map(|(s, _)| Scrape::tcp(s, now)),
                None => return,
            };
            let Ok(scrape) = accepted else { return };
            if self.scrapes.len() >= SCRAPES_MAX {
                self.scrapes.remove(0);
            }
            self.scrapes.extend(scrape);
        }
    }

    fn tick(&mut self, now: Instant) {
        self.next_tick = now + TICK;
        self.context.service.tick(now);
        let latest = self.context.service.latest();
        if self.ticks.is_multiple_of(STATUS_TICKS) {
            self.context.manager.status(&headline(latest));
        }
        self.ticks = self.ticks.wrapping_add(1);
        self.alive();
    }

    /// Gives the service manager a sign of life, if it is time. A worker that has ended or hangs must not look alive.
    fn alive(&mut self) {
        let now = Instant::now();
        if self.next_alive.is_none_or(|due| now < due) {
            return;
        }
        if !self.context.service.has_ended() && self.context.service.workers_live() {
            self.context.manager.alive();
            self.next_alive = self.context.manager.watchdog().map(|span| now + span / SIGNS);
        }
    }
}

/// The state of all uplinks in a line.
fn headline(status: &ServiceStatus) -> String {
    status.each().into_iter().map(ServiceStatus::headline).collect::<Vec<_>>().join("; ")
}

impl Context {
    /// Answers a call, and notifies the service manager of a reload.
    pub(crate) fn handle(&mut self, request: Request, caller: Caller) -> Result<PendingAnswer, ControlError> {
        if request == Request::Reload && !self.service.is_reloading() {
            self.manager.reloading();
            self.reloading = true;
        }
        let answer = self.service.handle(request, caller);
        self.reloaded();
        answer
    }

    /// Takes one step of what calls have begun. Returns whether there was one.
    fn advance(&mut self) -> bool {
        let stepped = self.service.advance(Instant::now());
        self.reloaded();
        stepped
    }

    /// Tells the service manager that a reload is over.
    fn reloaded(&mut self) {
        if self.reloading && !self.service.is_reloading() {
            self.reloading = false;
            self.manager.ready(&headline(self.service.latest()));
        }
    }
}
