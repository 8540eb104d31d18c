//! The receiving side of a TCP connection: acknowledgements, and the application that reads.

use super::host::Task;
use super::qdisc_run::Outgoing;
use super::receive::Merged;
use super::{Ack, Body, Event, Packet, World};
use crate::cost::Operation;
use crate::ids::StreamId;
use crate::trace::Observer;
use crate::world::processor::Work;
use weft_units::{Bytes, Nanos};

/// Longest delay of an acknowledgement (`TCP_DELACK_MIN`).
pub(super) const DELAYED_ACK: Nanos = Nanos(40_000_000);
/// What an application reads at a time (iperf3's default block).
const READ_SIZE: u64 = 128 * 1024;

/// The receiving side.
#[derive(Default)]
pub(super) struct Receiver {
    top: u64,
    packets: u64,
    pub(super) bytes: u64,
    marked: u32,
    created: Nanos,
    /// Packets since the last acknowledgement.
    unacknowledged: u32,
    ack_pending: bool,
    /// Bytes that the application has not read.
    unread: u64,
    /// Bytes that the application has read.
    pub(super) read: u64,
    reading: bool,
    /// The window that the sender knows.
    advertised: u32,
}

impl<O: Observer> World<'_, O> {
    /// Merged packets of a stream go through IP and TCP.
    pub(super) fn receive_data(&mut self, data: Merged, work: &mut Work) {
        self.charge(Operation::ReceiveSegment, 1.0, work);
        self.counters.receive_skb[(data.payload as usize / 5000).min(12)] += 1;
        let written = self.senders[data.stream].written;
        let receiver = &mut self.receivers[data.stream];
        // A packet that was taken for lost and sent again although it had arrived is no new data.
        let fresh = u64::from(data.payload).min(written.saturating_sub(receiver.bytes));
        let gap = data.first > receiver.top;
        if data.first < receiver.top {
            self.counters.reordered += u64::from(data.packets);
        }
        receiver.top = receiver.top.max(data.first + u64::from(data.packets));
        receiver.packets += u64::from(data.packets);
        receiver.bytes += fresh;
        receiver.marked = receiver.marked.wrapping_add(data.marked);
        receiver.created = data.created;
        receiver.unacknowledged += data.packets;
        receiver.unread += fresh;
        let empty = data.payload == 0;
        let at_once = gap || empty || receiver.unacknowledged >= 2;
        if !receiver.reading && receiver.unread > 0 {
            receiver.reading = true;
            self.wake_thread(data.stream, false, Task::Read { stream: data.stream }, work.now());
        }
        if at_once {
            self.send_ack(data.stream, work);
        } else if !self.receivers[data.stream].ack_pending {
            self.receivers[data.stream].ack_pending = true;
            self.queue.push(work.now() + DELAYED_ACK, Event::DelayedAck { stream: data.stream });
        }
    }

    fn send_ack(&mut self, stream: StreamId, work: &mut Work) {
        self.charge(Operation::SendAcknowledgement, 1.0, work);
        self.counters.acknowledgements += 1;
        let window = self.scenario.hosts[work.host.index()].stack.receive_window.0;
        let receiver = &mut self.receivers[stream];
        receiver.unacknowledged = 0;
        receiver.advertised = window.saturating_sub(receiver.unread).min(u64::from(u32::MAX)) as u32;
        let ack = Ack {
            top: receiver.top,
            packets: receiver.packets,
            bytes: receiver.bytes,
            echo: receiver.created,
            marked: receiver.marked,
            window: receiver.advertised,
        };
        let body = Body::Ack { content: self.acks.insert(ack) };
        self.emit(Outgoing { stream: stream.reverse(), body, payload: 0, packet_payload: 0 }, true, work);
    }

    /// The delay of an acknowledgement is over.
    pub(super) fn delayed_ack(&mut self, stream: StreamId) {
        let receiver = &mut self.receivers[stream];
        receiver.ack_pending = false;
        if receiver.unacknowledged == 0 {
            return;
        }
        let to = &self.streams[stream.reverse()];
        let mut work = self.work_on(to.from, to.core);
        self.send_ack(stream, &mut work);
        self.end_work(&work);
    }

    /// The application reads what has come.
    pub(super) fn read(&mut self, stream: StreamId, work: &mut Work) {
        let receiver = &mut self.receivers[stream];
        let bytes = receiver.unread.min(READ_SIZE);
        receiver.unread -= bytes;
        receiver.read += bytes;
        self.charge(Operation::SystemCall, 1.0, work);
        self.charge_copy(Operation::CopyOut, bytes, work);
        let window = self.scenario.hosts[work.host.index()].stack.receive_window.0;
        let receiver = &mut self.receivers[stream];
        let room = window.saturating_sub(receiver.unread);
        let was_small = u64::from(receiver.advertised) < window / 2 && receiver.packets > 0;
        if receiver.unread > 0 {
            let task = Task::Read { stream };
            self.hosts[work.host].cores[work.core].ready.push_back(task);
        } else {
            receiver.reading = false;
        }
        if was_small && room >= window / 2 {
            self.send_ack(stream, work);
        }
        self.application_read(stream, work);
    }

    /// A datagram goes up the stack to its application.
    pub(super) fn receive_datagram(&mut self, packet: &Packet, work: &mut Work) {
        self.charge(Operation::ReceiveSegment, 1.0, work);
        let stream = packet.stream;
        let receiver = &mut self.receivers[stream];
        if let Body::Datagram { number } = packet.body {
            if number < receiver.top {
                self.counters.reordered += 1;
            }
            receiver.top = receiver.top.max(number + 1);
        }
        receiver.packets += 1;
        receiver.bytes += u64::from(packet.payload);
        receiver.unread += u64::from(packet.payload);
        // The socket's buffer is bounded like TCP's window; what does not fit is dropped there, and counted as not received.
        let room = self.scenario.hosts[work.host.index()].stack.receive_window;
        if Bytes(receiver.unread) > room {
            receiver.unread -= u64::from(packet.payload);
            receiver.bytes -= u64::from(packet.payload);
            self.counters.socket_drops += 1;
        } else if !receiver.reading {
            receiver.reading = true;
            self.wake_thread(stream, false, Task::Read { stream }, work.now());
        }
    }
}
