//! Whole runs: conservation, determinism, closed forms.

use expect_test::expect;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};
use weft_sim::cost::Costs;
use weft_sim::outcome::RunOutcome;
use weft_sim::run::simulate;
use weft_sim::scenario::{
    ByteQueueLimit, FlowGroup, FlowTraffic, HostSpec, ProbeSpec, QdiscKind, ReceiveSteering, Scenario,
    SchedulerKind, Topology,
};
use weft_units::{BitsPerSec, Bytes, Nanos};

fn run(scenario: &Scenario, seed: u64) -> RunOutcome {
    simulate(scenario, seed).unwrap_or_else(|error| panic!("{error}"))
}

fn titan_costs() -> Costs {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/costs/xeon-e5-1410.toml");
    let text = std::fs::read_to_string(path).expect("the file is there");
    Costs::read(&text, "costs").expect("it is right")
}

/// Returns a scenario of `count` bulk flows between the two hosts of `Scenario::default`.
fn bulk(count: u32) -> Scenario {
    let flows = vec![FlowGroup { name: "bulk".to_owned(), count, ..FlowGroup::default() }];
    Scenario {
        warm_up: Nanos::from_millis(100),
        duration: Nanos::from_millis(400),
        flows,
        ..Scenario::default()
    }
}

fn bits(outcome: &RunOutcome) -> f64 {
    let received: u64 = outcome.flows.iter().map(|flow| flow.received.0).sum();
    received as f64 * 8.0 / outcome.measured.as_secs_f64()
}

fn check_balances(outcome: &RunOutcome, name: &str) {
    for stage in &outcome.balances {
        assert!(stage.balance.is_balanced(), "{name}: {stage:?}");
    }
}

fn pick<T: Clone>(random: &mut Pcg64Mcg, of: &[T]) -> T {
    of[random.next_u64() as usize % of.len()].clone()
}

fn random_host(random: &mut Pcg64Mcg) -> HostSpec {
    let mut host = HostSpec { cores: pick(random, &[1, 2, 5, 8]), ..HostSpec::default() };
    let stack = &mut host.stack;
    stack.congestion_control = pick(random, &["reno", "cubic", "dctcp"]).to_owned();
    stack.mtu = pick(random, &[Bytes(1500), Bytes(9000)]);
    stack.gso = pick(random, &[Bytes(9000), Bytes(16_384), Bytes(65_536)]);
    (stack.tso, stack.gro, stack.xps) =
        (pick(random, &[true, false]), pick(random, &[true, false]), pick(random, &[true, false]));
    stack.small_queue = pick(random, &[None, Some(Bytes(128 << 10))]);
    stack.small_queue_floor = pick(random, &[true, false]);
    stack.dynamic_segment = pick(random, &[None, Some(Bytes(16_384))]);
    stack.transmit_batching = pick(random, &[true, false]);
    stack.queue_assignment = pick(random, weft_sim::assignment::NAMES).to_owned();
    stack.byte_queue_limit =
        pick(random, &[ByteQueueLimit::Off, ByteQueueLimit::Dynamic, ByteQueueLimit::Fixed(Bytes(65_536))]);
    stack.qdisc = pick(random, &qdiscs());
    let nic = &mut host.nic;
    nic.transmit_queues = pick(random, &[0, 1, 3, 8]);
    nic.receive_queues = pick(random, &[1, 4, 8]);
    nic.transmit_ring = pick(random, &[4, 512]);
    nic.receive_ring = pick(random, &[16, 512]);
    nic.interleaving = pick(random, &[true, false]);
    nic.segmentation = pick(random, &[true, false]);
    nic.queue_weights = pick(random, &[true, false]);
    nic.weight_interval = pick(random, &[Nanos::ZERO, Nanos::from_micros(100)]);
    nic.pinned_interrupts = pick(random, &[true, false]);
    nic.receive_steering = pick(
        random,
        &[
            ReceiveSteering::Rss,
            ReceiveSteering::ToTransmitQueue,
            ReceiveSteering::ToApplication,
            ReceiveSteering::AwayFromApplication,
        ],
    );
    nic.scheduler = pick(
        random,
        &[
            SchedulerKind::RoundRobin,
            SchedulerKind::Deficit { quantum: Bytes(3000) },
            SchedulerKind::Dcb { classes: 2, strict: true },
            SchedulerKind::Dcb { classes: 2, strict: false },
        ],
    );
    host
}

