//! The processors of a host: softirqs and threads, one unit of work at a time per core.
//!
//! A unit of work is a NAPI poll, the qdisc run of a transmit queue, a stream's turn in the TSQ tasklet, or a thread's task. Its
//! path:
//!
//! 1. A part raises work on a core (`raise_poll`, `raise_net_tx`, `raise_tasklet`, `ready`) and wakes the core, which puts one
//!    [`Event::Processor`] on the agenda for the time at which the core is free.
//! 2. `begin` picks the next unit in the order of `handle_softirqs`: transmission, polls, tasklets, then threads. A thread that
//!    has been ready for [`SOFTIRQ_TIME`] goes first.
//! 3. The world performs the unit at the event's time. `charge` and its relatives advance [`Work`] by the cost of each operation,
//!    and the packets that the unit sends are stamped with that time.
//! 4. `end` marks the core as busy until then, and schedules its next unit.
//!
//! Rules that must hold:
//!
//! * A core has at most one pending event, and never two units at a time.
//! * State changes at the event's time; only timestamps run ahead. Parts that compare times must use [`Work::event_time`] for the
//!   agenda and [`Work::now`] for the packets.
//! * The processors own cores, queues of work and cost counters. Sockets and locks belong to other parts, which pass in their
//!   last core.
//!
//! Rare branches and their measures: a lock moved between cores, and the wait for it, are charged to [`CostCategory::Lock`]; a moved
//! socket to [`CostCategory::TcpIp`]. A thread that preempts softirqs, and a thread that moves to another core, change only the order
//! of work and have no counter.

use crate::cost::{Contention, CostCategory, CostedOperation, Costs, PerCategory, PerOperation};
use crate::event::{Agenda, Event};
use crate::ids::{CoreId, HostId, ProbeId, StreamId, Table};
use crate::packet::Way;
use std::collections::VecDeque;
use weft_units::{Nanos, RxQueueId, TxQueueId};

/// The maximum time that softirqs delay a ready thread (`MAX_SOFTIRQ_TIME`, kernel/softirq.c: 2 ms; then ksoftirqd competes
/// as a thread).
const SOFTIRQ_TIME: Nanos = Nanos(2_000_000);

/// The current unit of work: its host and core, and the core's advancing time.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) host: HostId,
    pub(crate) core: CoreId,
    /// The time of the unit's event.
    event_time: Nanos,
    at: f64,
}

impl Work {
    #[inline]
    fn new(host: HostId, core: CoreId, event_time: Nanos, free: Nanos) -> Self {
        Self { host, core, event_time, at: event_time.max(free).0 as i64 as f64 }
    }

    /// Returns the core's time.
    #[inline]
    pub(crate) const fn now(&self) -> Nanos {
        // Never negative; the conversion to signed numbers takes half as many instructions.
        Nanos(self.at as i64 as u64)
    }

    /// Returns the time of the unit's event: before the costs of the unit and before the core's earlier work ends.
    #[inline]
    pub(crate) const fn event_time(&self) -> Nanos {
        self.event_time
    }
}

/// A core's next unit of work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unit {
    /// `NET_TX_SOFTIRQ`: runs a transmit queue's qdisc.
    RunQdisc(TxQueueId),
    /// `NET_RX_SOFTIRQ`: polls a queue pair.
    Poll(RxQueueId),
    /// The TSQ tasklet, which has queued streams.
    Tasklet,
    Thread(Task),
}

/// A task of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Task {
    /// Writes the bytes of its stream's application.
    Write { stream: StreamId },
    /// Reads the received bytes of its stream.
    Read { stream: StreamId },
    /// Sends a datagram.
    Datagram { stream: StreamId },
    /// Sends or answers a probe's message.
    Ping { probe: ProbeId, way: Way, asked: Nanos },
    /// Takes a probe's answer.
    PingDone { probe: ProbeId, asked: Nanos },
}

/// The cores on which a thread may run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Placement {
    /// Its own core only.
    Pinned,
    /// The least busy core if its own is not free.
    Free,
}

/// A processor.
#[derive(Default, Debug)]
struct Core {
    /// Busy until this time.
    free: Nanos,
    /// Whether an [`Event::Processor`] is pending.
    pending: bool,
    /// Transmit queues whose byte queue limit has room again (raised by `netdev_tx_completed_queue`).
    net_tx: VecDeque<TxQueueId>,
    /// Queue pairs to poll.
    polls: VecDeque<RxQueueId>,
    /// Streams in the TSQ tasklet.
    tasklet: VecDeque<StreamId>,
    /// Ready threads.
    ready: VecDeque<Task>,
    /// The last time at which no thread waited for softirqs, or a thread ran.
    thread_ran: Nanos,
    /// Units of each operation in the measured part.
    done: PerOperation,
    /// Time by category apart from operations, in nanoseconds, in the measured part.
    extra: PerCategory,
}

