//! Applications: the writers and readers of a flow's streams.

use super::cpu::Placement;
use super::tcp_sender::Unwritten;
use crate::event::{Agenda, Event};
use crate::ids::{FlowNumber, GroupId, StreamId};
use crate::outcome::Latencies;
use crate::random::Random;
use crate::scenario::FlowTraffic;
use std::collections::VecDeque;
use weft_units::{Bytes, Nanos};

/// An application's action on one of its streams.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Action {
    /// Writes more bytes.
    Write(Unwritten),
    /// Opens another connection and writes this number of bytes.
    Connect(Bytes),
    /// Makes its thread send a datagram.
    SendDatagram,
    /// Reports the end of the flow.
    End,
}

/// The application of a flow, at both ends.
#[derive(Debug)]
pub(crate) struct Application {
    flow: FlowNumber,
    pub(crate) group: GroupId,
    traffic: FlowTraffic,
    pub(crate) placement: Placement,
    running: bool,
    /// Start of the flow.
    began: Nanos,
    pub(crate) completion: Option<Nanos>,
    pub(crate) requests: Latencies,
    /// Start of each unanswered request or transfer.
    asked: VecDeque<Nanos>,
    /// Number of requests answered by the server.
    served: u64,
    /// Number of answers read by the client.
    answered: u64,
    datagrams: u64,
    /// Fraction of a nanosecond carried over to the next datagram.
    late: f64,
}

impl Application {
    pub(crate) fn new(flow: FlowNumber, group: GroupId, traffic: FlowTraffic, placement: Placement) -> Self {
        Self {
            flow,
            group,
            traffic,
            placement,
            running: false,
            began: Nanos::ZERO,
            completion: None,
            requests: Latencies::default(),
            asked: VecDeque::new(),
            served: 0,
            answered: 0,
            datagrams: 0,
            late: 0.0,
        }
    }

    pub(crate) const fn is_running(&self) -> bool {
        self.running
    }

    /// Whether the flow has an end and has not reached it.
    pub(crate) const fn has_end(&self) -> bool {
        matches!(self.traffic, FlowTraffic::Transfer { .. })
    }

    /// Starts the flow, and returns the action on its forward stream.
    pub(crate) fn start(&mut self, now: Nanos, random: &mut Random, agenda: &mut Agenda) -> Option<Action> {
        self.running = true;
        self.began = now;
        match self.traffic {
            FlowTraffic::Bulk => Some(Action::Write(Unwritten::Endless)),
            FlowTraffic::Transfer { size } => Some(write(size.0)),
            FlowTraffic::RequestResponse { outstanding, request, .. } => {
                self.asked.extend((0..outstanding).map(|_| now));
                Some(write(request.0.saturating_mul(u64::from(outstanding))))
            }
            FlowTraffic::Short { .. } | FlowTraffic::Udp { .. } => self.wake(now, random, agenda),
        }
    }

    /// Ends the flow, either at its own end or from outside.
    pub(crate) const fn stop(&mut self) {
        self.running = false;
    }

    /// Handles the application's own timer: the next datagram, request or transfer.
    pub(crate) fn wake(&mut self, now: Nanos, random: &mut Random, agenda: &mut Agenda) -> Option<Action> {
        if !self.running {
            return None;
        }
        match self.traffic {
            FlowTraffic::Short { interval, size } => {
                self.sleep(now + random.exponential(interval), agenda);
                let idle = self.asked.is_empty();
                self.asked.push_back(now);
                idle.then_some(Action::Connect(size))
            }
            FlowTraffic::Udp { size, rate, poisson } => {
                let mean = rate.time_for(size).0 as f64;
                let exact = if poisson {
                    random.exponential(Nanos(mean as u64)).0 as f64
                } else {
                    size.0 as f64 * 8e9 / rate.0 as f64
                };
                let gap = exact + self.late;
                self.late = gap.fract();
                self.sleep(now + Nanos(gap as u64), agenda);
                Some(Action::SendDatagram)
            }
            FlowTraffic::RequestResponse { request, .. } => {
                self.asked.push_back(now);
                Some(write(request.0))
            }
            FlowTraffic::Bulk | FlowTraffic::Transfer { .. } => None,
        }
    }

    fn sleep(&self, until: Nanos, agenda: &mut Agenda) {
        agenda.push(until, Event::Application { stream: self.flow.forward() });
    }

    /// Handles the arrival of all bytes written to a stream: a flow with an end is complete, a short transfer is answered.
    pub(crate) fn all_arrived(&mut self, stream: StreamId, now: Nanos) -> Option<Action> {
        if !stream.is_forward() || !self.running {
            return None;
        }
        match self.traffic {
            FlowTraffic::Transfer { .. } => {
                self.completion = Some(now.saturating_sub(self.began));
                Some(Action::End)
            }
            FlowTraffic::Short { size, .. } => {
                self.answer(self.asked.front().copied()?, now);
                self.asked.pop_front();
                (!self.asked.is_empty()).then_some(Action::Connect(size))
            }
            FlowTraffic::Bulk | FlowTraffic::RequestResponse { .. } | FlowTraffic::Udp { .. } => None,
        }
    }

