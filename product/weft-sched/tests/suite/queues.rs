//! The scheduler of a multiqueue NIC: packet by packet against a slow reference, and its guarantees.

mod reference;

use proptest::prelude::*;
use reference::Reference;
use weft_sched::queues::{DEFAULT_CREDIT, FAIR_QUANTUM, Inner, QueueError, QueueScheduler, Service};
use weft_units::{Bytes, FlowId, TxQueueId};

const WRR: Service = Service::Deficit { credit: DEFAULT_CREDIT };

/// A scheduler with `per_queue` flows in each queue; flow `q * per_queue + i` is flow i of queue q.
fn scheduler(queues: usize, per_queue: usize, service: Service, inner: Inner) -> QueueScheduler {
    let mut made = QueueScheduler::new(queues, service, inner);
    for queue in 0..queues {
        for _ in 0..per_queue {
            made.add_flow(TxQueueId::from_index(queue)).expect("flow");
        }
    }
    made
}

#[derive(Clone, Debug)]
enum Step {
    Activate(usize),
    /// Bytes, whether more waits, whether the flow is activated during its turn.
    Turn(u64, bool, bool),
    Weight(usize, u64),
    Service(Service),
}

fn service() -> impl Strategy<Value = Service> {
    let deficit = (100..4000_u64).prop_map(|credit| Service::Deficit { credit: Bytes(credit) });
    prop_oneof![Just(Service::RoundRobin), deficit]
}

