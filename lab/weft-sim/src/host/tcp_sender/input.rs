//! Processing of acknowledgements: arrived data, losses, and the reaction of the congestion control.

use super::{Sent, TcpSender};
use crate::congestion::Acknowledged;
use crate::packet::Ack;
use weft_units::Nanos;

impl TcpSender {
    /// Handles an acknowledgement.
    pub(crate) fn on_ack(&mut self, ack: &Ack, now: Nanos) {
        self.receive_window = ack.window;
        let in_flight = self.in_flight();
        let packets = ack.packets.saturating_sub(self.delivered) as u32;
        if packets > 0 || ack.next > self.highest_acked {
            self.timers.on_progress(now);
        }
        let marked = ack.marked.wrapping_sub(self.marked);
        self.marked = ack.marked;
        self.delivered = self.delivered.max(ack.packets);
        self.delivered_bytes = self.delivered_bytes.max(ack.bytes);
        self.advance(ack.next);
        let rtt = now.saturating_sub(ack.echo);
        if packets > 0 {
            self.sample_rtt(rtt);
        }
        let newly_lost = self.find_losses();
        if self.is_empty() {
            self.resend = 0;
        }
        let recovering = self.highest_acked < self.recovery_until;
        if newly_lost > 0 && !recovering {
            self.recovery_until = self.next;
            if let Some(control) = &mut self.congestion {
                control.on_loss(now, &mut self.window);
            }
        } else if !recovering && packets > 0 {
            self.grow(Acknowledged {
                now,
                packets,
                marked,
                rtt: Some(rtt),
                smoothed_rtt: self.smoothed_rtt(),
                in_flight,
                sent: self.next,
                delivered: self.highest_acked,
                window_limited: self.is_window_limited(),
            });
        }
    }

    #[inline]
    fn grow(&mut self, sample: Acknowledged) {
        if let Some(control) = &mut self.congestion {
            control.on_acknowledged(&sample, &mut self.window);
        }
    }

    /// Counts all missing payload below the highest acknowledged packet as lost; returns the newly lost bytes.
    #[inline]
    pub(super) fn find_losses(&mut self) -> u64 {
        let lost = self.bytes_below_highest.saturating_sub(self.delivered_bytes);
        let newly_lost = lost.saturating_sub(self.lost_bytes);
        self.resend = (self.resend + lost).saturating_sub(self.lost_bytes);
        self.lost_bytes = lost;
        newly_lost
    }

    /// Records that packets below `next` are acknowledged or lost, with their payload.
    #[inline]
    pub(super) fn advance(&mut self, next: u64) {
        self.highest_acked = self.highest_acked.max(next);
        while let Some(&segment) = self.sent.front() {
            let end = segment.first + u64::from(segment.packets);
            if end <= self.highest_acked {
                self.bytes_below_highest += u64::from(segment.payload);
                self.sent.pop_front();
                continue;
            }
            if segment.first < self.highest_acked {
                let below = (self.highest_acked - segment.first) as u32;
                let payload = below * self.mss;
                self.bytes_below_highest += u64::from(payload);
                self.sent[0] = Sent {
                    first: self.highest_acked,
                    packets: segment.packets - below,
                    payload: segment.payload - payload,
                };
            }
            break;
        }
    }
}
