//! The sending side of a TCP connection.
//!
//! Packets have numbers that are never reused. One acknowledgement therefore identifies the packets that arrived and, in a
//! network that keeps each flow's order, those that did not: all packets that the receiver lacks below its highest number. SACK
//! with RACK finds the same in such a network, without its duplicate thresholds. Lost payload is sent again under new numbers.
//!
//! The parts and their order in a packet's life:
//!
//! 1. `write`: the application's bytes enter the write queue as skbs, cut as in `tcp_sendmsg`. The send buffer is autotuned.
//! 2. `output`: `next` decides whether and how much to send. TSO autosizing and the window split the first skb (`tso_fragment`),
//!    so that remainders form segments of uneven sizes, as in the kernel. The causes for stopping are the window, TCP small
//!    queues, Nagle, or nothing to send. `take` removes the segment and starts the timer.
//! 3. `input`: `on_ack` updates arrived data, round-trip time and losses, and passes the sample to the congestion control.
//! 4. `timers`: one event serves the tail loss probe and the retransmission timeout.
//!
//! Rules that must hold:
//!
//! * The sender owns its write queue, numbers and timers. The charge of the queues below is the socket's and is passed in.
//! * The congestion control changes only the window. Recovery lasts until all packets sent before it are acknowledged
//!   (`recovery_until`), and lost packets shrink the window once per recovery.
//! * At most one [`Event::Timer`] is pending. It is not moved by acknowledgements; on expiry it is set again.
//! * A stream that small queues stopped is marked `throttled`, and the next freed segment puts it into the TSQ tasklet.
//!
//! Rare branches and their counters: retransmissions (`retransmitted`, per flow in the outcome). The world counts what the timer
//! returns: [`HostCounters::retransmission_timeouts`](crate::outcome::HostCounters::retransmission_timeouts) and
//! [`HostCounters::tail_loss_probes`](crate::outcome::HostCounters::tail_loss_probes).

mod input;
mod output;
mod timers;
mod write;

use crate::congestion::{CongestionControl, CongestionWindow};
use crate::ids::StreamId;
use std::collections::VecDeque;
use timers::{Rtt, Timers};
use weft_units::Bytes;

pub(crate) use output::{Next, Tasklet};
pub(crate) use timers::Expired;
pub(crate) use write::Unwritten;

/// The space that an skb must leave below `gso_max_size` (`MAX_TCP_HEADER` and one, `tcp_tso_autosize`).
const HEADER_ROOM: u64 = 321;

/// TCP small queues: the maximum number of a stream's bytes in qdisc and ring (`tcp_limit_output_bytes`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct SmallQueue {
    pub(crate) limit: Bytes,
    /// Number of segments that are always allowed: two, or none in Titan's kernel.
    pub(crate) floor_segments: u32,
}

/// Whether a small last segment waits for acknowledgements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Nagle {
    /// It waits: streams of bulk data.
    On,
    Off,
}

/// Parameters of a sender.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SenderParameters {
    pub(crate) mss: u32,
    /// Whether nothing below cuts a segment into packets.
    pub(crate) whole_segments: bool,
    /// The maximum size of a segment (`gso_max_size`).
    pub(crate) gso: Bytes,
    pub(crate) small_queue: Option<SmallQueue>,
    /// The maximum size of the send buffer.
    pub(crate) send_buffer: Bytes,
    /// The peer's window before its first acknowledgement.
    pub(crate) receive_window: Bytes,
    pub(crate) nagle: Nagle,
}

/// A sent segment, kept until all of its packets are below the highest acknowledged number.
#[derive(Clone, Copy, Debug)]
struct Sent {
    first: u64,
    packets: u32,
    payload: u32,
}

/// The sending side.
pub(crate) struct TcpSender {
    stream: StreamId,
    parameters: SenderParameters,
    congestion: Option<Box<dyn CongestionControl>>,
    window: CongestionWindow,
    uses_ecn: bool,
    mss: u32,
    /// The maximum payload of an skb (`tcp_xmit_size_goal`), also in packets.
    size_goal: u64,
    goal_packets: u32,

