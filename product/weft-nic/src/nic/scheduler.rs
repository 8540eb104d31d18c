//! The scheduler of a NIC. The worker adds a flow for each ring.

use super::NicError;
use crate::doorbell::NicMaps;
use crate::plan::RingPlan;
use crate::worker::SharedTree;
use core::ops::Deref;
use std::sync::Arc;
use weft_host::clock;
use weft_sched::workers::Shared;
use weft_sched::{PolicyTree, Program, QueueScheduler};
use weft_titan::page::QueuePage;

/// The scheduler of a mode.
pub(super) enum Scheduler {
    Policy(PolicyTree),
    /// The tree of one of several workers.
    Shared(Box<SharedTree>),
    /// Queues, and the number of rings of each.
    Queues(QueueScheduler, usize),
}

/// Creates the scheduler of the plan, without flows.
pub(super) fn make_engine(plan: &RingPlan) -> Result<Scheduler, NicError> {
    if let Some(queues) = plan.queues {
        let scheduler = QueueScheduler::new(queues.queues, queues.service, queues.inner);
        return Ok(Scheduler::Queues(scheduler, queues.rings));
    }
    let tree = PolicyTree::new(&plan.program).map_err(|e| NicError::Engine(e.to_string()))?;
    Ok(Scheduler::Policy(tree))
}

/// Creates the schedulers of `workers` workers that share `program`.
pub(super) fn make_shared(
    program: &Program,
    shared: &Arc<Shared>,
    workers: usize,
) -> Result<Vec<Scheduler>, NicError> {
    let make = |_| {
        let tree = PolicyTree::new(program).map_err(|e| NicError::Engine(e.to_string()))?;
        let tree = SharedTree::new(tree, Arc::clone(shared), clock::now());
        Ok(Scheduler::Shared(Box::new(tree.map_err(|e| NicError::Engine(e.to_string()))?)))
    };
    (0..workers).map(make).collect()
}

/// The page of the queues, which the maps keep mapped.
pub(super) struct SharedQueues(pub(super) Arc<NicMaps>);

impl Deref for SharedQueues {
    type Target = QueuePage;
    fn deref(&self) -> &QueuePage {
        self.0.queues()
    }
}
