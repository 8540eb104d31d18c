//! The policy tree as a NIC's scheduler, compared with the same tree driven directly.

use proptest::prelude::*;
use weft_sched::workload::{figure1_program, wfq_program};
use weft_sched::{FlowError, LimitSpec, Next, PolicyTree, Program};
use weft_sim::nic::scheduler::policy::QUEUES_MAX;
use weft_sim::nic::scheduler::{After, NicScheduler, Pick, PolicyScheduler, QueueError};
use weft_units::{BitsPerSec, Bytes, FlowId, Instant, LaneId, LimitId, Nanos, TxQueueId, Weight};

const NOW: Nanos = Nanos::ZERO;
const QUEUES: u32 = 40;

/// Loom's Figure 1 with a limit on every third lane.
fn program() -> Program {
    let mut program = figure1_program();
    program.limits.push(LimitSpec {
        name: "all".to_owned(),
        rate: BitsPerSec(2_000_000_000),
        burst: Bytes(3000),
    });
    for lane in program.lanes.iter_mut().step_by(3) {
        lane.limits.push(LimitId(0));
    }
    program
}

fn weight(weight: u32) -> Weight {
    Weight::new(weight).expect("above zero")
}

/// Returns the lane of a queue, spread over the tree.
fn lane(queue: u32) -> LaneId {
    LaneId(queue * 7 % 64)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Queue numbers differ from flow numbers, so the scheduler must translate in both directions; weights change during the run.
    #[test]
    fn it_agrees_with_the_tree_driven_by_hand(
        steps in proptest::collection::vec((0..QUEUES, 0..10_u32, 1..9000_u64, any::<bool>(), 0..5000_u64), 1..400),
        given in 0..QUEUES,
    ) {
        let number = |flow: u32| if flow < given { TxQueueId(flow) } else { TxQueueId(1000 - 3 * flow) };
        let mut tree = PolicyTree::new(&program()).expect("a sound program");
        let mut inside = PolicyTree::new(&program()).expect("a sound program");
        let flows: Vec<_> =
            (0..given).map(|queue| inside.add_flow(lane(queue), Weight::ONE).expect("a lane")).collect();
        let mut scheduler = PolicyScheduler::with_flows(inside, flows).expect("flows of the tree");
        for flow in 0..QUEUES {
            prop_assert_eq!(tree.add_flow(lane(flow), Weight::ONE), Ok(FlowId(flow)));
            if flow >= given {
                prop_assert_eq!(scheduler.add_queue(number(flow), lane(flow), Weight::ONE), Ok(()));
            }
        }
        let mut now = NOW;
        for (queue, what, len, more, pause) in steps {
            let flow = FlowId(queue);
            now += Nanos(pause);
            if what == 0 {
                scheduler.set_weight(number(queue), queue % 5);
                prop_assert_eq!(tree.set_weight(flow, weight((queue % 5).max(1))), Ok(()));
            } else if what < 4 {
                if tree.activate(flow) {
                    scheduler.activate(number(queue), now);
                }
            } else {
                match (scheduler.next(now), tree.next(Instant::after_epoch(now))) {
                    (Pick::Queue(picked), Next::Turn(turn)) => {
                        prop_assert_eq!(picked, number(turn.flow().0));
                        if flow != turn.flow() && tree.activate(flow) {
                            scheduler.activate(number(queue), now);
                        }
                        scheduler.finish(picked, Bytes(len), After::holding(usize::from(more)), now);
                        prop_assert_eq!(tree.finish(turn, Bytes(len), more, Instant::after_epoch(now)), Ok(()));
                    }
                    (Pick::Wait(time), Next::Wait(expected)) => prop_assert_eq!(time, expected.since_epoch()),
                    (Pick::Idle, Next::Idle) => {}
                    other => prop_assert!(false, "{:?}", other),
                }
            }
        }
    }
}

/// Counts each of two queues' turns.
fn turns(scheduler: &mut PolicyScheduler, count: usize) -> [u32; 2] {
    let mut had = [0; 2];
    for _ in 0..count {
        let Pick::Queue(queue) = scheduler.next(NOW) else { panic!("both are active") };
        had[queue.index()] += 1;
        scheduler.finish(queue, Bytes(1000), After::Backlogged, NOW);
    }
    had
}

