//! The algorithms on random traffic, against definitions in plain Rust that follow the papers.

use crate::algorithms::node::{Arrival, Node, Packet, schedule};
use std::collections::VecDeque;
use weft_rank::{Algorithm, Metadatum, Scale, samples};
use weft_units::BitsPerSec;

/// A generator of random numbers (SplitMix64), the same on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

const CHILDREN: usize = 5;
const PACKETS: u64 = 120;
const ROUNDS: u64 = 60;

/// Random packets that keep the link busy until the last has come. Lengths are multiples of 12.
fn busy(random: &mut Random, metadata: &dyn Fn(&mut Random, usize, Packet) -> Packet) -> Vec<Arrival> {
    let (mut arrivals, mut time, mut work) = (Vec::new(), 0, 1);
    for name in 0..PACKETS {
        time += random.below(work - time).min(random.below(4000));
        let child = random.below(CHILDREN as u64) as usize;
        let packet = Packet::new(name as u32, 12 * (5 + random.below(120)));
        work += packet.length;
        arrivals.push((time, child, metadata(random, child, packet)));
    }
    arrivals
}

fn plain(_: &mut Random, _: usize, packet: Packet) -> Packet {
    packet
}

fn names(algorithm: &Algorithm, parameters: &[Vec<u64>], arrivals: &[Arrival]) -> Vec<u32> {
    let mut node = Node::new(algorithm, parameters);
    schedule(&mut node, arrivals).into_iter().map(|(name, _)| name).collect()
}

/// A waiting packet of an oracle: when it became its child's head, and what a rule may read.
struct Heads {
    queues: Vec<VecDeque<(u64, Packet)>>,
    became_head: Vec<u64>,
    active_since: Vec<u64>,
    last_turn: Vec<u64>,
    bytes: Vec<u64>,
}

/// Sends the head with the least key; of equal keys the one that has been a head for longest.
fn least_head(arrivals: &[Arrival], key: impl Fn(&Heads, u64, usize) -> (i128, i128)) -> Vec<u32> {
    let mut heads = Heads {
        queues: vec![VecDeque::new(); CHILDREN],
        became_head: vec![0; CHILDREN],
        active_since: vec![0; CHILDREN],
        last_turn: vec![0; CHILDREN],
        bytes: vec![0; CHILDREN],
    };
    let (mut now, mut next, mut clock, mut order) = (0, 0, 0, Vec::new());
    while order.len() < arrivals.len() {
        while let Some((time, child, packet)) = arrivals.get(next).filter(|(time, ..)| *time <= now) {
            if heads.queues[*child].is_empty() {
                heads.became_head[*child] = clock;
                heads.active_since[*child] = *time;
                clock += 1;
            }
            heads.queues[*child].push_back((*time, *packet));
            next += 1;
        }
        let waiting = (0..CHILDREN).filter(|child| !heads.queues[*child].is_empty());
        let least = waiting.min_by_key(|child| (key(&heads, now, *child), heads.became_head[*child]));
        let child = least.expect("the link is busy");
        let (_, packet) = heads.queues[child].pop_front().expect("a head");
        heads.became_head[child] = clock;
        heads.last_turn[child] = now;
        heads.bytes[child] += packet.length;
        clock += 1;
        order.push(packet.name);
        now += packet.length;
    }
    order
}

/// Compares an algorithm with a rule on random traffic.
#[track_caller]
fn agrees(
    algorithm: &Algorithm,
    parameters: &[Vec<u64>],
    metadata: &dyn Fn(&mut Random, usize, Packet) -> Packet,
    rule: impl Fn(&[Arrival]) -> Vec<u32>,
) {
    for seed in 0..ROUNDS {
        let arrivals = busy(&mut Random(seed), metadata);
        assert_eq!(names(algorithm, parameters, &arrivals), rule(&arrivals), "{} {seed}", algorithm.name);
    }
}

fn each(parameters: impl Fn(u64) -> Vec<u64>) -> Vec<Vec<u64>> {
    (0..CHILDREN as u64).map(parameters).collect()
}

/// Half of the packets have the metadatum.
fn sometimes(metadatum: Metadatum, bound: u64) -> impl Fn(&mut Random, usize, Packet) -> Packet {
    move |random, _, packet| match random.below(2) {
        0 => packet,
        _ => packet.with(metadatum, random.below(bound)),
    }
}

