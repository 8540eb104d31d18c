//! A congestion control that does not control: the window is what it is.

use super::{Acknowledged, CongestionControl, Window};
use weft_units::Nanos;

/// A window of the same size throughout, packets. Shows what a scheduler does to senders that do not react to it.
#[derive(Clone, Copy, Debug)]
pub struct FixedWindow {
    /// Its size.
    pub packets: u32,
}

impl FixedWindow {
    fn set(self, window: &mut Window) {
        *window = Window { cwnd: self.packets, ssthresh: self.packets };
    }
}

impl CongestionControl for FixedWindow {
    fn on_acknowledged(&mut self, _: &Acknowledged, window: &mut Window) {
        self.set(window);
    }

    fn on_loss(&mut self, _: Nanos, window: &mut Window) {
        self.set(window);
    }

    fn on_timeout(&mut self, _: Nanos, window: &mut Window) {
        self.set(window);
        window.cwnd = 1;
    }
}
