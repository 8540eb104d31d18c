//! The droppers of a policy in the NIC: on the arrivals of the policy tests' corpus, the same packets are dropped as there.

use super::{NicTransmit, TransmitParameters, Turn};
use crate::accounting::Stage;
use crate::event::Agenda;
use crate::ids::{HostId, StreamId};
use crate::nic::scheduler::{Pick, PolicyScheduler};
use crate::packet::{Body, Outgoing, Skb, Skbs, TCP_HEADERS};
use crate::segment::Segment;
use weft_policy::trial::{Departure, Trial, Trials};
use weft_policy::{CompileOptions, CompiledPolicy, Source, compile};
use weft_sched::{LeafVerdict, PolicyTree};
use weft_units::{BitsPerSec, ClassId, Nanos, PacketMeta, TxQueueId, Weight};
use weft_units::{Counted, LinkTransmitter};

/// The rate at which a frame of the corpus takes the time that it takes there, with what is around it on the wire.
const LINK: BitsPerSec = BitsPerSec(1_000_000_000);

/// A NIC under the corpus's policy, with a queue for each flow of a test.
struct Bench<'a> {
    trial: &'a Trial,
    nic: NicTransmit,
    queues: Vec<TxQueueId>,
    skbs: Skbs,
    agenda: Agenda,
    sent: Vec<Departure>,
    dropped: Vec<String>,
    marked: usize,
}

impl<'a> Bench<'a> {
    fn new(policy: &CompiledPolicy, trial: &'a Trial, turn: Turn) -> Self {
        let tree = PolicyTree::new(&policy.program).expect("a program");
        let mut scheduler = PolicyScheduler::new(tree);
        let (mut known, mut queues) = (Vec::new(), Vec::new());
        for packet in &trial.packets {
            let flow = (&packet.class, &packet.flow);
            let at = known.iter().position(|of| *of == flow).unwrap_or_else(|| {
                let is = |class: &weft_policy::ClassInfo| Some(&class.name) == packet.class.as_ref();
                let class = policy.classes.iter().position(is).expect("a class");
                let lane = policy.lane_of(ClassId::from_index(class), &PacketMeta::default());
                let queue = TxQueueId::from_index(known.len());
                scheduler.add_queue(queue, lane, Weight::ONE).expect("room");
                known.push(flow);
                known.len() - 1
            });
            queues.push(TxQueueId::from_index(at));
        }
        let parameters = TransmitParameters { ring: 1000, turn, ahead: Nanos::ZERO };
        let wire = LinkTransmitter::new(LINK).expect("a rate");
        let nic = NicTransmit::new(HostId(0), known.len() as u32, parameters, Box::new(scheduler), wire);
        Self {
            trial,
            nic,
            queues,
            skbs: Skbs::new(),
            agenda: Agenda::new(),
            sent: Vec::new(),
            dropped: Vec::new(),
            marked: 0,
        }
    }

    /// Posts packets, which follow each other in the test, as one segment.
    fn post(&mut self, first: usize, packets: usize, now: Nanos) {
        let payload = self.trial.packets[first].bytes.get() as u32 - TCP_HEADERS;
        let outgoing = Outgoing {
            stream: StreamId(0),
            body: Body::Data { first: first as u64 },
            payload: payload * packets as u32,
            packet_payload: payload,
        };
        let skb = self.skbs.insert(Skb::new(&outgoing, now));
        let (len, count) = (outgoing.len(), packets as u16);
        assert_eq!(u64::from(len), packets as u64 * self.trial.packets[first].bytes.get());
        let segment =
            Segment { skb, flow: outgoing.stream, len, packets: count, class: 0, band: 0, marked: false };
        self.nic.count_in(&segment);
        self.nic.push(self.queues[first], segment, now);
        self.nic.doorbell(self.queues[first], (now, now), &self.skbs, &mut self.agenda);
    }

