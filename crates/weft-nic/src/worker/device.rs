//! The uplink as a device that sends at its own pace: longest chunk, overdraft and length of sleeps.
//!
//! Rules, in the order in which they bind:
//! 1. Super-packets stay whole while no other class has a better claim, since the cost is per packet: a chunk of 12 KB
//!    costs a sleep, a wake-up of the receiver and an acknowledgement, as a packet of 64 KB does.
//! 2. While an urgent class is active, chunks are at most the *piece* of link time ([`PIECE`], or the least `latency` of
//!    the policy's classes).
//! 3. While the device holds packets back, chunks are at most half of the queue that may wait there ([`Pressure`]).
//! 4. A chunk is never more than the device takes whole, else the kernel would cut it into MTU-size frames.
//!
//! While the link is busy and only classes with a standing backlog wait, the worker sleeps at least [`BULK_SLEEP`] and
//! then sends all that is due. An urgent doorbell wakes it. While an urgent class is active it sleeps for
//! [`MODERATION`](super::MODERATION), so that its timers are not late.

use super::pressure::Pressure;
use super::urgency::{OVERDRAW, Urgency};
use super::{MODERATION, SegmentsPerTurn};
use crate::link::{DeviceLink, LinkRate, WHOLE, queue_below};
use core::num::NonZeroU32;
use weft_packet::ethernet;
use weft_packet::segment::SuperPacket;
use weft_units::{BitsPerSec, Bytes, Instant, Nanos};

/// The longest chunk in link time while an urgent class is active: at most this is added to the wait of a class that may
/// not overdraw. At 500 Mb/s and above, a super-packet takes less.
const PIECE: Nanos = Nanos::from_millis(1);
/// The shortest sleep while the link is busy and no urgent class is active.
const BULK_SLEEP: Nanos = Nanos::from_millis(1);

/// The state of a device.
#[derive(Debug)]
pub(crate) struct Device {
    link: DeviceLink,
    /// The configured rate; a limit only if [`LinkRate::Given`].
    rate: BitsPerSec,
    /// The longest chunk that the device takes whole.
    most: Bytes,
    pub(super) urgency: Urgency,
    pub(super) pressure: Pressure,
    /// Whether a ring of an urgent class may have a packet that could be sent on overdraft.
    pub(super) urgent_waits: bool,
    /// The bound of the queue below that was last set.
    bound: Bytes,
}

impl Device {
    /// The state of a device at the start. `most`: the longest chunk that it takes whole.
    pub(crate) fn new(link: DeviceLink, rate: BitsPerSec, most: Bytes, urgency: Urgency) -> Self {
        let most = most.min(Bytes(WHOLE));
        Self {
            link,
            rate,
            most,
            urgency,
            pressure: Pressure::default(),
            urgent_waits: false,
            bound: Self::first_bound(link, rate, most),
        }
    }

    /// The bound of the queue below before any rate has been observed.
    pub(crate) fn first_bound(link: DeviceLink, rate: BitsPerSec, most: Bytes) -> Bytes {
        match link.rate {
            LinkRate::Given => queue_below(rate, most),
            LinkRate::Observed => Bytes(2 * most.get()),
        }
    }

    /// The rate of the bottleneck, as far as it is known.
    fn known_rate(&self) -> Option<BitsPerSec> {
        let given = (self.link.rate == LinkRate::Given).then_some(self.rate);
        match (given, self.pressure.observed()) {
            (Some(given), Some(observed)) => Some(given.min(observed)),
            (given, observed) => given.or(observed),
        }
    }

    /// Divides the rate of the bottleneck anew, after it has changed. Returns the new bound of the queue below, if that
    /// differs.
    pub(super) fn rate_changed(&mut self) -> Option<Bytes> {
        self.urgency.set_rate(self.known_rate().unwrap_or(BitsPerSec::ZERO));
        let bound = match self.pressure.observed() {
            Some(_) => Bytes(2 * self.pressure.piece(self.most).get()),
            None => Self::first_bound(self.link, self.rate, self.most),
        };
        (core::mem::replace(&mut self.bound, bound) != bound).then_some(bound)
    }

    /// The segments of a packet that may leave at once, in a turn that begins at `wall` while the link's clock is `ahead`.
    pub(super) fn segments_per_turn(
        &self,
        packet: &SuperPacket,
        wall: Instant,
        ahead: Nanos,
    ) -> SegmentsPerTurn {
        let mut bytes = if self.pressure.is_on(wall) { self.pressure.piece(self.most) } else { self.most };
        if let Some(rate) = self.known_rate() {
            if self.urgency.is_active(wall) {
                bytes = bytes.min(rate.bytes_in(self.link.piece.unwrap_or(PIECE)));
            }
            if ahead > Nanos::ZERO {
                bytes = bytes.min(rate.bytes_in(OVERDRAW.saturating_sub(ahead)));
            }
        }
        if bytes >= Bytes(WHOLE) {
            return SegmentsPerTurn::Whole;
        }
        let segment = ethernet::wire_of(Bytes(packet.segment_payload().get() + packet.header_len() as u64))
            .get()
            .max(1);
        let segments = u32::try_from(bytes.get() / segment).unwrap_or(u32::MAX);
        SegmentsPerTurn::AtMost(NonZeroU32::new(segments).unwrap_or(NonZeroU32::MIN))
    }

    /// Whether an urgent turn may begin while the link's clock is `ahead`.
    pub(super) fn may_overdraw(&self, ahead: Nanos) -> bool {
        self.urgent_waits && ahead < OVERDRAW
    }

    /// The shortest sleep while the link is busy.
    pub(super) fn moderation(&self, now: Instant) -> Nanos {
        if self.urgency.is_active(now) { MODERATION } else { BULK_SLEEP }
    }

    /// The time after which a blocked write is tried again: a chunk's at the observed rate. The kernel reports room only
    /// when half of the queue has left (`sock_writeable`, include/net/sock.h), which may be too late for the device.
    pub(super) fn retry_room(&self) -> Option<Nanos> {
        let rate = self.pressure.observed()?;
        Some(rate.time_for(self.pressure.piece(self.most)).max(MODERATION))
    }
}
