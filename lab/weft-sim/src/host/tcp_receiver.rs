//! The receiving side of a stream: received data, acknowledgements, and unread data.

use crate::event::{Agenda, Event};
use crate::host::nic::Merged;
use crate::ids::StreamId;
use crate::packet::Ack;
use weft_units::{Bytes, Nanos};

/// The maximum delay of an acknowledgement (`TCP_DELACK_MIN`).
pub(crate) const DELAYED_ACK: Nanos = Nanos(40_000_000);
/// Number of bytes that an application reads at a time (iperf3's default block).
const READ_SIZE: u64 = 128 * 1024;
/// Number of packets per immediate acknowledgement (RFC 5681, section 4.2).
const ACK_EVERY: u32 = 2;

/// The time of an acknowledgement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Acknowledge {
    Now,
    /// Delayed, or combined with a later one.
    Later,
}

/// The result of received data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Received {
    /// Number of packets that arrived after a later one.
    pub(crate) reordered: u32,
    /// Whether to wake the reading thread.
    pub(crate) wakes_reader: bool,
    pub(crate) acknowledge: Acknowledge,
}

/// The result of a received datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ReceivedDatagram {
    pub(crate) reordered: u32,
    /// Whether the socket's buffer had no room for it.
    pub(crate) refused: bool,
    /// Whether to wake the reading thread.
    pub(crate) wakes_reader: bool,
}

/// The continuation after a read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct HasRead {
    /// Whether more data is available; otherwise the thread sleeps.
    pub(crate) reads_on: bool,
    /// Whether the window has opened, so that the sender needs an update.
    pub(crate) acknowledge: Acknowledge,
}

/// The receiving side of a stream.
#[derive(Debug)]
pub(crate) struct TcpReceiver {
    stream: StreamId,
    /// The maximum number of unread payload bytes.
    window: Bytes,
    /// One more than the greatest packet number received.
    next: u64,
    packets: u64,
    bytes: u64,
    marked: u32,
    /// Creation time of the newest packet's segment.
    created: Nanos,
    /// Packets since the last acknowledgement.
    unacknowledged: u32,
    /// Whether an [`Event::DelayedAck`] is pending.
    ack_pending: bool,
    /// Bytes unread, and bytes read.
    unread: u64,
    read: u64,
    /// Whether the application's thread is awake.
    reading: bool,
    /// The window last advertised to the sender.
    advertised: u32,
}

impl TcpReceiver {
    pub(crate) const fn new(stream: StreamId, window: Bytes) -> Self {
        Self {
            stream,
            window,
            next: 0,
            packets: 0,
            bytes: 0,
            marked: 0,
            created: Nanos::ZERO,
            unacknowledged: 0,
            ack_pending: false,
            unread: 0,
            read: 0,
            reading: false,
            advertised: 0,
        }
    }

    /// Returns the number of received payload bytes.
    #[inline]
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the number of bytes read by the application.
    #[inline]
    pub(crate) const fn read_bytes(&self) -> u64 {
        self.read
    }

    /// Handles merged packets of a stream in which `written` bytes have been written so far. A retransmission of a packet that
    /// had arrived contains no new data.
    #[inline]
    pub(crate) fn on_data(&mut self, data: &Merged, written: u64) -> Received {
        let fresh = u64::from(data.payload).min(written.saturating_sub(self.bytes));
        let gap = data.first > self.next;
        let reordered = if data.first < self.next { data.packets } else { 0 };
        self.next = self.next.max(data.first + u64::from(data.packets));
        self.packets += u64::from(data.packets);
        self.bytes += fresh;
        self.marked = self.marked.wrapping_add(data.marked);
        self.created = data.created;
        self.unacknowledged += data.packets;
        self.unread += fresh;
        let at_once = gap || data.payload == 0 || self.unacknowledged >= ACK_EVERY;
        Received {
            reordered,
            wakes_reader: self.wakes_reader(),
            acknowledge: if at_once { Acknowledge::Now } else { Acknowledge::Later },
        }
    }

    #[inline]
    fn wakes_reader(&mut self) -> bool {
        let wakes = !self.reading && self.unread > 0;
        self.reading |= wakes;
        wakes
    }

    /// Schedules a delayed acknowledgement of the data that arrived by `now`.
    #[inline]
    pub(crate) fn delay_ack(&mut self, now: Nanos, agenda: &mut Agenda) {
        if !std::mem::replace(&mut self.ack_pending, true) {
            agenda.push(now + DELAYED_ACK, Event::DelayedAck { stream: self.stream });
        }
    }

    /// Ends the delay; returns whether unacknowledged data remains.
    pub(crate) const fn end_delay(&mut self) -> bool {
        self.ack_pending = false;
        self.unacknowledged > 0
    }

