//! Congestion control of TCP senders, as the kernel's `tcp_congestion_ops` has it.
//!
//! A new one is a file with one type that implements [`CongestionControl`], and a line in [`build`].

pub mod cubic;
pub mod dctcp;
mod growth;
mod hystart;
pub mod reno;

use weft_units::Nanos;

pub use cubic::Cubic;
pub use dctcp::Dctcp;
pub use reno::Reno;

/// The names that [`build`] knows.
pub const NAMES: &[&str] = &["reno", "cubic", "dctcp"];

/// The congestion control of that name (`net.ipv4.tcp_congestion_control`), for one sender; none if there is no such.
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
pub struct Window {
    /// Congestion window.
    pub cwnd: u32,
    /// Slow start threshold; [`u32::MAX`] until it is known.
    pub ssthresh: u32,
}

impl Window {
    /// Initial window of ten packets (RFC 6928; `TCP_INIT_CWND`).
    pub const INITIAL: Self = Self { cwnd: 10, ssthresh: u32::MAX };

    /// Whether the window is still below the threshold.
    pub const fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }
}

/// What one acknowledgement says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Acknowledged {
    /// When it is processed.
    pub now: Nanos,
    /// Packets newly acknowledged.
    pub packets: u32,
    /// Of these, packets that were marked with congestion experienced.
    pub marked: u32,
    /// Round-trip time of the newest of them, where it was not sent twice.
    pub rtt: Option<Nanos>,
    /// Smoothed round-trip time, after this sample.
    pub smoothed_rtt: Nanos,
    /// Packets in flight before this acknowledgement.
    pub in_flight: u32,
    /// Packets sent in all so far; a round is over when all that had been sent at its start is acknowledged.
    pub sent: u64,
    /// Packets acknowledged in all, with this one.
    pub delivered: u64,
    /// Whether the window was what limited the sender (`tcp_is_cwnd_limited`); it must not grow otherwise.
    pub window_limited: bool,
}

/// A congestion control.
pub trait CongestionControl: Send {
    /// Grows the window, or, with marks, shrinks it. Not called during recovery.
    fn on_acknowledged(&mut self, ack: &Acknowledged, window: &mut Window);

    /// Loss was found for the first time in this window: sets threshold and window.
    fn on_loss(&mut self, now: Nanos, window: &mut Window);

    /// The retransmission timer fired: sets the threshold; the window becomes one packet.
    fn on_timeout(&mut self, now: Nanos, window: &mut Window);

    /// Whether packets carry ECN-capable transport, so that switches mark instead of dropping.
    fn uses_ecn(&self) -> bool {
        false
    }
}
