//! The engine does not allocate in steady state.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

use weft_rank::{Algorithm, Scale, samples};
use weft_sched::queues::{DEFAULT_CREDIT, Inner, Service};
use weft_sched::{
    Arrival, BurstEnd, Child, Custom, Departure, Dequeue, Descriptor, Discipline, HeadUse, LaneSpec,
    LeafDiscipline, LeafSpec, LimitSpec, NodeSpec, PacketScheduler, Program, QueueScheduler, WeightUpdates,
};
use weft_units::testing::Rng;
use weft_units::{BitsPerSec, Bytes, FlowId, Instant, LaneId, LimitId, Nanos, Packets, TxQueueId, Weight};

#[path = "../src/testing.rs"]
mod testing;

use testing::tenants_program;

/// The system's allocator, with a count of its calls.
struct Counting;

thread_local! {
    /// The count of this thread, since the test harness's threads allocate too.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    // A terminating thread has no counter.
    let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
}

fn allocations() -> u64 {
    ALLOCATIONS.with(Cell::get)
}

// SAFETY: every method passes its arguments to the system's allocator unchanged, which keeps the contract; counting
// touches no allocated memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(place, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const FLOWS: u32 = 2000;

/// A scheduler in which each packet that leaves is replaced by another: of its flow, or of any.
struct Backlog {
    scheduler: PacketScheduler,
    rng: Rng,
    any: bool,
    now: Instant,
}

impl Backlog {
    fn new(program: &Program, any: bool) -> Self {
        let mut scheduler = PacketScheduler::new(program).unwrap();
        scheduler.reserve(Packets(FLOWS.into()));
        for at in 0..FLOWS {
            let lane = LaneId(at % program.lanes.len() as u32);
            let flow = scheduler.add_flow(lane, Weight::new(1 + at % 4).unwrap()).unwrap();
            scheduler.enqueue(flow, Descriptor { len: Bytes(1518), handle: 0 }, Instant::ZERO).unwrap();
        }
        Self { scheduler, rng: Rng::new(3), any, now: Instant::ZERO }
    }

    /// Sends at least `packets`, if enough of them are not dropped. Returns how many.
    fn run(&mut self, packets: usize) -> usize {
        let (mut departures, mut arrivals) = ([Departure::default(); 32], [Arrival::default(); 32]);
        let mut done = 0;
        while done < packets {
            self.now += Nanos(100);
            let (count, end) = self.scheduler.dequeue_burst(&mut departures, self.now, |_| {});
            match end {
                BurstEnd::Wait(until) => self.now = until,
                BurstEnd::Empty if count == 0 => break,
                _ => {}
            }
            for (departure, arrival) in departures[..count].iter().zip(&mut arrivals) {
                let flow = if self.any { FlowId(self.rng.below(FLOWS)) } else { departure.flow };
                let len = Bytes([64, 594, 1518, 1518][self.rng.below(4) as usize]);
                *arrival = Arrival { flow, descriptor: Descriptor { len, handle: 0 } };
            }
            self.scheduler.enqueue_burst(&arrivals[..count], self.now, |_, _| {});
            done += count;
        }
        done
    }
}

#[test]
fn a_million_packets_with_limits_need_no_allocation() {
    let mut program = tenants_program();
    for at in 0..8_u64 {
        let rate = BitsPerSec(400_000_000 * (at + 1));
        program.limits.push(LimitSpec { name: format!("destination {at}"), rate, burst: Bytes(3000) });
    }
    for (at, lane) in program.lanes.iter_mut().enumerate() {
        if at % 3 > 0 {
            lane.limits.push(LimitId((at % 8) as u32));
        }
    }
    for any in [false, true] {
        let mut backlog = Backlog::new(&program, any);
        backlog.run(100_000);
        let before = allocations();
        let done = backlog.run(1_000_000);
        let allocations = allocations() - before;
        assert!(done >= 1_000_000);
        assert_eq!(allocations, 0, "of any flow: {any}");
        assert_eq!(backlog.scheduler.check_invariants(), Ok(()));
    }
}

/// Of 64 lanes, every eighth hands its flows to a neighbour, and all limits get another rate.
#[test]
fn a_change_of_the_program_needs_no_allocation() {
    let program = tenants_program();
    let mut backlog = Backlog::new(&program, false);
    backlog.run(100_000);
    let mut scheduler = backlog.scheduler;
    let mut new = program.clone();
    let mut heirs = Vec::new();
    new.limits.push(LimitSpec { name: "new".to_owned(), rate: BitsPerSec(400_000_000), burst: Bytes(3000) });
    for (at, lane) in new.lanes.iter_mut().enumerate() {
        if at % 8 == 0 {
            *lane = LaneSpec::vacant();
            heirs.push((LaneId(at as u32), LaneId(at as u32 + 1)));
        } else {
            lane.limits.push(LimitId(0));
        }
    }
    let now = Instant::from_secs(100);
    let prepared = PacketScheduler::prepare(&new, &heirs, 2000).unwrap();
    let before = allocations();
    let changed = scheduler.change(prepared, now).unwrap();
    assert_eq!(allocations() - before, 0);
    assert_eq!(changed.moved, 2000 / 8);
    assert_eq!(scheduler.check_invariants(), Ok(()));
    let before = allocations();
    let mut served = 0;
    while let Dequeue::Packet(_) = scheduler.dequeue(now + Nanos(served * 1_000_000)) {
        served += 1;
    }
    assert_eq!((allocations() - before, served > 1000), (0, true));
}

