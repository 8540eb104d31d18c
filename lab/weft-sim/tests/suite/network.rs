//! The network against closed forms of queueing theory, a slow reference model, and invariants for any traffic.

use proptest::prelude::*;
use rand_distr::{Distribution, Exp1};
use rand_pcg::Pcg64;
use rand_pcg::rand_core::SeedableRng;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use weft_sim::ids::HostId;
use weft_sim::network::{Fabric, Forward, Hop, SwitchId};
use weft_sim::run::RunError;
use weft_sim::scenario::{NetworkSpec, SwitchSpec, Topology};
use weft_units::{BitsPerSec, Bytes, Nanos};

const DELAY: u64 = 700;

fn network(topology: Topology, rate: u64, trunk_rate: u64, switch: SwitchSpec) -> NetworkSpec {
    let (rate, trunk_rate) = (BitsPerSec(rate), BitsPerSec(trunk_rate));
    NetworkSpec { topology, rate, delay: Nanos(DELAY), trunk_rate, switch, loss: 0.0 }
}

fn roomy() -> SwitchSpec {
    SwitchSpec { buffer: Bytes::MAX, alpha: 1.0, ecn_threshold: None }
}

fn star(rate: u64, hosts: u32, switch: SwitchSpec) -> Fabric {
    Fabric::new(&network(Topology::Star, rate, 0, switch), hosts).expect("a possible network")
}

/// The rate at which a frame of 1000 bytes occupies a link for 1000 ns, with its framing of 24 bytes.
const EASY_RATE: u64 = 8_192_000_000;

fn arrival(forward: Forward) -> Option<(u64, bool)> {
    match forward {
        Forward::Dropped => None,
        Forward::Queued { arrives, marked, .. } => Some((arrives.0, marked)),
    }
}

/// M/D/1: the mean wait in the queue is rho / (2 mu (1 - rho)) (Pollaczek and Khinchine). Four runs of 10^6 packets each.
#[test]
fn poisson_arrivals_wait_as_in_theory() {
    for rho in [0.5, 0.8, 0.9] {
        let (mut waits, mut packets) = (0.0, 0.0);
        for seed in 0..4 {
            let mut random = Pcg64::seed_from_u64(seed);
            let mut fabric = star(EASY_RATE, 2, roomy());
            let mut now = 0.0;
            for _ in 0..1_000_000 {
                let gap: f64 = Exp1.sample(&mut random);
                now += gap * 1000.0 / rho;
                let at = now as u64;
                let answer = fabric.forward(SwitchId(0), HostId(1), 0, Bytes(1000), false, Nanos(at));
                let (arrives, _) = arrival(answer).expect("no bound");
                waits += (arrives - DELAY - 1000 - at) as f64;
                packets += 1.0;
            }
        }
        let (mean, theory) = (waits / packets, rho * 1000.0 / (2.0 * (1.0 - rho)));
        assert!((mean - theory).abs() < 0.03 * theory, "rho {rho}: {mean} ns, in theory {theory} ns");
    }
}

#[test]
fn a_full_buffer_drops_and_takes_again_when_a_packet_has_left() {
    // Alpha is so large that only the buffer's size matters: three frames, including the one being sent.
    let switch = SwitchSpec { buffer: Bytes(3000), alpha: 1e9, ecn_threshold: None };
    let mut fabric = star(EASY_RATE, 2, switch);
    let mut send = |now| arrival(fabric.forward(SwitchId(0), HostId(1), 0, Bytes(1000), true, Nanos(now)));
    assert_eq!(send(0), Some((1000 + DELAY, false)));
    assert_eq!(send(0), Some((2000 + DELAY, false)));
    assert_eq!(send(0), Some((3000 + DELAY, false)));
    assert_eq!(send(999), None, "the first is still on its way out");
    assert_eq!(send(1000), Some((4000 + DELAY, false)), "its last bit has left");
    assert_eq!(send(1000), None);
}

