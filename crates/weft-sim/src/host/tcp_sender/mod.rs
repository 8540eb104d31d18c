//! The sending side of a TCP connection.
//!
//! Packets have numbers that are never used twice, so that one acknowledgement says which packets arrived and, in a network that
//! keeps each flow's order, which did not: all that the receiver lacks below the highest number it has seen. That is what SACK
//! with RACK finds in such a network, without its duplicate thresholds. Lost payload is sent again under new numbers.
//!
//! The write queue holds skbs as `tcp_sendmsg` cuts them. What TSO autosizing and the window allow is split off the first
//! (`tso_fragment`), so that remainders make segments of uneven sizes, as they do in the kernel.
//!
//! `output` decides what is sent, `input` takes acknowledgements, `timers` holds the retransmission timer and the tail loss probe.

mod input;
mod output;
mod timers;
mod write;

use crate::congestion::{CongestionControl, Window};
use crate::ids::StreamId;
use std::collections::VecDeque;
use timers::{Rtt, Timers};
use weft_units::Bytes;

pub(crate) use output::{Next, Tasklet};
pub(crate) use timers::Expired;
pub(crate) use write::Unwritten;

/// Header room that an skb must leave below `gso_max_size` (`MAX_TCP_HEADER` and one, `tcp_tso_autosize`).
const HEADER_ROOM: u64 = 321;

/// TCP small queues: most bytes of a stream in qdisc and ring (`tcp_limit_output_bytes`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct SmallQueue {
    pub(crate) limit: Bytes,
    /// Segments that are always allowed: two, or none in Titan's kernel.
    pub(crate) floor_segments: u32,
}

/// Whether small last segments wait for acknowledgements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Nagle {
    /// They do: streams of bulk data.
    On,
    Off,
}

/// Parameters of a sender.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SenderParameters {
    pub(crate) mss: u32,
    /// Largest segment (`gso_max_size`).
    pub(crate) gso: Bytes,
    pub(crate) small_queue: Option<SmallQueue>,
    /// Most bytes that the send buffer grows to.
    pub(crate) send_buffer: Bytes,
    /// The peer's window before its first acknowledgement.
    pub(crate) receive_window: Bytes,
    pub(crate) nagle: Nagle,
}

/// A segment that was sent, until all its packets lie below the highest acknowledged number.
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
    window: Window,
    uses_ecn: bool,
    mss: u32,
    /// Largest payload of an skb (`tcp_xmit_size_goal`).
    size_goal: u64,

    // Write side.
    /// What the application will still write.
    unwritten: Unwritten,
    /// Bytes written in all.
    written: u64,
    /// Payloads of the skbs that wait, in order, and their sum.
    queue: VecDeque<u32>,
    queued: u64,
    /// The writer waits for room in the buffer, or has nothing.
    blocked: bool,

    // What is in flight.
    /// Lost bytes to be sent again, before the queue.
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
    /// The window shrinks no further before this packet is acknowledged.
    recovery_until: u64,
    receive_window: u32,
    retransmitted: u64,

    // TCP small queues.
    /// The queues below hold as much of the stream as they may.
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
            window: Window::INITIAL,
            mss: parameters.mss,
            size_goal: packets * mss,
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

    /// Bytes that the application has written in all.
    #[inline]
    pub(crate) const fn written(&self) -> u64 {
        self.written
    }

    /// Packets sent again.
    pub(crate) const fn retransmitted(&self) -> u64 {
        self.retransmitted
    }

    /// Packets in flight.
    #[inline]
    const fn in_flight(&self) -> u32 {
        (self.next - self.highest_acked) as u32
    }

    /// Begins a connection of the same application: only window and round-trip time start anew.
    pub(crate) fn reconnect(&mut self, congestion: Option<Box<dyn CongestionControl>>) {
        self.congestion = congestion;
        self.window = Window::INITIAL;
        self.rtt = None;
        self.usage.forget_flight();
        self.recovery_until = 0;
    }
}

#[cfg(test)]
mod tests;
