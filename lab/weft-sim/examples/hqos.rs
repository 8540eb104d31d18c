//! Our side of the comparison with DPDK's rte_sched: the same hierarchy and the same loop as bench/peers/rte_sched.c.
//!
//! `hqos --pipes=N --classes=1..13|16 --refill=same|shuffled|drain --per-queue=N --packets=N --lengths=64|mixed
//! --limits=free|binding` prints one line of JSON. The peer's file says what the options mean.
#![allow(clippy::disallowed_methods, reason = "it measures time")]

use std::process::ExitCode;
use weft_sched::{Arrival, BurstEnd, Departure, Descriptor, PacketScheduler, Program};
use weft_sim::engine_load::{BURST, FIRST_PIPE_LIMIT, PIPE_CLASSES, PIPE_LANES, PIPE_LIMITS, pipes_program};
use weft_units::testing::Rng;
use weft_units::{BitsPerSec, Bytes, FlowId, Instant, LaneId, Nanos, Packets, Weight};

/// The peer's rate: no run reaches it.
const RATE: BitsPerSec = BitsPerSec(800_000_000_000);
/// The overhead of a frame on the wire; the peer's `RTE_SCHED_FRAME_OVERHEAD_DEFAULT`.
const OVERHEAD: Bytes = Bytes(24);
/// A minimum-size frame on the wire.
const LEN: Bytes = Bytes(64 + 24);
/// The lengths that a loop of mixed ones draws from.
const MIXED: [Bytes; 4] = [Bytes(64), Bytes(594), Bytes(1518), Bytes(1518)];
/// A limit that binds, and its burst of two frames; the peer's `BOUND_RATE` and `BOUND_BUCKET`.
const BOUND_RATE: BitsPerSec = BitsPerSec(800_000);
const BOUND_BURST: Bytes = Bytes(3044);

/// A packet as the peer has it: 128 bytes, two lines.
#[derive(Clone)]
#[repr(align(128))]
struct Packet {
    len: u32,
    lane: u32,
}

struct Options {
    pipes: usize,
    classes: usize,
    per_queue: usize,
    packets: u64,
    order: Order,
    mixed: bool,
    binding: bool,
}

/// The queues of the packets that are enqueued.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    /// The queue of the packet that left.
    Same,
    /// The next of a shuffled list.
    Shuffled,
    /// All, in a shuffled order, when all are empty.
    Drain,
}

fn options() -> Option<Options> {
    let mut options = Options {
        pipes: 64,
        classes: 4,
        per_queue: 1,
        packets: 4_000_000,
        order: Order::Same,
        mixed: false,
        binding: false,
    };
    for argument in std::env::args().skip(1) {
        let (name, value) = argument.split_once('=')?;
        match (name, value) {
            ("--pipes", value) => options.pipes = value.parse().ok()?,
            ("--classes", value) => options.classes = value.parse().ok()?,
            ("--per-queue", value) => options.per_queue = value.parse().ok()?,
            ("--packets", value) => options.packets = value.parse().ok()?,
            ("--refill", "same") => options.order = Order::Same,
            ("--refill", "shuffled") => options.order = Order::Shuffled,
            ("--refill", "drain") => options.order = Order::Drain,
            ("--lengths", "64") => options.mixed = false,
            ("--lengths", "mixed") => options.mixed = true,
            ("--limits", "free") => options.binding = false,
            ("--limits", "binding") => options.binding = true,
            _ => return None,
        }
    }
    let Options { pipes, classes, per_queue, .. } = options;
    let some = (1..=PIPE_CLASSES).contains(&classes) || classes == PIPE_LANES;
    let sound = pipes > 0 && some && per_queue > 0;
    // Elsewhere all packets would come to wait for the limits.
    let can_bind = options.order == Order::Same && pipes > 1;
    (sound && (can_bind || !options.binding)).then_some(options)
}

/// The peer's hierarchy. Of every second pipe the limits bind, if some are to.
fn program(options: &Options) -> Program {
    let mut program = pipes_program(options.pipes, RATE);
    if options.binding {
        for pipe in (1..options.pipes).step_by(2) {
            let first = FIRST_PIPE_LIMIT + pipe * PIPE_LIMITS;
            for limit in program.limits.iter_mut().skip(first).take(PIPE_LIMITS) {
                (limit.rate, limit.burst) = (BOUND_RATE, BOUND_BURST);
            }
        }
    }
    program
}

/// The lane of the `at`-th busy queue. Of best effort, a pipe uses one queue.
fn lane(options: &Options, at: usize) -> LaneId {
    let (pipe, class) = (at / options.classes, at % options.classes);
    let all = options.classes == PIPE_LANES;
    let queue = if class + 1 == PIPE_CLASSES && !all { pipe % (PIPE_LANES - class) } else { 0 };
    LaneId::from_index(pipe * PIPE_LANES + class + queue)
}

struct Loop {
    scheduler: PacketScheduler,
    packets: Vec<Packet>,
    order: Vec<FlowId>,
    position: usize,
    now: Instant,
    /// Draws lengths, if these are mixed.
    lengths: Option<Rng>,
}