/// n overloaded ports settle where each holds alpha B / (1 + n alpha) (Choudhury and Hahne 1998, section II).
#[test]
fn congested_ports_share_the_buffer_by_alpha() {
    for (alpha, congested) in [(1.0, 1), (1.0, 2), (0.5, 2), (4.0, 3), (0.0625, 5)] {
        let buffer = 1_000_000;
        let switch = SwitchSpec { buffer: Bytes(buffer), alpha, ecn_threshold: None };
        let mut fabric = star(EASY_RATE, 6, switch);
        let mut now = 0;
        // Each port gets a frame every 500 ns, twice its rate.
        for _ in 0..10_000 {
            now += 500;
            for to in 0..congested {
                fabric.forward(SwitchId(0), HostId(to), 0, Bytes(1000), false, Nanos(now));
            }
        }
        let share = alpha * buffer as f64 / (1.0 + f64::from(congested) * alpha);
        let balances = fabric.balances(Nanos(now));
        for to in 0..congested {
            let stage = &balances[to as usize];
            assert_eq!(stage.name, format!("switch 0 port to host {to}"));
            let held = stage.balance.held().bytes.0 as f64;
            assert!(
                (held - share).abs() <= 1000.0 + 0.01 * share,
                "alpha {alpha}, {congested}: {held} for {share}"
            );
            assert!(stage.balance.dropped().packets.0 > 4000);
        }
        assert!(balances[congested as usize..].iter().all(|stage| stage.balance.entered().packets.0 == 0));
    }
}

#[test]
fn marks_begin_exactly_above_the_threshold() {
    let switch = SwitchSpec { buffer: Bytes(1 << 30), alpha: 1.0, ecn_threshold: Some(Bytes(3000)) };
    let mut fabric = star(EASY_RATE, 3, switch);
    let mut send = |to, capable, now| {
        let answer = fabric.forward(SwitchId(0), HostId(to), 0, Bytes(1000), capable, Nanos(now));
        arrival(answer).expect("there is room").1
    };
    // Backlogs on arrival: 0, 1000, 2000, 3000 (not above), 4000 (above).
    let marks: Vec<bool> = (0..6).map(|_| send(1, true, 0)).collect();
    assert_eq!(marks, [false, false, false, false, true, true]);
    assert!(!send(1, false, 0), "not of an ECN-capable flow");
    assert!(!send(2, true, 0), "another port's packets do not count");
    // Seven are held; four have left at 4000 ns, and 3000 bytes do not exceed the threshold; one more byte would.
    assert!(send(1, true, 3999));
    assert!(send(1, true, 4000), "8 - 4 are left");
    assert!(!send(1, true, 6000), "9 - 6 are left");
}

#[test]
fn hosts_back_to_back_meet_after_the_delay() {
    let fabric = Fabric::new(&network(Topology::BackToBack, 1, 0, roomy()), 2).expect("possible");
    assert_eq!(fabric.leave_host(HostId(0), Nanos(5)), (Nanos(5 + DELAY), Hop::Host(HostId(1))));
    assert_eq!(fabric.leave_host(HostId(1), Nanos(5)), (Nanos(5 + DELAY), Hop::Host(HostId(0))));
    assert!(fabric.balances(Nanos(5)).is_empty());
}

/// Across a dumbbell with a four times faster trunk: three links' delays, a frame time on the trunk, one on the last link.
#[test]
fn a_path_takes_its_delays_and_frame_times() {
    let net = network(Topology::Dumbbell { left: 1 }, EASY_RATE, 4 * EASY_RATE, roomy());
    let fabric = Fabric::new(&net, 3).expect("possible");
    let mut run = Driver::new(fabric);
    run.inject(Packet { from: 0, to: 2, hash: 9, len: 1000, number: 0 }, 0);
    run.run();
    assert_eq!(
        run.delivered,
        [(3 * DELAY + 250 + 1000, Packet { from: 0, to: 2, hash: 9, len: 1000, number: 0 })]
    );
    let names: Vec<_> = run.fabric.balances(Nanos::MAX).into_iter().map(|stage| stage.name).collect();
    let expected = [
        "switch 0 port to host 0",
        "switch 0 port to switch 1",
        "switch 1 port to host 1",
        "switch 1 port to host 2",
        "switch 1 port to switch 0",
    ];
    assert_eq!(names, expected);
}

