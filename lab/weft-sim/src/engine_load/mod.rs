//! Synthetic programs of the engine and closed loops over them: for `weft bench`, the benchmark, the examples and tests.

mod on_link;
mod programs;
mod prototype;

pub use on_link::{BETWEEN_FRAMES, LinkLoop};
pub use programs::{
    FIRST_PIPE_LIMIT, PIPE_CLASSES, PIPE_LANES, PIPE_LIMITS, chain_program, figure1_program, limit_lanes,
    pipes_program, wfq_program,
};
pub use prototype::PrototypeLoop;

use weft_sched::{
    Arrival, BurstEnd, Departure, Descriptor, FlowError, PacketScheduler, Program, ProgramError,
};
use weft_units::testing::Rng;
use weft_units::{Bytes, FlowId, Instant, LaneId, Nanos, Packets, Weight};

/// The packets that a loop moves at once: a link's burst.
pub const BURST: usize = 32;

/// The destination of the packet that replaces a departed one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refill {
    /// The same flow: every flow stays backlogged.
    Same,
    /// The next flow of a shuffled list: flows become idle and backlogged at random, the hard case for branch
    /// prediction.
    Shuffled,
}

/// A closed loop over a scheduler: the number of waiting packets equals the number of flows, and none is dropped.
#[derive(Debug)]
pub struct ClosedLoop {
    scheduler: PacketScheduler,
    order: Vec<FlowId>,
    position: usize,
    refill: Refill,
    rng: Rng,
    now: Instant,
    departures: Box<[Departure]>,
    arrivals: Box<[Arrival]>,
}

/// The packet lengths of a loop: minimum, medium and full-size frames.
const LENGTHS: [u64; 4] = [64, 594, 1518, 1518];

impl ClosedLoop {
    /// Builds a loop over `flows` flows, assigned to the program's lanes in turn with weights 1 to 4, with one waiting
    /// packet each.
    ///
    /// # Errors
    /// When the program cannot be run or a flow cannot be added.
    pub fn new(program: &Program, flows: u32, refill: Refill, seed: u64) -> Result<Self, WorkloadError> {
        Self::with_burst(program, flows, refill, seed, BURST)
    }

    /// As [`Self::new`], with bursts of `burst` packets, at least one.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn with_burst(
        program: &Program,
        flows: u32,
        refill: Refill,
        seed: u64,
        burst: usize,
    ) -> Result<Self, WorkloadError> {
        let mut scheduler = PacketScheduler::new(program)?;
        let mut rng = Rng::new(seed);
        let lanes = program.lanes.len().max(1);
        let mut order = Vec::with_capacity(flows as usize);
        for at in 0..flows {
            let weight = Weight::new(1 + rng.below(4)).unwrap_or(Weight::ONE);
            order.push(scheduler.add_flow(LaneId::from_index(at as usize % lanes), weight)?);
        }
        for at in (1..order.len()).rev() {
            order.swap(at, rng.below(at as u32 + 1) as usize);
        }
        scheduler.reserve(Packets(u64::from(flows)));
        let departures = vec![Departure::default(); burst.max(1)].into_boxed_slice();
        let arrivals = vec![Arrival::default(); burst.max(1)].into_boxed_slice();
        let mut this =
            Self { scheduler, order, position: 0, refill, rng, now: Instant::ZERO, departures, arrivals };
        for at in 0..this.order.len() {
            let flow = this.order[at];
            let descriptor = this.packet(at as u64);
            // A lane's bound may refuse a packet; the loop then runs with fewer.
            let _ = this.scheduler.enqueue(flow, descriptor, Instant::ZERO);
        }
        Ok(this)
    }

    #[inline]
    fn packet(&mut self, handle: u64) -> Descriptor {
        Descriptor { len: Bytes(LENGTHS[self.rng.below(4) as usize]), handle }
    }

    /// Dequeues at least `packets` packets, rounded up to whole bursts, and enqueues one for each. Returns the number
    /// dequeued, which is less only when no packet is left. Time advances by 100 ns per burst, and to a limit's release
    /// time where a limit delays all packets.
    pub fn run(&mut self, packets: u64) -> u64 {
        let mut done = 0;
        while done < packets {
            self.now += Nanos(100);
            let (count, end) = self.scheduler.dequeue_burst(&mut self.departures, self.now, |_| {});
            match end {
                BurstEnd::Wait(until) => self.now = until,
                BurstEnd::Empty if count == 0 => break,
                _ => {}
            }
            self.replace(count);
            done += count as u64;
        }
        done
    }

    #[inline]
    fn replace(&mut self, count: usize) {
        for at in 0..count {
            let departure = self.departures[at];
            let flow = match self.refill {
                Refill::Same => departure.flow,
                Refill::Shuffled => {
                    self.position = if self.position + 1 >= self.order.len() { 0 } else { self.position + 1 };
                    self.order[self.position]
                }
            };
            self.arrivals[at] = Arrival { flow, descriptor: self.packet(departure.descriptor.handle) };
        }
        self.scheduler.enqueue_burst(&self.arrivals[..count], self.now, |_, _| {});
    }

    /// The scheduler, for its counters and checks.
    pub fn scheduler(&self) -> &PacketScheduler {
        &self.scheduler
    }

    /// The scheduler, to be changed between two runs.
    pub fn scheduler_mut(&mut self) -> &mut PacketScheduler {
        &mut self.scheduler
    }

    /// The current time of the loop.
    pub fn now(&self) -> Instant {
        self.now
    }
}

/// Errors from building a loop.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum WorkloadError {
    /// The program cannot be run.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// A flow could not be added; the program has no lanes.
    #[error(transparent)]
    Flow(#[from] FlowError),
}