    fn answer(&mut self, asked: Nanos, now: Nanos) {
        self.requests.at.push(now);
        self.requests.samples.push(now.saturating_sub(asked));
    }

    /// Handles a thread's read up to `read` bytes of a stream in total: a server answers whole requests, a client counts whole
    /// answers. Returns the action on the stream's reverse.
    pub(crate) fn has_read(
        &mut self,
        stream: StreamId,
        read: u64,
        now: Nanos,
        agenda: &mut Agenda,
    ) -> Option<Action> {
        let FlowTraffic::RequestResponse { request, response, think, .. } = self.traffic else { return None };
        if stream.is_forward() {
            let mut answers = 0_u64;
            while (self.served + 1) * request.0 <= read {
                self.served += 1;
                answers += 1;
            }
            return (answers > 0).then(|| write(response.0.saturating_mul(answers)));
        }
        while (self.answered + 1) * response.0 <= read {
            self.answered += 1;
            if let Some(asked) = self.asked.pop_front() {
                self.answer(asked, now);
            }
            if self.running {
                self.sleep(now + think, agenda);
            }
        }
        None
    }

    /// Returns the number and size of the next datagram; `None` for other traffic.
    pub(crate) const fn next_datagram(&mut self) -> Option<(u64, Bytes)> {
        let FlowTraffic::Udp { size, .. } = self.traffic else { return None };
        let number = self.datagrams;
        self.datagrams += 1;
        Some((number, size))
    }

    /// Returns the latencies of requests that ended at `begin` or later.
    pub(crate) fn take_requests(&mut self, begin: Nanos) -> Latencies {
        let all = std::mem::take(&mut self.requests);
        let kept = all.at.iter().zip(&all.samples).filter(|(at, _)| **at >= begin);
        let (at, samples) = kept.map(|(at, sample)| (*at, *sample)).unzip();
        Latencies { at, samples }
    }
}

const fn write(bytes: u64) -> Action {
    Action::Write(Unwritten::Bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_units::BitsPerSec;

    const FLOW: FlowNumber = FlowNumber(3);

    fn application(traffic: FlowTraffic) -> (Application, Random, Agenda) {
        (Application::new(FLOW, GroupId(0), traffic, Placement::Pinned), Random::new(1), Agenda::new())
    }

    #[test]
    fn requests_are_answered_whole_and_the_next_follows_after_a_thought() {
        let think = Nanos(70);
        let traffic =
            FlowTraffic::RequestResponse { request: Bytes(10), response: Bytes(30), outstanding: 2, think };
        let (mut app, mut random, mut agenda) = application(traffic);
        assert_eq!(app.start(Nanos(5), &mut random, &mut agenda), Some(write(20)));
        let (there, back) = (FLOW.forward(), FLOW.forward().reverse());
        assert_eq!(app.has_read(there, 9, Nanos(6), &mut agenda), None);
        assert_eq!(app.has_read(there, 20, Nanos(7), &mut agenda), Some(write(60)));
        assert_eq!(app.has_read(back, 59, Nanos(9), &mut agenda), None);
        assert_eq!(app.requests.samples, [Nanos(4)]);
        assert_eq!(agenda.pop(), Some((Nanos(79), Event::Application { stream: there })));
        assert_eq!(app.wake(Nanos(79), &mut random, &mut agenda), Some(write(10)));
    }

    #[test]
    fn datagrams_keep_their_rate_to_the_fraction_of_a_nanosecond() {
        let traffic = FlowTraffic::Udp { size: Bytes(1), rate: BitsPerSec(3_000_000_000), poisson: false };
        let (mut app, mut random, mut agenda) = application(traffic);
        assert_eq!(app.start(Nanos(0), &mut random, &mut agenda), Some(Action::SendDatagram));
        for _ in 0..3 {
            let (now, _) = agenda.pop().expect("the next one");
            assert_eq!(app.wake(now, &mut random, &mut agenda), Some(Action::SendDatagram));
        }
        assert_eq!(agenda.pop().expect("the fourth").0, Nanos(10), "8/3 ns each, 10 2/3 for four");
        assert_eq!((app.next_datagram(), app.next_datagram()), (Some((0, Bytes(1))), Some((1, Bytes(1)))));
    }

    #[test]
    fn a_transfer_ends_once_and_a_stopped_application_does_nothing() {
        let (mut app, mut random, mut agenda) = application(FlowTraffic::Transfer { size: Bytes(7) });
        assert_eq!(app.start(Nanos(5), &mut random, &mut agenda), Some(write(7)));
        assert_eq!(app.all_arrived(FLOW.forward().reverse(), Nanos(8)), None);
        assert_eq!(app.all_arrived(FLOW.forward(), Nanos(9)), Some(Action::End));
        assert_eq!(app.completion, Some(Nanos(4)));
        app.stop();
        assert_eq!(app.all_arrived(FLOW.forward(), Nanos(10)), None);
        assert_eq!(app.wake(Nanos(11), &mut random, &mut agenda), None);
    }
}