#[test]
fn impossible_networks_are_refused() {
    let refuse = |network: &NetworkSpec, hosts| match Fabric::new(network, hosts) {
        Err(RunError::Impossible { what, .. }) => what,
        other => panic!("{other:?}"),
    };
    let shapes = [
        (Topology::BackToBack, 3, "3 hosts cannot be back to back"),
        (Topology::Star, 0, "there are no hosts at the switch"),
        (Topology::Dumbbell { left: 5 }, 4, "a dumbbell of 4 hosts cannot have 5 at its first switch"),
        (Topology::Dumbbell { left: 0 }, 4, "a dumbbell of 4 hosts cannot have 0 at its first switch"),
        (
            Topology::LeafSpine { leaves: 0, spines: 1 },
            4,
            "4 hosts cannot be spread over 0 leaves and 1 spines",
        ),
        (
            Topology::LeafSpine { leaves: 2, spines: 0 },
            4,
            "4 hosts cannot be spread over 2 leaves and 0 spines",
        ),
        (
            Topology::LeafSpine { leaves: 5, spines: 1 },
            4,
            "4 hosts cannot be spread over 5 leaves and 1 spines",
        ),
        (
            Topology::LeafSpine { leaves: 2, spines: u32::MAX },
            4,
            "a network with 17179869184 switch ports is too large",
        ),
    ];
    for (topology, hosts, what) in shapes {
        assert_eq!(refuse(&network(topology, 1, 1, roomy()), hosts), what);
    }
    assert!(refuse(&network(Topology::Star, 0, 1, roomy()), 2).contains("rate zero"));
    assert!(refuse(&network(Topology::Dumbbell { left: 1 }, 1, 0, roomy()), 2).contains("rate zero"));
    for alpha in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(refuse(&network(Topology::Star, 1, 1, SwitchSpec { alpha, ..roomy() }), 2).contains("alpha"));
    }
    let no_buffer = SwitchSpec { buffer: Bytes::ZERO, ..roomy() };
    assert!(refuse(&network(Topology::Star, 1, 1, no_buffer), 2).contains("buffer"));
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Packet {
    from: u32,
    to: u32,
    hash: u32,
    len: u64,
    number: u64,
}

/// Takes packets from hop to hop, in the order of time.
struct Driver {
    fabric: Fabric,
    events: BinaryHeap<Reverse<(u64, u64, Hop, Packet)>>,
    injected: u64,
    delivered: Vec<(u64, Packet)>,
    dropped: u64,
    /// Switches on the path, by packet number.
    ways: BTreeMap<u64, Vec<u32>>,
}

impl Driver {
    fn new(fabric: Fabric) -> Self {
        let (events, delivered, ways) = (BinaryHeap::new(), Vec::new(), BTreeMap::new());
        Self { fabric, events, injected: 0, delivered, dropped: 0, ways }
    }

    /// Injects a packet that the sending host's NIC has sent at `now`.
    fn inject(&mut self, packet: Packet, now: u64) {
        let (at, hop) = self.fabric.leave_host(HostId(packet.from), Nanos(now));
        self.injected += 1;
        self.events.push(Reverse((at.0, self.injected, hop, packet)));
    }

    /// Handles one event; returns its time, or `None` without an event.
    fn step(&mut self) -> Option<u64> {
        let Reverse((now, order, hop, packet)) = self.events.pop()?;
        match hop {
            Hop::Host(host) => {
                assert_eq!(host, HostId(packet.to), "delivered to the wrong host");
                self.delivered.push((now, packet));
            }
            Hop::Switch(switch) => {
                let way = self.ways.entry(packet.number).or_default();
                way.push(switch.0);
                assert!(way.len() <= 3, "astray: {way:?}");
                match self.fabric.forward(
                    switch,
                    HostId(packet.to),
                    packet.hash,
                    Bytes(packet.len),
                    false,
                    Nanos(now),
                ) {
                    Forward::Dropped => self.dropped += 1,
                    Forward::Queued { arrives, at, .. } => {
                        assert!(arrives.0 >= now + DELAY);
                        self.events.push(Reverse((arrives.0, order, at, packet)));
                    }
                }
            }
        }
        Some(now)
    }

    fn run(&mut self) {
        while self.step().is_some() {}
    }
}

fn topologies() -> impl Strategy<Value = (Topology, u32)> {
    prop_oneof![
        Just((Topology::BackToBack, 2)),
        (1..9_u32).prop_map(|hosts| (Topology::Star, hosts)),
        (2..9_u32)
            .prop_flat_map(|hosts| (1..hosts).prop_map(move |left| (Topology::Dumbbell { left }, hosts))),
        (1..12_u32).prop_flat_map(|hosts| {
            let shape = (1..=hosts, 1..4_u32);
            shape.prop_map(move |(leaves, spines)| (Topology::LeafSpine { leaves, spines }, hosts))
        }),
    ]
}