fn custom(algorithm: Algorithm, parameters: Vec<Vec<u64>>) -> Custom {
    Custom::new(Arc::new(algorithm), parameters)
}

/// The tenants' program with user-defined algorithms in all leaves, or at all nodes, or both.
fn scripted(leaves: bool, nodes: bool) -> Program {
    let mut program = tenants_program();
    let deadlines = [samples::edf(), samples::stfq(), samples::las(), samples::aged(), samples::wf2q()];
    for (at, leaf) in program.leaves.iter_mut().enumerate().filter(|_| leaves) {
        let algorithm = deadlines[at % deadlines.len()].clone();
        let parameters = algorithm.parameters.iter().map(|field| field.initial).collect();
        let mut custom = custom(algorithm, vec![parameters]);
        custom.dropper = Some(Arc::new(self::custom(samples::codel(), vec![vec![1000, 100_000, 0]])));
        leaf.discipline = LeafDiscipline::Custom(Arc::new(custom));
    }
    for (at, node) in program.nodes.iter_mut().enumerate().filter(|_| nodes) {
        let rate = Scale::time_per_byte(BitsPerSec(50_000_000_000)).word();
        let (algorithm, list) = [
            (samples::wf2q(), vec![3]),
            (samples::floors(), vec![rate, rate, 1, 3000]),
            (samples::drr(), vec![1522]),
            (samples::edf(), vec![1000]),
        ][at % 4]
            .clone();
        let mut custom = custom(algorithm, vec![list; node.children.len()]);
        custom.head = HeadUse::Followed;
        node.discipline = Discipline::Custom(Arc::new(custom));
    }
    program
}

#[test]
fn packets_below_algorithms_need_no_allocation() {
    for (leaves, nodes) in [(true, false), (false, true), (true, true)] {
        let mut backlog = Backlog::new(&scripted(leaves, nodes), true);
        backlog.run(100_000);
        let before = allocations();
        // Droppers empty the queues in time.
        let done = backlog.run(100_000);
        assert_eq!((allocations() - before, done > 1000), (0, true), "{leaves} {nodes}: {done} packets");
        assert_eq!(backlog.scheduler.check_invariants(), Ok(()));
    }
}

/// The algorithms come, change and go.
#[test]
fn a_change_of_algorithms_needs_no_allocation() {
    let programs =
        [scripted(false, false), scripted(true, false), scripted(false, true), scripted(true, true)];
    let mut backlog = Backlog::new(&programs[0], false);
    backlog.run(10_000);
    let mut scheduler = backlog.scheduler;
    for (at, to) in [1, 2, 3, 1, 0, 3, 2, 0].into_iter().enumerate() {
        let now = Instant::from_secs(1 + at as u64);
        let prepared = PacketScheduler::prepare(&programs[to], &[], 2000).unwrap();
        let before = allocations();
        let changed = scheduler.change(prepared, now);
        assert_eq!(allocations() - before, 0, "to {to}");
        assert!(changed.is_ok());
        assert_eq!(scheduler.check_invariants(), Ok(()));
        let before = allocations();
        let left = (0..10).filter(|turn| {
            let answer = scheduler.dequeue(now + Nanos(turn * 1000));
            matches!(answer, Dequeue::Packet(_) | Dequeue::Drop(_))
        });
        assert_eq!(left.count(), 10, "after {to}");
        assert_eq!(allocations() - before, 0, "after {to}");
    }
}

#[test]
fn a_multiqueue_nic_needs_no_allocation() {
    let service = Service::Deficit { credit: DEFAULT_CREDIT };
    let mut nic = QueueScheduler::new(8, service, Inner::Fair);
    let flows: Vec<FlowId> =
        (0..256).map(|i| nic.add_flow(TxQueueId::from_index(i / 32)).expect("flow")).collect();
    let mut updates = WeightUpdates::new(8, Nanos(1000));
    let before = allocations();
    for turn in 0..100_000_u64 {
        nic.activate(flows[(turn * 7 % 256) as usize]);
        if turn % 50 == 0 {
            for update in updates
                .take(Instant::from_nanos(turn * 100), |queue| (turn / 200 % (queue.0 as u64 + 2), None))
            {
                nic.set_weight(update.queue, update.weight).expect("queue");
            }
        }
        if let Some(outstanding) = nic.next() {
            nic.finish(outstanding, Bytes(60 + turn * 977 % 65_000), turn % 3 != 0).expect("outstanding");
        }
    }
    assert_eq!(allocations() - before, 0);
    assert!(updates.applied().iter().any(|weight| *weight > 0));
}
