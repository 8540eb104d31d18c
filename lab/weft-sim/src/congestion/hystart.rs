//! HyStart: ends slow start before it loses packets (Ha and Rhee 2011), as `tcp_cubic` does.

use super::{Acknowledged, CongestionWindow};
use weft_units::Nanos;

/// The least window at which slow start may end, in packets (`hystart_low_window`).
const LOW_WINDOW: u32 = 16;

/// The number of round-trip times in a round before their minimum is used (`HYSTART_MIN_SAMPLES`).
const SAMPLES: u32 = 8;

/// Bounds of a rise in delay that ends slow start (`HYSTART_DELAY_MIN`, `HYSTART_DELAY_MAX`).
const DELAY_MIN: Nanos = Nanos::from_millis(4);
const DELAY_MAX: Nanos = Nanos::from_millis(16);

/// The maximum gap between acknowledgements of one train (`hystart_ack_delta`).
const TRAIN_SPACING: Nanos = Nanos::from_millis(2);

/// A round of slow start.
#[derive(Clone, Copy, Debug)]
struct Round {
    start: Nanos,
    /// Arrival of the train's last acknowledgement.
    last: Nanos,
    /// The round ends when more than this number of packets is delivered (`end_seq`).
    end: u64,
    /// The least round-trip time of the round.
    rtt: Nanos,
    samples: u32,
}

/// The two detectors: the train's length and the delay increase.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct HyStart {
    round: Option<Round>,
    /// Whether slow start was ended; it is not ended again before a timeout.
    found: bool,
}

impl HyStart {
    /// Evaluates a round-trip time in slow start (`hystart_update`), and sets the threshold to the window if slow start must end.
    /// `least` is the connection's least round-trip time.
    pub(super) fn on_sample(
        &mut self,
        ack: &Acknowledged,
        rtt: Nanos,
        least: Nanos,
        window: &mut CongestionWindow,
    ) {
        if self.found {
            return;
        }
        let fresh = Round { start: ack.now, last: ack.now, end: ack.sent, rtt: Nanos::MAX, samples: 0 };
        let round = self.round.get_or_insert(fresh);
        if ack.delivered > round.end {
            *round = fresh;
        }
        if window.cwnd < LOW_WINDOW {
            return;
        }
        if ack.now.saturating_sub(round.last) <= TRAIN_SPACING {
            round.last = ack.now;
            // A train longer than half the least round-trip time: the one-way pipe is full. This is the rule of Linux before 5.6;
            // later kernels add GRO's possible delay, which depends on the pacing rate.
            self.found |= ack.now.saturating_sub(round.start).get() > least.get() / 2;
        }
        round.rtt = round.rtt.min(rtt);
        if round.samples < SAMPLES {
            round.samples += 1;
        } else {
            let rise = Nanos(least.get() / 8).clamp(DELAY_MIN, DELAY_MAX);
            self.found |= round.rtt > least + rise;
        }
        if self.found {
            window.ssthresh = window.cwnd;
        }
    }
}