proptest! {
    /// At any time, all packets that entered a port have left, were dropped or are held. At the end all packets are accounted
    /// for, no switch exceeds its buffer, and packets of a flow stay in order.
    #[test]
    fn nothing_is_lost_unseen(
        (topology, hosts) in topologies(),
        (buffer, alpha) in (1500..20_000_u64, 0.1..8.0_f64),
        packets in prop::collection::vec((0..300_u64, any::<u32>(), any::<u32>(), 0..5_u32, 60..1500_u64), 1..300),
    ) {
        let switch = SwitchSpec { buffer: Bytes(buffer), alpha, ecn_threshold: None };
        let net = network(topology, 10_000_000_000, 25_000_000_000, switch);
        let mut run = Driver::new(Fabric::new(&net, hosts).expect("possible"));
        let (mut now, mut bytes) = (0, 0);
        for (number, &(gap, from, to, hash, len)) in packets.iter().enumerate() {
            now += gap;
            let (from, to) = (from % hosts, to % hosts);
            let to = if topology == Topology::BackToBack { 1 - from } else { to };
            run.inject(Packet { from, to, hash, len, number: number as u64 }, now);
            bytes += len;
        }
        let mut last = 0;
        while let Some(now) = run.step() {
            last = now;
            let balances = run.fabric.balances(Nanos(now));
            prop_assert!(balances.iter().all(|stage| stage.balance.is_balanced()), "{balances:?}");
            for s in 0..run.fabric.switches() {
                prop_assert!(run.fabric.occupancy(SwitchId(s), Nanos(now)) <= Bytes(buffer));
            }
        }
        prop_assert_eq!(run.delivered.len() as u64 + run.dropped, packets.len() as u64);
        let balances = run.fabric.balances(Nanos(last));
        prop_assert!(balances.iter().all(|stage| stage.balance.held().packets.0 == 0 && stage.balance.is_balanced()));
        let to_hosts = balances.iter().filter(|stage| stage.name.contains("to host"));
        let delivered: u64 = run.delivered.iter().map(|(_, packet)| packet.len).sum();
        let dropped: u64 = balances.iter().map(|stage| stage.balance.dropped().bytes.0).sum();
        prop_assert_eq!(delivered + dropped, bytes);
        if topology != Topology::BackToBack {
            prop_assert_eq!(to_hosts.map(|stage| stage.balance.left().bytes.0).sum::<u64>(), delivered);
        }
        let mut newest: BTreeMap<(u32, u32, u32), u64> = BTreeMap::new();
        for (_, packet) in &run.delivered {
            let before = newest.insert((packet.from, packet.to, packet.hash), packet.number);
            prop_assert!(before.is_none_or(|before| before < packet.number), "overtaken");
        }
    }

    /// Every pair of hosts is connected by a path no longer than the shape requires; a flow keeps to one path.
    #[test]
    fn all_hosts_reach_each_other((topology, hosts) in topologies(), hash in any::<u32>()) {
        let net = network(topology, 10_000_000_000, 10_000_000_000, roomy());
        let mut run = Driver::new(Fabric::new(&net, hosts).expect("possible"));
        let mut number = 0;
        for (from, to) in (0..hosts).flat_map(|from| (0..hosts).map(move |to| (from, to))) {
            if topology == Topology::BackToBack && from == to {
                continue;
            }
            for _ in 0..2 {
                run.inject(Packet { from, to, hash, len: 100, number }, 0);
                number += 1;
            }
        }
        run.run();
        prop_assert_eq!(run.delivered.len() as u64, number);
        for (_, packet) in &run.delivered {
            let home = |host: u32| match topology {
                Topology::BackToBack | Topology::Star => 0,
                Topology::Dumbbell { left } => u32::from(host >= left),
                Topology::LeafSpine { leaves, .. } => host * leaves / hosts,
            };
            let (a, b) = (home(packet.from), home(packet.to));
            let way = run.ways.get(&packet.number).cloned().unwrap_or_default();
            match topology {
                Topology::BackToBack => prop_assert!(way.is_empty()),
                _ if a == b => prop_assert_eq!(&way, &[a]),
                Topology::LeafSpine { leaves, spines } => {
                    prop_assert_eq!((way.len(), way[0], way[2]), (3, a, b));
                    prop_assert!((leaves..leaves + spines).contains(&way[1]));
                }
                _ => prop_assert_eq!(&way, &[a, b]),
            }
            // Packets come in pairs of a flow, which uses one path.
            prop_assert_eq!(run.ways.get(&packet.number), run.ways.get(&(packet.number ^ 1)));
        }
    }
}

