//! Driver sync: a process that passes weights and segment sizes to a driver, which programs in the kernel cannot do.
//!
//! Weights of queues use the net-shaper interface, and segment sizes the device's limit. The software NIC needs no
//! driver sync, since it reads the page itself.
//!
//! One pass ([`DriverSync::look`]), at the interval of [`DriverSync::pause`]:
//! 1. Take the changed weights from the page, at most one batch per update interval ([`WeightUpdates`]).
//! 2. Set them by net-shaper. A group is set as a whole, so the process keeps all weights.
//! 3. Check whether a queue has more than one flow. Segments become small at once, and large again after [`CALM`]
//!    without a shared queue.
//! 4. After a change of the segment limit, flush the routes, so that sockets adopt it.
//!
//! [`DriverSync::finish`] restores the segment limits and deletes the weights.
//!
//! Ownership: one process per device, by a file lock that ends with it. The original limits are in the state file,
//! written before the first change. The changes of a killed process are thus undone by the next one or by detaching. Every change is reported to the caller, and the ages of the weights are counted
//! ([`WeightUpdates::staleness`]).

use crate::device::Titan;
use crate::error::TitanError;
use crate::page::QueuePage;
use crate::segments;
use core::sync::atomic::Ordering;
use core::time::Duration;
use thiserror::Error;
use weft_host::clock;
use weft_host::link;
use weft_host::net_shaper::{Scope, Shaper, ShaperError};
use weft_sched::WeightUpdates;
use weft_sched::queues::Update;
use weft_units::{Instant, Nanos, TxQueueId, Weight};

/// The time without a shared queue after which segments become large again. Each change of the limit makes every socket
/// look up its route again, so it must not follow every packet.
pub const CALM: Nanos = Nanos::from_millis(500);
/// The interval of polls without an update interval to wait for.
const PAUSE: Duration = Duration::from_millis(10);

/// A receiver of queue weights.
pub trait QueueWeights {
    /// Sets weights; queues that are not named keep theirs.
    ///
    /// # Errors
    /// When the device or the kernel refuses.
    fn set(&mut self, updates: &[Update]) -> Result<(), ShaperError>;

    /// Removes all weights.
    ///
    /// # Errors
    /// When the device or the kernel refuses.
    fn reset(&mut self) -> Result<(), ShaperError>;
}

/// The reason that a device's queues have no weights.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum QueueWeightsError {
    /// The net-shaper interface refuses.
    #[error(transparent)]
    Shaper(#[from] ShaperError),
    /// It has shapers without weights.
    #[error("the driver's shapers of queues take no weights")]
    NoWeights,
}

/// Weights by the kernel's net-shaper interface.
#[derive(Debug)]
pub struct ShaperWeights {
    shaper: Shaper,
    ifindex: u32,
    /// The weights of all queues, since a group is set as a whole.
    weights: Vec<(TxQueueId, Weight)>,
}

impl ShaperWeights {
    /// Opens the interface of a device with `queues` queues.
    ///
    /// # Errors
    /// The reason, if the device has no such interface or its shapers accept no weights.
    pub fn open(ns: &weft_host::NetNs, ifindex: u32, queues: u32) -> Result<Self, QueueWeightsError> {
        let mut shaper = Shaper::open(ns)?;
        let can = shaper.capabilities(ifindex, Scope::Queue)?;
        if !can.weight || !can.nesting {
            return Err(QueueWeightsError::NoWeights);
        }
        let weights = (0..queues).map(|queue| (TxQueueId(queue), Weight::ONE)).collect();
        Ok(Self { shaper, ifindex, weights })
    }
}

/// Converts a weight to the device's range: 1 for an idle queue, and the maximum for larger ones.
fn device_weight(weight: u64) -> Weight {
    Weight::new(u32::try_from(weight).unwrap_or(u32::MAX)).unwrap_or(Weight::ONE)
}

