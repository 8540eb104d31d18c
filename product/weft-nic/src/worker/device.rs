//! The uplink as a device that sends at its own pace: longest chunk, overdraft and length of sleeps, and the rate that its
//! back-pressure shows.
//!
//! Rules, in the order in which they bind:
//! 1. Super-packets stay whole while no other class has a better claim, since the cost is per packet: a chunk of 12 KB
//!    costs a sleep, a wake-up of the receiver and an acknowledgement, as a packet of 64 KB does.
//! 2. While an urgent class is active, chunks take at most [`PIECE`] of link time. A configured time holds always.
//! 3. While the device holds packets back, chunks are at most half of the queue that may wait there ([`Pressure`]).
//! 4. A chunk is never more than the device takes whole, else the kernel would cut it into MTU-size frames.
//!
//! While the link is busy and what waits keeps it busy for [`STANDING`], the worker sleeps at least [`BULK_SLEEP`] and
//! then sends all that is due. An urgent doorbell wakes it. While an urgent class is active, or less waits, it sleeps for
//! [`MODERATION`](super::MODERATION) or until the link is free, so that its timers are not late: a few small answers must not wait for a
//! sleep that saves the wake-ups of bulk. When it runs out of packets after a burst, it
//! also sleeps for that time before any doorbell wakes it, as a NIC moderates its interrupts.
//!
//! # Back-pressure
//! A write that finds no room says that the device holds as much as it may. Between two such writes, if the worker had
//! packets all the time, the device sent what was written in between: that is its rate. The worker measures over
//! windows of at least [`WINDOW`], each from one blocked write to another. A moment without packets ends a window, since
//! the device may have run dry.
//!
//! While the device holds packets back, the queue below the NIC is real, and an urgent packet waits behind it. So the
//! chunks are then at most [`PRESSED_PIECE`] of the observed rate. A write is accepted while less than one and a half of
//! them wait ([`Pressure::bound`]), so at most two and a half do: 1 ms of the bottleneck, or 24 KB where that is more
//! ([`PIECE_MIN`]).
//!
//! Rare branches: a window that a pause ended is discarded, and needs no counter, since the next one replaces it. Blocked
//! writes count in `uplink_waits`.

use super::urgency::{OVERDRAW, Urgency};
use super::{MODERATION, SegmentsPerTurn};
use crate::counters::Counters;
use crate::link::{DeviceLink, LinkRate, PIECE, WHOLE, queue_below};
use core::num::NonZeroU32;
use weft_packet::ethernet;
use weft_packet::segment::SuperPacket;
use weft_sched::Program;
use weft_sched::fluid::FluidLag;
use weft_units::{BitsPerSec, Bytes, Instant, LaneId, LeafId, Nanos};

/// The shortest sleep while the link is busy with a standing backlog and no urgent class is active.
const BULK_SLEEP: Nanos = Nanos::from_millis(1);
/// The link time of a standing backlog. A packet behind that much waits about as long as a sleep anyway. A super-packet takes more at
/// 1 Gb/s, so bulk always has it.
const STANDING: Nanos = Nanos::from_micros(400);
/// The least length of a window of measurement.
const WINDOW: Nanos = Nanos::from_millis(20);
/// The time that the device counts as holding packets back after a blocked write.
const PRESSED: Nanos = Nanos::from_millis(200);
/// The time after which an observed rate is forgotten.
const FORGET: Nanos = Nanos::from_secs(1);
/// The longest chunk for a device that holds packets back, in link time: two fifths of the queue that may wait there.
const PRESSED_PIECE: Nanos = Nanos::from_micros(400);
/// The longest chunk for a slow device: six MTU-size segments. Shorter ones cost more processor time than they give.
const PIECE_MIN: Bytes = Bytes(9600);

/// The classes of a policy as a device sees them.
#[derive(Debug)]
pub(crate) struct Classes {
    urgency: Urgency,
    lag: FluidLag,
}

impl Classes {
    /// The classes of `program` on a link of `rate`, if that is known, for as many rings as a NIC has.
    pub(crate) fn new(program: &Program, rate: Option<BitsPerSec>) -> Self {
        Self { urgency: Urgency::new(program.clone(), rate), lag: FluidLag::new(program) }
    }
}

/// The measurement of the rate that the back-pressure shows.
#[derive(Debug, Default)]
pub(crate) struct Pressure {
    /// The bytes written, on the wire.
    written: Bytes,
    /// The start of the window, and the bytes written until then.
    window: Option<(Instant, Bytes)>,
    observed: Option<BitsPerSec>,
    blocked_at: Option<Instant>,
}

impl Pressure {
    /// Counts a chunk of `wire` bytes.
    pub(crate) fn wrote(&mut self, wire: Bytes) {
        self.written += wire;
    }

    /// The bytes written so far, on the wire.
    pub(crate) fn written(&self) -> Bytes {
        self.written
    }

