//! Time in which the bottleneck was not served although packets waited.

use super::SAMPLE_INTERVAL;
use weft_host::tc::QdiscCounters;
use weft_packet::ethernet;
use weft_units::{BitsPerSec, Bytes, Instant, Nanos};

/// Bytes that a bottleneck of `rate` could have sent while packets waited, and did not. Adds up the time between
/// readings. An interval in which the queue may have run empty does not count, unless the reading itself was late.
pub(super) struct LostTime {
    rate: BitsPerSec,
    /// Of consecutive intervals with packets waiting: bytes that the link could have sent, and bytes sent.
    stretch: (Bytes, Bytes),
    lost: Bytes,
}

impl LostTime {
    /// Intervals between two readings that show that the machine could not run in time.
    const LATE: u64 = 4;

    pub(super) fn new(rate: BitsPerSec) -> Self {
        Self { rate, stretch: (Bytes(0), Bytes(0)), lost: Bytes(0) }
    }

    pub(super) fn read(&mut self, before: &(Instant, QdiscCounters), now: &(Instant, QdiscCounters)) {
        let span = now.0.saturating_since(before.0);
        let worth = self.rate.bytes_in(span);
        let late = span.get() > Self::LATE * SAMPLE_INTERVAL.get() && before.1.backlog.packets.get() > 0;
        if before.1.backlog.bytes < worth && !late {
            self.end_stretch();
            return;
        }
        self.stretch.0 += worth;
        self.stretch.1 += on_the_wire(&before.1, &now.1);
    }

    fn end_stretch(&mut self) {
        self.lost += self.stretch.0.saturating_sub(self.stretch.1);
        self.stretch = (Bytes(0), Bytes(0));
    }

    /// Returns the loss as a fraction of the bytes that the link could send in `span`.
    pub(super) fn part_of(mut self, span: Nanos) -> f64 {
        self.end_stretch();
        self.lost.get() as f64 / (self.rate.bytes_in(span).get() as f64).max(1.0)
    }
}

/// Returns the wire bytes sent between two readings; the kernel's count includes the frame header.
pub(super) fn on_the_wire(before: &QdiscCounters, now: &QdiscCounters) -> Bytes {
    let sent = now.sent.saturating_sub(before.sent);
    sent.bytes + Bytes(ethernet::AROUND.get() * sent.packets.get())
}
