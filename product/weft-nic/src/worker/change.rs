//! The change of the policy while packets wait: between two turns, in one step.
//!
//! Everything that takes time is done before, in the thread of the caller: the new tree, the urgency and the lag of the new
//! classes, and the plans of the ports. The worker exchanges them:
//!
//! 1. Drains end, and begin anew afterwards (`worker/drain.rs`). The engine exchanges its program. Flows of lanes that are gone are in their heirs' then. A refusal ends the change
//!    here, with no effect.
//! 2. Rings of new lanes move to them, and rings that have changed their owner get their class.
//! 3. The device takes the new classes' urgency and lag, and learns all rings again.
//! 4. The link takes its new rate.
//!
//! The old parts return to the caller, so the worker frees nothing. The time of the step is the longest that the change
//! holds a packet: `change_pause` and `change_pause_max`.

use super::device::Classes;
use super::engine::ExchangeError;
use super::ports::RingSet;
use super::{Engine, Worker};
use crate::link::LinkRate;
use crate::plan::RingSpec;
use crate::records::RecordSource;
use std::sync::Arc;
use weft_host::clock;
use weft_sched::Prepared;
use weft_sched::workers::Shared;
use weft_units::{BitsPerSec, Nanos};

/// A change of the policy, prepared outside the worker, and after the change what was replaced.
#[derive(Debug)]
pub(crate) struct PolicyChange {
    /// The new program, and then the old one.
    pub(crate) program: Option<Prepared>,
    /// The state of the new program that several workers share.
    pub(crate) shared: Option<Arc<Shared>>,
    /// The classes as the uplink's device sees them.
    pub(crate) classes: Option<Classes>,
    /// The ports, by their bits in the summary.
    pub(crate) ports: Vec<PortChange>,
    /// The rate of the link and its source, if it changes.
    pub(crate) link: Option<(BitsPerSec, LinkRate, Nanos)>,
    /// The outcome: the time that the worker took, or the reason of a refusal.
    pub(crate) outcome: Result<Nanos, ExchangeError>,
}

/// The change at a port.
#[derive(Debug)]
pub(crate) struct PortChange {
    /// The port's bit in the summary.
    pub(crate) port: usize,
    /// The rings that change their lane or their class, and those of new lanes.
    pub(crate) rings: Vec<(usize, RingSpec)>,
    /// The rings of each leaf.
    pub(crate) leaves: Vec<(usize, RingSet)>,
}

impl<R: RecordSource, E: Engine> Worker<'_, R, E> {
    /// Says whether the engine would change the policy. What it says holds until the next command.
    pub(super) fn check_policy(&mut self, change: &mut PolicyChange) {
        if let Some(prepared) = &change.program {
            change.outcome = self.engine.may_change(prepared).map(|()| Nanos::ZERO);
        }
    }

    /// Changes the policy.
    pub(super) fn change_policy(&mut self, change: &mut PolicyChange) {
        let begin = clock::now();
        self.end_drains();
        if let Some(prepared) = change.program.take() {
            match self.engine.change(prepared, self.parts.link.now()) {
                Ok(retired) => {
                    change.program = Some(retired);
                    self.reads_packets = self.engine.reads_packets();
                }
                Err((unused, why)) => {
                    (change.program, change.outcome) = (Some(unused), Err(why));
                    return;
                }
            }
        }
        if let Some(shared) = change.shared.take()
            && let Err(why) = self.engine.join(shared, self.parts.link.now())
        {
            change.outcome = Err(why);
        }
        for port in &mut change.ports {
            self.change_port(port);
        }
        if let Some((rate, source, catch_up)) = change.link {
            self.parts.link.change((source == LinkRate::Given).then_some(rate), catch_up);
            self.pace.set_rate((source == LinkRate::Given).then_some(rate));
        }
        if let Some(classes) = change.classes.as_mut() {
            self.change_classes(classes, change.link.map(|(rate, source, _)| (rate, source)));
        }
        let pause = clock::now().saturating_since(begin);
        let counters = &self.parts.counters;
        counters.changes.add(1, 0);
        counters.change_pause_max.set(counters.change_pause_max.get().max(pause.get()));
        change.outcome = change.outcome.map(|_| pause);
    }

    fn change_port(&mut self, change: &mut PortChange) {
        let Some(Some(port)) = self.ports.get_mut(change.port) else { return };
        core::mem::swap(&mut port.leaves, &mut change.leaves);
        for (number, spec) in &change.rings {
            let Some(slot) = port.slots.get(*number).copied() else { continue };
            let ring = &mut self.rings[slot];
            self.engine.move_ring(ring.flow, spec.lane);
            ring.lane = spec.lane;
            // A ring with packets keeps its class: the plan changes that of empty rings only.
            ring.class = spec.class;
        }
    }

    fn change_classes(&mut self, classes: &mut Classes, link: Option<(BitsPerSec, LinkRate)>) {
        let Some(device) = self.parts.device.as_mut() else { return };
        device.change(classes, link);
        // The queue below is as long as the rate requires.
        let bound = link.and_then(|_| device.bound_changed());
        for (slot, ring) in self.rings.iter().enumerate().filter(|(_, ring)| ring.fd.is_some()) {
            device.add_ring(slot, ring.lane);
            if ring.backlogged {
                device.activated(slot);
            }
        }
        self.bound_uplink(bound);
    }
}
