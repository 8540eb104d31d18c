//! A client's connection to the control socket.

use super::Context;
use super::outbox::Outbox;
use crate::access::{AccessCheck, AccessVerdict, PeerProcess};
use crate::service::{Later, PendingAnswer};
use rustix::event::PollFlags;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};
use weft_control::error::ControlError;
use weft_control::interface::{
    MONITOR_DEFAULT_MS, MONITOR_MAX_MS, MONITOR_MIN_MS, Monitor, Reply, Request, Right,
};
use weft_control::receive::{Received, receive};
use weft_control::wire::{self, CallMode, Continues, Frames, MESSAGE_MAX, READER_MESSAGE_MAX};

/// The time that a connection may hold an incomplete call, or an answer that its client does not read.
const PATIENCE: Duration = Duration::from_secs(10);
/// The bytes read at once.
const READ_SIZE: usize = 64 << 10;

/// The state of a connection.
#[derive(Debug)]
enum Phase {
    /// Calls are read.
    Open,
    /// A call waits for polkit.
    Checking {
        check: Box<AccessCheck>,
        verdict: AccessVerdict,
        request: Box<Request>,
        mode: CallMode,
        why: String,
    },
    /// The steps that a call has begun are under way.
    Waiting { later: Later, mode: CallMode },
    /// The counters are sent repeatedly.
    Monitoring { interval: Duration, due: Instant, uplink: Option<String> },
    /// The connection ends when its last answer is sent.
    Closing,
    /// The connection is over.
    Over,
}

/// A client's connection.
#[derive(Debug)]
pub(super) struct Connection {
    stream: UnixStream,
    peer: PeerProcess,
    frames: Frames,
    /// The next complete call.
    next: Option<Vec<u8>>,
    out: Outbox,
    /// The time of the last progress.
    active: Instant,
    /// The turn in which a call was answered last, or the connection was made.
    served: u64,
    phase: Phase,
    /// Whether the client will send no more.
    ended: bool,
}

impl Connection {
    pub(super) fn new(stream: UnixStream, peer: PeerProcess, (served, now): (u64, Instant)) -> Self {
        let most = if peer.is_admin() { MESSAGE_MAX } else { READER_MESSAGE_MAX };
        let (frames, out) = (Frames::of(most), Outbox::default());
        let phase = Phase::Open;
        Self { stream, peer, frames, next: None, out, active: now, served, phase, ended: false }
    }

    pub(super) fn peer(&self) -> PeerProcess {
        self.peer
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// The descriptor of a question to polkit.
    pub(super) fn check(&self) -> Option<BorrowedFd<'_>> {
        match &self.phase {
            Phase::Checking { check, .. } => Some(check.fd()),
            _ => None,
        }
    }

    /// The time of the last progress.
    pub(super) fn active(&self) -> Instant {
        self.active
    }

    /// The bytes of calls that it holds.
    pub(super) fn held(&self) -> usize {
        self.frames.held() + self.next.as_ref().map_or(0, Vec::len)
    }

    /// The events to wait for: an answer is sent before another call is read.
    pub(super) fn interest(&self) -> PollFlags {
        match (&self.phase, self.out.is_empty()) {
            (_, false) => PollFlags::OUT,
            (Phase::Open, true) if self.next.is_none() && !self.ended => PollFlags::IN,
            (Phase::Monitoring { .. }, true) => PollFlags::IN,
            _ => PollFlags::empty(),
        }
    }

    /// The time at which something is to be done without an event.
    pub(super) fn due(&self, now: Instant) -> Option<Instant> {
        match &self.phase {
            Phase::Monitoring { due, .. } if self.out.is_empty() => Some(*due),
            Phase::Open if self.next.is_some() && self.out.is_empty() => Some(now),
            _ => None,
        }
    }

