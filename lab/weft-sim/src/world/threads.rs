//! Threads of applications and probes on the processors.

use super::World;
use super::send::QdiscRun;
use crate::cost::CostedOperation;
use crate::host::application::Action;
use crate::host::cpu::{Placement, Task, Work};
use crate::host::pinger::Handling;
use crate::host::tcp_receiver::Acknowledge;
use crate::host::tcp_sender::Unwritten;
use crate::ids::{ProbeId, StreamId};
use crate::packet::{Body, Outgoing, Packet, Way};
use crate::trace::Observer;
use weft_units::Nanos;

impl<O: Observer> World<'_, O> {
    /// Runs a thread's task.
    pub(super) fn run_thread(&mut self, task: Task, work: &mut Work) {
        match task {
            Task::Write { stream } => self.write(stream, work),
            Task::Read { stream } => self.read(stream, work),
            Task::Datagram { stream } => self.send_datagram(stream, work),
            Task::Ping { probe, way, asked } => {
                self.hosts[work.host].cpu.charge(CostedOperation::WakeUp, 1.0, work);
                self.send_ping(probe, way, asked, work);
            }
            Task::PingDone { probe, asked } => {
                self.hosts[work.host].cpu.charge(CostedOperation::WakeUp, 1.0, work);
                self.ping_done(probe, asked, work);
            }
        }
    }

    /// Wakes the thread that sends a stream or reads its reverse.
    pub(super) fn wake_thread(&mut self, end: StreamId, task: Task, at: Nanos) {
        let facts = &self.streams[end];
        let placement = self.applications.get(end.flow()).map_or(Placement::Pinned, |app| app.placement);
        let cpu = &mut self.hosts[facts.from].cpu;
        cpu.wake_thread((facts.core, placement), task, (self.now, at), &mut self.agenda);
    }

    /// Starts a flow.
    pub(super) fn start(&mut self, stream: StreamId) {
        let facts = &self.streams[stream];
        self.hosts[facts.from].cpu.flow_starts();
        self.hosts[facts.to].cpu.flow_starts();
        self.measure.flow_starts(facts.class);
        let application = &mut self.applications[stream.flow()];
        let action = application.start(self.now, &mut self.random, &mut self.agenda);
        self.act(stream, action);
    }

    /// Stops a flow's application: bytes that have not left its socket are discarded, as when iperf3 is stopped.
    pub(super) fn stop(&mut self, stream: StreamId) {
        if self.applications[stream.flow()].is_running() {
            self.end_flow(stream);
            self.senders[stream].abort();
        }
    }

    fn end_flow(&mut self, stream: StreamId) {
        self.applications[stream.flow()].stop();
        let facts = &self.streams[stream];
        self.hosts[facts.from].cpu.flow_ends();
        self.hosts[facts.to].cpu.flow_ends();
        self.measure.flow_ends(facts.class);
    }

    /// Handles an application's own timer.
    pub(super) fn wake_application(&mut self, stream: StreamId) {
        let application = &mut self.applications[stream.flow()];
        let action = application.wake(self.now, &mut self.random, &mut self.agenda);
        self.act(stream, action);
    }

    /// Handles the arrival of all bytes written to a stream.
    pub(super) fn all_arrived(&mut self, stream: StreamId, now: Nanos) {
        if let Some(application) = self.applications.get_mut(stream.flow()) {
            let action = application.all_arrived(stream, now);
            self.act(stream, action);
        }
    }

    fn act(&mut self, stream: StreamId, action: Option<Action>) {
        match action {
            Some(Action::Write(more)) => self.give(stream, more),
            Some(Action::Connect(size)) => {
                let from = self.streams[stream].from;
                let stack = &self.scenario.hosts[from.index()].stack;
                self.senders[stream].reconnect(crate::congestion::build(&stack.congestion_control));
                self.give(stream, Unwritten::Bytes(size.0));
            }
            Some(Action::SendDatagram) => self.wake_thread(stream, Task::Datagram { stream }, self.now),
            Some(Action::End) => {
                self.unfinished -= 1;
                self.end_flow(stream);
            }
            None => {}
        }
    }

    /// Gives the application of a stream more to write.
    fn give(&mut self, stream: StreamId, more: Unwritten) {
        if self.senders[stream].give(more) {
            self.wake_thread(stream, Task::Write { stream }, self.now);
        }
    }

    /// Performs one write of a thread.
    fn write(&mut self, stream: StreamId, work: &mut Work) {
        let host = &mut self.hosts[work.host];
        let sender = &mut self.senders[stream];
        let Some(bytes) = sender.writable(host.settings.write_size) else { return };
        host.cpu.charge(CostedOperation::SystemCall, 1.0, work);
        host.cpu.charge_copy(CostedOperation::CopyIn, bytes, work);
        host.cpu.touch_socket(&mut self.sockets[stream].touched, work);
        sender.append(bytes);
        self.push_now(stream, work);
        if self.senders[stream].writes_on() {
            self.hosts[work.host].cpu.continue_thread(work, Task::Write { stream });
        }
    }

    /// Performs one read of a thread.
    fn read(&mut self, stream: StreamId, work: &mut Work) {
        let bytes = self.receivers[stream].read();
        let cpu = &mut self.hosts[work.host].cpu;
        cpu.charge(CostedOperation::SystemCall, 1.0, work);
        cpu.charge_copy(CostedOperation::CopyOut, bytes, work);
        let read = self.receivers[stream].end_read();
        if read.reads_on {
            cpu.continue_thread(work, Task::Read { stream });
        }
        if read.acknowledge == Acknowledge::Now {
            self.send_ack(stream, work);
        }
        let total = self.receivers[stream].read_bytes();
        if let Some(application) = self.applications.get_mut(stream.flow()) {
            let action = application.has_read(stream, total, work.now(), &mut self.agenda);
            self.act(stream.reverse(), action);
        }
    }

    /// Sends a datagram of a thread. A socket holds a bounded number of unsent bytes (SO_SNDBUF); datagrams beyond it are
    /// refused.
    fn send_datagram(&mut self, stream: StreamId, work: &mut Work) {
        let Some((number, size)) = self.applications[stream.flow()].next_datagram() else { return };
        let host = &mut self.hosts[work.host];
        host.cpu.charge(CostedOperation::SystemCall, 1.0, work);
        host.cpu.charge_copy(CostedOperation::CopyIn, size.0, work);
        host.cpu.charge(CostedOperation::SendSegment, 1.0, work);
        if self.sockets[stream].charged > host.settings.send_buffer.0 {
            self.counters.socket_drops += 1;
            return;
        }
        let datagram = Outgoing::single(stream, Body::Datagram { number }, size.0 as u32);
        self.send_down(&datagram, QdiscRun::Now, work);
    }

    /// Passes a datagram up the stack to its application.
    pub(super) fn receive_datagram(&mut self, number: u64, packet: &Packet, work: &mut Work) {
        let stream = packet.stream;
        self.hosts[work.host].cpu.charge(CostedOperation::ReceiveSegment, 1.0, work);
        let received = self.receivers[stream].on_datagram(number, packet.payload);
        self.counters.reordered += u64::from(received.reordered);
        self.counters.socket_drops += u64::from(received.refused);
        if received.wakes_reader {
            self.wake_thread(stream.reverse(), Task::Read { stream }, work.now());
        }
    }

    /// Starts a probe's round.
    pub(super) fn ask(&mut self, probe: ProbeId) {
        let pinger = &self.pingers[probe];
        let facts = &self.streams[pinger.stream()];
        let cpu = &mut self.hosts[facts.from].cpu;
        cpu.ready(facts.core, pinger.ask(self.now), self.now, &mut self.agenda);
        pinger.set_next_turn(self.now, &mut self.random, &mut self.agenda);
    }

    /// Sends a probe's question or answer.
    fn send_ping(&mut self, probe: ProbeId, way: Way, asked: Nanos, work: &mut Work) {
        let cpu = &mut self.hosts[work.host].cpu;
        cpu.charge(CostedOperation::SystemCall, 1.0, work);
        cpu.charge(CostedOperation::SendSegment, 1.0, work);
        let message = self.pingers[probe].message(way, asked);
        self.send_down(&message, QdiscRun::Now, work);
    }

    /// Handles a probe's message that passed the stack.
    pub(super) fn receive_ping(&mut self, probe: ProbeId, way: Way, asked: Nanos, work: &mut Work) {
        self.hosts[work.host].cpu.charge(CostedOperation::ReceiveSegment, 1.0, work);
        match self.pingers[probe].on_message(way, asked) {
            Handling::Answer => self.send_ping(probe, Way::Reply, asked, work),
            Handling::Done => self.ping_done(probe, asked, work),
            Handling::Wake { end, task } => {
                let facts = &self.streams[end];
                self.hosts[facts.from].cpu.ready(facts.core, task, work.now(), &mut self.agenda);
            }
        }
    }

    fn ping_done(&mut self, probe: ProbeId, asked: Nanos, work: &Work) {
        let begin = self.measure.begins_at();
        self.pingers[probe].done(asked, work.now(), begin, &mut self.agenda);
    }
}
