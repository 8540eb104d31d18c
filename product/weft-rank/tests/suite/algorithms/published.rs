//! The algorithms on small cases with published orders: the numbers are those of the design study's corpus, each with its source.

use crate::algorithms::node::{Arrival, Node, Packet, schedule};
use weft_rank::{Algorithm, Metadatum, Part, Scale, samples};
use weft_units::BitsPerSec;

/// A byte per nanosecond, as the link of the cases.
fn line() -> u64 {
    Scale::time_per_byte(BitsPerSec(8_000_000_000)).word()
}

/// Packets `(child, name, length)` that arrive at 0.
fn at_once(packets: &[(usize, u32, u64)]) -> Vec<Arrival> {
    packets.iter().map(|&(child, name, length)| (0, child, Packet::new(name, length))).collect()
}

fn names(algorithm: &Algorithm, parameters: &[impl AsRef<[u64]>], arrivals: &[Arrival]) -> Vec<u32> {
    let mut node = Node::new(algorithm, parameters);
    schedule(&mut node, arrivals).into_iter().map(|(name, _)| name).collect()
}

#[test]
fn every_sample_is_valid_and_has_its_parts() {
    let samples = samples::all();
    assert_eq!(samples.len(), 20);
    for algorithm in &samples {
        assert_eq!(algorithm.validate(), Ok(()), "{}", algorithm.name);
    }
    let parts = |name: &str| {
        let found = samples.iter().find(|algorithm| algorithm.name == name).expect("a sample");
        found.parts.iter().map(|program| program.part()).collect::<Vec<_>>()
    };
    use Part::{Active, Arrives, Begin, Fetched, Rank, Sent};
    assert_eq!(parts("stfq"), [Rank, Begin, Sent]);
    assert_eq!(parts("wf2q"), [Active, Rank, Sent]);
    assert_eq!(parts("drr"), [Active, Rank, Begin, Sent]);
    assert_eq!(parts("weighted_round_robin"), [Active, Rank, Begin, Sent]);
    assert_eq!(parts("pfabric"), [Active, Arrives, Rank, Sent]);
    assert_eq!(parts("least_slack"), [Arrives, Rank]);
    assert_eq!(parts("aged"), [Active, Rank, Sent]);
    assert_eq!(parts("floors"), [Rank, Begin, Sent]);
    assert_eq!(parts("codel"), [Fetched]);
    for name in ["bucket", "paced", "las"] {
        assert_eq!(parts(name), [Rank, Sent], "{name}");
    }
    for name in ["fifo", "strict", "round_robin", "edf", "lstf", "srpt", "fifo_plus", "edt"] {
        assert_eq!(parts(name), [Rank], "{name}");
    }
}

/// Cases 1 and 2. Packets are named `10 * child + number`.
#[test]
fn strict_priority_does_not_preempt() {
    let levels = [[0], [1], [2]];
    let packets = [(2, 21, 1000), (1, 11, 1000), (0, 1, 1000), (2, 22, 1000), (1, 12, 1000), (0, 2, 1000)];
    assert_eq!(names(&samples::strict(), &levels, &at_once(&packets)), [1, 2, 11, 12, 21, 22]);
    let mut arrivals = at_once(&[(1, 11, 1000), (1, 12, 1000)]);
    arrivals.push((500, 0, Packet::new(1, 1000)));
    assert_eq!(names(&samples::strict(), &levels, &arrivals), [11, 1, 12]);
}

/// Case 3: with one reference per child, equal ranks take turns.
#[test]
fn equal_ranks_take_turns() {
    let packets = [(0, 1, 1000), (0, 2, 1000), (1, 11, 1000), (1, 12, 1000)];
    assert_eq!(names(&samples::round_robin(), &[[], []], &at_once(&packets)), [1, 11, 2, 12]);
}

/// Cases 5, 6 and 7.
#[test]
fn start_time_fair_queueing() {
    let stfq = samples::stfq();
    let packets: Vec<_> = (1..=3).map(|n| (0, n, 1000)).chain((1..=6).map(|n| (1, 10 + n, 1000))).collect();
    assert_eq!(names(&stfq, &[[1], [2]], &at_once(&packets)), [1, 11, 12, 2, 13, 14, 3, 15, 16]);
    let packets: Vec<_> = (1..=3).map(|n| (0, n, 1500)).chain((1..=7).map(|n| (1, 10 + n, 500))).collect();
    assert_eq!(names(&stfq, &[[1], [1]], &at_once(&packets)), [1, 11, 12, 13, 2, 14, 15, 16, 3, 17]);
    let mut arrivals = at_once(&(1..=8).map(|n| (0, n, 1000)).collect::<Vec<_>>());
    arrivals.extend((1..=3).map(|n| (3500, 1, Packet::new(10 + n, 1000))));
    assert_eq!(names(&stfq, &[[1], [1]], &arrivals), [1, 2, 3, 4, 11, 5, 12, 6, 13, 7, 8], "no credit");
}

