//! Probes: small messages with an immediate answer, and their round-trip times.

use super::cpu::Task;
use crate::event::{Agenda, Event};
use crate::ids::{ProbeId, StreamId};
use crate::outcome::Latencies;
use crate::packet::{Body, Outgoing, Way};
use crate::random::Random;
use crate::scenario::ProbeSpec;
use weft_units::Nanos;

/// The trigger of a pinger's next request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Loop {
    /// Its own interval (ping).
    Open,
    /// The answer (sockperf ping-pong).
    Closed,
}

/// The handler of messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Handler {
    /// The kernel (ICMP).
    Kernel,
    /// A thread, which has to be woken.
    Thread,
}

/// The reaction to a message that passed the stack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Handling {
    /// The kernel sends the answer.
    Answer,
    /// The kernel receives the answer.
    Done,
    /// The task becomes ready at the stream's sending end.
    Wake { end: StreamId, task: Task },
}

/// Both ends of a probe in the scenario.
#[derive(Debug)]
pub(crate) struct Pinger {
    probe: ProbeId,
    /// The stream to the answering host; the next one is its reverse.
    stream: StreamId,
    size: u32,
    interval: Nanos,
    repetition: Loop,
    handler: Handler,
    latencies: Latencies,
}

impl Pinger {
    pub(crate) fn new(probe: ProbeId, stream: StreamId, config: &ProbeSpec) -> Self {
        Self {
            probe,
            stream,
            size: config.size.0 as u32,
            interval: config.interval,
            repetition: if config.closed_loop { Loop::Closed } else { Loop::Open },
            handler: if config.in_kernel { Handler::Kernel } else { Handler::Thread },
            latencies: Latencies::default(),
        }
    }

    /// Returns the stream to the answering host.
    pub(crate) const fn stream(&self) -> StreamId {
        self.stream
    }

    /// Returns its thread's task at a request.
    pub(crate) const fn ask(&self, now: Nanos) -> Task {
        Task::Ping { probe: self.probe, way: Way::Request, asked: now }
    }

    /// Schedules the next request of an open-loop pinger: after half to one and a half intervals, so that it does not synchronise
    /// with the measured traffic.
    pub(crate) fn set_next_turn(&self, now: Nanos, random: &mut Random, agenda: &mut Agenda) {
        if self.repetition == Loop::Open {
            let jitter = (random.uniform() + 0.5) * self.interval.0 as f64;
            agenda.push(now + Nanos(jitter as u64), Event::Probe { probe: self.probe });
        }
    }

    /// Returns the message in a direction.
    pub(crate) const fn message(&self, way: Way, asked: Nanos) -> Outgoing {
        let stream = match way {
            Way::Request => self.stream,
            Way::Reply => self.stream.reverse(),
        };
        Outgoing::single(stream, Body::Ping { probe: self.probe, way, asked }, self.size)
    }

    /// Handles a message that passed the stack.
    pub(crate) const fn on_message(&self, way: Way, asked: Nanos) -> Handling {
        let probe = self.probe;
        match (self.handler, way) {
            (Handler::Kernel, Way::Request) => Handling::Answer,
            (Handler::Kernel, Way::Reply) => Handling::Done,
            (Handler::Thread, Way::Request) => {
                let task = Task::Ping { probe, way: Way::Reply, asked };
                Handling::Wake { end: self.stream.reverse(), task }
            }
            (Handler::Thread, Way::Reply) => {
                Handling::Wake { end: self.stream, task: Task::PingDone { probe, asked } }
            }
        }
    }

    /// Handles an answer that reached the asker at `now`; rounds that started before `begin` are not measured.
    pub(crate) fn done(&mut self, asked: Nanos, now: Nanos, begin: Nanos, agenda: &mut Agenda) {
        if asked >= begin {
            self.latencies.at.push(now);
            self.latencies.samples.push(now.saturating_sub(asked));
        }
        if self.repetition == Loop::Closed {
            agenda.push(now + self.interval, Event::Probe { probe: self.probe });
        }
    }

    pub(crate) fn take_latencies(&mut self) -> Latencies {
        std::mem::take(&mut self.latencies)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROBE: ProbeId = ProbeId(1);

    fn pinger(config: ProbeSpec) -> Pinger {
        Pinger::new(PROBE, StreamId(6), &ProbeSpec { interval: Nanos(100), ..config })
    }

    #[test]
    fn an_open_loop_asks_at_its_own_times() {
        let pinger = pinger(ProbeSpec { closed_loop: false, ..ProbeSpec::default() });
        let (mut random, mut agenda) = (Random::new(1), Agenda::new());
        pinger.set_next_turn(Nanos(1000), &mut random, &mut agenda);
        assert_eq!(
            pinger.ask(Nanos(1000)),
            Task::Ping { probe: PROBE, way: Way::Request, asked: Nanos(1000) }
        );
        let (at, event) = agenda.pop().expect("the next turn");
        assert_eq!(event, Event::Probe { probe: PROBE });
        assert!((Nanos(1050)..Nanos(1150)).contains(&at));
    }

    #[test]
    fn a_closed_loop_asks_after_the_answer() {
        let mut pinger = pinger(ProbeSpec { closed_loop: true, in_kernel: false, ..ProbeSpec::default() });
        let (mut random, mut agenda) = (Random::new(1), Agenda::new());
        pinger.set_next_turn(Nanos(0), &mut random, &mut agenda);
        assert_eq!(agenda.pop(), None);
        let asked = Nanos(3);
        let reply = Task::Ping { probe: PROBE, way: Way::Reply, asked };
        let done = Task::PingDone { probe: PROBE, asked };
        let wake = |end, task| Handling::Wake { end: StreamId(end), task };
        assert_eq!(pinger.on_message(Way::Request, asked), wake(7, reply));
        assert_eq!(pinger.on_message(Way::Reply, asked), wake(6, done));
        assert_eq!(pinger.message(Way::Reply, asked).stream, StreamId(7));
        pinger.done(asked, Nanos(13), Nanos(0), &mut agenda);
        assert_eq!(agenda.pop(), Some((Nanos(113), Event::Probe { probe: PROBE })));
        assert_eq!(pinger.take_latencies().samples, [Nanos(10)]);
    }
}