/// A port of the slow reference: lengths in a queue, the first being sent until `end`, in units of 1/rate nanoseconds.
#[derive(Clone, Default)]
struct SlowPort {
    queue: VecDeque<(usize, u64)>,
    end: u128,
}

/// A switch that simulates each departure, sums its content on demand, and keeps exact time.
struct SlowSwitch {
    ports: Vec<SlowPort>,
    rate: u128,
    switch: SwitchSpec,
    /// By packet: its departure and whether it was marked; `None` if dropped.
    answers: Vec<Option<(u64, bool)>>,
}

impl SlowSwitch {
    fn begin(&mut self, port: usize) {
        if let Some((_, len)) = self.ports[port].queue.front() {
            self.ports[port].end += u128::from((*len).max(60) + 24) * 8_000_000_000;
        }
    }

    /// Processes departures up to and including `now`.
    fn advance(&mut self, now: u64) {
        loop {
            let due = |port: &&usize| {
                let port = &self.ports[**port];
                !port.queue.is_empty() && port.end / self.rate <= u128::from(now)
            };
            let indices: Vec<usize> = (0..self.ports.len()).collect();
            let Some(&port) = indices.iter().filter(due).min_by_key(|port| self.ports[**port].end) else {
                return;
            };
            let (packet, _) = self.ports[port].queue.pop_front().expect("not empty");
            let departs = u64::try_from(self.ports[port].end / self.rate).expect("short runs");
            self.answers[packet].as_mut().expect("queued").0 = departs;
            self.begin(port);
        }
    }

    fn arrive(&mut self, packet: usize, to: usize, len: u64, ecn: bool, now: u64) {
        self.advance(now);
        let held = |port: &SlowPort| port.queue.iter().map(|(_, len)| len).sum::<u64>();
        let free = self.switch.buffer.0 - self.ports.iter().map(held).sum::<u64>();
        let own = held(&self.ports[to]);
        if own as f64 >= self.switch.alpha * free as f64 || len > free {
            self.answers[packet] = None;
            return;
        }
        let marked = ecn && self.switch.ecn_threshold.is_some_and(|threshold| own > threshold.0);
        self.answers[packet] = Some((0, marked));
        let idle = self.ports[to].queue.is_empty();
        self.ports[to].queue.push_back((packet, len));
        if idle {
            // The fraction of a nanosecond counts only if the link was busy until exactly this nanosecond.
            if u128::from(now) > self.ports[to].end / self.rate {
                self.ports[to].end = u128::from(now) * self.rate;
            }
            self.begin(to);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn agrees_with_the_slow_model(
        hosts in 1..6_usize,
        rate in prop_oneof![Just(10_000_000_000), Just(3_000_000_000), 1_000_000_000..100_000_000_000_u64],
        (buffer, alpha, threshold) in (1000..30_000_u64, 0.05..8.0_f64, prop::option::of(0..10_000_u64)),
        scale in prop_oneof![Just(1), Just(100), Just(800)],
        packets in prop::collection::vec((0..4_u64, any::<usize>(), 40..9000_u64, any::<bool>()), 1..300),
    ) {
        let switch = SwitchSpec { buffer: Bytes(buffer), alpha, ecn_threshold: threshold.map(Bytes) };
        let ports = vec![SlowPort::default(); hosts];
        let mut slow = SlowSwitch { ports, rate: rate.into(), switch, answers: vec![None; packets.len()] };
        let mut fabric = star(rate, hosts as u32, switch);
        let (mut now, mut answers) = (0, Vec::new());
        for (packet, &(gap, to, len, ecn)) in packets.iter().enumerate() {
            now += gap * scale;
            let to = to % hosts;
            slow.arrive(packet, to, len, ecn, now);
            let answer = fabric.forward(SwitchId(0), HostId(to as u32), 0, Bytes(len), ecn, Nanos(now));
            answers.push(arrival(answer).map(|(arrives, marked)| (arrives - DELAY, marked)));
        }
        slow.advance(u64::MAX);
        prop_assert_eq!(answers, slow.answers);
    }
}