impl QueueWeights for ShaperWeights {
    fn set(&mut self, updates: &[Update]) -> Result<(), ShaperError> {
        for update in updates {
            if let Some((_, weight)) = self.weights.get_mut(update.queue.index()) {
                *weight = device_weight(update.weight);
            }
        }
        self.shaper.set_weights(self.ifindex, &self.weights)
    }

    fn reset(&mut self) -> Result<(), ShaperError> {
        self.shaper.delete_weights(self.ifindex)
    }
}

/// The rule of small segments: at once when a queue is shared, and for [`CALM`] after the last was.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SegmentRule {
    small: bool,
    shared_at: Instant,
}

impl SegmentRule {
    /// Updates the rule at `now`. Returns whether segments must be small.
    pub fn look(&mut self, now: Instant, shared: bool) -> bool {
        if shared {
            self.shared_at = now;
        }
        self.small = shared || (self.small && now.saturating_since(self.shared_at) < CALM);
        self.small
    }
}

/// The size of a device's segments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum SegmentSize {
    /// Bounded, while a queue has more than one flow.
    Small,
    /// As the device had them.
    Large,
}

/// Keeps a device in step with its flows.
pub struct DriverSync {
    titan: Titan,
    updates: WeightUpdates,
    weights: Option<Box<dyn QueueWeights>>,
    without_weights: Option<String>,
    rule: Option<SegmentRule>,
    small: bool,
    changes: u64,
    /// The lock of the device, held for the lifetime of the value.
    _hold: std::fs::File,
}

impl core::fmt::Debug for DriverSync {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("DriverSync").field("titan", &self.titan).finish_non_exhaustive()
    }
}

impl DriverSync {
    /// Creates a driver sync for a device with queue assignment.
    ///
    /// # Errors
    /// When the device is the software NIC's port, or neither weights nor segment sizes can be set.
    pub fn new(mut titan: Titan) -> Result<Self, TitanError> {
        let hold = {
            let (ns, folder, known) = titan.segments();
            let hold = segments::hold(folder, known)?;
            // A killed process may have left its changes.
            segments::restore(folder, known, ns)?;
            hold
        };
        let state = titan.state();
        let refuse =
            |reason: &str| TitanError::Idle { device: state.device.clone(), reason: reason.to_owned() };
        if state.software_nic {
            return Err(refuse("the software NIC reads weights and segment sizes itself"));
        }
        let on = |part: &str| state.parts.iter().any(|name| name == part);
        let (weights, without_weights) = if on("dqwa") {
            match ShaperWeights::open(titan.netns(), state.ifindex, state.queues) {
                Ok(weights) => (Some(Box::new(weights) as Box<dyn QueueWeights>), None),
                Err(reason) => (None, Some(reason.to_string())),
            }
        } else {
            (None, None)
        };
        let rule = on("dsos").then(SegmentRule::default);
        if weights.is_none() && rule.is_none() {
            let why = without_weights.unwrap_or_else(|| "neither dqwa nor dsos is on".to_owned());
            return Err(refuse(&why));
        }
        let updates = WeightUpdates::new(state.queues as usize, Nanos(state.update_interval_ns));
        titan.page().use_weights.store(u32::from(weights.is_some()), Ordering::Release);
        Ok(Self { titan, updates, weights, without_weights, rule, small: false, changes: 0, _hold: hold })
    }

    /// The settings that are kept up to date, and those that it cannot.
    pub fn describe(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if self.weights.is_some() {
            lines.push("weights of queues: by net-shaper".to_owned());
        }
        if let Some(reason) = &self.without_weights {
            lines.push(format!("weights of queues: not on this driver ({reason})"));
        }
        if self.rule.is_some() {
            let bytes = self.titan.state().segment_bytes;
            lines.push(format!("segments: at most {bytes} bytes while a queue has more than one flow"));
        }
        lines
    }

    /// The time until the next pass.
    pub fn pause(&self) -> Duration {
        let update = Duration::from_nanos(self.titan.state().update_interval_ns);
        if self.weights.is_some() { update.clamp(Duration::from_micros(100), PAUSE) } else { PAUSE }
    }