impl Core {
    #[inline]
    fn has_work(&self) -> bool {
        !(self.net_tx.is_empty() && self.polls.is_empty() && self.tasklet.is_empty() && self.ready.is_empty())
    }

    /// Returns the next unit of work, in the order of `handle_softirqs`: work raised by a poll runs after the poll, transmission
    /// before tasklets.
    #[inline]
    fn next_unit(&mut self, now: Nanos) -> Option<Unit> {
        let thread_waits = !self.ready.is_empty();
        let thread_first = thread_waits && now.saturating_sub(self.thread_ran) > SOFTIRQ_TIME;
        if !thread_waits {
            self.thread_ran = now;
        }
        if !thread_first {
            if let Some(queue) = self.net_tx.pop_front() {
                return Some(Unit::RunQdisc(queue));
            }
            if let Some(queue) = self.polls.pop_front() {
                return Some(Unit::Poll(queue));
            }
            if !self.tasklet.is_empty() {
                return Some(Unit::Tasklet);
            }
        }
        let task = self.ready.pop_front()?;
        self.thread_ran = now;
        Some(Unit::Thread(task))
    }
}

/// The processors of a host.
#[derive(Debug)]
pub(crate) struct Processors {
    host: HostId,
    cores: Table<CoreId, Core>,
    /// Nanoseconds per unit of each operation.
    unit_ns: PerOperation,
    contention: Contention,
    numa_nodes: u32,
    /// Number of active flows with data at this host; they enlarge the working set of copies.
    active_flows: u32,
}

impl Processors {
    pub(crate) fn new(host: HostId, cores: u32, numa_nodes: u32, costs: &Costs) -> Self {
        Self {
            host,
            cores: (0..cores).map(|_| Core::default()).collect(),
            unit_ns: CostedOperation::ALL.map(|operation| costs.total(operation)),
            contention: costs.contention,
            numa_nodes,
            active_flows: 0,
        }
    }

    #[inline]
    pub(crate) const fn count(&self) -> u32 {
        self.cores.len() as u32
    }

    /// Counts a flow that becomes active at this host.
    pub(crate) const fn flow_starts(&mut self) {
        self.active_flows += 1;
    }

    pub(crate) const fn flow_ends(&mut self) {
        self.active_flows -= 1;
    }

    /// Makes a core start its work at `at`, or as soon as it is free.
    #[inline]
    pub(crate) fn wake(&mut self, core: CoreId, at: Nanos, agenda: &mut Agenda) {
        let state = &mut self.cores[core];
        if !state.pending {
            state.pending = true;
            agenda.push(at.max(state.free), Event::Processor { host: self.host, core });
        }
    }

    /// Queues a task of a ready thread.
    #[inline]
    pub(crate) fn ready(&mut self, core: CoreId, task: Task, at: Nanos, agenda: &mut Agenda) {
        self.cores[core].ready.push_back(task);
        self.wake(core, at, agenda);
    }

    /// Wakes a thread: queues its task on a core of its choice, which is charged for the wake-up first.
    pub(crate) fn wake_thread(
        &mut self,
        (own, placement): (CoreId, Placement),
        task: Task,
        (now, at): (Nanos, Nanos),
        agenda: &mut Agenda,
    ) {
        let core = self.core_for(own, placement, now);
        let mut work = self.at_once(core, now);
        self.charge(CostedOperation::WakeUp, 1.0, &mut work);
        self.end_at_once(&work);
        self.ready(core, task, at, agenda);
    }

    fn core_for(&self, own: CoreId, placement: Placement, now: Nanos) -> CoreId {
        let is_free = |core: &Core| core.ready.is_empty() && core.free <= now;
        if placement == Placement::Pinned || is_free(&self.cores[own]) {
            return own;
        }
        let load = |core: &CoreId| (self.cores[*core].ready.len(), self.cores[*core].free);
        self.cores.ids().min_by_key(load).unwrap_or(own)
    }

