//! A congestion control without control: the window is constant.

use super::{Acknowledged, CongestionControl, CongestionWindow};
use weft_units::Nanos;

/// A constant window in packets. Shows the effect of a scheduler on senders that do not react to it.
#[derive(Clone, Copy, Debug)]
pub struct FixedWindow {
    /// The size of the window.
    pub packets: u32,
}

impl FixedWindow {
    fn set(self, window: &mut CongestionWindow) {
        *window = CongestionWindow { cwnd: self.packets, ssthresh: self.packets };
    }
}

impl CongestionControl for FixedWindow {
    fn on_acknowledged(&mut self, _: &Acknowledged, window: &mut CongestionWindow) {
        self.set(window);
    }

    fn on_loss(&mut self, _: Nanos, window: &mut CongestionWindow) {
        self.set(window);
    }

    fn on_timeout(&mut self, _: Nanos, window: &mut CongestionWindow) {
        self.set(window);
        window.cwnd = 1;
    }
}
