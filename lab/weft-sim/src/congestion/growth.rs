//! Growth in whole packets, shared by the congestion controls.

use super::CongestionWindow;

/// The least slow start threshold, in packets (RFC 5681, equation 4; `tcp_reno_ssthresh`).
pub(super) const SSTHRESH_MIN: u32 = 2;

/// Slow start: grows by a packet per acknowledged packet, up to the threshold (`tcp_slow_start`). Returns the remaining packets.
pub(super) fn slow_start(window: &mut CongestionWindow, packets: u32) -> u32 {
    let grown = window.cwnd.saturating_add(packets).min(window.ssthresh).max(window.cwnd);
    let left = packets - (grown - window.cwnd);
    window.cwnd = grown;
    left
}

/// Additive increase: a packet per `per_packet` acknowledged packets (`tcp_cong_avoid_ai`).
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct AdditiveIncrease {
    /// Packets acknowledged towards the next increment (`snd_cwnd_cnt`).
    count: u32,
}

impl AdditiveIncrease {
    /// Counts acknowledged packets.
    pub(super) fn acknowledged(&mut self, window: &mut CongestionWindow, per_packet: u32, packets: u32) {
        let per_packet = per_packet.max(1);
        // Credits for more than one packet, saved while a greater number was required, count only once.
        if self.count >= per_packet {
            self.count = 0;
            window.cwnd = window.cwnd.saturating_add(1);
        }
        self.count = self.count.saturating_add(packets);
        if self.count >= per_packet {
            window.cwnd = window.cwnd.saturating_add(self.count / per_packet);
            self.count %= per_packet;
        }
    }

    /// Resets the count (`tcp_init_cwnd_reduction`, `tcp_enter_loss`).
    pub(super) fn reset(&mut self) {
        self.count = 0;
    }
}
