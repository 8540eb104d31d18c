//! `tcp_write_xmit`: the next segment to send, or the reason to stop.

use super::{Nagle, Sent, TcpSender};
use crate::congestion::CongestionWindow;
use crate::event::{Agenda, Event};
use crate::packet::{Body, Outgoing, truesize};
use weft_units::Nanos;

/// The result of asking a sender for its next segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Next {
    /// A segment of this payload.
    Segment(u32),
    /// No segment now.
    Stop(Stop),
}

/// The reason why a sender stops.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stop {
    /// The congestion window is full.
    Window,
    /// The queues below hold enough of the stream (TCP small queues).
    SmallQueue,
    /// The write queue is empty, or the receiver has no room.
    Nothing,
}

/// A sender's usage of its window.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct WindowUsage {
    /// The maximum of packets in flight since `max_until` was set, and the packet whose acknowledgement ends that period.
    max_in_flight: u32,
    max_until: u64,
    limited: bool,
    /// The maximum of packets in flight since the window was last full, and that time.
    used: u32,
    full: Nanos,
}

impl WindowUsage {
    pub(super) const fn forget_flight(&mut self) {
        self.max_in_flight = 0;
    }
}

impl TcpSender {
    /// Returns the next segment to send, with `charged` bytes of truesize in the queues below.
    pub(crate) fn next(&mut self, charged: u64) -> Next {
        let next = self.allowed(charged);
        self.throttled |= next == Next::Stop(Stop::SmallQueue);
        next
    }

    fn allowed(&self, charged: u64) -> Next {
        let head = if self.resend > 0 {
            self.resend.min(self.size_goal) as u32
        } else {
            match self.queue.front() {
                Some(&payload) => payload,
                None => return Next::Stop(Stop::Nothing),
            }
        };
        let in_flight = self.in_flight();
        let quota = self.window.cwnd.saturating_sub(in_flight);
        if quota == 0 {
            return Next::Stop(Stop::Window);
        }
        let room = self.receive_window.saturating_sub(in_flight * self.mss) / self.mss;
        if room == 0 {
            return Next::Stop(Stop::Nothing);
        }
        let pacing = self.pacing_rate();
        // `tcp_tso_autosize`: the pacing rate's bytes in 1/1024 s, at least two packets.
        let autosized = ((pacing / 1024.0) as u32 / self.mss).max(2);
        let most = autosized.min(self.goal_packets).max(1);
        let mut payload = head.min(quota.min(room).min(most) * self.mss);
        if payload < head {
            // `tso_fragment` at packet boundaries.
            payload -= payload % self.mss;
            // `tcp_tso_should_defer`: waits while the window leaves room for less than a third of itself.
            let window_cuts = payload < most * self.mss;
            if window_cuts && in_flight > 0 && quota < self.window.cwnd / 3 {
                return Next::Stop(Stop::Window);
            }
        }
        if self.small_queue_is_full(payload, charged, pacing) {
            return Next::Stop(Stop::SmallQueue);
        }
        if self.nagle_waits(payload) { Next::Stop(Stop::Nothing) } else { Next::Segment(payload) }
    }

    /// `tcp_small_queue_check`: a limit by rate, with an optional floor of some segments.
    #[inline]
    fn small_queue_is_full(&self, payload: u32, charged: u64, pacing: f64) -> bool {
        let Some(small_queue) = self.parameters.small_queue else { return false };
        let floor = f64::from(small_queue.floor_segments) * f64::from(truesize(payload));
        let limit = (pacing / 1024.0).max(floor).min(small_queue.limit.0 as f64);
        charged as f64 > limit
    }

    #[inline]
    fn nagle_waits(&self, payload: u32) -> bool {
        let last_is_small = payload < self.mss && self.resend == 0 && self.queue.len() == 1;
        self.parameters.nagle == Nagle::On && last_is_small && self.in_flight() > 0 && self.expects_more()
    }

    /// `tcp_update_pacing_rate`, in bytes per second: twice the window per round trip in slow start, 1.2 times otherwise.
    #[inline]
    fn pacing_rate(&self) -> f64 {
        let ratio = if self.window.cwnd < self.window.ssthresh / 2 { 2.0 } else { 1.2 };
        let packets = self.window.cwnd.max(self.in_flight());
        let rtt = self.rtt.map_or(1e-3, |rtt| rtt.smoothed.as_secs_f64());
        ratio * f64::from(packets) * f64::from(self.mss) / rtt
    }

