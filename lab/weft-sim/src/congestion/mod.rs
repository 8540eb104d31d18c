//! Congestion control of TCP senders, after the kernel's `tcp_congestion_ops`.
//!
//! To add one, write a file with a type that implements [`CongestionControl`], and a line in [`build`].

pub mod cubic;
pub mod dctcp;
mod growth;
mod hystart;
pub mod reno;

use weft_units::Nanos;

pub use cubic::Cubic;
pub use dctcp::Dctcp;
pub use reno::Reno;

/// The names known to [`build`].
pub const NAMES: &[&str] = &["reno", "cubic", "dctcp"];

/// Returns the congestion control with a name (`net.ipv4.tcp_congestion_control`), for one sender; `None` for an unknown name.
pub fn build(name: &str) -> Option<Box<dyn CongestionControl>> {
    match name {
        "reno" => Some(Box::new(Reno::default())),
        "cubic" => Some(Box::new(Cubic::default())),
        "dctcp" => Some(Box::new(Dctcp::default())),
        _ => None,
    }
}

/// A sender's window, in packets of one MSS, as `tp->snd_cwnd` and `tp->snd_ssthresh` are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CongestionWindow {
    /// The congestion window.
    pub cwnd: u32,
    /// The slow start threshold; [`u32::MAX`] until the first loss.
    pub ssthresh: u32,
}

impl CongestionWindow {
    /// The initial window of ten packets (RFC 6928; `TCP_INIT_CWND`).
    pub const INITIAL: Self = Self { cwnd: 10, ssthresh: u32::MAX };

    /// Whether the window is still below the threshold.
    pub const fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }
}

/// The content of one acknowledgement, with the sender's state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Acknowledged {
    /// The time of processing.
    pub now: Nanos,
    /// Packets newly acknowledged.
    pub packets: u32,
    /// Packets among them that were marked with congestion experienced.
    pub marked: u32,
    /// Round-trip time of the newest of them, if it was not retransmitted.
    pub rtt: Option<Nanos>,
    /// Smoothed round-trip time, after this sample.
    pub smoothed_rtt: Nanos,
    /// Packets in flight before this acknowledgement.
    pub in_flight: u32,
    /// Total number of packets sent; a round ends when all packets sent before its start are acknowledged.
    pub sent: u64,
    /// Total number of packets acknowledged, including these.
    pub delivered: u64,
    /// Whether the window limited the sender (`tcp_is_cwnd_limited`); otherwise it must not grow.
    pub window_limited: bool,
}

/// A congestion control.
pub trait CongestionControl: Send {
    /// Grows the window, or shrinks it after marks. Not called during recovery.
    fn on_acknowledged(&mut self, ack: &Acknowledged, window: &mut CongestionWindow);

    /// Sets threshold and window after the first loss in a window.
    fn on_loss(&mut self, now: Nanos, window: &mut CongestionWindow);

    /// Sets the threshold after a retransmission timeout; the window becomes one packet.
    fn on_timeout(&mut self, now: Nanos, window: &mut CongestionWindow);

    /// Whether packets carry ECN-capable transport, so that switches mark instead of dropping.
    fn uses_ecn(&self) -> bool {
        false
    }
}
