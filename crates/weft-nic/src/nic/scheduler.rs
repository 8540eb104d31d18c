//! The scheduler of a NIC, with a flow for each ring.

use super::NicError;
use crate::doorbell::Doorbells;
use crate::plan::RingPlan;
use crate::ring::Ring;
use core::ops::Deref;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use weft_sched::{PolicyTree, QueueScheduler};
use weft_titan::page::QueuePage;
use weft_units::{FlowId, RingId, TxQueueId, Weight};

/// Creates the descriptor rings of the plan. `add_flow` adds a ring's flow to the engine.
pub(crate) fn make_rings<E: core::fmt::Display>(
    plan: &RingPlan,
    fds: Vec<OwnedFd>,
    mut add_flow: impl FnMut(RingId) -> Result<FlowId, E>,
) -> Result<(Vec<Ring>, Vec<RingId>), NicError> {
    let mut rings = Vec::with_capacity(fds.len());
    let mut ring_of_flow = Vec::new();
    for (number, (spec, fd)) in plan.rings.iter().zip(fds).enumerate() {
        let ring = RingId::from_index(number);
        let flow = add_flow(ring).map_err(|error| NicError::Engine(error.to_string()))?;
        if ring_of_flow.len() <= flow.index() {
            ring_of_flow.resize(flow.index() + 1, RingId(u32::MAX));
        }
        ring_of_flow[flow.index()] = ring;
        rings.push(Ring::new(fd, flow, spec.class));
    }
    Ok((rings, ring_of_flow))
}

/// The scheduler of a mode.
pub(super) enum Scheduler {
    Policy(PolicyTree),
    Queues(QueueScheduler),
}

/// Creates the scheduler of the plan, with a flow per ring.
pub(super) fn make_engine(
    plan: &RingPlan,
    fds: Vec<OwnedFd>,
) -> Result<(Scheduler, Vec<Ring>, Vec<RingId>), NicError> {
    if let Some(queues) = plan.queues {
        let mut scheduler = QueueScheduler::new(queues.queues, queues.service, queues.inner);
        let queue = |ring: RingId| TxQueueId::from_index(ring.index() / queues.rings.max(1));
        let add = |ring| scheduler.add_flow(queue(ring));
        let (rings, ring_of_flow) = make_rings(plan, fds, add)?;
        return Ok((Scheduler::Queues(scheduler), rings, ring_of_flow));
    }
    let mut tree = PolicyTree::new(&plan.program).map_err(|e| NicError::Engine(e.to_string()))?;
    let lane = |ring: RingId| plan.rings[ring.index()].lane;
    let add = |ring| tree.add_flow(lane(ring), Weight::ONE);
    let (rings, ring_of_flow) = make_rings(plan, fds, add)?;
    Ok((Scheduler::Policy(tree), rings, ring_of_flow))
}

/// The page of the queues, which the doorbells keep mapped.
pub(super) struct SharedQueues(pub(super) Arc<Doorbells>);

impl Deref for SharedQueues {
    type Target = QueuePage;
    fn deref(&self) -> &QueuePage {
        self.0.queues()
    }
}
