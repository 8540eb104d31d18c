//! CUBIC in the kernel's fixed-point arithmetic (`net/ipv4/tcp_cubic.c`; RFC 9438).

use super::growth::{AdditiveIncrease, SSTHRESH_MIN, slow_start};
use super::hystart::HyStart;
use super::{Acknowledged, CongestionControl, CongestionWindow};
use weft_units::Nanos;

/// The remaining part of the window after a loss, in 1024ths (`beta`): 0.7.
const BETA: u64 = 717;

/// Unit of [`BETA`] (`BICTCP_BETA_SCALE`).
const BETA_SCALE: u64 = 1024;

/// `cube_rtt_scale`, from a `bic_scale` of 41: ten times that is C in 1024ths, 0.4 packets per cubed second.
const CUBE_SCALE: u64 = 41 * 10;

/// Times are in 2^-10 s (`BICTCP_HZ`), C is in 2^-10: the shift of a product of C and a cubed time.
const CUBE_SHIFT: u32 = 10 + 3 * 10;

/// Slope of the Reno-friendly window, in eighths of acknowledged packets per window (`beta_scale`): 8(1 + beta) / 3(1 - beta).
const FRIENDLY_SCALE: u64 = 8 * (BETA_SCALE + BETA) / 3 / (BETA_SCALE - BETA);

/// A jiffy: the kernel's clock for CUBIC, here at 1000 Hz.
const JIFFY: u64 = 1_000_000;

/// Jiffies in a second (`HZ`).
const HZ: u64 = 1000;

/// An epoch: from the first growth after a loss to the next loss.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    /// Its start, in jiffies.
    start: u64,
    /// The time from its start to the inflection, in 2^-10 s (`bic_K`), and the window there (`bic_origin_point`).
    inflection: u64,
    origin: u64,
    /// Packets acknowledged towards the next increment of the Reno-friendly window, and that window.
    acknowledged: u64,
    friendly: u64,
}

/// CUBIC. The reaction of `TX_START` to an idle time is missing, since a sender does not report its restart.
#[derive(Clone, Copy, Debug)]
pub struct Cubic {
    increase: AdditiveIncrease,
    hystart: HyStart,
    epoch: Option<Epoch>,
    /// The window before the last loss, reduced when flows make room for new ones (`last_max_cwnd`).
    last_max: u64,
    /// Packets to acknowledge for an increment of one packet (`cnt`), and the window and the jiffy of its computation.
    per_packet: u64,
    last_window: u64,
    last_time: u64,
    /// The least round-trip time.
    least_rtt: Option<Nanos>,
}

impl Default for Cubic {
    fn default() -> Self {
        Self {
            increase: AdditiveIncrease::default(),
            hystart: HyStart::default(),
            epoch: None,
            last_max: 0,
            per_packet: 1,
            last_window: 0,
            last_time: 0,
            least_rtt: None,
        }
    }
}

/// Returns the greatest number whose cube is at most `value`; the kernel's `cubic_root` is within 0.2 % of it.
fn cube_root(value: u64) -> u64 {
    (0..22).rev().fold(0_u64, |root, bit| {
        let next = root | 1 << bit;
        if u128::from(next).pow(3) <= u128::from(value) { next } else { root }
    })
}

impl Cubic {
    /// `cubictcp_acked`: updates the least round-trip time and consults HyStart.
    fn measure(&mut self, ack: &Acknowledged, window: &mut CongestionWindow) {
        let Some(rtt) = ack.rtt else { return };
        let jiffies = ack.now.get() / JIFFY;
        // Round trips right after a recovery still measure its queue.
        if self.epoch.is_some_and(|epoch| jiffies.saturating_sub(epoch.start) < HZ) {
            return;
        }
        let rtt = rtt.max(Nanos::from_micros(1));
        let least = self.least_rtt.map_or(rtt, |least| least.min(rtt));
        self.least_rtt = Some(least);
        if window.in_slow_start() {
            self.hystart.on_sample(ack, rtt, least, window);
        }
    }

    /// Returns the value of the cubic function one round trip from now (first half of `bictcp_update`).
    fn target(&self, epoch: &Epoch, jiffies: u64) -> u64 {
        let round_trip = self.least_rtt.unwrap_or(Nanos::ZERO).get().div_ceil(JIFFY);
        let time = ((jiffies.saturating_sub(epoch.start) + round_trip) << 10) / HZ;
        let distance = u128::from(time.abs_diff(epoch.inflection));
        let change = (u128::from(CUBE_SCALE) * distance.pow(3)) >> CUBE_SHIFT;
        let change = u64::try_from(change).unwrap_or(u64::MAX);
        if time < epoch.inflection {
            epoch.origin.saturating_sub(change)
        } else {
            epoch.origin.saturating_add(change)
        }
    }