impl Loop {
    fn new(options: &Options) -> Result<Self, Box<dyn std::error::Error>> {
        let mut scheduler = PacketScheduler::new(&program(options))?;
        let queues = options.pipes * options.classes;
        let mut packets = vec![Packet { len: 64, lane: 0 }; queues * options.per_queue];
        scheduler.reserve(Packets(packets.len() as u64));
        let mut order = Vec::with_capacity(queues);
        for at in 0..queues {
            order.push(scheduler.add_flow(lane(options, at), Weight::ONE)?);
        }
        if options.order != Order::Drain {
            for (at, flow) in order.iter().enumerate() {
                let first = at * options.per_queue;
                for (handle, packet) in packets.iter_mut().enumerate().skip(first).take(options.per_queue) {
                    packet.lane = flow.0;
                    let descriptor = Descriptor { len: LEN, handle: handle as u64 };
                    scheduler.enqueue(*flow, descriptor, Instant::ZERO)?;
                }
            }
        }
        let mut rng = Rng::new(1);
        for at in (1..order.len()).rev() {
            order.swap(at, rng.below(at as u32 + 1) as usize);
        }
        let lengths = options.mixed.then_some(rng);
        Ok(Self { scheduler, packets, order, position: 0, now: Instant::ZERO, lengths })
    }

    /// Runs at least `total` packets through the scheduler. Returns how many.
    fn run(&mut self, total: u64, order: Order) -> u64 {
        match order {
            Order::Same => self.turn(total, false),
            Order::Shuffled => self.turn(total, true),
            Order::Drain => self.drain(total),
        }
    }

    fn turn(&mut self, total: u64, shuffled: bool) -> u64 {
        let (mut departures, mut arrivals) = ([Departure::default(); BURST], [Arrival::default(); BURST]);
        let mut done = 0;
        while done < total {
            let count = self.dequeue(&mut departures);
            for at in 0..count {
                let departure = departures[at];
                let mut flow = departure.flow;
                if shuffled {
                    self.position = if self.position + 1 >= self.order.len() { 0 } else { self.position + 1 };
                    flow = self.order[self.position];
                }
                arrivals[at] = self.arrival(flow, departure.descriptor.handle);
            }
            self.scheduler.enqueue_burst(&arrivals[..count], self.now, |_, _| {});
            done += count as u64;
        }
        done
    }

    /// Fills all queues in the shuffled order and empties them, again and again.
    fn drain(&mut self, total: u64) -> u64 {
        let (mut departures, mut arrivals) = ([Departure::default(); BURST], [Arrival::default(); BURST]);
        let mut done = 0;
        while done < total {
            let all = self.packets.len();
            for first in (0..all).step_by(BURST) {
                let count = BURST.min(all - first);
                for (at, arrival) in arrivals.iter_mut().enumerate().take(count) {
                    let flow = self.order[(first + at) % self.order.len()];
                    *arrival = self.arrival(flow, (first + at) as u64);
                }
                self.scheduler.enqueue_burst(&arrivals[..count], self.now, |_, _| {});
            }
            let mut left = all;
            while left > 0 {
                left -= self.dequeue(&mut departures);
            }
            done += all as u64;
        }
        done
    }

    /// Dequeues a burst, and touches its packets.
    fn dequeue(&mut self, departures: &mut [Departure; BURST]) -> usize {
        // The peer reads the processor's clock; a burst takes about a microsecond.
        self.now += Nanos(1000);
        let (count, end) = self.scheduler.dequeue_burst(departures, self.now, |_| {});
        if let BurstEnd::Wait(until) = end {
            self.now = until;
        }
        for departure in &departures[..count] {
            core::hint::black_box(self.packets[departure.descriptor.handle as usize].lane);
        }
        count
    }

    /// A packet for `flow`, which is touched.
    fn arrival(&mut self, flow: FlowId, handle: u64) -> Arrival {
        let packet = &mut self.packets[handle as usize];
        packet.lane = flow.0;
        let len = match &mut self.lengths {
            Some(rng) => MIXED[rng.below(4) as usize],
            None => Bytes(u64::from(packet.len)) + OVERHEAD,
        };
        Arrival { flow, descriptor: Descriptor { len, handle } }
    }
}

fn main() -> ExitCode {
    let Some(options) = options() else {
        eprintln!("hqos: see the head of lab/weft-sim/examples/hqos.rs for the options");
        return ExitCode::FAILURE;
    };
    let mut closed = match Loop::new(&options) {
        Ok(closed) => closed,
        Err(error) => {
            eprintln!("hqos: {error}");
            return ExitCode::FAILURE;
        }
    };
    closed.run(1_000_000.max(closed.packets.len() as u64), options.order);
    let begin = std::time::Instant::now();
    let done = closed.run(options.packets, options.order);
    println!("{{\"pps\": {:.0}}}", done as f64 / begin.elapsed().as_secs_f64());
    ExitCode::SUCCESS
}