fn step() -> impl Strategy<Value = Step> {
    let bytes = prop_oneof![Just(0), 60..1538_u64, 1538..66_000_u64];
    prop_oneof![
        4 => (0..1000_usize).prop_map(Step::Activate),
        12 => (bytes, prop::bool::weighted(0.8), prop::bool::weighted(0.1)).prop_map(|(b, m, r)| Step::Turn(b, m, r)),
        1 => (0..1000_usize, prop_oneof![Just(0), 1..9_u64, 9..200_u64]).prop_map(|(q, w)| Step::Weight(q, w)),
        1 => service().prop_map(Step::Service),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn it_agrees_with_the_reference_turn_by_turn(
        queues in prop_oneof![1..6_usize, 60..70_usize],
        per_queue in 1..5_usize,
        fair in any::<bool>(),
        service in service(),
        steps in prop::collection::vec(step(), 1..400),
    ) {
        let (inner, per_queue) = if fair { (Inner::Fair, per_queue) } else { (Inner::Fifo, 1) };
        let mut fast = scheduler(queues, per_queue, service, inner);
        let mut slow = Reference::new(queues, per_queue, service, inner);
        for step in steps {
            match step {
                Step::Activate(n) => {
                    let n = n % (queues * per_queue);
                    fast.activate(FlowId::from_index(n));
                    slow.activate(n / per_queue, n % per_queue);
                }
                Step::Weight(queue, weight) => {
                    fast.set_weight(TxQueueId::from_index(queue % queues), weight).expect("queue");
                    slow.set_weight(queue % queues, weight);
                }
                Step::Service(service) => {
                    fast.set_service(service);
                    slow.set_service(service);
                }
                Step::Turn(sent, more, posted) => {
                    let (turn, expected) = (fast.next(), slow.next());
                    let given = turn.as_ref().map(|t| (t.queue().index(), t.flow().index() % per_queue));
                    prop_assert_eq!(given, expected);
                    let (Some(turn), Some(place)) = (turn, expected) else { continue };
                    prop_assert_eq!(fast.queue_of(turn.flow()), Some(turn.queue()));
                    if posted {
                        fast.activate(turn.flow());
                    }
                    prop_assert_eq!(fast.finish(turn, Bytes(sent), more), Ok(()));
                    slow.finish(place, sent, more || posted);
                }
            }
        }
    }
}

/// Serves until `total` bytes have left, all flows staying backlogged; returns the bytes by flow.
fn serve(scheduler: &mut QueueScheduler, flows: usize, total: u64, size: impl Fn(FlowId) -> u64) -> Vec<u64> {
    let mut sent = vec![0; flows];
    while sent.iter().sum::<u64>() < total {
        let turn = scheduler.next().expect("backlogged");
        let bytes = size(turn.flow());
        sent[turn.flow().index()] += bytes;
        scheduler.finish(turn, Bytes(bytes), true).expect("outstanding");
    }
    sent
}

fn activate_all(scheduler: &mut QueueScheduler, flows: usize) {
    for flow in 0..flows {
        assert!(scheduler.activate(FlowId::from_index(flow)));
        assert!(!scheduler.activate(FlowId::from_index(flow)), "once is enough");
    }
}

#[test]
fn round_robin_counts_turns_and_not_bytes() {
    let mut nic = scheduler(3, 1, Service::RoundRobin, Inner::Fifo);
    activate_all(&mut nic, 3);
    nic.set_weight(TxQueueId(1), 50).expect("queue");
    let sizes = [1538, 65_000, 60];
    let sent = serve(&mut nic, 3, 10_000_000, |flow| sizes[flow.index()]);
    let turns: Vec<u64> = sent.iter().zip(sizes).map(|(sent, size)| sent / size).collect();
    assert!(turns.iter().max().expect("three") - turns.iter().min().expect("three") <= 1, "{turns:?}");
}

#[test]
fn weights_are_shares_within_a_packet_and_a_visit() {
    // For any packet sizes, a queue is at any time within its largest packet and one visit of its share.
    for sizes in [[1538, 1538, 1538], [65_000, 1538, 60], [60, 1538, 65_000]] {
        let mut nic = scheduler(3, 1, WRR, Inner::Fifo);
        for (queue, weight) in [1, 2, 4].into_iter().enumerate() {
            nic.set_weight(TxQueueId::from_index(queue), weight).expect("queue");
        }
        activate_all(&mut nic, 3);
        for total in [1_000_000, 5_000_000, 70_000_000] {
            let sent = serve(&mut nic, 3, total, |flow| sizes[flow.index()]);
            let unit = sent.iter().sum::<u64>() as f64 / 7.0;
            for ((sent, weight), size) in sent.iter().zip([1.0, 2.0, 4.0]).zip(sizes) {
                let bound = 2.0 * (size as f64 + 65_000.0 * weight + DEFAULT_CREDIT.get() as f64 * weight);
                assert!(
                    (*sent as f64 - unit * weight).abs() <= bound,
                    "{sizes:?}: {sent} for weight {weight}"
                );
            }
        }
    }
    let mut nic = scheduler(3, 1, WRR, Inner::Fifo);
    for (queue, weight) in [1, 2, 4].into_iter().enumerate() {
        nic.set_weight(TxQueueId::from_index(queue), weight).expect("queue");
    }
    activate_all(&mut nic, 3);
    // Packets as large as the credit: whole rounds are exact.
    assert_eq!(serve(&mut nic, 3, 3072 * 7 * 500, |_| 3072), [3072 * 500, 3072 * 1000, 3072 * 2000]);
}

#[test]
fn a_queue_waits_for_no_more_than_its_share_says_whatever_the_size_of_weights() {
    let all: [&[u64]; 6] = [
        &[1, 1, 1],
        &[1000, 1000, 1000],
        &[65_535; 8],
        &[1, 65_535, 65_535],
        &[1, 1000, 65_535, 7],
        &[1 << 40, 3 << 40],
    ];
    for (weights, size) in all.into_iter().flat_map(|weights| [1538_u64, 65_000].map(|size| (weights, size)))
    {
        let count = weights.len();
        let mut nic = scheduler(count, 1, WRR, Inner::Fifo);
        for (queue, weight) in weights.iter().enumerate() {
            nic.set_weight(TxQueueId::from_index(queue), *weight).expect("queue");
        }
        activate_all(&mut nic, count);
        let sum: u64 = weights.iter().sum();
        // Of all bytes that left: the last turn of each queue, and its longest wait.
        let (mut left, mut last, mut longest) = (0_u64, vec![0_u64; count], vec![0_u64; count]);
        for _ in 0..200_000 {
            let turn = nic.next().expect("backlogged");
            let at = turn.queue().index();
            longest[at] = longest[at].max(left - last[at]);
            left += size;
            last[at] = left;
            nic.finish(turn, Bytes(size), true).expect("outstanding");
        }
        for queue in 0..count {
            let waited = longest[queue].max(left - last[queue]) as f64;
            let share = weights[queue] as f64 / sum as f64;
            let bound = size as f64 / share + count as f64 * (2 * DEFAULT_CREDIT.get() + size) as f64;
            assert!(
                waited <= bound,
                "{weights:?} of {size}: queue {queue} waited for {waited} of {bound} bytes"
            );
        }
    }
}

#[test]
fn only_the_ratios_of_weights_matter() {
    let order = |weights: [u64; 3]| {
        let mut nic = scheduler(3, 1, WRR, Inner::Fifo);
        for (queue, weight) in weights.into_iter().enumerate() {
            nic.set_weight(TxQueueId::from_index(queue), weight).expect("queue");
        }
        activate_all(&mut nic, 3);
        let sizes = [1538, 9000, 60];
        let mut order = Vec::new();
        for _ in 0..5000 {
            let turn = nic.next().expect("backlogged");
            order.push(turn.queue());
            let bytes = Bytes(sizes[turn.queue().index()]);
            nic.finish(turn, bytes, true).expect("outstanding");
        }
        order
    };
    let expected = order([1, 2, 4]);
    assert_eq!(order([1000, 2000, 4000]), expected);
    assert_eq!(order([16_383, 32_766, 65_532]), expected);
}

#[test]
fn a_queue_that_was_idle_banks_no_credit() {
    let mut nic = scheduler(2, 1, WRR, Inner::Fifo);
    nic.activate(FlowId(0));
    serve(&mut nic, 2, 10_000_000, |_| 1538);
    nic.activate(FlowId(1));
    let sent = serve(&mut nic, 2, 1_000_000, |_| 1538);
    assert!(sent[0].abs_diff(sent[1]) <= 2 * (3072 + 1538), "{sent:?}");
}

#[test]
fn a_queue_that_is_empty_after_each_large_packet_does_not_escape_its_debt() {
    let mut nic = scheduler(2, 1, WRR, Inner::Fifo);
    activate_all(&mut nic, 2);
    let mut sent = [0_u64; 2];
    while sent[0] + sent[1] < 20_000_000 {
        nic.activate(FlowId(1));
        let turn = nic.next().expect("backlogged");
        let bytes = if turn.flow() == FlowId(0) { 1538 } else { 65_000 };
        sent[turn.flow().index()] += bytes;
        let more = turn.flow() == FlowId(0);
        nic.finish(turn, Bytes(bytes), more).expect("outstanding");
    }
    assert!(sent[0].abs_diff(sent[1]) <= 2 * 65_000, "{sent:?}");
}

#[test]
fn a_changed_weight_counts_from_the_next_visit_on() {
    let mut nic = scheduler(2, 1, WRR, Inner::Fifo);
    activate_all(&mut nic, 2);
    serve(&mut nic, 2, 1_000_000, |_| 1538);
    nic.set_weight(TxQueueId(1), 9).expect("queue");
    let sent = serve(&mut nic, 2, 10_000_000, |_| 1538);
    let share = sent[1] as f64 / (sent[0] + sent[1]) as f64;
    assert!((share - 0.9).abs() < 0.005, "{share}");
    nic.set_service(Service::RoundRobin);
    let sent = serve(&mut nic, 2, 1_000_000, |_| 1538);
    assert!(sent[0].abs_diff(sent[1]) <= 1538, "{sent:?}");
}

#[test]
fn flows_of_a_fair_queue_share_it_by_bytes() {
    let mut nic = scheduler(1, 3, Service::RoundRobin, Inner::Fair);
    activate_all(&mut nic, 3);
    let sizes = [60, 1538, 65_000];
    let sent = serve(&mut nic, 3, 60_000_000, |flow| sizes[flow.index()]);
    let most = sent.iter().max().expect("three") - sent.iter().min().expect("three");
    assert!(most <= 65_000 + 2 * FAIR_QUANTUM.get(), "{sent:?}");
}

#[test]
fn errors_and_ends() {
    let mut nic = scheduler(2, 1, WRR, Inner::Fifo);
    assert_eq!(nic.next(), None);
    assert_eq!(nic.add_flow(TxQueueId(2)), Err(QueueError::UnknownQueue { given: TxQueueId(2), count: 2 }));
    assert_eq!(nic.add_flow(TxQueueId(1)), Err(QueueError::Occupied { given: TxQueueId(1) }));
    assert!(nic.set_weight(TxQueueId(9), 1).is_err() && !nic.activate(FlowId(9)));
    nic.activate(FlowId(1));
    let (first, second) = (nic.next().expect("turn"), nic.next().expect("turn"));
    assert!(nic.finish(first, Bytes(1), false).is_err(), "forgotten by the second");
    nic.activate(FlowId(1));
    nic.finish(second, Bytes(70_000_000), false).expect("outstanding");
    // Posted during its turn: still backlogged. The 22,786 rounds of debt cost nothing.
    let turn = nic.next().expect("posted");
    nic.finish(turn, Bytes(0), false).expect("outstanding");
    assert_eq!(nic.next(), None);
}
