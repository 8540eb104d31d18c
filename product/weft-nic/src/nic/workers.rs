//! Several workers of a NIC, with one policy.
//!
//! Each port has one worker: the one with the fewest ports when it was added. A worker has the rings of its ports, and a separate
//! summary of their doorbells, tree of the whole program, counters and samples, so it shares no line of memory with the others but
//! the limits and classes of the policy ([`weft_sched::workers`]) and the uplink's queue. Match tables and cgroups are one for all.
//!
//! **The link.** The workers divide the time of a link of a given rate ([`Shared::with_link`]). All together send at most its rate, in the sense
//! of [`Settings::excess`], and each may have all of it. No worker has a clock of the link: its engine's time is the wall clock, and
//! time in which no worker runs is soon lost. There is no catch-up, no urgent class overdraws the link, and the lag behind the fluid
//! schedule is not measured.
//!
//! **Chunks** are at most those of [`CHUNK`] at the link's rate, since a slot of a limit is at least a chunk long.

use super::{NicConfig, NicError};
use crate::counters::{Count, Counter, Counters, Gauge};
use crate::link::{DeviceLink, LinkKind, LinkRate};
use crate::plan::{Mode, RingPlan};
use crate::sojourn::Sojourns;
use crate::totals::Draining;
use crate::worker::SegmentsPerTurn;
use core::num::{NonZeroU32, NonZeroUsize};
use std::sync::Arc;
use weft_packet::ethernet;
use weft_sched::Program;
use weft_sched::workers::{Settings, Shared};
use weft_units::{BitsPerSec, Bytes, Nanos};

/// The most workers of a NIC.
pub const WORKERS: usize = 64;

/// The longest chunk in link time, unless a frame is longer.
const CHUNK: Nanos = Nanos::from_micros(100);

/// The reason that a NIC has one worker only.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkersError {
    /// More than [`WORKERS`].
    #[error("{given} workers are more than a NIC may have; give at most {WORKERS}")]
    TooMany {
        /// The number given.
        given: usize,
    },
    /// The mode has queues instead of a policy.
    #[error("several workers share a policy, and mode {mode} has none; run it with one worker")]
    NoPolicy {
        /// The mode's name.
        mode: &'static str,
    },
    /// A user-defined algorithm keeps state that workers cannot share.
    #[error(
        "the policy has an algorithm of its own, which several workers cannot share; run it with one worker, or use `wfq` or `priority`"
    )]
    Algorithm,
    /// The link has no configured rate.
    #[error(
        "several workers share the rate of the link, which is not given; give one with --rate, or run the policy with one worker"
    )]
    NoRate,
    /// The departure log has one order.
    #[error("the departures of several workers have no common order; log them with one worker")]
    Departures,
}

/// Checks that `workers` workers can run `plan`.
pub(super) fn check(workers: NonZeroUsize, config: &NicConfig, plan: &RingPlan) -> Result<(), WorkersError> {
    let given = workers.get();
    if given == 1 {
        return Ok(());
    }
    if given > WORKERS {
        return Err(WorkersError::TooMany { given });
    }
    if config.mode != Mode::Loom {
        return Err(WorkersError::NoPolicy { mode: config.mode.name() });
    }
    if config.departures.is_some() {
        return Err(WorkersError::Departures);
    }
    check_policy(plan, config.link)
}

/// Checks that several workers can run the policy of `plan` above `link`.
pub(super) fn check_policy(plan: &RingPlan, link: LinkKind) -> Result<(), WorkersError> {
    if !plan.program.algorithms().is_empty() {
        return Err(WorkersError::Algorithm);
    }
    match link {
        LinkKind::Device(DeviceLink { rate: LinkRate::Observed, .. }) => Err(WorkersError::NoRate),
        LinkKind::Emulated | LinkKind::Device(_) => Ok(()),
    }
}

/// The shared state of several workers for `program`, on a link of `rate`, in chunks of at most `chunk` bytes on the wire.
pub(super) fn share(program: &Program, rate: BitsPerSec, chunk: Bytes) -> Result<Arc<Shared>, NicError> {
    let settings = Settings { segment: chunk, ..Settings::default() };
    let shared = Shared::new(program, settings).map_err(|error| NicError::Engine(error.to_string()))?;
    Ok(Arc::new(shared.with_link(rate)))
}

/// The unit of segmentation of several workers on a link of `rate`, with packets of `mtu` bytes.
pub(super) fn segments_per_turn(config: &NicConfig, mtu: Bytes) -> SegmentsPerTurn {
    let frame = ethernet::wire_of(ethernet::frame_of(mtu)).get().max(1);
    let most = u32::try_from(config.rate.bytes_in(CHUNK).get() / frame).unwrap_or(u32::MAX).max(1);
    let most = NonZeroU32::new(most).unwrap_or(NonZeroU32::MIN);
    match config.segments_per_turn {
        SegmentsPerTurn::AtMost(given) => SegmentsPerTurn::AtMost(given.min(most)),
        SegmentsPerTurn::Whole => SegmentsPerTurn::AtMost(most),
    }
}

/// The longest chunk on the wire, in segments of packets of `mtu` bytes, with room for tags.
pub(super) fn longest(unit: SegmentsPerTurn, mtu: Bytes) -> Bytes {
    let chunk = unit.longest_chunk(mtu);
    chunk + Bytes(chunk.get() / 16 + ethernet::wire_of(Bytes::ZERO).get())
}

/// The counters of all workers.
#[derive(Debug)]
pub(super) struct WorkersCounters(pub(super) Vec<Arc<Counters>>);

impl WorkersCounters {
    /// The sum of a counter.
    pub(super) fn count(&self, pick: impl Fn(&Counters) -> &Counter) -> Count {
        self.0.iter().map(|counters| pick(counters).get()).fold(Count::default(), Count::plus)
    }

    /// The packets of a counter.
    pub(super) fn packets(&self, pick: impl Fn(&Counters) -> &Counter) -> u64 {
        self.count(pick).packets.get()
    }

    /// The sum of a gauge.
    pub(super) fn sum(&self, pick: impl Fn(&Counters) -> &Gauge) -> u64 {
        self.0.iter().map(|counters| pick(counters).get()).sum()
    }

    /// The largest value of a gauge.
    pub(super) fn max(&self, pick: impl Fn(&Counters) -> &Gauge) -> u64 {
        self.0.iter().map(|counters| pick(counters).get()).max().unwrap_or(0)
    }

    /// The rings that are drained, at all workers.
    pub(super) fn draining(&self) -> Draining {
        let of = |sum: Draining, counters: &Arc<Counters>| {
            let Draining { rings, longest, limit, escorted } = Draining::of(counters);
            Draining {
                rings: sum.rings + rings,
                longest: sum.longest.max(longest),
                limit,
                escorted: sum.escorted + escorted,
            }
        };
        self.0.iter().fold(Draining::default(), of)
    }

    /// The waits of packets, by class.
    pub(super) fn sojourns(&self, classes: usize) -> Vec<Sojourns> {
        let of_class = |class: usize| {
            let of = self.0.iter().filter_map(|counters| counters.sojourns.get(class));
            of.fold(Sojourns::default(), |sum, histogram| sum.plus(&histogram.get()))
        };
        (0..classes).map(of_class).collect()
    }
}
