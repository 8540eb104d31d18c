//! DCTCP: the window shrinks in proportion to the marked fraction (RFC 8257, `net/ipv4/tcp_dctcp.c`).

use super::growth::SSTHRESH_MIN;
use super::{Acknowledged, CongestionControl, CongestionWindow, Reno};
use weft_units::Nanos;

/// An alpha of 1 (`DCTCP_MAX_ALPHA`).
const MAX_ALPHA: u32 = 1024;

/// g as a shift: 2^-4 = 1/16 (RFC 8257, section 4.2; `dctcp_shift_g`).
const GAIN_SHIFT: u32 = 4;

/// DCTCP. Alpha starts at 1 (`dctcp_alpha_on_init`), so the first mark halves the window.
#[derive(Clone, Copy, Debug)]
pub struct Dctcp {
    reno: Reno,
    /// Estimate of the marked fraction, in 1024ths.
    alpha: u32,
    /// Packets acknowledged in this window of observation, and the number of marked ones among them.
    delivered: u64,
    marked: u64,
    /// The number of delivered packets that ends the window of observation (`next_seq`); `None` before the first acknowledgement.
    next: Option<u64>,
    /// After a reduction, the window stays constant until this number of packets is delivered (`high_seq` in state CWR).
    reduced_until: u64,
}

impl Default for Dctcp {
    fn default() -> Self {
        Self {
            reno: Reno::default(),
            alpha: MAX_ALPHA,
            delivered: 0,
            marked: 0,
            next: None,
            reduced_until: 0,
        }
    }
}

impl Dctcp {
    /// Returns the estimate of the marked fraction, 0 to 1.
    pub fn alpha(&self) -> f64 {
        f64::from(self.alpha) / f64::from(MAX_ALPHA)
    }

    /// `dctcp_update_alpha`: alpha = (1 - g) alpha + g F at the end of each window of observation (RFC 8257, section 3.3).
    fn observe(&mut self, ack: &Acknowledged) {
        self.delivered += u64::from(ack.packets);
        self.marked += u64::from(ack.marked.min(ack.packets));
        if ack.delivered < *self.next.get_or_insert(ack.sent) {
            return;
        }
        // If the shift yields 0, alpha is cleared (`min_not_zero`), so that it reaches zero without marks.
        self.alpha -= match self.alpha >> GAIN_SHIFT {
            0 => self.alpha,
            part => part,
        };
        let fraction = (self.marked << (10 - GAIN_SHIFT)) / self.delivered.max(1);
        self.alpha = (self.alpha + u32::try_from(fraction).unwrap_or(MAX_ALPHA)).min(MAX_ALPHA);
        (self.delivered, self.marked, self.next) = (0, 0, Some(ack.sent));
    }
}

impl CongestionControl for Dctcp {
    fn on_acknowledged(&mut self, ack: &Acknowledged, window: &mut CongestionWindow) {
        self.observe(ack);
        if ack.delivered < self.reduced_until {
            return;
        }
        if ack.marked == 0 {
            self.reno.on_acknowledged(ack, window);
            return;
        }
        // `dctcp_ssthresh`: cwnd (1 - alpha / 2), once per window.
        let cut = (u64::from(window.cwnd) * u64::from(self.alpha)) >> 11;
        let cut = u32::try_from(cut).expect("at most half of the window");
        window.ssthresh = (window.cwnd - cut).max(SSTHRESH_MIN);
        window.cwnd = window.ssthresh;
        self.reduced_until = ack.sent;
        self.reno = Reno::default();
    }

    /// As Reno (RFC 8257, section 3.5; `dctcp_react_to_loss`).
    fn on_loss(&mut self, now: Nanos, window: &mut CongestionWindow) {
        self.reno.on_loss(now, window);
    }

    fn on_timeout(&mut self, now: Nanos, window: &mut CongestionWindow) {
        self.reno.on_timeout(now, window);
    }

    fn uses_ecn(&self) -> bool {
        true
    }
}