    /// Whether the connection is to be dropped.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        let stuck = !self.out.is_empty() || (self.held() > 0 && matches!(self.phase, Phase::Open));
        match self.phase {
            Phase::Over => true,
            Phase::Closing => self.out.is_empty() || now >= self.active + PATIENCE,
            Phase::Open if self.ended && self.next.is_none() && self.out.is_empty() => true,
            _ => stuck && now >= self.active + PATIENCE,
        }
    }

    /// Reads or writes, as the socket allows.
    pub(super) fn ready(&mut self, flags: PollFlags, now: Instant) {
        if flags.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) && self.out.is_empty() {
            self.read(now);
        }
        self.write(now);
    }

    fn read(&mut self, now: Instant) {
        let mut buffer = [0; READ_SIZE];
        match self.stream.read(&mut buffer) {
            Ok(0) if matches!(self.phase, Phase::Open) => self.ended = true,
            // Who does not wait for the answer has no use for it.
            Ok(0) => self.phase = Phase::Over,
            Ok(read) => {
                // Nothing may follow a call that is not over.
                if !matches!(self.phase, Phase::Open) {
                    self.phase = Phase::Over;
                    return;
                }
                self.active = now;
                let received = buffer.get(..read).unwrap_or_default();
                if let Err(error) = self.frames.push(received) {
                    self.refuse(&error.to_string());
                }
                self.advance();
            }
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(_) => self.phase = Phase::Over,
        }
    }

    /// Takes the next complete call, unless one waits already.
    fn advance(&mut self) {
        if self.next.is_none() {
            match self.frames.take() {
                Some(Ok(frame)) => self.next = Some(frame),
                Some(Err(error)) => self.refuse(&error.to_string()),
                None => {}
            }
        }
        self.frames.release();
    }

    fn write(&mut self, now: Instant) {
        if self.out.is_empty() {
            return;
        }
        match self.out.send(&mut self.stream) {
            Ok(0) => {}
            Ok(_) => self.active = now,
            Err(_) => self.phase = Phase::Over,
        }
    }

    /// Ends the connection after one last answer.
    pub(super) fn refuse(&mut self, why: &str) {
        (self.frames, self.next) = (Frames::default(), None);
        if self.out.is_empty() {
            self.out.push(wire::error(&ControlError::Busy { message: why.to_owned() }));
        }
        self.phase = Phase::Closing;
    }

    /// The turn in which a call was answered last, or the connection was made.
    pub(super) fn served(&self) -> u64 {
        self.served
    }

    /// Whether it has a call to answer now.
    pub(super) fn has_call(&self) -> bool {
        let is_ready = match &self.phase {
            Phase::Open => self.next.is_some(),
            Phase::Checking { verdict, .. } => *verdict != AccessVerdict::Open,
            _ => false,
        };
        is_ready && self.out.is_empty()
    }

    /// Answers one call. `may_ask` says whether polkit may be asked one more question.
    pub(super) fn answer(&mut self, context: &mut Context, may_ask: bool, (turn, now): (u64, Instant)) {
        self.served = turn;
        match &self.phase {
            Phase::Open => {
                let Some(frame) = self.next.take() else { return };
                self.advance();
                self.receive(&frame, context, may_ask, now);
            }
            Phase::Checking { .. } => self.checked(context, now),
            Phase::Waiting { .. } | Phase::Monitoring { .. } | Phase::Closing | Phase::Over => return,
        }
        self.write(now);
    }

    /// Sends what is there without work of the daemon's: the end of what a call has begun, and the counters of the last tick. Also
    /// takes an answer of polkit.
    pub(super) fn tell(&mut self, context: &Context, now: Instant) {
        if !self.out.is_empty() {
            return;
        }
        match &mut self.phase {
            Phase::Waiting { later, mode } => {
                let (Some(reply), mode) = (later.answer(), *mode) else { return };
                (self.phase, self.active) = (Phase::Open, now);
                self.reply(reply, mode);
            }
            Phase::Checking { check, verdict, .. } => {
                *verdict = check.verdict();
                return;
            }
            Phase::Monitoring { interval, due, uplink } if now >= *due => {
                *due = now + *interval;
                let status = context.service.latest_of(uplink.as_deref());
                let status = Reply::Status(Box::new(status));
                self.out.push(status.to_message(Continues::Yes));
            }
            _ => return,
        }
        self.write(now);
    }

    fn receive(&mut self, frame: &[u8], context: &mut Context, may_ask: bool, now: Instant) {
        match receive(frame) {
            Received::Request { request, mode } => {
                let why = match request.right() {
                    _ if self.peer.is_admin() => None,
                    Right::Read => None,
                    Right::Write => Some(String::new()),
                    Right::Tenant => context.service.not_delegated(&request, self.peer.caller()),
                };
                match why {
                    Some(why) => self.ask(request, mode, why, may_ask),
                    None => self.perform(request, mode, context, now),
                }
            }
            Received::Answer(answer) => self.out.push(answer),
            Received::Silent => {}
            Received::Close(answer) => {
                self.out.push(answer);
                self.phase = Phase::Closing;
            }
        }
    }

    /// Asks polkit whether the caller may, who may not by itself for the reason `why`.
    fn ask(&mut self, request: Request, mode: CallMode, why: String, may_ask: bool) {
        if !may_ask {
            let message = "others are being asked for their passwords".to_owned();
            return self.reply(Err(ControlError::Busy { message }), mode);
        }
        match AccessCheck::start(self.peer) {
            Ok(check) => {
                let (check, request, verdict) = (Box::new(check), Box::new(request), AccessVerdict::Open);
                self.phase = Phase::Checking { check, verdict, request, mode, why };
            }
            Err(error) => {
                let (action, message) = (request.action(), because(&why, &error.to_string()));
                self.reply(Err(ControlError::NotPermitted { action, message }), mode);
            }
        }
    }

    fn checked(&mut self, context: &mut Context, now: Instant) {
        let phase = std::mem::replace(&mut self.phase, Phase::Open);
        let Phase::Checking { verdict, request, mode, why, .. } = phase else { return };
        self.active = now;
        match verdict {
            AccessVerdict::Refused(message) => {
                let (action, message) = (request.action(), because(&why, &message));
                self.reply(Err(ControlError::NotPermitted { action, message }), mode);
            }
            AccessVerdict::Allowed | AccessVerdict::Open => self.perform(*request, mode, context, now),
        }
    }

    fn perform(&mut self, request: Request, mode: CallMode, context: &mut Context, now: Instant) {
        let reply = match request {
            Request::Monitor(Monitor { interval_ms, uplink }) => {
                match context.service.check_uplink(uplink.as_deref()) {
                    Ok(()) => {
                        let interval =
                            interval_ms.unwrap_or(MONITOR_DEFAULT_MS).clamp(MONITOR_MIN_MS, MONITOR_MAX_MS);
                        let interval = Duration::from_millis(interval);
                        self.phase = Phase::Monitoring { interval, due: now, uplink };
                        return;
                    }
                    Err(error) => Err(error),
                }
            }
            request => match context.handle(request, self.peer.caller()) {
                Ok(PendingAnswer::Now(reply)) => Ok(reply),
                Ok(PendingAnswer::Later(later)) => {
                    self.phase = Phase::Waiting { later, mode };
                    return;
                }
                Err(error) => Err(error),
            },
        };
        self.reply(reply, mode);
    }

    fn reply(&mut self, reply: Result<Reply, ControlError>, mode: CallMode) {
        if mode == CallMode::Oneway {
            return;
        }
        self.out.push(match reply {
            Ok(reply) => reply.to_message(Continues::No),
            Err(error) => wire::error(&error),
        });
    }
}

/// A refusal, behind the reason for the question.
fn because(why: &str, refusal: &str) -> String {
    if why.is_empty() { refusal.to_owned() } else { format!("{why}; {refusal}") }
}
