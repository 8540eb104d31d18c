//! The queue assigned to a flow, and the times at which it may change.

use crate::common::assigned::{Assigned, Flow, get, pin, slow};
use core::time::Duration;
use weft_host::testing::{privileged, wait_for};
use weft_titan::settings::{Parts, Pool, Settings};
use weft_units::TxQueueId;

/// Starts `count` flows one after the other, each with `packets` datagrams, and checks that each is assigned to a queue
/// that was least occupied at its start. Returns them with their queues.
fn start_flows(assigned: &Assigned, count: usize, packets: usize) -> Vec<(Flow, usize)> {
    let mut flows = Vec::new();
    for number in 0..count {
        let flow = assigned.flow();
        let before = assigned.weights();
        flow.send(packets);
        let queue = assigned.queue(&flow);
        let least = before.iter().min().expect("queues");
        assert_eq!(before[queue], *least, "flow {number} went to queue {queue} of {before:?}");
        let mut expected = before.clone();
        expected[queue] += 1;
        assert_eq!(assigned.weights(), expected, "flow {number}");
        assert_eq!(assigned.flows(), expected, "flow {number}");
        flows.push((flow, queue));
    }
    flows
}

#[test]
fn each_flow_has_a_queue_of_its_own_and_the_next_goes_to_the_least_occupied() {
    if !privileged("each_flow_has_a_queue_of_its_own_and_the_next_goes_to_the_least_occupied") {
        return;
    }
    let _alone = weft_host::testing::alone();
    // 10 packets a second: no flow ends during the check.
    let assigned = Assigned::start("tqo", &slow(85), &Settings::default());
    let flows = start_flows(&assigned, 12, 30);
    let mut queues: Vec<usize> = flows.iter().take(8).map(|(_, queue)| *queue).collect();
    queues.sort_unstable();
    assert_eq!(queues, [0, 1, 2, 3, 4, 5, 6, 7]);
    let mut queues: Vec<usize> = flows.iter().skip(8).map(|(_, queue)| *queue).collect();
    queues.sort_unstable();
    queues.dedup();
    assert_eq!(queues.len(), 4, "no third flow while a queue has one");
    // The records agree with the packets: each ring has those of its flows.
    let mut packets = [0; 8];
    flows.iter().for_each(|(_, queue)| packets[*queue] += 30);
    let posted = assigned.nic().ports()[0].doorbells().rings.iter().take(8);
    let posted: Vec<u64> = posted.map(|ring| get(&ring.packets)).collect();
    assert_eq!(posted, packets);
    // If the link was free for a flow's first packet, the flow may have ended and started again before its second.
    let page = assigned.titan().page();
    assert!((12..24).contains(&page.activations()), "{}", page.activations());
    assert_eq!(page.moves(), 0);
    assigned.finish();
}

#[test]
fn among_equals_a_flows_own_queue_wins_and_then_the_next_in_the_circle() {
    if !privileged("among_equals_a_flows_own_queue_wins_and_then_the_next_in_the_circle") {
        return;
    }
    let _alone = weft_host::testing::alone();
    // 8 ms per datagram: a burst stays for 400 ms while it is checked.
    let assigned = Assigned::start("tqt", &slow(1000), &Settings::default());
    // Nine flows: two of them share a queue.
    let flows = start_flows(&assigned, 9, 50);
    let (last, shared) = &flows[8];
    let (first, _) = flows.iter().find(|(_, queue)| queue == shared).expect("its neighbour");
    assigned.quiet();
    let kept = &assigned.titan().totals().kept;
    let mut moves = 0;
    for round in 0..8 {
        // All queues are empty: both flows would return to their last queue. The second finds its own occupied and
        // takes the next.
        first.send(50);
        assert_eq!(assigned.queue(first), *shared, "round {round}: its own queue");
        let (own, before) = (assigned.queue(last), get(kept));
        last.send(50);
        if get(kept) > before {
            // The NIC was fetching a packet of that queue, and had not read its flow yet.
            assert_eq!(assigned.queue(last), own, "round {round}: kept");
            assigned.quiet();
            continue;
        }
        moves += u64::from(own == *shared);
        let weights = assigned.weights();
        assert_eq!(weights.iter().sum::<u64>(), 2, "{weights:?}");
        let expected = if own == *shared { (*shared + 1) % 8 } else { own };
        assert_eq!(assigned.queue(last), expected, "round {round}: the next");
        assigned.quiet();
    }
    // It moved once and has stayed there since.
    assert_eq!((assigned.titan().page().moves(), moves), (1, 1));
    assigned.settled();
    assigned.finish();
}