/// One of each kind.
fn qdiscs() -> Vec<QdiscKind> {
    let rate = BitsPerSec(700_000_000);
    vec![
        QdiscKind::PfifoFast,
        QdiscKind::FqCodel,
        QdiscKind::PrioSfq { quantum: Bytes(1514) },
        QdiscKind::DrrPrioSfq { quantum: Bytes(1514) },
        QdiscKind::Htb { rate },
        QdiscKind::Tbf { rate, burst: Bytes(100_000) },
    ]
}

#[test]
fn random_scenarios_have_every_qdisc() {
    let names: Vec<&str> = qdiscs().iter().map(QdiscKind::name).collect();
    let missing: Vec<_> = QdiscKind::NAMES.iter().filter(|name| !names.contains(name)).collect();
    assert!(missing.is_empty(), "`qdiscs` in tests/suite/world.rs has no {missing:?}");
}

/// Returns a scenario with random values from a seed.
fn random_scenario(seed: u64) -> Scenario {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let mut scenario =
        Scenario { warm_up: Nanos::from_millis(3), duration: Nanos::from_millis(15), ..Scenario::default() };
    let hosts = pick(&mut random, &[2, 4]);
    let topologies =
        [Topology::Star, Topology::Dumbbell { left: 1 }, Topology::LeafSpine { leaves: 2, spines: 2 }];
    scenario.network.topology =
        if hosts == 2 { Topology::BackToBack } else { pick(&mut random, &topologies) };
    scenario.network.loss = pick(&mut random, &[0.0, 0.0, 0.01]);
    scenario.network.switch.buffer = pick(&mut random, &[Bytes(60_000), Bytes(4_000_000)]);
    scenario.network.switch.ecn_threshold = pick(&mut random, &[None, Some(Bytes(90_000))]);
    scenario.classes = vec!["a".to_owned(), "b".to_owned()];
    scenario.hosts = (0..hosts).map(|_| random_host(&mut random)).collect();
    scenario.costs = if pick(&mut random, &[true, false]) { titan_costs() } else { Costs::FREE };
    let kinds = [
        FlowTraffic::Bulk,
        FlowTraffic::Transfer { size: Bytes(300_000) },
        FlowTraffic::RequestResponse {
            request: Bytes(100),
            response: Bytes(20_000),
            outstanding: 2,
            think: Nanos(20_000),
        },
        FlowTraffic::Short { size: Bytes(15_000), interval: Nanos(500_000) },
        FlowTraffic::Udp { size: Bytes(1000), rate: BitsPerSec(300_000_000), poisson: true },
    ];
    for _ in 0..4 {
        let from = random.next_u64() as u32 % hosts as u32;
        scenario.flows.push(FlowGroup {
            name: "group".to_owned(),
            count: pick(&mut random, &[1, 3, 9]),
            from,
            to: (from + 1) % hosts as u32,
            traffic: pick(&mut random, &kinds),
            class: pick(&mut random, &[0, 1]),
            band: pick(&mut random, &[0, 1]),
            pinned: pick(&mut random, &[true, false]),
            stop: pick(&mut random, &[Nanos::MAX, Nanos::from_millis(9)]),
            ..FlowGroup::default()
        });
    }
    scenario.probes = vec![ProbeSpec {
        closed_loop: pick(&mut random, &[true, false]),
        in_kernel: pick(&mut random, &[true, false]),
        ..ProbeSpec::default()
    }];
    scenario
}