    /// Records a write that found no room at `now`. Returns true when there is a new observed rate.
    pub(crate) fn blocked(&mut self, now: Instant) -> bool {
        self.blocked_at = Some(now);
        let Some((start, before)) = self.window else {
            self.window = Some((now, self.written));
            return false;
        };
        let span = now.saturating_since(start);
        let sent = self.written.saturating_sub(before);
        // A slow device may send nothing for longer than a window.
        if span < WINDOW || sent == Bytes::ZERO {
            return false;
        }
        self.window = Some((now, self.written));
        let seen = BitsPerSec::from_bytes_over(sent, span).get();
        let mean = self.observed.map_or(seen, |old| old.get() / 2 + seen / 2);
        self.observed = Some(BitsPerSec(mean.max(1)));
        true
    }

    /// Records that there is nothing to send: the device may run dry.
    pub(crate) fn paused(&mut self) {
        self.window = None;
    }

    /// Forgets a rate that was not observed again for long. Returns true when it was forgotten at `now`.
    pub(crate) fn settle(&mut self, now: Instant) -> bool {
        let old = self.blocked_at.is_some_and(|at| now.saturating_since(at) > FORGET);
        if old {
            (self.window, self.blocked_at) = (None, None);
            return self.observed.take().is_some();
        }
        false
    }

    /// The observed rate of the device; `None` while it is not the bottleneck.
    pub(crate) fn observed(&self) -> Option<BitsPerSec> {
        self.observed
    }

    /// Whether the device holds packets back.
    pub(crate) fn is_on(&self, now: Instant) -> bool {
        self.blocked_at.is_some_and(|at| now.saturating_since(at) <= PRESSED)
    }

    /// The longest chunk while the device holds packets back, of at most `most`.
    pub(crate) fn piece(&self, most: Bytes) -> Bytes {
        let of = self.observed.map_or(most, |rate| rate.bytes_in(PRESSED_PIECE).max(PIECE_MIN));
        of.min(most)
    }

    /// The bound of the queue below for such chunks. The kernel compares it before a write, with the chunk not yet counted.
    pub(crate) fn bound(&self, most: Bytes) -> Bytes {
        let piece = self.piece(most).get();
        Bytes(piece + piece / 2)
    }
}

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
    /// The lag behind the fluid schedule, and the lane of each ring.
    pub(super) lag: FluidLag,
    lane_of_ring: Vec<LaneId>,
    /// The longest chunk sent, on the wire.
    longest: Bytes,
    /// The bytes sent since the last sleep.
    burst: Bytes,
    /// The size of a chunk on the wire, smoothed over some of them.
    chunk: Bytes,
    /// The throughput at the last settlement, and the bytes and the time of that.
    throughput: BitsPerSec,
    settled: (Bytes, Instant),
}

impl Device {
    /// The state of a device at the start, without rings, for the lanes of `program`. `rate` is a limit only if it is
    /// [`LinkRate::Given`]; `most` is the longest chunk that the device takes whole.
    pub(crate) fn new(link: DeviceLink, rate: BitsPerSec, most: Bytes, program: &Program) -> Self {
        let most = most.min(Bytes(WHOLE));
        let given = (link.rate == LinkRate::Given).then_some(rate);
        Self {
            link,
            rate,
            most,
            urgency: Urgency::new(program.clone(), given),
            lag: FluidLag::new(program),
            lane_of_ring: Vec::new(),
            longest: Bytes::ZERO,
            burst: Bytes::ZERO,
            chunk: Bytes::ZERO,
            throughput: BitsPerSec::ZERO,
            settled: (Bytes::ZERO, Instant::ZERO),
            pressure: Pressure::default(),
            urgent_waits: false,
            bound: Self::first_bound(link, rate, most),
        }
    }

    /// The bound of the queue below before any rate has been observed.
    fn first_bound(link: DeviceLink, rate: BitsPerSec, most: Bytes) -> Bytes {
        match link.rate {
            LinkRate::Given => queue_below(rate, most),
            LinkRate::Observed => Bytes(2 * most.get()),
        }
    }

    /// Exchanges the classes, and the rate with its source if that changes. The caller adds all rings again. A class that
    /// stays keeps what it has used of its guarantee; the lag of each is measured anew.
    pub(super) fn change(&mut self, classes: &mut Classes, link: Option<(BitsPerSec, LinkRate)>) {
        if let Some((rate, source)) = link {
            (self.rate, self.link.rate) = (rate, source);
        }
        classes.urgency.take_over(&mut self.urgency);
        core::mem::swap(&mut self.urgency, &mut classes.urgency);
        core::mem::swap(&mut self.lag, &mut classes.lag);
        self.urgent_waits = false;
    }

    /// Sets the lane of `ring`, a new one. Returns the leaf of the lane.
    pub(super) fn add_ring(&mut self, ring: usize, lane: LaneId) -> usize {
        if self.lane_of_ring.len() <= ring {
            self.lane_of_ring.resize(ring + 1, lane);
        }
        self.lane_of_ring[ring] = lane;
        self.urgency.add_ring(ring, lane)
    }

