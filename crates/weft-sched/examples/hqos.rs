//! Our side of the comparison with DPDK's rte_sched: the same hierarchy and the same loop as bench/peers/rte_sched.c.
//!
//! `hqos --pipes=N --classes=1..13 --refill=same|shuffled --per-queue=N --packets=N` prints one line of JSON. With
//! `--lengths=mixed` packets are not all of the peer's length.
#![allow(clippy::disallowed_methods, reason = "it measures time")]

use std::process::ExitCode;
use weft_sched::workload::{BURST, PIPE_CLASSES, Refill, Rng, pipes_program};
use weft_sched::{Arrival, BurstEnd, Departure, Descriptor, PacketScheduler};
use weft_units::{BitsPerSec, Bytes, FlowId, Instant, LaneId, Nanos, Packets, Weight};

/// The peer's rate: no run reaches it.
const RATE: BitsPerSec = BitsPerSec(800_000_000_000);
/// The overhead of a frame on the wire; the peer's `RTE_SCHED_FRAME_OVERHEAD_DEFAULT`.
const OVERHEAD: Bytes = Bytes(24);
/// A minimum-size frame on the wire.
const LEN: Bytes = Bytes(64 + 24);
/// The lengths that a loop of mixed ones draws from.
const MIXED: [Bytes; 4] = [Bytes(64), Bytes(594), Bytes(1518), Bytes(1518)];
/// Lanes of a pipe.
const PIPE_LANES: usize = 16;

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
    refill: Refill,
    mixed: bool,
}

fn options() -> Option<Options> {
    let mut options = Options {
        pipes: 64,
        classes: 4,
        per_queue: 1,
        packets: 4_000_000,
        refill: Refill::Same,
        mixed: false,
    };
    for argument in std::env::args().skip(1) {
        let (name, value) = argument.split_once('=')?;
        match (name, value) {
            ("--pipes", value) => options.pipes = value.parse().ok()?,
            ("--classes", value) => options.classes = value.parse().ok()?,
            ("--per-queue", value) => options.per_queue = value.parse().ok()?,
            ("--packets", value) => options.packets = value.parse().ok()?,
            ("--refill", "same") => options.refill = Refill::Same,
            ("--refill", "shuffled") => options.refill = Refill::Shuffled,
            ("--lengths", "mixed") => options.mixed = true,
            _ => return None,
        }
    }
    let sound = options.pipes > 0 && (1..=PIPE_CLASSES).contains(&options.classes) && options.per_queue > 0;
    sound.then_some(options)
}

/// The lane of the `at`-th busy queue. Of best effort, a pipe uses one queue.
fn lane(options: &Options, at: usize) -> LaneId {
    let (pipe, class) = (at / options.classes, at % options.classes);
    let queue = if class + 1 == PIPE_CLASSES { pipe % (PIPE_LANES - class) } else { 0 };
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
        let mut scheduler = PacketScheduler::new(&pipes_program(options.pipes, RATE))?;
        let queues = options.pipes * options.classes;
        let mut packets = vec![Packet { len: 64, lane: 0 }; queues * options.per_queue];
        scheduler.reserve(Packets(packets.len() as u64));
        let mut order = Vec::with_capacity(queues);
        for at in 0..queues {
            let flow = scheduler.add_flow(lane(options, at), Weight::ONE)?;
            let first = at * options.per_queue;
            for (handle, packet) in packets.iter_mut().enumerate().skip(first).take(options.per_queue) {
                packet.lane = flow.0;
                let descriptor = Descriptor { len: LEN, handle: handle as u64 };
                scheduler.enqueue(flow, descriptor, Instant::ZERO)?;
            }
            order.push(flow);
        }
        let mut rng = Rng::new(1);
        for at in (1..order.len()).rev() {
            order.swap(at, rng.below(at as u32 + 1) as usize);
        }
        let lengths = options.mixed.then_some(rng);
        Ok(Self { scheduler, packets, order, position: 0, now: Instant::ZERO, lengths })
    }

    fn run(&mut self, total: u64, refill: Refill) -> u64 {
        let (mut departures, mut arrivals) = ([Departure::default(); BURST], [Arrival::default(); BURST]);
        let mut done = 0;
        while done < total {
            // The peer reads the processor's clock; a burst takes about a microsecond.
            self.now += Nanos(1000);
            let (count, end) = self.scheduler.dequeue_burst(&mut departures, self.now);
            if let BurstEnd::Wait(until) = end {
                self.now = until;
            }
            for at in 0..count {
                let departure = departures[at];
                let packet = &mut self.packets[departure.descriptor.handle as usize];
                let mut flow = departure.flow;
                if refill == Refill::Shuffled {
                    self.position = if self.position + 1 >= self.order.len() { 0 } else { self.position + 1 };
                    flow = self.order[self.position];
                }
                packet.lane = flow.0;
                let len = match &mut self.lengths {
                    Some(rng) => MIXED[rng.below(4) as usize],
                    None => Bytes(u64::from(packet.len)) + OVERHEAD,
                };
                arrivals[at] =
                    Arrival { flow, descriptor: Descriptor { len, handle: departure.descriptor.handle } };
            }
            self.scheduler.enqueue_burst(&arrivals[..count], self.now, |_, _| {});
            done += count as u64;
        }
        done
    }
}

fn main() -> ExitCode {
    let Some(options) = options() else {
        eprintln!("hqos: see the head of crates/weft-sched/examples/hqos.rs for the options");
        return ExitCode::FAILURE;
    };
    let mut closed = match Loop::new(&options) {
        Ok(closed) => closed,
        Err(error) => {
            eprintln!("hqos: {error}");
            return ExitCode::FAILURE;
        }
    };
    closed.run(1_000_000.max(closed.packets.len() as u64), options.refill);
    let begin = std::time::Instant::now();
    let done = closed.run(options.packets, options.refill);
    println!("{{\"pps\": {:.0}}}", done as f64 / begin.elapsed().as_secs_f64());
    ExitCode::SUCCESS
}
