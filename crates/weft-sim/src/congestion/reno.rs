//! Reno in whole packets, as the kernel's `tcp_reno_*` has it (RFC 5681, RFC 6582).

use super::growth::{AdditiveIncrease, SSTHRESH_MIN, slow_start};
use super::{Acknowledged, CongestionControl, Window};
use weft_units::Nanos;

/// Slow start, one packet per round trip after it, and half of the window on loss. The kernel halves the congestion window and not the
/// packets in flight (`tcp_reno_ssthresh`); it gets there over a round trip (RFC 6937), here the window is set at once.
#[derive(Clone, Copy, Default, Debug)]
pub struct Reno {
    increase: AdditiveIncrease,
}

impl CongestionControl for Reno {
    fn on_acknowledged(&mut self, ack: &Acknowledged, window: &mut Window) {
        if !ack.window_limited {
            return;
        }
        let left = if window.in_slow_start() { slow_start(window, ack.packets) } else { ack.packets };
        if left > 0 {
            self.increase.acknowledged(window, window.cwnd, left);
        }
    }

    fn on_loss(&mut self, _: Nanos, window: &mut Window) {
        window.ssthresh = (window.cwnd / 2).max(SSTHRESH_MIN);
        window.cwnd = window.ssthresh;
        self.increase.reset();
    }

    fn on_timeout(&mut self, _: Nanos, window: &mut Window) {
        window.ssthresh = (window.cwnd / 2).max(SSTHRESH_MIN);
        window.cwnd = 1;
        self.increase.reset();
    }
}
