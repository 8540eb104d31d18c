//! Processors: softirqs before threads, one unit of work at a time.

use super::host::Task;
use super::{Event, World};
use crate::cost::{Category, Operation};
use crate::ids::{CoreId, HostId, StreamId};
use crate::trace::Observer;
use weft_units::Nanos;

/// Longest time for which softirqs keep a ready thread waiting (`MAX_SOFTIRQ_TIME`, kernel/softirq.c: 2 ms; then ksoftirqd competes
/// as a thread).
const SOFTIRQ_TIME: Nanos = Nanos(2_000_000);

/// A unit of work under way: where, and how far the processor's time has come.
pub(super) struct Work {
    pub(super) host: HostId,
    pub(super) core: CoreId,
    at: f64,
}

impl Work {
    /// The processor's time now.
    #[inline]
    pub(super) fn now(&self) -> Nanos {
        Nanos(self.at as u64)
    }
}

impl<O: Observer> World<'_, O> {
    /// Lets a processor take up work at `at` or as soon as it is free.
    pub(super) fn wake(&mut self, host: HostId, core: CoreId, at: Nanos) {
        let state = &mut self.hosts[host].cores[core];
        if !state.pending {
            state.pending = true;
            let time = at.max(state.free);
            self.queue.push(time, Event::Processor { host, core });
        }
    }

    /// A thread becomes ready.
    pub(super) fn ready(&mut self, host: HostId, core: CoreId, task: Task, at: Nanos) {
        self.hosts[host].cores[core].ready.push_back(task);
        self.wake(host, core, at);
    }

    /// The core that a thread wakes on: its own, or the least busy one.
    pub(super) fn core_for(&self, host: HostId, own: CoreId, pinned: bool) -> CoreId {
        let cores = &self.hosts[host].cores;
        if pinned || cores[own].ready.is_empty() && cores[own].free <= self.now {
            return own;
        }
        cores.ids().min_by_key(|&core| (cores[core].ready.len(), cores[core].free)).unwrap_or(own)
    }

    /// A processor does its next unit of work.
    pub(super) fn processor(&mut self, host: HostId, core: CoreId) {
        let state = &mut self.hosts[host].cores[core];
        state.pending = false;
        let thread_waits = !state.ready.is_empty();
        let thread_first = thread_waits && self.now.saturating_sub(state.thread_ran) > SOFTIRQ_TIME;
        if !thread_waits {
            state.thread_ran = self.now;
        }
        let mut work = Work { host, core, at: self.now.max(state.free).0 as f64 };
        // In the order of `handle_softirqs`: what a poll raises runs after the poll, transmission before tasklets.
        if !thread_first && let Some(queue) = state.net_tx.pop_front() {
            self.qdisc_run(queue, &mut work);
        } else if !thread_first && let Some(vector) = state.polls.pop_front() {
            self.poll(vector, &mut work);
        } else if !thread_first && !state.tasklet.is_empty() {
            self.tasklet(&mut work);
        } else if let Some(task) = state.ready.pop_front() {
            state.thread_ran = self.now;
            self.run_task(task, &mut work);
        }
        let free = work.now();
        let state = &mut self.hosts[host].cores[core];
        state.free = free;
        if state.has_work() && !state.pending {
            state.pending = true;
            self.queue.push(free, Event::Processor { host, core });
        }
    }

    /// Work that an event does at once on a processor, on top of what it is busy with.
    pub(super) fn work_on(&self, host: HostId, core: CoreId) -> Work {
        let free = self.hosts[host].cores[core].free;
        Work { host, core, at: self.now.max(free).0 as f64 }
    }

    /// Ends such work.
    pub(super) fn end_work(&mut self, work: &Work) {
        self.hosts[work.host].cores[work.core].free = work.now();
    }

    fn run_task(&mut self, task: Task, work: &mut Work) {
        match task {
            Task::Write { stream } => self.write(stream, work),
            Task::Read { stream } => self.read(stream, work),
            Task::Datagram { stream } => self.send_datagram(stream, work),
            Task::Probe { probe, reply, asked } => {
                self.charge(Operation::WakeUp, 1.0, work);
                self.send_probe(probe, reply, asked, work);
            }
            Task::ProbeDone { probe, asked } => {
                self.charge(Operation::WakeUp, 1.0, work);
                self.probe_done(probe, asked, work);
            }
        }
    }

    /// Charges `units` of an operation. What is done is counted, and turned into categories at the end.
    #[inline]
    pub(super) fn charge(&mut self, operation: Operation, units: f64, work: &mut Work) {
        let state = &mut self.hosts[work.host].cores[work.core];
        state.done[operation as usize] += units;
        work.at += self.totals[operation as usize] * units;
    }

    /// Charges time of one category.
    pub(super) fn charge_time(&mut self, category: Category, nanos: f64, work: &mut Work) {
        self.hosts[work.host].cores[work.core].extra[category as usize] += nanos;
        work.at += nanos;
    }

    /// Touches a sending side's socket, whose cache lines come from the core that did so last.
    pub(super) fn touch(&mut self, stream: StreamId, work: &mut Work) {
        let nanos = self.scenario.costs.contention.socket_transfer_ns;
        let last = std::mem::replace(&mut self.streams[stream].touched, Some(work.core));
        if nanos > 0.0 && last != Some(work.core) {
            self.charge_time(Category::TcpIp, nanos, work);
        }
    }

    /// Charges a copy of `bytes`, dearer the more of it misses the last-level cache: with the flows that are active on the host,
    /// and when the NIC, whose node the data is on, is not the core's.
    pub(super) fn charge_copy(&mut self, operation: Operation, bytes: u64, work: &mut Work) {
        let contention = &self.scenario.costs.contention;
        let host = &self.hosts[work.host];
        let flows = f64::from(host.active_flows.saturating_sub(1));
        let miss = (contention.miss_base + contention.miss_per_flow * flows).min(contention.miss_max);
        let mut factor = 1.0 + miss * (contention.miss_factor - 1.0);
        let nodes = self.scenario.hosts[work.host.index()].numa_nodes;
        let cores = host.cores.len() as u32;
        if nodes > 1 && work.core.0 * nodes / cores != 0 {
            factor *= contention.numa_factor;
        }
        self.charge(operation, bytes as f64 * factor, work);
    }
}