#[test]
fn nothing_is_lost_unseen_in_any_scenario() {
    let mut packets = 0;
    for seed in 0..300 {
        let outcome = run(&random_scenario(seed), seed);
        check_balances(&outcome, &format!("seed {seed}"));
        packets += outcome.counters.packets;
        for core in outcome.cpu.iter().flatten() {
            let busy: f64 = core.iter().sum();
            // A unit of work that started before the end is counted completely.
            assert!(busy <= outcome.measured.0 as f64 + 3e6, "seed {seed}: {busy}");
        }
    }
    assert!(packets > 1_000_000, "{packets}");
}

#[test]
fn a_seed_makes_a_run_and_another_seed_another() {
    for seed in [3, 77] {
        let scenario = random_scenario(seed);
        assert_eq!(run(&scenario, 5), run(&scenario, 5));
        assert_ne!(run(&scenario, 5), run(&scenario, 6));
    }
}

/// Changes with the model; examine the difference before accepting it.
#[test]
fn the_golden_run_stays_what_it_was() {
    let mut scenario = bulk(12);
    scenario.costs = titan_costs();
    scenario.duration = Nanos::from_millis(50);
    let outcome = run(&scenario, 1);
    let bytes: Vec<u64> = outcome.flows.iter().map(|flow| flow.bytes.0).collect();
    let text = format!("{} events, {} packets, {bytes:?}", outcome.events, outcome.counters.packets);
    expect!["290859 events, 143989 packets, [3883410, 3806196, 3874326, 3816794, 7691120, 7691120, 7689606, 7691120, 3807710, 3883410, 3815280, 3874326]"].assert_eq(&text);
}

#[test]
fn bulk_flows_fill_the_link_with_payload() {
    for flows in [1, 2, 16] {
        let goodput = bits(&run(&bulk(flows), 1));
        let expected = 10e9 * 1448.0 / 1538.0;
        assert!((goodput / expected - 1.0).abs() < 0.01, "{flows} flows: {goodput}");
    }
}

/// Queues of one flow each with weights 1, 2 and 4: a queue's weight is the sum of its flows' weights.
#[test]
fn queue_weights_divide_the_link() {
    let mut scenario = bulk(0);
    scenario.flows = [1, 2, 4]
        .map(|weight| FlowGroup { name: weight.to_string(), weight, ..FlowGroup::default() })
        .to_vec();
    for host in &mut scenario.hosts {
        host.stack.queue_assignment = "dqa".to_owned();
        host.stack.xps = false;
        host.nic.queue_weights = true;
        host.nic.scheduler = SchedulerKind::Deficit { quantum: Bytes(3072) };
    }
    let outcome = run(&scenario, 1);
    let sent: Vec<f64> = outcome.flows.iter().map(|flow| flow.bytes.0 as f64).collect();
    let total: f64 = sent.iter().sum();
    for (flow, weight) in sent.iter().zip([1.0, 2.0, 4.0]) {
        assert!((flow / total * 7.0 / weight - 1.0).abs() < 0.01, "{sent:?}");
    }
}

#[test]
fn dynamic_assignment_is_fair_where_queues_suffice_and_the_hash_is_not() {
    let nfm = |assignment: &str, flows: u32, seed: u64| {
        let mut scenario = bulk(flows);
        for host in &mut scenario.hosts {
            host.stack.queue_assignment = assignment.to_owned();
            host.stack.xps = false;
        }
        run(&scenario, seed).fairness[0].mean.unwrap_or(f64::NAN)
    };
    assert!(nfm("dqa", 8, 1) < 0.02);
    let hashed: f64 = (0..20).map(|seed| nfm("hash", 8, seed)).sum::<f64>() / 20.0;
    assert!(hashed > 0.5, "{hashed}");
}