fn head(heads: &Heads, child: usize) -> (u64, Packet) {
    heads.queues[child][0]
}

fn told(heads: &Heads, child: usize, metadatum: Metadatum) -> Option<i128> {
    head(heads, child).1.metadata.get(metadatum).map(i128::from)
}

#[test]
fn fifo_is_the_order_of_arrival() {
    let of_arrival = |heads: &Heads, _, child| (i128::from(head(heads, child).0), 0);
    agrees(&samples::fifo(), &each(|_| vec![]), &plain, |arrivals| least_head(arrivals, of_arrival));
}

#[test]
fn strict_is_the_least_level() {
    let level = |child: u64| child * 3 % 5;
    agrees(&samples::strict(), &each(|child| vec![level(child)]), &plain, |arrivals| {
        least_head(arrivals, |_, _, child| (i128::from(level(child as u64)), 0))
    });
}

#[test]
fn edf_is_the_least_deadline() {
    let arrived = |heads: &Heads, child| i128::from(head(heads, child).0);
    let due = |heads: &Heads, _, child| {
        (told(heads, child, Metadatum::Deadline).unwrap_or(arrived(heads, child) + 7_000), 0)
    };
    let metadata = sometimes(Metadatum::Deadline, 80_000);
    agrees(&samples::edf(), &each(|_| vec![7_000]), &metadata, |arrivals| least_head(arrivals, due));
}

#[test]
fn lstf_is_the_least_slack_left() {
    // What is left of the slack at the time of the decision, as the paper says it.
    let left = |heads: &Heads, now: u64, child| {
        let waited = i128::from(now) - i128::from(head(heads, child).0);
        (told(heads, child, Metadatum::Slack).unwrap_or(9_000) - waited, 0)
    };
    let metadata = sometimes(Metadatum::Slack, 30_000);
    agrees(&samples::lstf(), &each(|_| vec![9_000]), &metadata, |arrivals| least_head(arrivals, left));
}

#[test]
fn fifo_plus_is_the_order_of_expected_arrival() {
    let expected = |heads: &Heads, _, child| {
        (i128::from(head(heads, child).0) - told(heads, child, Metadatum::Late).unwrap_or(0), 0)
    };
    let metadata = sometimes(Metadatum::Late, 50_000);
    agrees(&samples::fifo_plus(), &each(|_| vec![]), &metadata, |arrivals| least_head(arrivals, expected));
}

#[test]
fn least_slack_is_the_latest_start_of_a_message() {
    let line = Scale::time_per_byte(BitsPerSec(8_000_000_000)).word();
    let start = |heads: &Heads, _, child| {
        let due = told(heads, child, Metadatum::Deadline).unwrap_or(i128::from(u64::MAX));
        ((due - told(heads, child, Metadatum::Left).unwrap_or(0)).max(0), 0)
    };
    let metadata = |random: &mut Random, child, packet: Packet| {
        let packet = sometimes(Metadatum::Deadline, 200_000)(random, child, packet);
        sometimes(Metadatum::Left, 100_000)(random, child, packet)
    };
    agrees(&samples::least_slack(), &each(|_| vec![line]), &metadata, |arrivals| least_head(arrivals, start));
}

#[test]
fn srpt_is_the_least_size_at_a_head() {
    let left =
        |heads: &Heads, _, child| (told(heads, child, Metadatum::Left).unwrap_or(i128::from(u64::MAX)), 0);
    let metadata = sometimes(Metadatum::Left, 5_000);
    agrees(&samples::srpt(), &each(|_| vec![]), &metadata, |arrivals| least_head(arrivals, left));
}

/// Sizes fall within a flow, as those of a sender that reports what it still has to send.
#[test]
fn pfabric_is_the_least_size_of_any_waiting_packet() {
    let falls = |_: &mut Random, _, packet: Packet| {
        let left = (PACKETS - u64::from(packet.name)) / 7 * 1_000;
        packet.with(Metadatum::Left, left)
    };
    let least = |heads: &Heads, _, child: usize| {
        let sizes = heads.queues[child].iter().filter_map(|(_, packet)| packet.metadata.get(Metadatum::Left));
        (i128::from(sizes.min().expect("a size")), 0)
    };
    agrees(&samples::pfabric(), &each(|_| vec![u64::MAX]), &falls, |arrivals| least_head(arrivals, least));
}