/// Case 19 (Bennett and Zhang, figure 2): the heavy child is not served ten times ahead of the light ones. The heavy child's tenth
/// packet has the finish tag of the light ones; the light one's reference went in first, so it goes first. The paper has these two the
/// other way round.
#[test]
fn worst_case_fair_queueing_alternates() {
    let mut packets: Vec<(usize, u32, u64)> = (0..11).map(|_| (0, 1, 1000)).collect();
    packets.extend((1..11).map(|child| (child, child as u32 + 1, 1000)));
    let parameters: Vec<[u64; 1]> = std::iter::once([10]).chain([[1]; 10]).collect();
    let order = names(&samples::wf2q(), &parameters, &at_once(&packets));
    let expected: Vec<u32> = (2..=10).flat_map(|light| [1, light]).chain([11, 1, 1]).collect();
    assert_eq!(order, expected);
    let order = names(&samples::stfq(), &parameters, &at_once(&packets));
    let expected: Vec<u32> = (1..=11).chain(std::iter::repeat_n(1, 10)).collect();
    assert_eq!(order, expected, "start-time fair queueing");
}

/// Case 18, the lengths of Shreedhar and Varghese with quantum 500, with surplus.
#[test]
fn surplus_round_robin() {
    let queues: [&[u64]; 4] = [&[200, 750, 20], &[500, 500], &[100, 600, 200], &[180, 700, 50]];
    let packets: Vec<_> = queues
        .iter()
        .enumerate()
        .flat_map(|(child, lengths)| lengths.iter().map(move |length| (child, *length as u32, *length)))
        .collect();
    let order = names(&samples::drr(), &[[500]; 4], &at_once(&packets));
    assert_eq!(order, [200, 750, 500, 100, 600, 180, 700, 20, 500, 200, 50]);
}

fn told(child: usize, name: u32, metadata: &[(Metadatum, u64)]) -> Arrival {
    let packet = Packet::new(name, 1000);
    (0, child, metadata.iter().fold(packet, |packet, (metadatum, value)| packet.with(*metadatum, *value)))
}

/// Case 11 (PIFO, section 3.5): pFabric and shortest remaining first. Packets are named by what their flow has left.
#[test]
fn sizes_order_flows() {
    let left = |child, left: u32| told(child, left, &[(Metadatum::Left, u64::from(left))]);
    let arrivals = [left(0, 7), left(1, 9), left(1, 8), left(1, 6)];
    assert_eq!(names(&samples::pfabric(), &[[50_000_000]; 2], &arrivals), [9, 8, 6, 7]);
    assert_eq!(names(&samples::srpt(), &[[]; 2], &arrivals), [7, 9, 8, 6]);
}

/// Cases 12 and 13.
#[test]
fn deadlines_order_heads() {
    let due = |child, name, us: u64| told(child, name, &[(Metadatum::Deadline, us * 1000)]);
    let arrivals = [due(0, 1, 9), (0, 1, Packet::new(2, 1000)), due(2, 3, 3)];
    assert_eq!(names(&samples::edf(), &[[5000]; 3], &arrivals), [3, 2, 1]);
    let arrivals = [due(0, 1, 9), due(0, 2, 1), due(1, 3, 5)];
    assert_eq!(names(&samples::edf(), &[[5000]; 2], &arrivals), [3, 1, 2]);
}

