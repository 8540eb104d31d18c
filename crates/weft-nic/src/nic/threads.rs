//! The threads of a NIC.

use super::NicError;
use super::scheduler::{Scheduler, SharedQueues};
use crate::counters::Counters;
use crate::doorbell::Doorbells;
use crate::plan::RingPlan;
use crate::records::FlowClasses;
use crate::worker::{QueueEngine, Worker, WorkerParts};
use crate::{rx, tidy};
use rustix::io::Errno;
use std::cell::RefCell;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

pub(super) fn start_worker(
    engine: Scheduler,
    parts: WorkerParts,
    doorbells: Arc<Doorbells>,
    stop: Arc<AtomicBool>,
    learn_flows: bool,
) -> Result<JoinHandle<Result<(), Errno>>, NicError> {
    let run = move || {
        let flows = RefCell::new(FlowClasses::default());
        let records = doorbells.records(|record| flows.borrow_mut().learn(record, learn_flows));
        let Ok(records) = records else { return Err(Errno::NOMEM) };
        let stop = || stop.load(Ordering::Relaxed);
        let shared = doorbells.shared();
        match engine {
            Scheduler::Policy(tree) => Worker::new(tree, parts, shared, records, &flows).run(stop),
            Scheduler::Queues(scheduler) => {
                let engine = QueueEngine::new(scheduler, SharedQueues(Arc::clone(&doorbells)));
                Worker::new(engine, parts, shared, records, &flows).run(stop)
            }
        }
    };
    std::thread::Builder::new()
        .name("weft-transmit".to_owned())
        .spawn(run)
        .map_err(|e| NicError::Stopped(format!("start the transmit thread: {e}")))
}

pub(super) fn start_rx(
    uplink: &Arc<OwnedFd>,
    port: OwnedFd,
    counters: &Arc<Counters>,
    stop: &Arc<AtomicBool>,
) -> Result<JoinHandle<()>, NicError> {
    let (uplink, counters, stop) = (Arc::clone(uplink), Arc::clone(counters), Arc::clone(stop));
    let run = move || rx::run(&uplink, &port, &counters, || stop.load(Ordering::Relaxed));
    std::thread::Builder::new()
        .name("weft-receive".to_owned())
        .spawn(run)
        .map_err(|e| NicError::Stopped(format!("start the receiving thread: {e}")))
}

pub(super) fn start_tidy(
    doorbells: &Arc<Doorbells>,
    plan: &RingPlan,
    stop: &Arc<AtomicBool>,
) -> Result<JoinHandle<()>, NicError> {
    let (table, lanes) = (doorbells.flow_table()?, plan.lanes.clone());
    let (doorbells, stop) = (Arc::clone(doorbells), Arc::clone(stop));
    std::thread::Builder::new()
        .name("weft-flows".to_owned())
        .spawn(move || tidy::run(&doorbells, &table, &lanes, || stop.load(Ordering::Relaxed)))
        .map_err(|e| NicError::Stopped(format!("start the flow table's thread: {e}")))
}