#[test]
fn las_is_the_least_service_so_far() {
    let service = |heads: &Heads, _, child: usize| (i128::from(heads.bytes[child]), 0);
    agrees(&samples::las(), &each(|_| vec![]), &plain, |arrivals| least_head(arrivals, service));
}

#[test]
fn ageing_puts_who_waits_too_long_first() {
    let patience = 20_000;
    let age = |heads: &Heads, now: u64, child: usize| {
        let since = heads.active_since[child].max(heads.last_turn[child]);
        match now >= since + patience {
            true => (0, i128::from(since)),
            false => (child as i128 + 1, 0),
        }
    };
    let parameters = each(|child| vec![child + 1, patience]);
    agrees(&samples::aged(), &parameters, &plain, |arrivals| least_head(arrivals, age));
}

/// A list of active children, of which the first sends while `goes_on(credit)`; then it goes to the end. A child begins its place in
/// the list with `fresh` credit, to which what it owes is added.
fn rounds(arrivals: &[Arrival], fresh: impl Fn(usize) -> i64, price: impl Fn(&Packet) -> i64) -> Vec<u32> {
    let mut queues = vec![VecDeque::new(); CHILDREN];
    let (mut list, mut credit) = (VecDeque::new(), [0_i64; CHILDREN]);
    let (mut now, mut next, mut order) = (0, 0, Vec::new());
    while order.len() < arrivals.len() {
        while let Some((_, child, packet)) = arrivals.get(next).filter(|(time, ..)| *time <= now) {
            if queues[*child].is_empty() {
                list.push_back(*child);
                credit[*child] = fresh(*child);
            }
            queues[*child].push_back(*packet);
            next += 1;
        }
        let child = *list.front().expect("the link is busy");
        let packet = queues[child].pop_front().expect("a packet of an active child");
        credit[child] -= price(&packet);
        order.push(packet.name);
        now += packet.length;
        if queues[child].is_empty() {
            list.pop_front();
        } else if credit[child] <= 0 {
            credit[child] += fresh(child);
            list.rotate_left(1);
        }
    }
    order
}

#[test]
fn round_robins_are_a_list() {
    agrees(&samples::round_robin(), &each(|_| vec![]), &plain, |arrivals| rounds(arrivals, |_| 1, |_| 1));
    let weights = each(|child| vec![1 + child * 2 % 4]);
    agrees(&samples::weighted_round_robin(), &weights, &plain, |arrivals| {
        rounds(arrivals, |child| weights[child][0] as i64, |_| 1)
    });
}

/// No packet is longer than the quantum, so no child skips a round.
#[test]
fn drr_is_a_list_with_credit() {
    let quanta = each(|child| vec![1_522 + 700 * child]);
    agrees(&samples::drr(), &quanta, &plain, |arrivals| {
        rounds(arrivals, |child| quanta[child][0] as i64, |packet| packet.length as i64)
    });
}

/// Start tags by the paper, given to each packet when it arrives; 12 units a byte at weight 1, so that no division has a remainder.
#[test]
fn stfq_is_the_least_start_tag_given_on_arrival() {
    let weights = each(|child| vec![1 + child % 4]);
    let rule = |arrivals: &[Arrival]| {
        let mut queues: Vec<VecDeque<(u64, Packet)>> = vec![VecDeque::new(); CHILDREN];
        let (mut finish, mut became_head) = ([0; CHILDREN], [0; CHILDREN]);
        let (mut now, mut next, mut virtual_time, mut clock, mut order) = (0, 0, 0, 0, Vec::new());
        while order.len() < arrivals.len() {
            while let Some((_, child, packet)) = arrivals.get(next).filter(|(time, ..)| *time <= now) {
                if queues[*child].is_empty() {
                    became_head[*child] = clock;
                    clock += 1;
                }
                let start = virtual_time.max(finish[*child]);
                finish[*child] = start + packet.length * 12 / weights[*child][0];
                queues[*child].push_back((start, *packet));
                next += 1;
            }
            let waiting = (0..CHILDREN).filter(|child| !queues[*child].is_empty());
            let child = waiting.min_by_key(|child| (queues[*child][0].0, became_head[*child])).expect("busy");
            let (start, packet) = queues[child].pop_front().expect("a packet");
            (virtual_time, became_head[child]) = (start, clock);
            clock += 1;
            order.push(packet.name);
            now += packet.length;
        }
        order
    };
    agrees(&samples::stfq(), &weights, &plain, rule);
}

