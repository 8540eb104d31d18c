//! TCP on a host: pushes of the senders, received data, and acknowledgements.

use super::World;
use super::send::QdiscRun;
use crate::cost::CostedOperation;
use crate::host::cpu::{Task, Work};
use crate::host::nic::Merged;
use crate::host::tcp_receiver::Acknowledge;
use crate::host::tcp_sender::{Expired, Next, Tasklet};
use crate::ids::{AckId, StreamId};
use crate::packet::{Body, Outgoing};
use crate::trace::Observer;
use weft_units::TxQueueId;

impl<O: Observer> World<'_, O> {
    /// `tcp_write_xmit`: sends as much as windows and queues allow. Calls `sent` with the queue of each segment.
    fn push(&mut self, stream: StreamId, run: QdiscRun, work: &mut Work, mut sent: impl FnMut(TxQueueId)) {
        let first = self.senders[stream].next_packet();
        let stop = loop {
            match self.senders[stream].next(self.sockets[stream].charged) {
                Next::Segment(payload) => sent(self.send_data(stream, payload, run, work)),
                Next::Stop(stop) => break stop,
            }
        };
        self.senders[stream].pushed(first, stop, work.now());
    }

    /// Pushes, and runs the qdiscs immediately.
    pub(super) fn push_now(&mut self, stream: StreamId, work: &mut Work) {
        self.push(stream, QdiscRun::Now, work, |_| ());
    }

    fn send_data(&mut self, stream: StreamId, payload: u32, run: QdiscRun, work: &mut Work) -> TxQueueId {
        let cpu = &mut self.hosts[work.host].cpu;
        cpu.charge(CostedOperation::SendSegment, 1.0, work);
        cpu.touch_socket(&mut self.sockets[stream].touched, work);
        let outgoing = self.senders[stream].take(payload, work.now(), &mut self.agenda);
        self.send_tcp(&outgoing, run, work)
    }

    /// Runs the TSQ tasklet: one stream, or with transmit batching all of them before any qdisc runs (Titan, section 5).
    pub(super) fn tasklet(&mut self, work: &mut Work) {
        if self.hosts[work.host].settings.tasklet == Tasklet::Single {
            if let Some(stream) = self.hosts[work.host].cpu.next_in_tasklet(work) {
                self.senders[stream].leave_tasklet();
                self.push_now(stream, work);
            }
            return;
        }
        let mut touched = std::mem::take(&mut self.touched_queues);
        while let Some(stream) = self.hosts[work.host].cpu.next_in_tasklet(work) {
            self.senders[stream].leave_tasklet();
            self.push(stream, QdiscRun::Later, work, |queue| {
                if !touched.contains(&queue) {
                    touched.push(queue);
                }
            });
        }
        for queue in touched.drain(..) {
            self.run_qdisc(queue, work);
        }
        self.touched_queues = touched;
    }

    /// Handles an acknowledgement for a stream that this host sends.
    pub(super) fn receive_ack(&mut self, stream: StreamId, content: AckId, work: &mut Work) {
        let ack = self.acks.remove(content);
        let cpu = &mut self.hosts[work.host].cpu;
        cpu.charge(CostedOperation::ReceiveAcknowledgement, 1.0, work);
        cpu.touch_socket(&mut self.sockets[stream].touched, work);
        let now = work.now();
        self.senders[stream].on_ack(&ack, now);
        self.push_now(stream, work);
        if self.senders[stream].wakes_writer() {
            self.wake_thread(stream, Task::Write { stream }, work.now());
        }
        if self.senders[stream].is_done() {
            self.all_arrived(stream, now);
        }
    }

    /// Handles a sender's timer.
    pub(super) fn timer(&mut self, stream: StreamId) {
        let Some(expired) = self.senders[stream].on_timer(self.now, &mut self.agenda) else { return };
        let facts = &self.streams[stream];
        self.at_once(facts.from, facts.core, |world, work| match expired {
            Expired::TailLossProbe(payload) => {
                world.counters.tail_loss_probes += 1;
                world.send_data(stream, payload, QdiscRun::Now, work);
            }
            Expired::Timeout => {
                world.counters.retransmission_timeouts += 1;
                world.push_now(stream, work);
            }
        });
    }

    /// Passes merged packets of a stream through IP and TCP.
    pub(super) fn receive_data(&mut self, data: &Merged, work: &mut Work) {
        let stream = data.stream;
        self.hosts[work.host].cpu.charge(CostedOperation::ReceiveSegment, 1.0, work);
        self.counters.count_receive_skb(data.payload);
        let received = self.receivers[stream].on_data(data, self.senders[stream].written());
        self.counters.reordered += u64::from(received.reordered);
        if received.wakes_reader {
            self.wake_thread(stream.reverse(), Task::Read { stream }, work.now());
        }
        match received.acknowledge {
            Acknowledge::Now => self.send_ack(stream, work),
            Acknowledge::Later => self.receivers[stream].delay_ack(work.now(), &mut self.agenda),
        }
    }

    /// Acknowledges the received data of a stream.
    pub(super) fn send_ack(&mut self, stream: StreamId, work: &mut Work) {
        self.hosts[work.host].cpu.charge(CostedOperation::SendAcknowledgement, 1.0, work);
        self.counters.acknowledgements += 1;
        let content = self.acks.insert(self.receivers[stream].acknowledge());
        let ack = Outgoing::single(stream.reverse(), Body::Ack { content }, 0);
        self.send_down(&ack, QdiscRun::Now, work);
    }

    /// Handles the end of an acknowledgement's delay.
    pub(super) fn delayed_ack(&mut self, stream: StreamId) {
        if self.receivers[stream].end_delay() {
            let facts = &self.streams[stream.reverse()];
            self.at_once(facts.from, facts.core, |world, work| world.send_ack(stream, work));
        }
    }
}
