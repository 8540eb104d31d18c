//! The threads of a NIC: the transmit worker, the receive thread, and the thread that expires silent flows.

use super::NicError;
use super::scheduler::{Scheduler, SharedQueues};
use crate::commands::{Commander, Inbox, commands};
use crate::doorbell::NicMaps;
use crate::records::FlowClasses;
use crate::worker::{self, QueueEngine, Worker, WorkerParts};
use crate::{rx, tidy};
use rustix::io::Errno;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// The running threads.
#[derive(Debug)]
pub(super) struct Threads {
    pub(super) worker: Commander<worker::Command>,
    pub(super) rx: Commander<rx::Command>,
    stop: Arc<AtomicBool>,
    transmit: Option<JoinHandle<Result<(), Errno>>>,
    others: Vec<JoinHandle<()>>,
}

impl Threads {
    /// Starts the threads. `learn_flows`: classes share rings.
    pub(super) fn start(
        engine: Scheduler,
        parts: WorkerParts,
        maps: &Arc<NicMaps>,
        learn_flows: bool,
    ) -> Result<Self, NicError> {
        let failed = |e| NicError::Stopped(format!("make an eventfd: {e}"));
        let ((worker, worker_inbox), (rx, rx_inbox)) =
            (commands().map_err(failed)?, commands().map_err(failed)?);
        let (transmit, others, stop) = (None, Vec::new(), Arc::new(AtomicBool::new(false)));
        // From here on the threads end if a step fails.
        let mut threads = Self { worker, rx, stop, transmit, others };
        let (of_worker, stop) = (Arc::clone(maps), Arc::clone(&threads.stop));
        let run = move || transmit_thread(engine, parts, &of_worker, worker_inbox, learn_flows, &stop);
        threads.transmit = Some(spawn("weft-transmit", run)?);
        let stop = Arc::clone(&threads.stop);
        let run = move || rx::run(&rx_inbox, || stop.load(Ordering::Relaxed));
        threads.others.push(spawn("weft-receive", run)?);
        let (of_flows, stop) = (Arc::clone(maps), Arc::clone(&threads.stop));
        let run = move || tidy::run(&of_flows, || stop.load(Ordering::Relaxed));
        threads.others.push(spawn("weft-flows", run)?);
        Ok(threads)
    }

    /// Whether the worker runs.
    pub(super) fn is_running(&self) -> bool {
        self.transmit.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Ends the threads. Returns the worker's error, if it had one.
    pub(super) fn join(&mut self) -> Result<(), NicError> {
        self.stop.store(true, Ordering::SeqCst);
        self.worker.wake();
        self.rx.wake();
        let panicked = |what: &str| NicError::Stopped(format!("the {what} panicked"));
        for thread in core::mem::take(&mut self.others) {
            thread.join().map_err(|_| panicked("receiving or the flow tables' thread"))?;
        }
        match self.transmit.take().map(JoinHandle::join) {
            None | Some(Ok(Ok(()))) => Ok(()),
            Some(Ok(Err(error))) => Err(NicError::Stopped(format!("map the record ring: {error}"))),
            Some(Err(_)) => Err(panicked("transmit worker")),
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        let _ = self.join();
    }
}

fn spawn<T: Send + 'static>(
    name: &str,
    run: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, NicError> {
    let thread = std::thread::Builder::new().name(name.to_owned());
    thread.spawn(run).map_err(|e| NicError::Stopped(format!("start the thread {name}: {e}")))
}

fn transmit_thread(
    engine: Scheduler,
    parts: WorkerParts,
    maps: &Arc<NicMaps>,
    inbox: Inbox<worker::Command>,
    learn_flows: bool,
    stop: &AtomicBool,
) -> Result<(), Errno> {
    let flows = RefCell::new(FlowClasses::default());
    let records = maps.records(|record| flows.borrow_mut().learn(record, learn_flows));
    let Ok(records) = records else { return Err(Errno::NOMEM) };
    let stop = || stop.load(Ordering::Relaxed);
    let control = (maps.summary().clone(), inbox);
    match engine {
        Scheduler::Policy(tree) => Worker::new(tree, parts, control, records, &flows).run(stop),
        Scheduler::Queues(scheduler, rings_per_queue) => {
            let engine = QueueEngine::new(scheduler, rings_per_queue, SharedQueues(Arc::clone(maps)));
            Worker::new(engine, parts, control, records, &flows).run(stop);
        }
    }
    Ok(())
}