    /// Queues the running thread's next task, after the other ready threads.
    #[inline]
    pub(crate) fn continue_thread(&mut self, work: &Work, task: Task) {
        self.cores[work.core].ready.push_back(task);
    }

    #[inline]
    pub(crate) fn raise_poll(&mut self, core: CoreId, queue: RxQueueId) {
        self.cores[core].polls.push_back(queue);
    }

    #[inline]
    pub(crate) fn raise_net_tx(&mut self, core: CoreId, queue: TxQueueId) {
        self.cores[core].net_tx.push_back(queue);
    }

    #[inline]
    pub(crate) fn raise_tasklet(&mut self, core: CoreId, stream: StreamId) {
        self.cores[core].tasklet.push_back(stream);
    }

    /// Returns the next stream in the tasklet of the working core.
    #[inline]
    pub(crate) fn next_in_tasklet(&mut self, work: &Work) -> Option<StreamId> {
        self.cores[work.core].tasklet.pop_front()
    }

    /// Whether a core would start work at `now` and has no pending event.
    #[inline]
    pub(crate) fn is_idle(&self, core: CoreId, now: Nanos) -> bool {
        !self.cores[core].pending && self.cores[core].free <= now
    }

    /// Starts a core's next unit of work.
    #[inline]
    pub(crate) fn begin(&mut self, core: CoreId, now: Nanos) -> (Option<Unit>, Work) {
        let state = &mut self.cores[core];
        state.pending = false;
        let work = Work::new(self.host, core, now, state.free);
        (state.next_unit(now), work)
    }

    /// Ends a unit of work, and schedules the next one at once if there is any.
    #[inline]
    pub(crate) fn end(&mut self, work: &Work, agenda: &mut Agenda) {
        let state = &mut self.cores[work.core];
        state.free = work.now();
        if state.has_work() && !state.pending {
            state.pending = true;
            agenda.push(state.free, Event::Processor { host: self.host, core: work.core });
        }
    }

    /// Starts work that an event performs directly on a core, after the core's current work.
    #[inline]
    pub(crate) fn at_once(&self, core: CoreId, now: Nanos) -> Work {
        Work::new(self.host, core, now, self.cores[core].free)
    }

    /// Ends work started by [`at_once`](Self::at_once).
    #[inline]
    pub(crate) fn end_at_once(&mut self, work: &Work) {
        self.cores[work.core].free = work.now();
    }

    /// Charges `units` of an operation. Units are counted, and converted into categories at the end.
    #[inline]
    pub(crate) fn charge(&mut self, operation: CostedOperation, units: f64, work: &mut Work) {
        self.cores[work.core].done[operation as usize] += units;
        work.at += self.unit_ns[operation as usize] * units;
    }

    /// Charges time to one category.
    #[inline]
    pub(crate) fn charge_time(&mut self, category: CostCategory, nanos: f64, work: &mut Work) {
        self.cores[work.core].extra[category as usize] += nanos;
        work.at += nanos;
    }

    /// Charges a core for register writes apart from its units of work.
    pub(crate) fn charge_registers(&mut self, core: CoreId, written: u32) {
        let state = &mut self.cores[core];
        state.done[CostedOperation::RegisterWrite as usize] += f64::from(written);
        let nanos = self.unit_ns[CostedOperation::RegisterWrite as usize] * f64::from(written);
        state.free += Nanos(nanos as u64);
    }

    /// Charges the transfer of a sending socket's cache lines if another core touched it last.
    #[inline]
    pub(crate) fn touch_socket(&mut self, last: &mut Option<CoreId>, work: &mut Work) {
        let nanos = self.contention.socket_transfer_ns;
        let last = last.replace(work.core);
        if nanos > 0.0 && last != Some(work.core) {
            self.charge_time(CostCategory::TcpIp, nanos, work);
        }
    }

    /// Takes a lock: spins until its holder releases it, and charges the cache line's transfer from the last holder's core.
    #[inline]
    pub(crate) fn take_lock(&mut self, last: &mut Option<CoreId>, unlocked: Nanos, work: &mut Work) {
        let spin = unlocked.saturating_sub(work.now());
        let last = last.replace(work.core);
        if spin > Nanos::ZERO {
            self.charge_time(CostCategory::Lock, spin.0 as f64, work);
        }
        if last != Some(work.core) {
            self.charge_time(CostCategory::Lock, self.contention.lock_transfer_ns, work);
        }
    }