    /// Runs one pass. Returns a line for each change.
    ///
    /// # Errors
    /// When the kernel refuses a change.
    pub fn look(&mut self) -> Result<Vec<String>, TitanError> {
        let mut said = Vec::new();
        let now = clock::now();
        let page = self.titan.page();
        if let Some(weights) = &mut self.weights {
            let read = |queue: TxQueueId| take_change(page, queue);
            let batch = self.updates.take(now, read);
            if !batch.is_empty() {
                weights.set(batch)?;
                self.changes += 1;
                let texts: Vec<String> =
                    batch.iter().map(|u| format!("{} to {}", u.queue.0, u.weight)).collect();
                said.push(format!("weights of queues: {}", texts.join(", ")));
            }
        }
        if let Some(rule) = &mut self.rule {
            let shared = page.loads.iter().any(|load| load.get().flows > 1);
            let small = rule.look(now, shared);
            if small != self.small {
                let size = if small { SegmentSize::Small } else { SegmentSize::Large };
                said.push(self.set_segments(size)?);
            }
        }
        Ok(said)
    }

    fn set_segments(&mut self, size: SegmentSize) -> Result<String, TitanError> {
        let state = self.titan.state().clone();
        let (ns, folder, known) = self.titan.segments();
        if size == SegmentSize::Small {
            segments::lower(folder, known, ns, state.segment_bytes)?;
        } else {
            segments::restore(folder, known, ns)?;
        }
        link::flush_routes(ns)?;
        self.small = size == SegmentSize::Small;
        let to = match size {
            SegmentSize::Small => format!("at most {} bytes", state.segment_bytes),
            SegmentSize::Large => "large again".to_owned(),
        };
        Ok(format!("segments: {to}"))
    }

    /// Restores the device. Returns a summary.
    ///
    /// # Errors
    /// When the kernel refuses a change.
    pub fn finish(mut self) -> Result<String, TitanError> {
        if self.small {
            self.set_segments(SegmentSize::Large)?;
        }
        if let Some(weights) = &mut self.weights {
            weights.reset()?;
            self.titan.page().use_weights.store(0, Ordering::Release);
        }
        let stale = self.updates.staleness();
        Ok(format!(
            "{} batches of weights; their changes were {} old in the mean, {} at most",
            self.changes,
            stale.mean(),
            stale.max
        ))
    }
}

/// Takes a queue's weight and the time of its change. The time is cleared before the weight is read, so a change in
/// between is seen again.
fn take_change(page: &QueuePage, queue: TxQueueId) -> (u64, Option<Instant>) {
    let changed = page.changed_ns.get(queue.index()).map_or(0, |time| time.swap(0, Ordering::SeqCst));
    (page.load(queue).weight, (changed != 0).then_some(Instant::from_nanos(changed)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::Load;

    #[test]
    fn segments_are_small_at_once_and_large_after_a_calm() {
        let mut rule = SegmentRule::default();
        let at = Instant::from_millis;
        assert!(!rule.look(at(1000), false), "nobody shares yet");
        assert!(rule.look(at(1010), true));
        assert!(rule.look(at(1400), false), "too soon");
        assert!(rule.look(at(1450), true));
        assert!(rule.look(at(1940), false));
        assert!(!rule.look(at(1950), false));
        assert!(!rule.look(at(9000), false));
    }

    #[test]
    fn a_change_is_taken_once_and_weights_fit_the_device() {
        let page = QueuePage::default();
        page.loads[3].set(Load { weight: 5, flows: 2 });
        page.changed_ns[3].store(9, Ordering::Relaxed);
        assert_eq!(take_change(&page, TxQueueId(3)), (5, Some(Instant::from_nanos(9))));
        assert_eq!(take_change(&page, TxQueueId(3)), (5, None));
        assert_eq!(take_change(&page, TxQueueId(9999)), (0, None), "no such queue");
        assert_eq!(device_weight(0), Weight::ONE);
        assert_eq!(device_weight(7), Weight::new(7).expect("a weight"));
        assert_eq!(device_weight(u64::MAX).get(), u32::MAX);
    }
}