fn empty() -> PolicyScheduler {
    let tree = PolicyTree::new(&wfq_program(2)).expect("a sound program");
    PolicyScheduler::new(tree)
}

#[test]
fn a_weight_counts_from_the_next_charge_on() {
    let mut scheduler = empty();
    for queue in [0, 1].map(TxQueueId) {
        scheduler.add_queue(queue, LaneId(0), Weight::ONE).expect("room");
        scheduler.activate(queue, NOW);
    }
    assert_eq!(turns(&mut scheduler, 20), [10, 10]);
    scheduler.set_weight(TxQueueId(1), 4);
    // One turn each at the old tags, then 1:4.
    let [low, high] = turns(&mut scheduler, 50);
    assert!((9..=11).contains(&low) && (39..=41).contains(&high), "{low} {high}");
}

#[test]
fn queues_come_and_go() {
    let mut scheduler = empty();
    let queue = TxQueueId(5);
    assert_eq!(scheduler.remove_queue(queue), Err(QueueError::Unknown { given: queue }));
    assert_eq!(scheduler.add_queue(queue, LaneId(1), Weight::ONE), Ok(()));
    assert_eq!(scheduler.add_queue(queue, LaneId(1), Weight::ONE), Err(QueueError::Exists { given: queue }));
    scheduler.activate(queue, NOW);
    let flow = scheduler.flow_of(queue).expect("added");
    let backlogged = QueueError::Tree(FlowError::Backlogged { given: flow });
    assert_eq!(scheduler.remove_queue(queue), Err(backlogged));
    assert_eq!(scheduler.next(NOW), Pick::Queue(queue));
    scheduler.finish(TxQueueId(4), Bytes(1), After::Empty, NOW);
    scheduler.finish(queue, Bytes(1), After::Empty, NOW);
    assert_eq!(scheduler.next(NOW), Pick::Idle);
    assert_eq!(scheduler.remove_queue(queue), Ok(()));
    scheduler.activate(queue, NOW);
    assert_eq!(scheduler.next(NOW), Pick::Idle, "it is gone");
    assert_eq!(scheduler.add_queue(TxQueueId(0), LaneId(0), Weight::ONE), Ok(()), "on the flow that is free");
    assert_eq!(scheduler.flow_of(TxQueueId(0)), Some(flow));
    let high = TxQueueId(QUEUES_MAX);
    assert_eq!(
        scheduler.add_queue(high, LaneId(0), Weight::ONE),
        Err(QueueError::NumberTooHigh { given: high })
    );
    let unknown = QueueError::Tree(FlowError::UnknownLane { given: LaneId(9), count: 2 });
    assert_eq!(scheduler.add_queue(TxQueueId(1), LaneId(9), Weight::ONE), Err(unknown));
    assert_eq!(scheduler.tree().active_flows(), 0);
}

#[test]
fn flows_that_do_not_fit_are_refused() {
    let tree = || {
        let mut tree = PolicyTree::new(&wfq_program(2)).expect("a sound program");
        let flow = tree.add_flow(LaneId(0), Weight::ONE).expect("a lane");
        (tree, flow)
    };
    let (with, flow) = tree();
    let taken = QueueError::FlowTaken { flow, other: TxQueueId(0) };
    assert_eq!(PolicyScheduler::with_flows(with, vec![flow, flow]).err(), Some(taken));
    let (with, _) = tree();
    let unknown = QueueError::Tree(FlowError::UnknownFlow { given: FlowId(u32::MAX) });
    assert_eq!(PolicyScheduler::with_flows(with, vec![FlowId(u32::MAX)]).err(), Some(unknown));
    let (mut with, flow) = tree();
    with.activate(flow);
    let backlogged = QueueError::Tree(FlowError::Backlogged { given: flow });
    assert_eq!(PolicyScheduler::with_flows(with, vec![flow]).err(), Some(backlogged));
    // A backlogged flow without a queue never gets a turn.
    let (mut with, flow) = tree();
    with.activate(flow);
    let mut scheduler = PolicyScheduler::new(with);
    assert_eq!(scheduler.next(NOW), Pick::Idle);
}