    /// Charges a copy of `bytes`. The cost grows with the share that misses the last-level cache: with the number of active flows
    /// on the host, and if the NIC, whose node holds the data, is on another node.
    pub(crate) fn charge_copy(&mut self, operation: CostedOperation, bytes: u64, work: &mut Work) {
        let contention = &self.contention;
        let flows = f64::from(self.active_flows.saturating_sub(1));
        let miss = (contention.miss_base + contention.miss_per_flow * flows).min(contention.miss_max);
        let mut factor = 1.0 + miss * (contention.miss_factor - 1.0);
        if self.numa_nodes > 1 && work.core.0 * self.numa_nodes / self.count() != 0 {
            factor *= contention.numa_factor;
        }
        self.charge(operation, bytes as f64 * factor, work);
    }

    /// Resets the counters at the start of the measured part.
    pub(crate) fn begin_measuring(&mut self) {
        for core in self.cores.iter_mut() {
            core.done = [0.0; CostedOperation::COUNT];
            core.extra = [0.0; CostCategory::COUNT];
        }
    }

    /// Returns the work by core and category in the measured part, in nanoseconds.
    pub(crate) fn work_done(&self, costs: &Costs) -> Vec<PerCategory> {
        let of_core = |core: &Core| {
            let mut work = core.extra;
            for (row, units) in costs.table.iter().zip(core.done) {
                for (sum, cost) in work.iter_mut().zip(row) {
                    *sum += cost * units;
                }
            }
            work
        };
        self.cores.iter().map(of_core).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CORE: CoreId = CoreId(0);

    fn processors(cores: u32) -> Processors {
        let mut costs = Costs::FREE;
        costs.table[CostedOperation::WakeUp as usize][CostCategory::Scheduling as usize] = 100.0;
        costs.table[CostedOperation::Poll as usize][CostCategory::Netdev as usize] = 7.0;
        Processors::new(HostId(3), cores, 1, &costs)
    }

    #[test]
    fn softirqs_go_first_until_a_thread_has_waited_too_long() {
        let (mut cpu, mut agenda) = (processors(1), Agenda::new());
        let task = Task::Read { stream: StreamId(4) };
        cpu.ready(CORE, task, Nanos(10), &mut agenda);
        assert_eq!(agenda.pop(), Some((Nanos(10), Event::Processor { host: HostId(3), core: CORE })));
        cpu.raise_tasklet(CORE, StreamId(1));
        cpu.raise_poll(CORE, RxQueueId(5));
        cpu.raise_net_tx(CORE, TxQueueId(6));
        assert_eq!(cpu.begin(CORE, Nanos(10)).0, Some(Unit::RunQdisc(TxQueueId(6))));
        assert_eq!(cpu.begin(CORE, Nanos(10)).0, Some(Unit::Poll(RxQueueId(5))));
        assert_eq!(cpu.begin(CORE, Nanos(10)).0, Some(Unit::Tasklet));
        assert_eq!(cpu.begin(CORE, SOFTIRQ_TIME + Nanos(1)).0, Some(Unit::Thread(task)));
    }

    #[test]
    fn a_core_is_busy_for_what_its_work_costs() {
        let (mut cpu, mut agenda) = (processors(1), Agenda::new());
        cpu.raise_poll(CORE, RxQueueId(0));
        cpu.raise_poll(CORE, RxQueueId(0));
        let (_, mut work) = cpu.begin(CORE, Nanos(50));
        cpu.charge(CostedOperation::Poll, 2.0, &mut work);
        assert_eq!(work.now(), Nanos(64));
        cpu.end(&work, &mut agenda);
        assert_eq!(agenda.pop(), Some((Nanos(64), Event::Processor { host: HostId(3), core: CORE })));
    }

    #[test]
    fn a_thread_that_is_not_pinned_wakes_where_least_waits() {
        let (mut cpu, mut agenda) = (processors(2), Agenda::new());
        let task = Task::Read { stream: StreamId(0) };
        for _ in 0..2 {
            cpu.wake_thread((CORE, Placement::Free), task, (Nanos(5), Nanos(5)), &mut agenda);
        }
        let next = |core| Some((Nanos(105), Event::Processor { host: HostId(3), core }));
        assert_eq!((agenda.pop(), agenda.pop()), (next(CORE), next(CoreId(1))));
        cpu.wake_thread((CORE, Placement::Pinned), task, (Nanos(5), Nanos(5)), &mut agenda);
        assert_eq!((cpu.cores[CORE].ready.len(), cpu.cores[CoreId(1)].ready.len()), (2, 1));
    }
}