/// A flow whose thread, queue and interrupts share a core touches its socket only there; every other arrangement has its cost.
#[test]
fn sockets_that_change_cores_cost_what_the_arrangement_says() {
    let busy = |steering: ReceiveSteering, pinned: bool, price: f64| {
        let mut scenario = bulk(8);
        scenario.duration = Nanos::from_millis(100);
        scenario.costs = titan_costs();
        scenario.costs.contention.socket_transfer_ns = price;
        for host in &mut scenario.hosts {
            host.stack.xps = true;
            host.nic.receive_steering = steering;
            host.nic.pinned_interrupts = pinned;
        }
        let outcome = run(&scenario, 1);
        outcome.cpu[0].iter().flatten().sum::<f64>() / outcome.measured.as_secs_f64() / 1e9
    };
    let price = |steering, pinned| busy(steering, pinned, 1000.0) - busy(steering, pinned, 0.0);
    let own = price(ReceiveSteering::ToTransmitQueue, true);
    let (hashed, any) = (price(ReceiveSteering::Rss, true), price(ReceiveSteering::Rss, false));
    assert!(own.abs() < 0.005, "{own}");
    assert!(hashed > 0.02, "{hashed}");
    assert!(any > 1.5 * hashed, "{any} {hashed}");
}

/// M/D/1: datagrams of Poisson arrivals wait for the wire by rho / (2 mu (1 - rho)) on average. They are held in qdiscs and rings
/// while they wait and are sent, so by Little's law the mean backlog gives the wait.
#[test]
fn poisson_datagrams_wait_for_the_wire_as_theory_says() {
    for rho in [0.5, 0.8] {
        let mut scenario = bulk(0);
        let size = Bytes(1472);
        let wire = 1538.0 * 8.0 / 10e9;
        let rate = BitsPerSec((rho * 1472.0 * 8.0 / wire) as u64);
        let traffic = FlowTraffic::Udp { size, rate, poisson: true };
        scenario.flows = vec![FlowGroup { name: "udp".to_owned(), traffic, ..FlowGroup::default() }];
        scenario.duration = Nanos::from_secs(2);
        for host in &mut scenario.hosts {
            host.nic.transmit_queues = 1;
            // No buffer between scheduler and wire, no limit before the ring: a datagram waits in the ring until the wire is free.
            host.nic.transmit_buffer = Bytes(1);
            host.nic.interrupt_interval = Nanos::ZERO;
            host.stack.byte_queue_limit = ByteQueueLimit::Off;
        }
        let outcome = run(&scenario, 1);
        check_balances(&outcome, "udp");
        let arrivals = rho / wire;
        // A packet leaves the ring at the start of its transmission, and its memory one interrupt later, which is immediate here.
        let waited = outcome.counters.backlog_bytes[0].0 as f64 / 1514.0 / arrivals;
        let expected = rho * wire / (2.0 * (1.0 - rho));
        assert!((waited / expected - 1.0).abs() < 0.05, "rho {rho}: {waited} against {expected}");
    }
}

/// Random loss p and a long round trip without queues: the rate of a Reno that counts every packet is MSS / RTT x C / sqrt(p),
/// with C of 1.31 for independent losses (Mathis et al. 1997, table 1; Ott, Kemperman and Mathis 1996). The law ignores recovery,
/// timeouts and whole packets: there is a loss in every 1 / (1.31 sqrt(p)) rounds, and each costs at most two rounds.
#[test]
fn reno_under_random_loss_follows_the_square_root_law() {
    /// The statistical error of a mean of four runs: their deviation is below 3 %.
    const CHANCE: f64 = 0.04;
    for (loss, seconds) in [(3e-4, 400), (1e-3, 200), (1e-2, 100)] {
        let mut scenario = bulk(1);
        scenario.network.loss = loss;
        scenario.network.delay = Nanos::from_millis(10);
        (scenario.warm_up, scenario.duration) = (Nanos::from_secs(5), Nanos::from_secs(seconds));
        for host in &mut scenario.hosts {
            host.stack.congestion_control = "reno".to_owned();
        }
        let measured: f64 = (0..4).map(|seed| bits(&run(&scenario, seed))).sum::<f64>() / 4.0;
        let of_law = measured / (1448.0 * 8.0 / 0.02 * 1.31 / loss.sqrt());
        let lost = 2.0 * 1.31 * loss.sqrt();
        assert!((1.0 - lost - CHANCE..=1.0 + CHANCE).contains(&of_law), "loss {loss}: {of_law} of the law");
    }
}