    // Write side.
    /// Bytes that the application has not written yet.
    unwritten: Unwritten,
    /// Total bytes written.
    written: u64,
    /// Payloads of the queued skbs, in order, and their sum.
    queue: VecDeque<u32>,
    queued: u64,
    /// Whether the writer waits for buffer space, or has nothing to write.
    blocked: bool,

    // In flight.
    /// Lost bytes to be sent again, before the write queue.
    resend: u64,
    /// Number of the next packet.
    next: u64,
    /// One more than the highest packet number acknowledged.
    highest_acked: u64,
    /// Packets and bytes that have arrived.
    delivered: u64,
    delivered_bytes: u64,
    marked: u32,
    sent: VecDeque<Sent>,
    /// Payload of all packets below `highest_acked`.
    bytes_below_highest: u64,
    lost_bytes: u64,
    /// The window does not shrink again before this packet is acknowledged.
    recovery_until: u64,
    receive_window: u32,
    retransmitted: u64,

    // TCP small queues.
    /// Whether small queues stopped the stream.
    throttled: bool,
    in_tasklet: bool,

    usage: output::WindowUsage,
    rtt: Option<Rtt>,
    timers: Timers,
}

impl TcpSender {
    pub(crate) fn new(
        stream: StreamId,
        congestion: Option<Box<dyn CongestionControl>>,
        parameters: SenderParameters,
    ) -> Self {
        let mss = u64::from(parameters.mss);
        let packets = (parameters.gso.0.saturating_sub(HEADER_ROOM) / mss).max(1);
        Self {
            stream,
            uses_ecn: congestion.as_ref().is_some_and(|control| control.uses_ecn()),
            congestion,
            window: CongestionWindow::INITIAL,
            mss: parameters.mss,
            size_goal: packets * mss,
            goal_packets: packets as u32,
            unwritten: Unwritten::Bytes(0),
            written: 0,
            queue: VecDeque::new(),
            queued: 0,
            blocked: true,
            resend: 0,
            next: 0,
            highest_acked: 0,
            delivered: 0,
            delivered_bytes: 0,
            marked: 0,
            sent: VecDeque::new(),
            bytes_below_highest: 0,
            lost_bytes: 0,
            recovery_until: 0,
            receive_window: parameters.receive_window.0.min(u64::from(u32::MAX)) as u32,
            retransmitted: 0,
            throttled: false,
            in_tasklet: false,
            usage: output::WindowUsage::default(),
            rtt: None,
            timers: Timers::default(),
            parameters,
        }
    }

    #[inline]
    pub(crate) const fn uses_ecn(&self) -> bool {
        self.uses_ecn
    }

    /// Returns the total number of bytes written by the application.
    #[inline]
    pub(crate) const fn written(&self) -> u64 {
        self.written
    }

    /// Returns the number of retransmitted packets.
    pub(crate) const fn retransmitted(&self) -> u64 {
        self.retransmitted
    }

    /// Returns the number of packets that this payload counts as; more than one for a segment that was not cut.
    #[inline]
    pub(crate) fn packets_of(&self, payload: u32) -> u32 {
        if payload <= self.mss { 1 } else { payload.div_ceil(self.mss) }
    }

    /// Returns the number of packets in flight.
    #[inline]
    const fn in_flight(&self) -> u32 {
        (self.next - self.highest_acked) as u32
    }

    /// Starts a new connection of the same application: only window and round-trip time are reset.
    pub(crate) fn reconnect(&mut self, congestion: Option<Box<dyn CongestionControl>>) {
        self.congestion = congestion;
        self.window = CongestionWindow::INITIAL;
        self.rtt = None;
        self.usage.forget_flight();
        self.recovery_until = 0;
    }
}

#[cfg(test)]
mod tests;