    /// Moves `ring` to another lane.
    pub(super) fn move_ring(&mut self, ring: usize, lane: LaneId, backlogged: bool) {
        if let (true, Some(before)) = (backlogged, self.lane_of_ring.get(ring)) {
            self.lag.idled(*before);
        }
        self.add_ring(ring, lane);
        if backlogged {
            self.activated(ring);
        }
    }

    /// Records that `ring`, which was idle, has a packet to send.
    pub(super) fn activated(&mut self, ring: usize) {
        self.urgent_waits |= self.urgency.is_urgent(ring);
        if let Some(lane) = self.lane_of_ring.get(ring) {
            self.lag.activated(*lane);
        }
    }

    /// Records a turn of `ring` at `wall` that sent `sent` bytes, was charged `share`, and put the link's clock to `clock`.
    pub(super) fn served(
        &mut self,
        ring: usize,
        (sent, share): (Bytes, Bytes),
        backlogged: bool,
        (wall, clock): (Instant, Instant),
    ) {
        self.pressure.wrote(sent);
        self.urgency.charge(ring, sent, (wall, clock));
        self.burst += sent;
        if sent > Bytes::ZERO {
            self.chunk = Bytes(self.chunk.get() / 8 * 7 + sent.get() / 8);
        }
        self.longest = self.longest.max(share);
        let Some(lane) = self.lane_of_ring.get(ring) else { return };
        self.lag.sent(*lane, share);
        if !backlogged {
            self.lag.idled(*lane);
        }
    }

    /// Publishes the largest lags.
    pub(super) fn publish(&self, counters: &Counters) {
        for (leaf, published) in counters.lags.iter().enumerate() {
            let leaf = LeafId::from_index(leaf);
            let bound = self.lag.bound(leaf, self.longest);
            let Some(bytes) = self.lag.largest(leaf) else { continue };
            if bytes.get() > published.bytes.get() {
                let span = self.known_rate().map_or(Nanos::ZERO, |rate| rate.time_for(bytes));
                published.bytes.set(bytes.get());
                published.nanos.set(span.get());
            }
            published.bound.set(bound.get().max(1));
        }
    }

    /// The bound of the queue below.
    pub(crate) fn bound(&self) -> Bytes {
        self.bound
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
        self.urgency.set_rate(self.known_rate().unwrap_or(self.throughput));
        self.bound_changed()
    }

    /// The new bound of the queue below, if it differs from the one that was last set.
    pub(super) fn bound_changed(&mut self) -> Option<Bytes> {
        let bound = match self.pressure.observed() {
            Some(_) => self.pressure.bound(self.most),
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
            let active = || self.urgency.is_active(wall).then_some(PIECE);
            if let Some(piece) = self.link.piece.or_else(active) {
                bytes = bytes.min(rate.bytes_in(piece));
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

    /// Measures the throughput up to `now`. Without a known rate, the classes' guarantees are parts of that.
    pub(super) fn measure(&mut self, now: Instant) {
        let (before, since) = core::mem::replace(&mut self.settled, (self.pressure.written(), now));
        if since == Instant::ZERO || self.known_rate().is_some() {
            return;
        }
        let sent = self.pressure.written().saturating_sub(before);
        let seen = BitsPerSec::from_bytes_over(sent, now.saturating_since(since)).get();
        self.throughput = BitsPerSec(self.throughput.get() / 8 * 7 + seen / 8);
        self.urgency.set_rate(self.throughput);
    }

    /// Whether a worker without packets should sleep for the moderation interval before it asks to be woken: it has sent
    /// more than two super-packets since its last sleep, so that more will arrive.
    pub(super) fn moderates(&mut self) -> bool {
        core::mem::take(&mut self.burst) > Bytes(2 * WHOLE)
    }

    /// The shortest sleep while the link is busy for `ahead`. `waits` says whether that many packets wait.
    pub(super) fn moderation(&self, now: Instant, ahead: Nanos, waits: impl FnOnce(u64) -> bool) -> Nanos {
        let more = self.rate.bytes_in(STANDING.saturating_sub(ahead));
        let stands = || waits(more.get().div_ceil(self.chunk.get().max(1)));
        if !self.urgency.is_active(now) && stands() { BULK_SLEEP } else { MODERATION }
    }

    /// The time after which a blocked write is tried again: a chunk's at the observed rate. The kernel reports room only
    /// when half of the queue has left (`sock_writeable`, include/net/sock.h), which may be too late for the device.
    pub(super) fn retry_room(&self) -> Option<Nanos> {
        let rate = self.pressure.observed()?;
        Some(rate.time_for(self.pressure.piece(self.most)).max(MODERATION))
    }
}

#[cfg(test)]
mod tests;