#[test]
fn a_transfer_arrives_whole_under_loss() {
    for seed in 0..30 {
        let mut scenario = bulk(0);
        let size = Bytes(1_000_000);
        scenario.network.loss = 0.02;
        scenario.flows =
            vec![FlowGroup { count: 3, traffic: FlowTraffic::Transfer { size }, ..FlowGroup::default() }];
        (scenario.warm_up, scenario.duration) = (Nanos::ZERO, Nanos::from_secs(60));
        let outcome = run(&scenario, seed);
        check_balances(&outcome, "transfer");
        for flow in &outcome.flows {
            assert!(flow.completion.is_some(), "seed {seed}: {flow:?}");
            assert_eq!(flow.received, size, "seed {seed}");
        }
    }
}

/// DCTCP keeps the switch's queue near its threshold; CUBIC fills the buffer.
#[test]
fn dctcp_keeps_the_queue_short() {
    let rtt = |control: &str, threshold| {
        let mut scenario = bulk(0);
        scenario.hosts = vec![HostSpec::default(); 4];
        scenario.network.topology = Topology::Star;
        scenario.network.switch.ecn_threshold = threshold;
        scenario.flows =
            (1..4).map(|from| FlowGroup { count: 2, from, to: 0, ..FlowGroup::default() }).collect();
        for host in &mut scenario.hosts {
            host.stack.congestion_control = control.to_owned();
        }
        scenario.probes = vec![
            ProbeSpec { from: 0, to: 1, ..ProbeSpec::default() },
            ProbeSpec { from: 1, to: 0, ..ProbeSpec::default() },
        ];
        let outcome = run(&scenario, 1);
        check_balances(&outcome, control);
        (outcome.probes[1].mean_s().unwrap_or(f64::NAN), bits(&outcome))
    };
    let (short, fast) = rtt("dctcp", Some(Bytes(100_000)));
    let (long, _) = rtt("cubic", None);
    // 100 kB at 10 Gb/s are 80 us.
    assert!(short < 600e-6 && long > 3.0 * short, "dctcp {short}, cubic {long}");
    assert!(fast > 9.2e9, "{fast}");
}

#[test]
fn nothing_overtakes_within_a_flow() {
    for (assignment, seed) in [("hash", 1), ("dqa", 2), ("dqa", 3), ("two-choices", 4)] {
        let mut scenario = bulk(20);
        scenario.costs = titan_costs();
        scenario.flows.push(FlowGroup {
            name: "short".to_owned(),
            count: 50,
            traffic: FlowTraffic::Short { size: Bytes(20_000), interval: Nanos::from_millis(1) },
            ..FlowGroup::default()
        });
        for host in &mut scenario.hosts {
            host.stack.queue_assignment = assignment.to_owned();
            host.stack.xps = false;
        }
        let outcome = run(&scenario, seed);
        assert_eq!(outcome.counters.reordered, 0, "{assignment}");
        assert!(outcome.flows[30].requests.samples.len() > 10);
    }
}

#[test]
fn a_full_receive_ring_drops_and_counts() {
    let mut scenario = bulk(4);
    scenario.costs = titan_costs();
    scenario.hosts[1].nic.receive_ring = 8;
    scenario.hosts[1].nic.interrupt_interval = Nanos::from_millis(1);
    let outcome = run(&scenario, 1);
    check_balances(&outcome, "ring");
    let ring =
        outcome.balances.iter().find(|stage| stage.name == "host 1 receive rings").expect("it is there");
    assert!(ring.balance.dropped().packets.0 > 0);
    assert!(outcome.flows.iter().map(|flow| flow.retransmitted).sum::<u64>() > 0);
}