    /// Removes a segment of `payload` bytes for sending at `now`, lost bytes first, and starts the timer if necessary.
    pub(crate) fn take(&mut self, payload: u32, now: Nanos, agenda: &mut Agenda) -> Outgoing {
        if self.resend > 0 {
            self.resend -= u64::from(payload);
            self.retransmitted += u64::from(payload.div_ceil(self.mss));
        } else {
            self.queued -= u64::from(payload);
            match self.queue.front_mut() {
                Some(head) if *head > payload => *head -= payload,
                _ => {
                    self.queue.pop_front();
                }
            }
        }
        if self.in_flight() == 0 {
            self.timers.progress = now;
        }
        let first = self.next;
        let packets = self.packets_of(payload);
        self.next += u64::from(packets);
        self.sent.push_back(Sent { first, packets, payload });
        if !self.timers.pending {
            self.timers.pending = true;
            let at = now + self.tlp_timeout().min(self.timeout());
            agenda.push(at, Event::Timer { stream: self.stream });
        }
        let packet_payload = if self.parameters.whole_segments { payload } else { self.mss };
        Outgoing { stream: self.stream, body: Body::Data { first }, payload, packet_payload }
    }

    /// Returns the number of the next packet.
    #[inline]
    pub(crate) const fn next_packet(&self) -> u64 {
        self.next
    }

    /// Ends a push that started before packet `first` and stopped for this reason.
    #[inline]
    pub(crate) fn pushed(&mut self, first: u64, stop: Stop, now: Nanos) {
        if self.next > first {
            self.validate_window(stop, now);
        }
    }

    /// `tcp_cwnd_validate`, after sending: records whether the window limits the sender. A window that was not full for a
    /// retransmission timeout is reduced half-way to its used part (RFC 2861), unless the writer waits for buffer space.
    fn validate_window(&mut self, stop: Stop, now: Nanos) {
        let in_flight = self.in_flight();
        if self.highest_acked >= self.usage.max_until || in_flight > self.usage.max_in_flight {
            self.usage.max_in_flight = in_flight;
            self.usage.max_until = self.next;
            self.usage.limited = stop == Stop::Window;
        }
        if self.is_window_limited() {
            self.usage.used = 0;
            self.usage.full = now;
            return;
        }
        self.usage.used = self.usage.used.max(in_flight);
        if now.saturating_sub(self.usage.full).0 < self.timeout().0 {
            return;
        }
        if !self.waits_for_space() && self.highest_acked >= self.recovery_until {
            let used = self.usage.used.max(CongestionWindow::INITIAL.cwnd);
            if used < self.window.cwnd {
                // `tcp_current_ssthresh`.
                self.window.ssthresh = self.window.ssthresh.max(self.window.cwnd / 2 + self.window.cwnd / 4);
                self.window.cwnd = u32::midpoint(self.window.cwnd, used);
            }
            self.usage.used = 0;
        }
        self.usage.full = now;
    }

    /// `tcp_is_cwnd_limited`.
    #[inline]
    pub(super) const fn is_window_limited(&self) -> bool {
        if self.window.in_slow_start() {
            self.window.cwnd < 2 * self.usage.max_in_flight
        } else {
            self.usage.limited
        }
    }

    /// Handles a segment of the stream that was freed below. Returns whether the stream joins the TSQ tasklet to send more; with
    /// transmit batching every stream does.
    #[inline]
    pub(crate) const fn segment_freed(&mut self, tasklet: Tasklet) -> bool {
        let joins = (self.throttled || matches!(tasklet, Tasklet::Batched)) && !self.in_tasklet;
        if joins {
            self.throttled = false;
            self.in_tasklet = true;
        }
        joins
    }

    /// Handles the stream's turn in the tasklet.
    #[inline]
    pub(crate) const fn leave_tasklet(&mut self) {
        self.in_tasklet = false;
    }
}

/// The mode of the TSQ tasklet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Tasklet {
    /// One stream at a time, and only streams stopped by small queues.
    Single,
    /// All streams with freed segments, before any qdisc is run (Titan's transmit batching, section 5).
    Batched,
}
