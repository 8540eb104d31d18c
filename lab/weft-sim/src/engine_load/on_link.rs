//! A closed loop over any program, in the time of a link: limits bind as they do on that link.

use super::{BURST, WorkloadError};
use weft_rank::{Metadata, Metadatum};
use weft_sched::{Arrival, BurstEnd, Departure, Descriptor, PacketScheduler, Program};
use weft_units::testing::Rng;
use weft_units::{BitsPerSec, Bytes, FlowId, Instant, LaneId, Nanos, Packets, Weight};

/// The preamble of a frame and the gap before the next, on an Ethernet.
pub const BETWEEN_FRAMES: Bytes = Bytes(20);

/// The span within which random deadlines lie.
const DEADLINES: u32 = 1_000_000;

/// The turns without a packet after which a loop ends: whatever waits then will not leave.
const STILL: u32 = 10_000;

/// A closed loop over a program, with packets of one length: one that leaves is replaced by one of the next flow of a shuffled list,
/// so flows become idle and backlogged at random. Time is the link's: it advances by the bytes that are sent, and to a limit's
/// release where a limit delays all packets.
#[derive(Debug)]
pub struct LinkLoop {
    scheduler: PacketScheduler,
    order: Vec<FlowId>,
    position: usize,
    rng: Rng,
    now: Instant,
    link: BitsPerSec,
    len: Bytes,
    /// Whether the program has user-defined algorithms, which may read metadata.
    scripted: bool,
    still: u32,
    departures: [Departure; BURST],
    arrivals: [Arrival; BURST],
}

impl LinkLoop {
    /// Builds a loop over `flows` flows of weight 1 with one waiting packet of `len` each, assigned to the program's lanes in turn.
    ///
    /// # Errors
    /// When the program cannot be run, has no lanes, or has more flows than it can.
    pub fn new(
        program: &Program,
        flows: u32,
        link: BitsPerSec,
        len: Bytes,
        seed: u64,
    ) -> Result<Self, WorkloadError> {
        let mut scheduler = PacketScheduler::new(program)?;
        let used = program.lanes.iter().enumerate().filter(|(_, lane)| !lane.is_vacant());
        let lanes: Vec<LaneId> = used.map(|(at, _)| LaneId::from_index(at)).collect();
        let mut order = Vec::with_capacity(flows as usize);
        for at in 0..flows as usize {
            // Without lanes the scheduler says so.
            let lane = lanes.get(at % lanes.len().max(1)).copied().unwrap_or(LaneId(0));
            order.push(scheduler.add_flow(lane, Weight::ONE)?);
        }
        let mut rng = Rng::new(seed);
        for at in (1..order.len()).rev() {
            order.swap(at, rng.below(at as u32 + 1) as usize);
        }
        scheduler.reserve(Packets(u64::from(flows)));
        let scripted = !program.algorithms().is_empty();
        let (departures, arrivals) = ([Departure::default(); BURST], [Arrival::default(); BURST]);
        let (position, now, still) = (0, Instant::ZERO, 0);
        let mut this =
            Self { scheduler, order, position, rng, now, link, len, scripted, still, departures, arrivals };
        this.refill(u64::from(flows));
        Ok(this)
    }

    /// Dequeues at least `packets` packets, rounded up to whole bursts, and enqueues one for each. Returns the number dequeued, which
    /// is less only when what waits cannot leave.
    pub fn run(&mut self, packets: u64) -> u64 {
        self.run_before(Instant::MAX, packets)
    }

    /// As [`Self::run`], but ends when the loop's time has come to `end`, and waits for no limit beyond it.
    pub fn run_before(&mut self, end: Instant, packets: u64) -> u64 {
        // In place of packets that a lane's bound refused or an algorithm dropped, some at a time.
        let missing = (self.order.len() as u64).saturating_sub(self.scheduler.held().get());
        self.refill(missing.min(packets / 16));
        let mut done = 0;
        while done < packets && self.now < end {
            let (count, why) = self.scheduler.dequeue_burst(&mut self.departures, self.now, |_| {});
            self.now += self.link.time_for(Bytes((self.len.get() + BETWEEN_FRAMES.get()) * count as u64));
            match why {
                BurstEnd::Wait(until) => self.now = self.now.max(until.min(end)),
                BurstEnd::Empty => self.refill(BURST as u64),
                BurstEnd::Full => {}
            }
            self.still = if count > 0 { 0 } else { self.still + 1 };
            if self.still > STILL {
                break;
            }
            self.replace(count);
            done += count as u64;
        }
        done
    }