/// Tags and system virtual time by the paper, in units in which no division has a remainder: weights of 1, 2, 3, 4, 1 have the sum 11.
#[test]
fn wf2q_is_the_least_finish_tag_of_the_eligible() {
    let weights = each(|child| vec![1 + child % 4]);
    let sum: u64 = weights.iter().flatten().sum();
    let rule = |arrivals: &[Arrival]| {
        let unit = 12 * sum;
        let mut queues: Vec<VecDeque<Packet>> = vec![VecDeque::new(); CHILDREN];
        let (mut start, mut finish, mut became_head) = ([0; CHILDREN], [0; CHILDREN], [0; CHILDREN]);
        let (mut now, mut next, mut system, mut clock, mut order) = (0, 0, 0, 0, Vec::new());
        while order.len() < arrivals.len() {
            while let Some((_, child, packet)) = arrivals.get(next).filter(|(time, ..)| *time <= now) {
                if queues[*child].is_empty() {
                    became_head[*child] = clock;
                    clock += 1;
                    start[*child] = finish[*child].max(system);
                }
                queues[*child].push_back(*packet);
                next += 1;
            }
            let waiting: Vec<usize> = (0..CHILDREN).filter(|child| !queues[*child].is_empty()).collect();
            system = system.max(waiting.iter().map(|child| start[*child]).min().expect("busy"));
            let end = |child: usize| start[child] + queues[child][0].length * unit / weights[child][0];
            let eligible = waiting.iter().copied().filter(|child| start[*child] <= system);
            let child = eligible.min_by_key(|child| (end(*child), became_head[*child])).expect("eligible");
            finish[child] = end(child);
            start[child] = finish[child];
            let packet = queues[child].pop_front().expect("a packet");
            system += packet.length * unit / sum;
            let others = (0..CHILDREN).filter(|child| !queues[*child].is_empty()).map(|child| start[child]);
            system = others.min().map_or(system, |least| system.max(least));
            became_head[child] = clock;
            clock += 1;
            order.push(packet.name);
            now += packet.length;
        }
        order
    };
    agrees(&samples::wf2q(), &weights, &plain, rule);
}

/// Departures of a rate limit in exact fractions: the theoretical arrival time in units of 1 / rate nanoseconds.
#[test]
fn a_bucket_is_the_generic_cell_rate_algorithm() {
    for (seed, rate) in [1_000_000_000_u64, 3_000_000_000, 777_777_777, 7_999_999_999].into_iter().enumerate()
    {
        let mut random = Random(seed as u64);
        let arrivals: Vec<Arrival> =
            busy(&mut random, &plain).into_iter().map(|(time, _, packet)| (time * 9, 0, packet)).collect();
        let burst = 1_500 * seed as u64;
        let bucket = samples::bucket();
        let word = Scale::time_per_byte(BitsPerSec(rate)).word();
        let found = schedule(&mut Node::new(&bucket, &[[word, burst]]), &arrivals);
        let (mut free, mut tat) = (0_u64, 0_u128);
        let wide = |ns: u64| u128::from(ns) * u128::from(rate);
        let work = |bytes: u64| u128::from(bytes) * 8_000_000_000;
        for ((time, _, packet), (_, start)) in arrivals.iter().zip(found) {
            let conforming = (tat.saturating_sub(work(burst)) / u128::from(rate)) as u64;
            let exact = conforming.max(free).max(*time);
            assert!(start.abs_diff(exact) <= 2, "{rate}: packet {} at {start}, exactly {exact}", packet.name);
            tat = tat.max(wide(start)) + work(packet.length);
            free = start + packet.length;
        }
    }
}