    /// Builds an acknowledgement.
    #[inline]
    pub(crate) fn acknowledge(&mut self) -> Ack {
        self.unacknowledged = 0;
        self.advertised = self.window.0.saturating_sub(self.unread).min(u64::from(u32::MAX)) as u32;
        Ack {
            next: self.next,
            packets: self.packets,
            bytes: self.bytes,
            echo: self.created,
            marked: self.marked,
            window: self.advertised,
        }
    }

    /// Reads on behalf of the application; returns the number of bytes.
    #[inline]
    pub(crate) fn read(&mut self) -> u64 {
        let bytes = self.unread.min(READ_SIZE);
        self.unread -= bytes;
        self.read += bytes;
        bytes
    }

    /// Ends a read.
    #[inline]
    pub(crate) const fn end_read(&mut self) -> HasRead {
        let room = self.window.0.saturating_sub(self.unread);
        let was_small = (self.advertised as u64) < self.window.0 / 2 && self.packets > 0;
        self.reading = self.unread > 0;
        let opens = was_small && room >= self.window.0 / 2;
        HasRead {
            reads_on: self.reading,
            acknowledge: if opens { Acknowledge::Now } else { Acknowledge::Later },
        }
    }

    /// Handles a datagram. The socket's buffer is bounded like TCP's window; a datagram that does not fit is dropped there and
    /// does not count as received.
    pub(crate) fn on_datagram(&mut self, number: u64, payload: u32) -> ReceivedDatagram {
        let reordered = u32::from(number < self.next);
        self.next = self.next.max(number + 1);
        self.packets += 1;
        let unread = self.unread + u64::from(payload);
        let refused = unread > self.window.0;
        if refused {
            return ReceivedDatagram { reordered, refused, wakes_reader: false };
        }
        self.bytes += u64::from(payload);
        self.unread = unread;
        let wakes_reader = !std::mem::replace(&mut self.reading, true);
        ReceivedDatagram { reordered, refused, wakes_reader }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: StreamId = StreamId(4);

    fn data(first: u64, packets: u32) -> Merged {
        let payload = 1000 * packets;
        Merged { stream: STREAM, first, packets, payload, marked: 0, created: Nanos(first) }
    }

    #[test]
    fn one_packet_waits_for_a_second_one_or_the_delay() {
        let (mut receiver, mut agenda) = (TcpReceiver::new(STREAM, Bytes(10_000)), Agenda::new());
        let received = receiver.on_data(&data(0, 1), 9000);
        assert_eq!(received.acknowledge, Acknowledge::Later);
        assert!(received.wakes_reader);
        receiver.delay_ack(Nanos(5), &mut agenda);
        receiver.delay_ack(Nanos(6), &mut agenda);
        let event = Event::DelayedAck { stream: STREAM };
        assert_eq!((agenda.pop(), agenda.pop()), (Some((Nanos(5) + DELAYED_ACK, event)), None));
        assert_eq!(receiver.on_data(&data(1, 1), 9000).acknowledge, Acknowledge::Now);
        let ack = receiver.acknowledge();
        assert_eq!((ack.next, ack.packets, ack.bytes, ack.window), (2, 2, 2000, 8000));
        assert!(!receiver.end_delay());
    }

    #[test]
    fn a_gap_is_acknowledged_at_once_and_what_came_twice_is_no_news() {
        let mut receiver = TcpReceiver::new(STREAM, Bytes(10_000));
        assert_eq!(receiver.on_data(&data(3, 1), 2000).acknowledge, Acknowledge::Now);
        assert_eq!(receiver.on_data(&data(1, 2), 2000).reordered, 2);
        assert_eq!(receiver.bytes(), 2000);
    }

    #[test]
    fn a_window_that_opens_is_told() {
        let mut receiver = TcpReceiver::new(STREAM, Bytes(10_000));
        receiver.on_data(&data(0, 8), 8000);
        assert_eq!(receiver.acknowledge().window, 2000);
        assert_eq!(receiver.read(), 8000);
        assert_eq!(receiver.end_read(), HasRead { reads_on: false, acknowledge: Acknowledge::Now });
    }

    #[test]
    fn datagrams_without_room_are_refused() {
        let mut receiver = TcpReceiver::new(STREAM, Bytes(1500));
        let first = receiver.on_datagram(1, 1000);
        assert_eq!(first, ReceivedDatagram { reordered: 0, refused: false, wakes_reader: true });
        let second = receiver.on_datagram(0, 1000);
        assert_eq!(second, ReceivedDatagram { reordered: 1, refused: true, wakes_reader: false });
        assert_eq!(receiver.bytes(), 1000);
    }
}