    /// Lets a queue have its turn. Returns the time of the next fetch.
    fn turn(&mut self, queue: TxQueueId, now: Nanos) -> Nanos {
        loop {
            let fetched = self.nic.fetch(queue, now, &mut self.skbs).expect("an active queue has a packet");
            let Body::Data { first } = fetched.packet.body else { panic!("{fetched:?}") };
            let name = self.trial.packets[first as usize].name.clone();
            match fetched.verdict {
                LeafVerdict::Drop => self.dropped.push(name),
                verdict => {
                    self.marked += usize::from(verdict == LeafVerdict::Mark);
                    self.sent.push(Departure { name, at: Some(fetched.start) });
                }
            }
            if !self.nic.turn_goes_on(&fetched) {
                return self.nic.end_turn(queue, now, &self.skbs).max(now);
            }
        }
    }

    /// Runs the test. A segment has up to `segment` packets of a flow that arrive together.
    fn run(&mut self, segment: usize) {
        let packets = &self.trial.packets;
        let (mut now, mut next) = (Nanos::ZERO, 0);
        loop {
            while let Some(packet) = packets.get(next).filter(|packet| packet.at <= now) {
                let together = (next..packets.len())
                    .take(segment)
                    .take_while(|at| (self.queues[*at], packets[*at].at) == (self.queues[next], packet.at));
                let count = together.count();
                self.post(next, count, packet.at);
                next += count;
            }
            let coming = packets.get(next).map(|packet| packet.at);
            now = match (self.nic.next_turn(now), coming) {
                (Pick::Queue(queue), _) => self.turn(queue, now),
                (Pick::Wait(until), coming) => coming.map_or(until, |at| at.min(until)),
                (Pick::Idle, Some(at)) => at,
                (Pick::Idle, None) => return,
            };
        }
    }
}

/// The corpus: its tests, and the policy.
fn corpus() -> (Trials, CompiledPolicy) {
    let trials: Trials = include_str!("../../../../../product/weft-policy/tests/corpus/droppers.wefttest")
        .parse()
        .expect("tests");
    let text = include_str!("../../../../../product/weft-policy/tests/corpus/droppers.weft");
    let policy = compile(Source { name: "droppers.weft", text }, &CompileOptions::default()).policy;
    (trials, policy.expect("a policy"))
}

#[test]
fn the_nic_drops_what_tests_of_policies_drop() {
    let (trials, policy) = corpus();
    assert!(trials.cases.len() >= 7);
    let mut marked = 0;
    for trial in &trials.cases {
        for (turn, segment) in [(Turn::Packet, 1), (Turn::Packet, 64), (Turn::Segment, 1)] {
            let mut bench = Bench::new(&policy, trial, turn);
            bench.run(segment);
            let with = format!("{}, {turn:?} of {segment}", trial.name);
            assert_eq!(bench.sent, trial.expect, "{with}");
            bench.dropped.sort();
            let mut expected = trial.drops.clone();
            expected.sort();
            assert_eq!(bench.dropped, expected, "{with}");
            marked += bench.marked;
            let passed = bench.nic.passed();
            let gone = passed.left + passed.dropped;
            assert_eq!((passed.entered, bench.nic.held()), (gone, Counted::ZERO), "{with}");
            assert_eq!(passed.dropped.packets.get(), trial.drops.len() as u64, "{with}");
            assert_eq!(bench.nic.put_on_wire(&bench.skbs), passed.left, "{with}");
        }
    }
    assert_eq!(marked, 9, "three packets are marked in each of three runs");
}

/// A segment of which a part was dropped is held as a whole; on the wire is what was sent of it.
#[test]
fn a_part_of_a_segment_that_was_dropped_is_not_on_the_wire() {
    let (trials, policy) = corpus();
    let trial = trials.cases.iter().find(|trial| trial.name == "what waits").expect("the test");
    let mut bench = Bench::new(&policy, trial, Turn::Packet);
    bench.post(0, 8, Nanos::ZERO);
    let mut now = Nanos::ZERO;
    for _ in 0..6 {
        let Pick::Queue(queue) = bench.nic.next_turn(now) else { panic!("two packets are left") };
        now = bench.turn(queue, now);
    }
    assert_eq!((bench.dropped.len(), bench.sent.len()), (5, 1));
    let wire = bench.nic.put_on_wire(&bench.skbs);
    assert_eq!((wire.packets.get(), wire.bytes.get()), (1, 976));
    assert_eq!(bench.nic.held().packets.get(), 8);
}
