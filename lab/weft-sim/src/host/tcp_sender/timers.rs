//! The round-trip time, the retransmission timer, and the tail loss probe (TLP).

use super::TcpSender;
use crate::event::{Agenda, Event};
use crate::host::tcp_receiver::DELAYED_ACK;
use weft_units::Nanos;

/// The minimum retransmission timeout (`TCP_RTO_MIN`).
const RTO_MIN: Nanos = Nanos(200_000_000);
/// The initial timeout, before the first round-trip time (`TCP_TIMEOUT_INIT`, RFC 6298).
const RTO_INITIAL: Nanos = Nanos(1_000_000_000);
/// The margin of a tail loss probe beyond two round trips. With one packet in flight it is a delayed acknowledgement
/// (`tcp_schedule_loss_probe`: `TCP_RTO_MIN` in jiffies; here the receiver's delay).
const TLP_MARGIN: Nanos = Nanos(2_000_000);

/// The smoothed round-trip time and its variation, after the first sample.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rtt {
    pub(super) smoothed: Nanos,
    variation: Nanos,
}

/// The timer's state.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Timers {
    /// Whether an [`Event::Timer`] is pending.
    pub(super) pending: bool,
    /// The last time of progress: an acknowledgement, or a send after nothing was in flight.
    pub(super) progress: Nanos,
    /// Whether a tail loss probe was sent since.
    tlp_sent: bool,
    /// Number of timeouts since.
    backoff: u32,
}

impl Timers {
    #[inline]
    pub(super) const fn on_progress(&mut self, now: Nanos) {
        self.progress = now;
        self.tlp_sent = false;
        self.backoff = 0;
    }
}

/// The action after the timer expired.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Expired {
    /// Sends a packet of this payload beyond the window: its acknowledgement reveals earlier losses.
    TailLossProbe(u32),
    /// Sends everything in flight again, after counting it as lost.
    Timeout,
}

impl TcpSender {
    #[inline]
    pub(super) fn smoothed_rtt(&self) -> Nanos {
        self.rtt.map_or(Nanos::ZERO, |rtt| rtt.smoothed)
    }

    #[inline]
    pub(super) fn timeout(&self) -> Nanos {
        let Some(rtt) = self.rtt else { return RTO_INITIAL };
        let rto = rtt.smoothed + Nanos((4 * rtt.variation.0).max(RTO_MIN.0));
        Nanos(rto.0 << self.timers.backoff.min(6))
    }

    #[inline]
    pub(super) fn tlp_timeout(&self) -> Nanos {
        let margin = if self.in_flight() == 1 { DELAYED_ACK } else { TLP_MARGIN };
        Nanos(2 * self.smoothed_rtt().0) + margin
    }

    #[inline]
    pub(super) fn sample_rtt(&mut self, rtt: Nanos) {
        self.rtt = Some(match self.rtt {
            None => Rtt { smoothed: rtt.max(Nanos(1)), variation: Nanos(rtt.0 / 2) },
            Some(Rtt { smoothed, variation }) => Rtt {
                smoothed: Nanos((7 * smoothed.0 + rtt.0) / 8).max(Nanos(1)),
                variation: Nanos((3 * variation.0 + rtt.0.abs_diff(smoothed.0)) / 4),
            },
        });
    }

    /// Handles the timer: a tail loss probe first, then a timeout. Sets it again.
    pub(crate) fn on_timer(&mut self, now: Nanos, agenda: &mut Agenda) -> Option<Expired> {
        self.timers.pending = false;
        if self.in_flight() == 0 && self.resend == 0 {
            return None;
        }
        let tlp_at = self.timers.progress + self.tlp_timeout();
        let timeout_at = self.timers.progress + self.timeout();
        let expired = if now >= timeout_at {
            self.on_timeout(now);
            Some(Expired::Timeout)
        } else if !self.timers.tlp_sent && now >= tlp_at {
            self.timers.tlp_sent = true;
            Some(Expired::TailLossProbe(self.tlp_payload()))
        } else {
            None
        };
        let next = if self.timers.tlp_sent || expired == Some(Expired::Timeout) {
            self.timers.progress + self.timeout()
        } else {
            tlp_at.min(timeout_at)
        };
        self.timers.pending = true;
        agenda.push(next.max(now + Nanos(1)), Event::Timer { stream: self.stream });
        expired
    }

    /// Counts everything in flight as lost.
    fn on_timeout(&mut self, now: Nanos) {
        self.timers.progress = now;
        self.timers.backoff += 1;
        self.advance(self.next);
        self.find_losses();
        self.recovery_until = self.next;
        if let Some(control) = &mut self.congestion {
            control.on_timeout(now, &mut self.window);
        }
    }

    /// Returns the payload of a tail loss probe. If there is nothing to send, the probe is an empty packet, which has a number
    /// and is acknowledged.
    fn tlp_payload(&self) -> u32 {
        if self.resend > 0 {
            return self.resend.min(u64::from(self.mss)) as u32;
        }
        self.queue.front().map_or(0, |&head| head.min(self.mss))
    }
}
