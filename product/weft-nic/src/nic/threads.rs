//! The threads of a NIC: the transmit workers, the receive thread, the thread that expires silent flows, and the one that follows
//! the kernel side of the ports.

use super::NicError;
use super::scheduler::{Scheduler, SharedQueues};
use crate::commands::{Commander, Inbox, commands};
use crate::doorbell::NicMaps;
use crate::port_watch::{self, Changes};
use crate::records::FlowClasses;
use crate::worker::{self, QueueEngine, Worker, WorkerParts};
use crate::{rx, tidy};
use rustix::io::Errno;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::thread::JoinHandle;
use weft_units::Nanos;

/// The running threads.
#[derive(Debug)]
pub(super) struct Threads {
    /// The workers, by number.
    pub(super) workers: Vec<Commander<worker::Command>>,
    pub(super) rx: Commander<rx::Command>,
    pub(super) watch: Commander<port_watch::Command>,
    /// The lines of the watch.
    pub(super) changes: Changes,
    stop: Arc<AtomicBool>,
    transmit: Vec<JoinHandle<Result<(), Errno>>>,
    others: Vec<JoinHandle<()>>,
}

impl Threads {
    /// Starts the threads. `learn_flows`: classes share rings.
    pub(super) fn start(
        workers: Vec<(Scheduler, WorkerParts)>,
        maps: &Arc<NicMaps>,
        learn_flows: bool,
    ) -> Result<Self, NicError> {
        let failed = |e| NicError::Stopped(format!("make an eventfd: {e}"));
        let (rx, rx_inbox) = commands().map_err(failed)?;
        let (watch, watch_inbox) = commands().map_err(failed)?;
        let changes = Changes::default();
        let (transmit, others, stop) = (Vec::new(), Vec::new(), Arc::new(AtomicBool::new(false)));
        // From here on the threads end if a step fails.
        let mut threads = Self { workers: Vec::new(), rx, watch, changes, stop, transmit, others };
        for (number, (engine, parts)) in workers.into_iter().enumerate() {
            let (worker, inbox) = commands().map_err(failed)?;
            let (maps, stop) = (Arc::clone(maps), Arc::clone(&threads.stop));
            let run = move || transmit_thread(engine, parts, (&maps, number), inbox, learn_flows, &stop);
            threads.transmit.push(spawn("weft-transmit", run)?);
            threads.workers.push(worker);
        }
        let stop = Arc::clone(&threads.stop);
        let run = move || rx::run(&rx_inbox, || stop.load(Ordering::Relaxed));
        threads.others.push(spawn("weft-receive", run)?);
        let (of_flows, stop) = (Arc::clone(maps), Arc::clone(&threads.stop));
        let run = move || tidy::run(&of_flows, || stop.load(Ordering::Relaxed));
        threads.others.push(spawn("weft-flows", run)?);
        let (changes, stop) = (threads.changes.clone(), Arc::clone(&threads.stop));
        let run = move || port_watch::run(&watch_inbox, &changes, || stop.load(Ordering::Relaxed));
        threads.others.push(spawn("weft-ports", run)?);
        Ok(threads)
    }

    /// Gives a command to `worker` and waits for its answer. `None` when the thread has ended.
    pub(super) fn ask<A>(&self, worker: usize, make: impl FnOnce(Sender<A>) -> worker::Command) -> Option<A> {
        self.workers.get(worker)?.ask(make)
    }

    /// Gives each worker its change of the policy, then waits for all. Several are asked before whether they would make it: either
    /// all of them change, or none. Returns the longest pause.
    ///
    /// # Errors
    /// When a worker has ended, or its engine refuses the change.
    pub(super) fn change(&self, mut changes: Vec<worker::PolicyChange>) -> Result<Nanos, NicError> {
        if changes.len() > 1 {
            changes = self.each(changes, worker::Command::Check)?;
        }
        let changed = self.each(changes, worker::Command::Change)?;
        let mut pause = Nanos::ZERO;
        for change in changed {
            pause = pause.max(change.outcome?);
        }
        Ok(pause)
    }

    /// Gives each worker its change with a command, then waits for all, and returns the changes.
    fn each(
        &self,
        changes: Vec<worker::PolicyChange>,
        command: fn(Box<worker::PolicyChange>, Sender<Box<worker::PolicyChange>>) -> worker::Command,
    ) -> Result<Vec<worker::PolicyChange>, NicError> {
        let order = |(worker, change): (&Commander<_>, _)| worker.order(|to| command(Box::new(change), to));
        let answers: Vec<_> = self.workers.iter().zip(changes).map(order).collect();
        let answer = |answer: Option<Receiver<_>>| {
            let change: Box<worker::PolicyChange> =
                answer.and_then(|answer| answer.recv().ok()).ok_or_else(super::ports::gone)?;
            change.outcome?;
            Ok(*change)
        };
        // All have answered before an error is returned.
        let answers: Vec<Result<_, NicError>> = answers.into_iter().map(answer).collect();
        answers.into_iter().collect()
    }

    /// Whether the workers run.
    pub(super) fn is_running(&self) -> bool {
        !self.transmit.is_empty() && self.transmit.iter().all(|thread| !thread.is_finished())
    }

    /// Ends the threads. Returns the worker's error, if it had one.
    pub(super) fn join(&mut self) -> Result<(), NicError> {
        self.stop.store(true, Ordering::SeqCst);
        self.workers.iter().for_each(Commander::wake);
        self.rx.wake();
        self.watch.wake();
        let panicked = |what: &str| NicError::Stopped(format!("the {what} panicked"));
        for thread in core::mem::take(&mut self.others) {
            thread.join().map_err(|_| panicked("receiving, the flow tables' or the ports' thread"))?;
        }
        for thread in core::mem::take(&mut self.transmit) {
            let ended = thread.join().map_err(|_| panicked("transmit worker"))?;
            ended.map_err(|error| NicError::Stopped(format!("map the record ring: {error}")))?;
        }
        Ok(())
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
    (maps, number): (&Arc<NicMaps>, usize),
    inbox: Inbox<worker::Command>,
    learn_flows: bool,
    stop: &AtomicBool,
) -> Result<(), Errno> {
    let flows = RefCell::new(FlowClasses::default());
    let records = maps.records_of(number, |record| flows.borrow_mut().learn(record, learn_flows));
    let Ok(records) = records else { return Err(Errno::NOMEM) };
    let stop = || stop.load(Ordering::Relaxed);
    let control = (maps.summary_of(number).clone(), inbox);
    match engine {
        Scheduler::Policy(tree) => Worker::new(tree, parts, control, records, &flows).run(stop),
        Scheduler::Shared(tree) => Worker::new(*tree, parts, control, records, &flows).run(stop),
        Scheduler::Queues(scheduler, rings_per_queue) => {
            let engine = QueueEngine::new(scheduler, rings_per_queue, SharedQueues(Arc::clone(maps)));
            Worker::new(engine, parts, control, records, &flows).run(stop);
        }
    }
    Ok(())
}
