//! The sending side of a TCP connection.
//!
//! Packets have numbers that are never used twice, so that one acknowledgement says which packets arrived and, in a network that
//! keeps each flow's order, which did not: all that the receiver lacks below the greatest number it has seen. That is what SACK
//! with RACK finds in such a network, without its duplicate thresholds. Lost payload is sent again under new numbers.
//!
//! The write queue holds skbs as `tcp_sendmsg` cuts them. What TSO autosizing and the window allow is split off the first
//! (`tso_fragment`), so that remainders make segments of uneven sizes, as they do in the kernel.

use crate::congestion::{CongestionControl, Window};
use std::collections::VecDeque;
use weft_units::{Bytes, Nanos};

/// Smallest retransmission timeout (`TCP_RTO_MIN`).
const RTO_MIN: Nanos = Nanos(200_000_000);
/// The first one, before there is a round-trip time (`TCP_TIMEOUT_INIT`, RFC 6298).
const RTO_INITIAL: Nanos = Nanos(1_000_000_000);
/// Shortest wait for a tail loss probe beyond two round trips, when one packet is in flight: a delayed acknowledgement
/// (`tcp_schedule_loss_probe`: `TCP_RTO_MIN` jiffies' worth; here the receiver's delay).
const PROBE_MARGIN: Nanos = Nanos(2_000_000);
/// Header room that an skb must leave below `gso_max_size` (`MAX_TCP_HEADER` and one, `tcp_tso_autosize`).
pub(super) const HEADER_ROOM: u64 = 321;

/// A segment that was sent, until all its packets lie below the greatest acknowledged number.
#[derive(Clone, Copy)]
pub(super) struct Sent {
    pub(super) first: u64,
    pub(super) packets: u32,
    pub(super) payload: u32,
}

/// The sending side.
pub(super) struct Sender {
    pub(super) congestion: Option<Box<dyn CongestionControl>>,
    pub(super) window: Window,
    ecn: bool,
    pub(super) mss: u32,
    /// Bytes that the application will still write; [`u64::MAX`] without end.
    pub(super) unwritten: u64,
    /// Bytes written in all.
    pub(super) written: u64,
    /// Payloads of the skbs that wait, in order.
    pub(super) queue: VecDeque<u32>,
    pub(super) queued: u64,
    /// Lost bytes to be sent again, before the queue.
    pub(super) resend: u64,
    /// The writer waits for room in the buffer.
    pub(super) blocked: bool,
    /// Small last segments wait for acknowledgements (Nagle): for streams of bulk data only.
    pub(super) nagle: bool,
    pub(super) next: u64,
    pub(super) top: u64,
    pub(super) delivered: u64,
    pub(super) delivered_bytes: u64,
    pub(super) marked: u32,
    pub(super) sent: VecDeque<Sent>,
    /// Payload of all packets below `top`.
    pub(super) below_top: u64,
    pub(super) lost_bytes: u64,
    pub(super) recovery_until: u64,
    pub(super) receive_window: u32,
    pub(super) throttled: bool,
    pub(super) in_tasklet: bool,
    max_in_flight: u32,
    max_until: u64,
    window_limited: bool,
    /// Most packets in flight since the window was full last, and when that was.
    window_used: u32,
    window_full: Nanos,
    pub(super) smoothed_rtt: Nanos,
    rtt_variation: Nanos,
    pub(super) progress: Nanos,
    pub(super) timer_pending: bool,
    pub(super) probed: bool,
    pub(super) backoff: u32,
    pub(super) retransmitted: u64,
}

impl Sender {
    pub(super) fn new(
        congestion: Option<Box<dyn CongestionControl>>,
        mss: u32,
        receive_window: Bytes,
    ) -> Self {
        Self {
            ecn: congestion.as_ref().is_some_and(|control| control.uses_ecn()),
            congestion,
            window: Window::INITIAL,
            mss,
            unwritten: 0,
            written: 0,
            queue: VecDeque::new(),
            queued: 0,
            resend: 0,
            blocked: true,
            nagle: true,
            next: 0,
            top: 0,
            delivered: 0,
            delivered_bytes: 0,
            marked: 0,
            sent: VecDeque::new(),
            below_top: 0,
            lost_bytes: 0,
            recovery_until: 0,
            receive_window: receive_window.0.min(u64::from(u32::MAX)) as u32,
            throttled: false,
            in_tasklet: false,
            max_in_flight: 0,
            max_until: 0,
            window_limited: false,
            window_used: 0,
            window_full: Nanos::ZERO,
            smoothed_rtt: Nanos::ZERO,
            rtt_variation: Nanos::ZERO,
            progress: Nanos::ZERO,
            timer_pending: false,
            probed: false,
            backoff: 0,
            retransmitted: 0,
        }
    }

    pub(super) const fn uses_ecn(&self) -> bool {
        self.ecn
    }

    /// Packets in flight.
    pub(super) const fn in_flight(&self) -> u32 {
        (self.next - self.top) as u32
    }

    /// Bytes in the send buffer.
    pub(super) const fn buffered(&self) -> u64 {
        self.written.saturating_sub(self.delivered_bytes)
    }

