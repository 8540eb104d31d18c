//! Probes: small messages that are answered at once, and how long that takes.

use super::host::Task;
use super::qdisc_run::Outgoing;
use super::{Body, Event, World};
use crate::cost::Operation;
use crate::ids::{HostId, ProbeId, StreamId};
use crate::outcome::Latencies;
use crate::trace::Observer;
use crate::world::processor::Work;
use weft_units::Nanos;

/// A probe of the scenario.
pub(super) struct ProbeState {
    /// Its stream to the host that answers; the next one is the way back.
    pub(super) stream: StreamId,
    pub(super) latencies: Latencies,
}

impl<O: Observer> World<'_, O> {
    /// A probe's turn to ask.
    pub(super) fn probe_event(&mut self, probe: ProbeId) {
        let config = &self.scenario.probes[probe.index()];
        let (from, interval, closed) = (HostId(config.from), config.interval, config.closed_loop);
        let core = self.streams[self.probes[probe].stream].core;
        self.ready(from, core, Task::Probe { probe, reply: false, asked: self.now }, self.now);
        if !closed {
            // Between half and one and a half of the interval, so that it does not fall into step with what it measures.
            let jitter = (self.uniform() + 0.5) * interval.0 as f64;
            self.queue.push(self.now + Nanos(jitter as u64), Event::Probe { probe });
        }
    }

    /// Sends a question or an answer.
    pub(super) fn send_probe(&mut self, probe: ProbeId, reply: bool, asked: Nanos, work: &mut Work) {
        let forward = self.probes[probe].stream;
        let stream = if reply { forward.reverse() } else { forward };
        let size = self.scenario.probes[probe.index()].size.0 as u32;
        self.charge(Operation::SystemCall, 1.0, work);
        self.charge(Operation::SendSegment, 1.0, work);
        self.emit(
            Outgoing {
                stream,
                body: Body::Probe { probe, reply, asked },
                payload: size,
                packet_payload: size,
            },
            true,
            work,
        );
    }

    /// A message has come through the stack.
    pub(super) fn receive_probe(&mut self, probe: ProbeId, reply: bool, asked: Nanos, work: &mut Work) {
        self.charge(Operation::ReceiveSegment, 1.0, work);
        let in_kernel = self.scenario.probes[probe.index()].in_kernel;
        match (reply, in_kernel) {
            (false, true) => self.send_probe(probe, true, asked, work),
            (true, true) => self.probe_done(probe, asked, work),
            (_, false) => {
                let back = self.probes[probe].stream.reverse();
                let end = if reply { back.reverse() } else { back };
                let (host, core) = (self.streams[end].from, self.streams[end].core);
                let task = if reply {
                    Task::ProbeDone { probe, asked }
                } else {
                    Task::Probe { probe, reply: true, asked }
                };
                self.ready(host, core, task, work.now());
            }
        }
    }

    /// The answer is with the asker.
    pub(super) fn probe_done(&mut self, probe: ProbeId, asked: Nanos, work: &mut Work) {
        let now = work.now();
        if self.measure.began(asked) {
            let latencies = &mut self.probes[probe].latencies;
            latencies.at.push(now);
            latencies.samples.push(now.saturating_sub(asked));
        }
        let config = &self.scenario.probes[probe.index()];
        if config.closed_loop {
            self.queue.push(now + config.interval, Event::Probe { probe });
        }
    }
}