#[test]
fn a_flow_moves_only_when_all_of_it_has_left() {
    if !privileged("a_flow_moves_only_when_all_of_it_has_left") {
        return;
    }
    let _alone = weft_host::testing::alone();
    let assigned = Assigned::start("tqm", &slow(2000), &Settings::default());
    // 4 ms per datagram: the first flow stays for 400 ms while the others start.
    let flows = start_flows(&assigned, 9, 100);
    let (last, shared) = &flows[8];
    let (first, _) = flows.iter().find(|(_, queue)| queue == shared).expect("its neighbour");
    let totals = assigned.titan().totals();
    let activations = assigned.titan().page().activations() - get(&totals.kept);
    let mut empty_elsewhere = 0;
    for _ in 0..4000 {
        for flow in [first, last] {
            if assigned.record(flow).segments.get() < 60 {
                flow.send(40);
            }
            assert_eq!(assigned.queue(flow), *shared, "active, so it stays");
        }
        let weights = assigned.weights();
        empty_elsewhere += u32::from(weights.iter().sum::<u64>() == 2 && weights[*shared] == 2);
        if empty_elsewhere > 40 {
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(empty_elsewhere > 40, "all other queues were empty: {empty_elsewhere}, {:?}", assigned.weights());
    assert_eq!(
        (assigned.titan().page().activations() - get(&totals.kept), assigned.titan().page().moves()),
        (activations, 0),
        "neither ended nor moved"
    );
    // The first pauses until all its packets have left, the other continues: now it moves. If the NIC was fetching a
    // packet whose flow it had not read, the flow is kept once more.
    let (mut at, mut changes) = (*shared, 0);
    for _ in 0..4 {
        wait_for("all of it has left", || {
            if assigned.record(last).segments.get() < 60 {
                last.send(40);
            }
            !assigned.record(first).is_active()
        });
        let (before, kept, others) = (at, get(&totals.kept), assigned.queue(last));
        first.send(5);
        at = assigned.queue(first);
        if get(&totals.kept) > kept || others != before {
            assert_eq!(at, before);
        } else {
            assert_eq!(at, (before + 1) % 8, "the next empty one");
            changes += 1;
        }
    }
    assert!(changes > 0, "{totals:?}");
    assert_eq!(assigned.titan().page().moves(), changes);
    let into: u64 = assigned.queues().iter().map(|queue| get(&queue.moves)).sum();
    assert_eq!(into, changes, "queues count their arrivals");
    assigned.settled();
    assigned.finish();
}

fn halves() -> Pool {
    Pool::Given(vec![(0..4).map(TxQueueId).collect(), (4..8).map(TxQueueId).collect()])
}

/// Starts `count` flows from a thread of `core` and returns their queues.
fn queues_from(assigned: &Assigned, core: usize, count: usize) -> (Vec<Flow>, Vec<usize>) {
    let flows: Vec<Flow> = (0..count).map(|_| assigned.flow()).collect();
    let sending = &flows;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            pin(core);
            sending.iter().for_each(|flow| flow.send(30));
        });
    });
    let queues = flows.iter().map(|flow| assigned.queue(flow)).collect();
    (flows, queues)
}

#[test]
fn a_cores_flows_use_its_queues_only() {
    if !privileged("a_cores_flows_use_its_queues_only") {
        return;
    }
    if std::thread::available_parallelism().map_or(1, |cores| cores.get()) < 2 {
        return weft_host::testing::skip("a_cores_flows_use_its_queues_only", "one core");
    }
    let _alone = weft_host::testing::alone();
    for dqa in [true, false] {
        let parts = Parts { dqa, dqwa: true, dsos: true };
        let settings = Settings { parts, pool: halves(), ..Settings::default() };
        let assigned = Assigned::start("tqp", &slow(85), &settings);
        let (_first, zero) = queues_from(&assigned, 0, 6);
        let (_second, one) = queues_from(&assigned, 1, 6);
        assert!(zero.iter().all(|queue| *queue < 4), "core 0: {zero:?}");
        assert!(one.iter().all(|queue| (4..8).contains(queue)), "core 1: {one:?}");
        let flows = assigned.flows();
        assert_eq!(flows.iter().sum::<u64>(), 12);
        if dqa {
            // Six flows over four queues: two have two.
            assert!(flows.iter().all(|flows| (1..=2).contains(flows)), "{flows:?}");
        }
        assigned.finish();
    }
}

#[test]
fn by_hash_a_flow_keeps_its_queue_whatever_is_empty() {
    if !privileged("by_hash_a_flow_keeps_its_queue_whatever_is_empty") {
        return;
    }
    let _alone = weft_host::testing::alone();
    let parts = Parts { dqa: false, dqwa: true, dsos: true };
    let assigned = Assigned::start("tqh", &slow(8000), &Settings { parts, ..Settings::default() });
    let flows: Vec<Flow> = (0..24).map(|_| assigned.flow()).collect();
    let mut first = Vec::new();
    for round in 0..3 {
        flows.iter().for_each(|flow| flow.send(8));
        let queues: Vec<usize> = flows.iter().map(|flow| assigned.queue(flow)).collect();
        if round == 0 {
            first.clone_from(&queues);
        }
        assert_eq!(queues, first, "round {round}");
        assigned.quiet();
    }
    first.sort_unstable();
    first.dedup();
    assert!(first.len() > 2, "24 flows in {first:?}: a chance of one in millions");
    assert_eq!(assigned.titan().page().moves(), 0);
    assigned.settled();
    assigned.finish();
}