    /// Forgets the connection, for the next one of the same application: only window and round-trip time start anew.
    pub(super) fn reconnect(&mut self, congestion: Option<Box<dyn CongestionControl>>) {
        self.congestion = congestion;
        self.window = Window::INITIAL;
        self.smoothed_rtt = Nanos::ZERO;
        self.rtt_variation = Nanos::ZERO;
        self.max_in_flight = 0;
        self.recovery_until = 0;
    }

    /// Drops what has not been sent, or is to be sent again.
    pub(super) fn abort(&mut self) {
        self.unwritten = 0;
        self.written -= self.queued + self.resend;
        self.queued = 0;
        self.resend = 0;
        self.queue.clear();
    }

    /// Puts written bytes into the write queue, in skbs of at most `goal` bytes (`tcp_sendmsg`).
    pub(super) fn append(&mut self, mut bytes: u64, goal: u64) {
        self.written += bytes;
        self.queued += bytes;
        if let Some(tail) = self.queue.back_mut() {
            let more = goal.saturating_sub(u64::from(*tail)).min(bytes);
            *tail += more as u32;
            bytes -= more;
        }
        while bytes > 0 {
            let skb = bytes.min(goal.max(1));
            self.queue.push_back(skb as u32);
            bytes -= skb;
        }
    }

    /// `tcp_update_pacing_rate`: bytes a second, twice the window per round trip in slow start and 1.2 times otherwise.
    pub(super) fn pacing_rate(&self) -> f64 {
        let ratio = if self.window.cwnd < self.window.ssthresh / 2 { 2.0 } else { 1.2 };
        let packets = self.window.cwnd.max(self.in_flight());
        let rtt = if self.smoothed_rtt == Nanos::ZERO { 1e-3 } else { self.smoothed_rtt.as_secs_f64() };
        ratio * f64::from(packets) * f64::from(self.mss) / rtt
    }

    pub(super) fn timeout(&self) -> Nanos {
        if self.smoothed_rtt == Nanos::ZERO {
            return RTO_INITIAL;
        }
        let rto = self.smoothed_rtt + Nanos((4 * self.rtt_variation.0).max(RTO_MIN.0));
        Nanos(rto.0 << self.backoff.min(6))
    }

    pub(super) fn probe_timeout(&self) -> Nanos {
        let margin = if self.in_flight() == 1 { super::receiver::DELAYED_ACK } else { PROBE_MARGIN };
        Nanos(2 * self.smoothed_rtt.0) + margin
    }

    pub(super) fn sample_rtt(&mut self, rtt: Nanos) {
        if self.smoothed_rtt == Nanos::ZERO {
            self.smoothed_rtt = rtt.max(Nanos(1));
            self.rtt_variation = Nanos(rtt.0 / 2);
            return;
        }
        let difference = rtt.0.abs_diff(self.smoothed_rtt.0);
        self.rtt_variation = Nanos((3 * self.rtt_variation.0 + difference) / 4);
        self.smoothed_rtt = Nanos((7 * self.smoothed_rtt.0 + rtt.0) / 8).max(Nanos(1));
    }

    /// Takes note of `top`; the payload of the packets below it.
    pub(super) fn advance(&mut self, top: u64) {
        self.top = self.top.max(top);
        while let Some(&segment) = self.sent.front() {
            let end = segment.first + u64::from(segment.packets);
            if end <= self.top {
                self.below_top += u64::from(segment.payload);
                self.sent.pop_front();
                continue;
            }
            if segment.first < self.top {
                let below = (self.top - segment.first) as u32;
                let payload = below * self.mss;
                self.below_top += u64::from(payload);
                self.sent[0] = Sent {
                    first: self.top,
                    packets: segment.packets - below,
                    payload: segment.payload - payload,
                };
            }
            break;
        }
    }

    /// `tcp_cwnd_validate`, after something was sent: whether the window is what limits; a window that was not full for a
    /// retransmission timeout falls half-way to what was used of it (RFC 2861), unless the writer waits for buffer space
    /// (`SOCK_NOSPACE`).
    pub(super) fn validate_window(&mut self, limited: bool, now: Nanos) {
        let in_flight = self.in_flight();
        if self.top >= self.max_until || in_flight > self.max_in_flight {
            self.max_in_flight = in_flight;
            self.max_until = self.next;
            self.window_limited = limited;
        }
        if self.is_window_limited() {
            self.window_used = 0;
            self.window_full = now;
            return;
        }
        self.window_used = self.window_used.max(in_flight);
        if now.saturating_sub(self.window_full).0 < self.timeout().0 {
            return;
        }
        let waits_for_space = self.blocked && self.unwritten > 0;
        if !waits_for_space && self.top >= self.recovery_until {
            let used = self.window_used.max(Window::INITIAL.cwnd);
            if used < self.window.cwnd {
                // `tcp_current_ssthresh`.
                self.window.ssthresh = self.window.ssthresh.max(self.window.cwnd / 2 + self.window.cwnd / 4);
                self.window.cwnd = u32::midpoint(self.window.cwnd, used);
            }
            self.window_used = 0;
        }
        self.window_full = now;
    }

    /// `tcp_is_cwnd_limited`.
    pub(super) const fn is_window_limited(&self) -> bool {
        if self.window.in_slow_start() {
            self.window.cwnd < 2 * self.max_in_flight
        } else {
            self.window_limited
        }
    }
}
