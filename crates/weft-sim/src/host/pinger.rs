//! Probes: small messages that are answered at once, and how long that takes.

use super::cpu::Task;
use crate::event::{Agenda, Event};
use crate::ids::{ProbeId, StreamId};
use crate::outcome::Latencies;
use crate::packet::{Body, Outgoing, Way};
use crate::random::Random;
use crate::scenario::Probe;
use weft_units::Nanos;

/// When a pinger asks again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Loop {
    /// At its own times (ping).
    Open,
    /// After the answer (sockperf ping-pong).
    Closed,
}

/// Where messages are handled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Handler {
    /// In the kernel (ICMP).
    Kernel,
    /// By a thread, which wakes up.
    Thread,
}

/// What is done about a message that has come through the stack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Handling {
    /// The kernel answers.
    Answer,
    /// The kernel has the answer.
    Done,
    /// This task becomes ready at the end of the stream that sends it.
    Wake { end: StreamId, task: Task },
}

/// What sends the messages of a probe of the scenario, at both ends.
#[derive(Debug)]
pub(crate) struct Pinger {
    probe: ProbeId,
    /// The stream to the host that answers; the next one is the way back.
    stream: StreamId,
    size: u32,
    interval: Nanos,
    repetition: Loop,
    handler: Handler,
    latencies: Latencies,
}

impl Pinger {
    pub(crate) fn new(probe: ProbeId, stream: StreamId, config: &Probe) -> Self {
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

    /// The stream to the host that answers.
    pub(crate) const fn stream(&self) -> StreamId {
        self.stream
    }

    /// Its turn to ask: returns what its thread does.
    pub(crate) const fn ask(&self, now: Nanos) -> Task {
        Task::Ping { probe: self.probe, way: Way::Request, asked: now }
    }

    /// Sets the next turn of a pinger that asks at its own times: between half and one and a half of the interval, so that it does not
    /// fall into step with what it measures.
    pub(crate) fn set_next_turn(&self, now: Nanos, random: &mut Random, agenda: &mut Agenda) {
        if self.repetition == Loop::Open {
            let jitter = (random.uniform() + 0.5) * self.interval.0 as f64;
            agenda.push(now + Nanos(jitter as u64), Event::Probe { probe: self.probe });
        }
    }

    /// The message of a way.
    pub(crate) const fn message(&self, way: Way, asked: Nanos) -> Outgoing {
        let stream = match way {
            Way::Request => self.stream,
            Way::Reply => self.stream.reverse(),
        };
        Outgoing::single(stream, Body::Ping { probe: self.probe, way, asked }, self.size)
    }

    /// A message has come through the stack.
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

    /// The answer is with the asker at `now`; rounds that began before `begin` are not measured.
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

    fn pinger(config: Probe) -> Pinger {
        Pinger::new(PROBE, StreamId(6), &Probe { interval: Nanos(100), ..config })
    }

    #[test]
    fn an_open_loop_asks_at_its_own_times() {
        let pinger = pinger(Probe { closed_loop: false, ..Probe::default() });
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
        let mut pinger = pinger(Probe { closed_loop: true, in_kernel: false, ..Probe::default() });
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