#[test]
fn paced_flows_keep_their_distance() {
    let pace = Scale::time_per_byte(BitsPerSec(2_000_000_000)).word();
    let mut random = Random(5);
    let arrivals: Vec<Arrival> = busy(&mut random, &|_, _, packet| packet.with(Metadatum::Pace, pace));
    let one: Vec<Arrival> = arrivals.into_iter().map(|(time, _, packet)| (time, 0, packet)).collect();
    let paced = samples::paced();
    let (mut free, mut from) = (0, 0);
    for ((time, _, packet), (_, start)) in one.iter().zip(schedule(&mut Node::new(&paced, &[[]]), &one)) {
        assert_eq!(start, from.max(free).max(*time));
        (from, free) = (start + 4 * packet.length, start + packet.length);
    }
}

#[test]
fn earliest_departure_times_are_kept_within_the_horizon() {
    let mut random = Random(6);
    let metadata = sometimes(Metadatum::SendTime, 200_000);
    let one: Vec<Arrival> =
        busy(&mut random, &metadata).into_iter().map(|(time, _, packet)| (time, 0, packet)).collect();
    let edt = samples::edt();
    let horizon = 30_000;
    // A packet is looked at when it becomes the head: on arrival, or at the turn before.
    let (mut free, mut last_turn) = (0, 0);
    for ((time, _, packet), (_, start)) in one.iter().zip(schedule(&mut Node::new(&edt, &[[horizon]]), &one))
    {
        let looked_at = last_turn.max(*time);
        let asked = packet.metadata.get(Metadatum::SendTime).unwrap_or(0).min(looked_at + horizon);
        assert_eq!(start, asked.max(free).max(*time), "packet {}", packet.name);
        (last_turn, free) = (start, start + packet.length);
    }
}

/// The pseudocode of RFC 8289, section 5, with a count that begins at 1, and its control law in floating point.
#[derive(Default)]
struct Codel {
    first_above: Option<f64>,
    dropping: bool,
    count: u32,
    drop_next: f64,
}

impl Codel {
    const TARGET: f64 = 5e6;
    const INTERVAL: f64 = 100e6;

    fn drops(&mut self, now: f64, sojourn: f64, backlog: u64) -> bool {
        let mut ok_to_drop = false;
        if sojourn < Self::TARGET || backlog <= 1514 {
            self.first_above = None;
        } else {
            let first = *self.first_above.get_or_insert(now + Self::INTERVAL);
            ok_to_drop = now >= first;
        }
        let law = |from: f64, count: u32| from + Self::INTERVAL / f64::from(count).sqrt();
        if !self.dropping {
            if ok_to_drop {
                (self.dropping, self.count, self.drop_next) = (true, 1, law(now, 1));
            }
            return ok_to_drop;
        }
        if self.first_above.is_none() {
            (self.dropping, self.count) = (false, 0);
        }
        let due = self.dropping && now >= self.drop_next;
        if due {
            self.count += 1;
            self.drop_next = law(self.drop_next, self.count);
        }
        due
    }
}

#[test]
fn codel_drops_as_the_rfc_says() {
    let codel = samples::codel();
    let fetched = codel.parts.fetched.as_ref().expect("a program");
    let mut drops = 0;
    for seed in 0..20 {
        let (mut random, mut rfc) = (Random(seed), Codel::default());
        let mut state: Vec<u64> = codel.node.iter().map(|field| field.initial).collect();
        let (mut now, mut base) = (1_000_000_000_u64, 0);
        for packet in 0..60_000 {
            now += 50_000 + random.below(100_000);
            // Episodes of a second or so, with short and long waits.
            if random.below(10_000) == 0 || packet == 0 {
                base = random.below(20_000_000);
            }
            let delay = base + random.below(1_000_000);
            // Up to a count of 255 the roots are those of the law; an episode ends before.
            let ends = random.below(20_000) == 0 || rfc.count == 255;
            let backlog = if ends { 1_000 } else { 50_000 };
            let mut inputs = weft_rank::Inputs::at(weft_units::Instant::from_nanos(now));
            inputs.packet.set(Metadatum::Arrived, now - delay);
            inputs.queued_bytes = weft_units::Bytes(backlog);
            let found = fetched.run(&inputs, &[5_000_000, 100_000_000, 1514], &mut state, &mut []).drops();
            assert_eq!(found, rfc.drops(now as f64, delay as f64, backlog), "seed {seed}, packet {packet}");
            drops += usize::from(found);
        }
    }
    assert!(drops > 1_000, "only {drops} drops");
}