/// Limits by destination apply to their own destinations, and other traffic is not limited (Loom, section 4: sibling limits).
#[test]
fn limits_by_destination_hold_for_their_destinations_only() {
    let mut scenario = bulk(0);
    scenario.hosts = vec![HostSpec::default(); 4];
    scenario.network.topology = Topology::Star;
    scenario.classes = vec!["a".to_owned()];
    scenario.flows = (1..4)
        .map(|to| FlowGroup { name: to.to_string(), count: 3, from: 0, to, ..FlowGroup::default() })
        .collect();
    let sender = &mut scenario.hosts[0];
    sender.nic.transmit_queues = 0;
    sender.nic.scheduler = SchedulerKind::PolicyTree;
    // Hosts are 192.0.2.1, .2 and so on.
    sender.stack.policy = Some(
        "class a = cgroup \"a\"\nroot = limit by destination { 192.0.2.2/32: 1gbps, 192.0.2.3/32: 300mbps } of fair of a\n"
            .to_owned(),
    );
    let outcome = run(&scenario, 1);
    check_balances(&outcome, "limits");
    let to = |host: u32| {
        let flows = outcome.flows.iter().filter(|flow| flow.group == host - 1);
        flows.map(|flow| flow.received.0).sum::<u64>() as f64 * 8.0 / outcome.measured.as_secs_f64()
    };
    // Payload of full frames of 1538 bytes on the wire.
    for (host, limit) in [(1, 1e9), (2, 0.3e9)] {
        let expected = limit * 1448.0 / 1538.0;
        assert!((to(host) / expected - 1.0).abs() < 0.02, "to host {host}: {} of {expected}", to(host));
    }
    assert!(to(3) > 7.5e9, "what goes elsewhere is not limited: {}", to(3));
}

/// A policy's conditions decide, not the name of a class alone.
#[test]
fn conditions_of_a_policy_are_tested() {
    let mut scenario = bulk(0);
    scenario.hosts = vec![HostSpec::default(); 3];
    scenario.network.topology = Topology::Star;
    scenario.classes = vec!["a".to_owned()];
    scenario.flows = (1..3)
        .map(|to| FlowGroup { name: to.to_string(), count: 2, from: 0, to, ..FlowGroup::default() })
        .collect();
    let sender = &mut scenario.hosts[0];
    sender.nic.transmit_queues = 0;
    sender.nic.scheduler = SchedulerKind::PolicyTree;
    sender.stack.policy = Some(
        "class b = cgroup \"a\" and to 192.0.2.2/32\nclass a = cgroup \"a\"\nroot = wfq { fair of a: 3, fair of b: 1 }\n"
            .to_owned(),
    );
    let outcome = run(&scenario, 1);
    let received = |group: u32| {
        outcome.flows.iter().filter(|flow| flow.group == group).map(|flow| flow.received.0).sum::<u64>()
            as f64
    };
    let ratio = received(1) / received(0);
    assert!((ratio / 3.0 - 1.0).abs() < 0.02, "{ratio}");
}

/// Under DCB a flow of a traffic class uses only this class's queues: strict priority sends the urgent class's flows first.
#[test]
fn a_traffic_class_has_its_own_queues() {
    let mut scenario = bulk(0);
    let group = |name: &str, traffic_class| FlowGroup {
        name: name.to_owned(),
        count: 6,
        traffic_class: Some(traffic_class),
        ..FlowGroup::default()
    };
    scenario.flows = vec![group("urgent", 0), group("other", 1)];
    for strict in [true, false] {
        for host in &mut scenario.hosts {
            host.nic.transmit_queues = 8;
            host.nic.scheduler = SchedulerKind::Dcb { classes: 2, strict };
        }
        let outcome = run(&scenario, 1);
        let received = |group: u32| -> u64 {
            outcome.flows.iter().filter(|flow| flow.group == group).map(|flow| flow.received.0).sum()
        };
        let share = received(1) as f64 / (received(0) + received(1)) as f64;
        let expected = if strict { 0.0 } else { 0.5 };
        assert!((share - expected).abs() < 0.02, "strict {strict}: the other class has {share}");
    }
    scenario.flows[0].traffic_class = Some(2);
    let refused = simulate(&scenario, 1).expect_err("two classes only").to_string();
    assert!(refused.contains("urgent") && refused.contains("traffic class"), "{refused}");
}