/// Cases 14 (PIFO, section 3.1), 15 and 16.
#[test]
fn slack_and_lateness_order_heads() {
    let packet = |name, length, metadatum, us: u64| Packet::new(name, length).with(metadatum, us * 1000);
    let slack = |name, length, us| packet(name, length, Metadatum::Slack, us);
    let arrivals = [
        (0, 0, slack(1, 5000, 0)),
        (0, 1, slack(2, 1000, 10)),
        (3000, 2, slack(3, 1000, 5)),
        (4000, 3, slack(4, 1000, 6)),
    ];
    assert_eq!(names(&samples::lstf(), &[[0]; 4], &arrivals), [1, 3, 2, 4]);
    let late = |name, length, us| packet(name, length, Metadatum::Late, us);
    let arrivals = [
        (0, 0, late(1, 3000, 9)),
        (0, 1, late(2, 1000, 0)),
        (1000, 2, late(3, 1000, 5)),
        (2000, 3, late(4, 1000, 0)),
    ];
    assert_eq!(names(&samples::fifo_plus(), &[[]; 4], &arrivals), [1, 3, 2, 4]);
    let message = |child, name, us: u64, left| {
        told(child, name, &[(Metadatum::Deadline, us * 1000), (Metadatum::Left, left)])
    };
    let arrivals = [message(0, 1, 20, 1000), message(1, 2, 25, 9000), message(2, 3, 18, 500)];
    let line = [line()];
    assert_eq!(names(&samples::least_slack(), &[line; 3], &arrivals), [2, 3, 1]);
}

/// Case 17.
#[test]
fn least_attained_service() {
    let mut arrivals = at_once(&(1..=6).map(|n| (0, n, 1000)).collect::<Vec<_>>());
    arrivals.extend((1..=2).map(|n| (3500, 1, Packet::new(10 + n, 1000))));
    assert_eq!(names(&samples::las(), &[[], []], &arrivals), [1, 2, 3, 4, 11, 12, 5, 6]);
}

/// Case 20: a limit of 1 Gb/s without and with a burst of 2000 bytes.
#[test]
fn a_bucket_holds_what_its_rate_says() {
    let starts = |count, burst| {
        let rate = Scale::time_per_byte(BitsPerSec(1_000_000_000)).word();
        let bucket = samples::bucket();
        let mut node = Node::new(&bucket, &[[rate, burst]]);
        let packets: Vec<_> = (0..count).map(|n| (0, n, 1000)).collect();
        schedule(&mut node, &at_once(&packets)).into_iter().map(|(_, start)| start).collect::<Vec<_>>()
    };
    assert_eq!(starts(3, 0), [0, 8000, 16000]);
    assert_eq!(starts(5, 2000), [0, 1000, 2000, 8000, 16000]);
}

/// Case 27: floors of 4 and 1 Gb/s of 10. The third child has none.
#[test]
fn floors_come_before_shares() {
    let word = |gigabits: u64| Scale::time_per_byte(BitsPerSec(gigabits * 1_000_000_000)).word();
    let never = Scale::new(u32::MAX, 0).word();
    let shares = |weights: [u64; 3]| {
        let floors = samples::floors();
        let parameters = [
            [word(4), word(10), weights[0], 3000],
            [word(1), word(10), weights[1], 3000],
            [never, word(10), weights[2], 3000],
        ];
        let mut node = Node::new(&floors, &parameters);
        let (mut now, mut sent) = (0, [0_u64; 3]);
        while now < 20_000_000 {
            for child in 0..3 {
                while node.waiting(child) < 2 {
                    node.arrive(now, child, Packet::new(child as u32, 1000));
                }
            }
            // A link of 10 Gb/s: 0.8 ns a byte.
            match node.turn(now) {
                Some((child, packet)) => {
                    sent[child] += packet.length;
                    now += packet.length * 4 / 5;
                }
                None => now = node.next_event(now).expect("an event"),
            }
        }
        sent.map(|bytes| bytes as f64 * 8.0 / now as f64)
    };
    for (weights, expected) in [([1, 1, 1], [4.0, 3.0, 3.0]), ([1, 1, 8], [4.0, 1.0, 5.0])] {
        let found = shares(weights);
        let close = found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 0.05);
        assert!(close, "{weights:?}: {found:?}, expected {expected:?}");
    }
}

/// Case 28: every packet has waited 10 ms, and a packet comes each 0.1 ms.
#[test]
fn codel_drops_at_the_intervals_of_the_control_law() {
    let codel = samples::codel();
    let fetched = codel.parts.fetched.as_ref().expect("a program");
    let (mut state, mut drops) =
        (codel.node.iter().map(|field| field.initial).collect::<Vec<_>>(), Vec::new());
    for tick in 0..3_300_u64 {
        let now = 20_000_000 + tick * 100_000;
        let mut inputs = weft_rank::Inputs::at(weft_units::Instant::from_nanos(now));
        inputs.packet.set(Metadatum::Arrived, now - 10_000_000);
        inputs.queued_bytes = weft_units::Bytes(100_000);
        if fetched.run(&inputs, &[5_000_000, 100_000_000, 1514], &mut state, &mut []).drops() {
            drops.push(tick / 10);
        }
    }
    assert_eq!(drops, [100, 200, 270, 328]);
}