    /// `bictcp_update`: computes the number of acknowledged packets per increment of the window.
    fn update(&mut self, window: u64, packets: u64, now: Nanos) {
        let jiffies = now.get() / JIFFY;
        if let Some(epoch) = &mut self.epoch {
            epoch.acknowledged += packets;
            if self.last_window == window && jiffies.saturating_sub(self.last_time) <= HZ / 32 {
                return;
            }
        }
        let mut epoch = self.epoch.unwrap_or_else(|| self.new_epoch(window, packets, jiffies));
        // The cubic part changes at most once per jiffy; a new epoch is always computed.
        if self.epoch.is_none() || jiffies != self.last_time {
            (self.last_window, self.last_time) = (window, jiffies);
            let target = self.target(&epoch, jiffies);
            self.per_packet = if target > window { window / (target - window) } else { 100 * window };
            if self.last_max == 0 {
                self.per_packet = self.per_packet.min(20);
            }
        }
        let per_friendly = ((window * FRIENDLY_SCALE) >> 3).max(1);
        epoch.friendly += epoch.acknowledged.saturating_sub(1) / per_friendly;
        epoch.acknowledged = match epoch.acknowledged {
            0 => 0,
            some => (some - 1) % per_friendly + 1,
        };
        if epoch.friendly > window {
            self.per_packet = self.per_packet.min(window / (epoch.friendly - window));
        }
        // At most one packet for every two acknowledged.
        self.per_packet = self.per_packet.max(2);
        self.epoch = Some(epoch);
    }

    fn new_epoch(&self, window: u64, packets: u64, jiffies: u64) -> Epoch {
        let (inflection, origin) = if self.last_max <= window {
            (0, window)
        } else {
            (cube_root((1 << CUBE_SHIFT) / CUBE_SCALE * (self.last_max - window)), self.last_max)
        };
        Epoch { start: jiffies, inflection, origin, acknowledged: packets, friendly: window }
    }

    /// `cubictcp_recalc_ssthresh`, with fast convergence: a flow that loses below its previous maximum makes room.
    fn reduce(&mut self, window: &mut CongestionWindow) {
        let cwnd = u64::from(window.cwnd);
        self.last_max =
            if cwnd < self.last_max { cwnd * (BETA_SCALE + BETA) / (2 * BETA_SCALE) } else { cwnd };
        self.epoch = None;
        self.increase.reset();
        window.ssthresh = u32::try_from(cwnd * BETA / BETA_SCALE).unwrap_or(u32::MAX).max(SSTHRESH_MIN);
    }
}

impl CongestionControl for Cubic {
    fn on_acknowledged(&mut self, ack: &Acknowledged, window: &mut CongestionWindow) {
        // The kernel's order: `tcp_clean_rtx_queue` calls `pkts_acked` before `tcp_cong_control` grows the window.
        self.measure(ack, window);
        if !ack.window_limited {
            return;
        }
        let left = if window.in_slow_start() { slow_start(window, ack.packets) } else { ack.packets };
        if left > 0 {
            self.update(window.cwnd.into(), left.into(), ack.now);
            let per_packet = u32::try_from(self.per_packet).unwrap_or(u32::MAX);
            self.increase.acknowledged(window, per_packet, left);
        }
    }

    fn on_loss(&mut self, _: Nanos, window: &mut CongestionWindow) {
        self.reduce(window);
        window.cwnd = window.ssthresh;
    }

    fn on_timeout(&mut self, _: Nanos, window: &mut CongestionWindow) {
        self.reduce(window);
        window.cwnd = 1;
        // `cubictcp_state` resets everything, including the least round-trip time.
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cube_roots_are_whole_and_rounded_down() {
        for root in [0_u64, 1, 2, 7, 100, 1023, 2_000_000] {
            assert_eq!(cube_root(root.pow(3)), root);
            assert_eq!(cube_root((root + 1).pow(3) - 1), root);
        }
    }

    #[test]
    fn the_constants_are_those_of_the_kernel() {
        assert_eq!(FRIENDLY_SCALE, 15);
        assert_eq!(CUBE_SCALE, 410);
    }
}
