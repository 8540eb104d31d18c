//! Reno in whole packets, after the kernel's `tcp_reno_*` (RFC 5681, RFC 6582).

use super::growth::{AdditiveIncrease, SSTHRESH_MIN, slow_start};
use super::{Acknowledged, CongestionControl, CongestionWindow};
use weft_units::Nanos;

/// Slow start, then one packet per round trip, and half of the window on loss. The kernel halves the congestion window, not the
/// packets in flight (`tcp_reno_ssthresh`). It reaches the new window over a round trip (RFC 6937); here the window is set at
/// once.
#[derive(Clone, Copy, Default, Debug)]
pub struct Reno {
    increase: AdditiveIncrease,
}

impl CongestionControl for Reno {
    fn on_acknowledged(&mut self, ack: &Acknowledged, window: &mut CongestionWindow) {
        if !ack.window_limited {
            return;
        }
        let left = if window.in_slow_start() { slow_start(window, ack.packets) } else { ack.packets };
        if left > 0 {
            self.increase.acknowledged(window, window.cwnd, left);
        }
    }

    fn on_loss(&mut self, _: Nanos, window: &mut CongestionWindow) {
        window.ssthresh = (window.cwnd / 2).max(SSTHRESH_MIN);
        window.cwnd = window.ssthresh;
        self.increase.reset();
    }

    fn on_timeout(&mut self, _: Nanos, window: &mut CongestionWindow) {
        window.ssthresh = (window.cwnd / 2).max(SSTHRESH_MIN);
        window.cwnd = 1;
        self.increase.reset();
    }
}
