//! Applications: what writes to and reads from the streams.

use super::host::Task;
use super::qdisc_run::Outgoing;
use super::{Body, Event, World};
use crate::cost::Operation;
use crate::ids::{GroupId, StreamId};
use crate::outcome::Latencies;
use crate::scenario::Traffic;
use crate::trace::Observer;
use crate::world::processor::Work;
use std::collections::VecDeque;
use weft_units::{Bytes, Nanos};

/// The application of a flow; its data streams are `2 * flow` there and `2 * flow + 1` back.
pub(super) struct Application {
    pub(super) group: GroupId,
    pub(super) traffic: Traffic,
    pub(super) pinned: bool,
    pub(super) running: bool,
    /// When the flow, or the transfer under way, began.
    pub(super) began: Nanos,
    pub(super) completion: Option<Nanos>,
    pub(super) requests: Latencies,
    /// Begin of each request or transfer that is not answered yet.
    asked: VecDeque<Nanos>,
    /// Requests that the server has answered.
    served: u64,
    /// Answers that the client has read.
    answered: u64,
    datagrams: u64,
    /// Fraction of a nanosecond by which the next datagram is late.
    late: f64,
}

impl Application {
    pub(super) fn new(group: GroupId, traffic: Traffic, pinned: bool) -> Self {
        Self {
            group,
            traffic,
            pinned,
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
}

impl<O: Observer> World<'_, O> {
    /// A flow begins.
    pub(super) fn start(&mut self, stream: StreamId) {
        let application = &mut self.applications[stream.flow()];
        application.running = true;
        application.began = self.now;
        let traffic = application.traffic;
        let (from, to, class) = {
            let facts = &self.streams[stream];
            (facts.from, facts.to, facts.class)
        };
        self.hosts[from].active_flows += 1;
        self.hosts[to].active_flows += 1;
        self.measure.class_starts(class);
        match traffic {
            Traffic::Bulk => self.give(stream, u64::MAX),
            Traffic::Transfer { size } => self.give(stream, size.0),
            Traffic::RequestResponse { outstanding, .. } => {
                for _ in 0..outstanding {
                    self.request(stream);
                }
            }
            Traffic::Short { .. } | Traffic::Udp { .. } => self.application_event(stream),
        }
    }

    /// A flow's application is ended: what has not left its socket is gone, as when iperf3 is stopped.
    pub(super) fn stop(&mut self, stream: StreamId) {
        if !self.applications[stream.flow()].running {
            return;
        }
        self.ended(stream);
        self.senders[stream].abort();
    }

    fn ended(&mut self, stream: StreamId) {
        let application = &mut self.applications[stream.flow()];
        application.running = false;
        let facts = &self.streams[stream];
        let (from, to, class) = (facts.from, facts.to, facts.class);
        self.hosts[from].active_flows -= 1;
        self.hosts[to].active_flows -= 1;
        self.measure.class_stops(class);
    }

    /// The application of a stream has more to write.
    fn give(&mut self, stream: StreamId, bytes: u64) {
        let sender = &mut self.senders[stream];
        sender.unwritten = sender.unwritten.saturating_add(bytes);
        if sender.blocked {
            sender.blocked = false;
            self.wake_thread(stream, true, Task::Write { stream }, self.now);
        }
    }

    /// Wakes the thread at the sending (`writer`) or receiving end of a stream.
    pub(super) fn wake_thread(&mut self, stream: StreamId, writer: bool, task: Task, at: Nanos) {
        let end = if writer { stream } else { stream.reverse() };
        let (host, own) = (self.streams[end].from, self.streams[end].core);
        let pinned = self.applications.get(stream.flow()).is_none_or(|application| application.pinned);
        let core = self.core_for(host, own, pinned);
        // The wake-up is charged where the thread runs, before it does.
        let mut work = self.work_on(host, core);
        self.charge(Operation::WakeUp, 1.0, &mut work);
        self.end_work(&work);
        self.ready(host, core, task, at);
    }

    /// A thread writes once.
    pub(super) fn write(&mut self, stream: StreamId, work: &mut Work) {
        let block = self.scenario.hosts[work.host.index()].stack.write_size.0;
        let room = self.send_buffer(stream).saturating_sub(self.senders[stream].buffered());
        let bytes = block.min(self.senders[stream].unwritten).min(room);
        if bytes == 0 {
            self.senders[stream].blocked = true;
            return;
        }
        self.charge(Operation::SystemCall, 1.0, work);
        self.charge_copy(Operation::CopyIn, bytes, work);
        self.touch(stream, work);
        let goal = self.size_goal(stream);
        let sender = &mut self.senders[stream];
        sender.append(bytes, goal);
        if sender.unwritten != u64::MAX {
            sender.unwritten -= bytes;
        }
        let again = sender.unwritten > 0;
        self.push_now(stream, work);
        if again {
            self.hosts[work.host].cores[work.core].ready.push_back(Task::Write { stream });
        } else {
            self.senders[stream].blocked = true;
        }
    }

    /// More of a stream is acknowledged: a flow with an end may be complete.
    pub(super) fn acknowledged(&mut self, stream: StreamId, now: Nanos) {
        let Some(application) = self.applications.get(stream.flow()) else { return };
        if !stream.is_forward() || !application.running {
            return;
        }
        let sender = &self.senders[stream];
        let all = sender.unwritten == 0 && sender.buffered() == 0;
        match application.traffic {
            Traffic::Transfer { .. } if all => {
                let application = &mut self.applications[stream.flow()];
                application.completion = Some(now.saturating_sub(application.began));
                self.unfinished -= 1;
                self.ended(stream);
            }
            Traffic::Short { .. } if all => self.short_done(stream, now),
            _ => {}
        }
    }

    /// An application wakes by itself.
    pub(super) fn application_event(&mut self, stream: StreamId) {
        let application = &self.applications[stream.flow()];
        if !application.running {
            return;
        }
        match application.traffic {
            Traffic::Short { interval, .. } => {
                let gap = self.exponential(interval);
                self.queue.push(self.now + gap, Event::Application { stream });
                let idle = self.applications[stream.flow()].asked.is_empty();
                self.applications[stream.flow()].asked.push_back(self.now);
                if idle {
                    self.begin_short(stream);
                }
            }
            Traffic::Udp { size, rate, poisson } => {
                let mean = rate.time_for(size).0 as f64;
                let exact = if poisson {
                    self.exponential(Nanos(mean as u64)).0 as f64
                } else {
                    bits(size) / rate.0 as f64
                };
                let application = &mut self.applications[stream.flow()];
                let gap = exact + application.late;
                application.late = gap.fract();
                self.queue.push(self.now + Nanos(gap as u64), Event::Application { stream });
                self.wake_thread(stream, true, Task::Datagram { stream }, self.now);
            }
            Traffic::RequestResponse { .. } => self.request(stream),
            Traffic::Bulk | Traffic::Transfer { .. } => {}
        }
    }

    fn begin_short(&mut self, stream: StreamId) {
        let host = self.streams[stream].from.index();
        let control = crate::congestion::build(&self.scenario.hosts[host].stack.congestion_control);
        self.senders[stream].reconnect(control);
        if let Traffic::Short { size, .. } = self.applications[stream.flow()].traffic {
            self.give(stream, size.0);
        }
    }

    fn short_done(&mut self, stream: StreamId, now: Nanos) {
        let application = &mut self.applications[stream.flow()];
        let Some(began) = application.asked.pop_front() else { return };
        application.requests.at.push(now);
        application.requests.samples.push(now.saturating_sub(began));
        if !application.asked.is_empty() {
            self.begin_short(stream);
        }
    }

    fn request(&mut self, stream: StreamId) {
        let Traffic::RequestResponse { request, .. } = self.applications[stream.flow()].traffic else {
            return;
        };
        self.applications[stream.flow()].asked.push_back(self.now);
        self.give(stream, request.0);
    }

    /// A thread has read from a stream: a server answers whole requests, a client takes whole answers.
    pub(super) fn application_read(&mut self, stream: StreamId, work: &mut Work) {
        let flow = stream.flow();
        let Some(Traffic::RequestResponse { request, response, think, .. }) =
            self.applications.get(flow).map(|application| application.traffic)
        else {
            return;
        };
        let read = self.receivers[stream].read;
        if stream.is_forward() {
            while (self.applications[flow].served + 1) * request.0 <= read {
                self.applications[flow].served += 1;
                self.give(stream.reverse(), response.0);
            }
            return;
        }
        while (self.applications[flow].answered + 1) * response.0 <= read {
            let application = &mut self.applications[flow];
            application.answered += 1;
            if let Some(asked) = application.asked.pop_front() {
                application.requests.at.push(work.now());
                application.requests.samples.push(work.now().saturating_sub(asked));
            }
            if application.running {
                self.queue.push(work.now() + think, Event::Application { stream: stream.reverse() });
            }
        }
    }

    /// A thread sends a datagram.
    pub(super) fn send_datagram(&mut self, stream: StreamId, work: &mut Work) {
        let application = &mut self.applications[stream.flow()];
        let Traffic::Udp { size, .. } = application.traffic else { return };
        let number = application.datagrams;
        application.datagrams += 1;
        self.charge(Operation::SystemCall, 1.0, work);
        self.charge_copy(Operation::CopyIn, size.0, work);
        self.charge(Operation::SendSegment, 1.0, work);
        // A socket holds so much that is not sent yet (SO_SNDBUF); what exceeds it is refused.
        let most = self.scenario.hosts[work.host.index()].stack.send_buffer;
        if self.streams[stream].charged > most.0 {
            self.counters.socket_drops += 1;
            return;
        }
        let payload = size.0 as u32;
        self.emit(
            Outgoing { stream, body: Body::Datagram { number }, payload, packet_payload: payload },
            true,
            work,
        );
    }
}

fn bits(size: Bytes) -> f64 {
    size.0 as f64 * 8e9
}