    #[inline]
    fn next_flow(&mut self) -> Option<FlowId> {
        self.position = if self.position + 1 >= self.order.len() { 0 } else { self.position + 1 };
        self.order.get(self.position).copied()
    }

    #[inline]
    fn replace(&mut self, count: usize) {
        if self.scripted {
            return self.refill(count as u64);
        }
        for at in 0..count {
            let Some(flow) = self.next_flow() else { return };
            let descriptor = Descriptor { len: self.len, handle: self.departures[at].descriptor.handle };
            self.arrivals[at] = Arrival { flow, descriptor };
        }
        self.scheduler.enqueue_burst(&self.arrivals[..count], self.now, |_, _| {});
    }

    /// Enqueues packets one by one, each with metadata. Some may be refused.
    fn refill(&mut self, packets: u64) {
        for handle in 0..packets {
            let Some(flow) = self.next_flow() else { return };
            let descriptor = Descriptor { len: self.len, handle };
            let metadata = if self.scripted { self.metadata() } else { Metadata::UNKNOWN };
            let _ = self.scheduler.enqueue_with(flow, descriptor, &metadata, self.now);
        }
    }

    /// Metadata as a sender may give them, at random.
    fn metadata(&mut self) -> Metadata {
        let slack = u64::from(self.rng.below(DEADLINES));
        Metadata::UNKNOWN
            .with(Metadatum::Deadline, (self.now + Nanos(slack)).as_nanos())
            .with(Metadatum::Slack, slack)
            .with(Metadatum::Left, u64::from(self.rng.below(1 << 20)) + self.len.get())
            .with(Metadatum::Late, 0)
            .with(Metadatum::Priority, u64::from(self.rng.below(8)))
            .with(Metadatum::SendTime, self.now.as_nanos())
    }

    /// The scheduler, for its counters and checks.
    pub fn scheduler(&self) -> &PacketScheduler {
        &self.scheduler
    }

    /// The scheduler, to be changed between two runs.
    pub fn scheduler_mut(&mut self) -> &mut PacketScheduler {
        &mut self.scheduler
    }

    /// The current time of the loop, which is the link's.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Lets the link be idle until `now`, if that is later than the loop's time.
    pub fn idle_until(&mut self, now: Instant) {
        self.now = self.now.max(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine_load::{limit_lanes, wfq_program};

    #[test]
    fn limits_bind_as_on_the_link() {
        let link = BitsPerSec(10_000_000_000);
        let mut program = wfq_program(4);
        // The heaviest of four has two fifths of the link; a tenth is its limit.
        program.lanes.reverse();
        limit_lanes(&mut program, 1, BitsPerSec(1_000_000_000));
        let mut closed = LinkLoop::new(&program, 4000, link, Bytes(1518), 1).expect("a valid program");
        let sent = closed.run(50_000);
        assert!(sent >= 50_000, "{sent}");
        let span = closed.now().saturating_since(Instant::ZERO);
        let limited = closed.scheduler().counters(LaneId(0)).expect("the lane").dequeued.bytes;
        let allowed = BitsPerSec(1_000_000_000).bytes_in(span) + Bytes(2 * 1518 + 3000);
        assert!(limited <= allowed, "{limited} of {allowed}");
        assert!(limited.get() * 100 >= allowed.get() * 80, "{limited} of {allowed}");
        closed.scheduler().check_invariants().expect("an invariant");
    }

    /// Packets that a bound refuses are replaced, so the loop continues.
    #[test]
    fn bounds_of_lanes_do_not_end_a_loop() {
        let mut program = wfq_program(2);
        program.lanes[0].packet_bound = Packets(3);
        program.lanes[1].packet_bound = Packets(1);
        let mut closed =
            LinkLoop::new(&program, 100, BitsPerSec(1_000_000_000), Bytes(64), 1).expect("a program");
        assert!(closed.run(10_000) >= 10_000);
        program.lanes.iter_mut().for_each(|lane| lane.packet_bound = Packets::ZERO);
        let mut full =
            LinkLoop::new(&program, 100, BitsPerSec(1_000_000_000), Bytes(64), 1).expect("a program");
        assert_eq!(full.run(10), 0, "nothing may wait, so nothing leaves");
    }
}
