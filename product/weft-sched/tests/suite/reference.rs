//! The engine agrees with a slow, obvious scheduler on random programs and random operations, packet by packet.
//!
//! A failure prints the seed of the program and the shortest failing sequence of operations.

use crate::slow::packets::PacketReference;
use crate::slow::{Answer, Reference, changes, random};
use proptest::prelude::*;
use std::collections::BTreeSet;
use weft_sched::{
    ChangeError, Dequeue, Descriptor, Discipline, FlowError, Next, PacketScheduler, PolicyTree, Program, Turn,
};
use weft_units::testing::Rng;
use weft_units::{BitsPerSec, Bytes, FlowId, Instant, LaneId, LimitId, Nanos, Weight};

/// An operation on either layer. Numbers are taken modulo the number of existing items.
#[derive(Clone, Debug)]
enum Operation {
    /// Packet layer: enqueue; turn layer: activate.
    Arrive {
        flow: usize,
        len: u64,
    },
    /// Packet layer: dequeue; turn layer: next, `rings` activations, finish.
    Serve {
        len: u64,
        backlogged: bool,
        rings: Vec<usize>,
    },
    /// Turn layer: an abandoned turn.
    Abandon,
    Advance {
        nanos: u64,
    },
    /// An advance of time, exactly to the time in the last answer.
    AdvanceToRelease,
    SetRate {
        limit: usize,
        seed: u64,
    },
    SetWeight {
        flow: usize,
        seed: u64,
    },
    AddFlow {
        lane: usize,
        seed: u64,
    },
    RemoveFlow {
        flow: usize,
    },
    MoveFlow {
        flow: usize,
        lane: usize,
    },
    /// A change of the program.
    Change {
        seed: u64,
    },
}

fn operation() -> impl Strategy<Value = Operation> {
    let len = || prop_oneof![Just(64_u64), Just(1500), 64..=65_536_u64];
    prop_oneof![
        8 => (any::<usize>(), len()).prop_map(|(flow, len)| Operation::Arrive { flow, len }),
        8 => (len(), prop::bool::weighted(0.7), prop::collection::vec(any::<usize>(), 0..3))
            .prop_map(|(len, backlogged, rings)| Operation::Serve { len, backlogged, rings }),
        1 => Just(Operation::Abandon),
        2 => (0..50_000_u64).prop_map(|nanos| Operation::Advance { nanos }),
        3 => Just(Operation::AdvanceToRelease),
        1 => (any::<usize>(), any::<u64>()).prop_map(|(limit, seed)| Operation::SetRate { limit, seed }),
        1 => (any::<usize>(), any::<u64>()).prop_map(|(flow, seed)| Operation::SetWeight { flow, seed }),
        1 => (any::<usize>(), any::<u64>()).prop_map(|(lane, seed)| Operation::AddFlow { lane, seed }),
        1 => any::<usize>().prop_map(|flow| Operation::RemoveFlow { flow }),
        1 => (any::<usize>(), any::<usize>()).prop_map(|(flow, lane)| Operation::MoveFlow { flow, lane }),
        1 => any::<u64>().prop_map(|seed| Operation::Change { seed }),
    ]
}

/// The number of flows at the start of most runs.
const FLOWS: u64 = 8;

/// The first operations: that many flows, one in each lane in turn.
fn begin(flows: u64, seed: u64) -> impl Iterator<Item = Operation> {
    (0..flows).map(move |at| Operation::AddFlow { lane: at as usize, seed: at ^ seed })
}

/// The first operations of a run with many children: many flows, of which most have something to send.
fn crowd(seed: u64) -> impl Iterator<Item = Operation> {
    let flows = 100;
    let arrive =
        move |at: u64| Operation::Arrive { flow: (at * 37) as usize, len: 64 + seed % 1500 * at % 1500 };
    begin(flows, seed).chain((0..flows * 3 / 4).map(arrive))
}

/// The state that both runs keep beside the two schedulers.
struct Bench {
    program: Program,
    now: Instant,
    release: Option<Instant>,
    flows: usize,
}

impl Bench {
    fn new(program: Program) -> Self {
        Self { program, now: Instant::ZERO, release: None, flows: 0 }
    }

    fn flow(&self, number: usize) -> FlowId {
        // Occasionally one past the end: both must refuse unknown flows.
        FlowId::from_index(number % (self.flows + 1))
    }

    /// A lane of the program, skipping vacant ids.
    fn lane(&self, number: usize) -> LaneId {
        let lanes = self.program.lanes.iter().enumerate().filter(|(_, lane)| !lane.is_vacant());
        let lanes: Vec<usize> = lanes.map(|(at, _)| at).collect();
        LaneId::from_index(lanes[number % lanes.len()])
    }

    fn limit(&self, number: usize) -> Option<LimitId> {
        let limits = self.program.limits.iter().enumerate().filter(|(_, limit)| !limit.is_vacant());
        let limits: Vec<usize> = limits.map(|(at, _)| at).collect();
        number.checked_rem(limits.len()).map(|at| LimitId::from_index(limits[at]))
    }

    /// Advances time. A senseless program may hold packets until the end of time, where the slow limits overflow.
    fn advance(&mut self, to: Instant) {
        if to < Instant::from_nanos(1 << 50) {
            self.now = self.now.max(to);
        }
    }
}

fn weight(seed: u64) -> Weight {
    Weight::new(random::weight(&mut Rng::new(seed))).unwrap()
}

fn check_turns(program: Program, operations: impl Iterator<Item = Operation>) -> Result<(), TestCaseError> {
    let mut bench = Bench::new(program);
    let mut engine = PolicyTree::new(&bench.program).unwrap();
    let mut reference = Reference::new(&bench.program);
    for operation in operations {
        turn_step(&mut bench, &mut engine, &mut reference, &operation)?;
        prop_assert_eq!(engine.check_invariants(), Ok(()), "after {:?}", operation);
    }
    Ok(())
}

fn turn_step(
    bench: &mut Bench,
    engine: &mut PolicyTree,
    reference: &mut Reference,
    operation: &Operation,
) -> Result<(), TestCaseError> {
    match *operation {
        Operation::Arrive { flow, .. } => {
            engine.activate(bench.flow(flow));
            reference.activate(bench.flow(flow));
        }
        Operation::Serve { len, backlogged, ref rings } => {
            let Some(turn) = same_turn(bench, engine, reference)? else { return Ok(()) };
            for ring in rings {
                engine.activate(bench.flow(*ring));
                reference.activate(bench.flow(*ring));
            }
            prop_assert_eq!(engine.finish(turn, Bytes(len), backlogged, bench.now), Ok(()));
            reference.finish(Bytes(len), backlogged, bench.now);
        }
        Operation::Abandon => {
            let turn = same_turn(bench, engine, reference)?;
            let again = same_turn(bench, engine, reference)?;
            prop_assert_eq!(turn.as_ref().map(Turn::flow), again.as_ref().map(Turn::flow));
            if let Some(turn) = turn {
                prop_assert!(engine.finish(turn, Bytes(1), false, bench.now).is_err());
            }
        }
        Operation::Advance { nanos } => bench.advance(bench.now + Nanos(nanos)),
        Operation::AdvanceToRelease => bench.advance(bench.release.unwrap_or(bench.now)),
        Operation::SetRate { limit, seed } => {
            let Some(limit) = bench.limit(limit) else { return Ok(()) };
            let rate = random::rate(&mut Rng::new(seed));
            prop_assert_eq!(engine.set_rate(limit, BitsPerSec(rate), bench.now), Ok(()));
            reference.set_rate(limit, rate, bench.now);
        }
        Operation::SetWeight { flow, seed } => {
            let (flow, weight) = (bench.flow(flow), weight(seed));
            prop_assert_eq!(engine.set_weight(flow, weight).is_ok(), reference.exists(flow));
            if reference.exists(flow) {
                reference.set_weight(flow, weight.get());
            }
        }
        Operation::AddFlow { lane, seed } => {
            let (lane, weight) = (bench.lane(lane), weight(seed));
            let flow = engine.add_flow(lane, weight).unwrap();
            reference.add_flow(flow, lane, weight.get());
            bench.flows = bench.flows.max(flow.index() + 1);
        }
        Operation::RemoveFlow { flow } => {
            let flow = bench.flow(flow);
            prop_assert_eq!(engine.remove_flow(flow).is_ok(), reference.remove_flow(flow));
        }
        Operation::MoveFlow { flow, lane } => {
            let (flow, lane) = (bench.flow(flow), bench.lane(lane));
            match engine.move_flow(flow, lane) {
                Err(FlowError::InService { given }) => prop_assert_eq!(given, flow),
                moved => prop_assert_eq!(moved.is_ok(), reference.move_flow(flow, lane)),
            }
        }
        Operation::Change { seed } => change_step(bench, engine, reference, seed)?,
    }
    Ok(())
}

fn change_step(
    bench: &mut Bench,
    engine: &mut PolicyTree,
    reference: &mut Reference,
    seed: u64,
) -> Result<(), TestCaseError> {
    let (program, heirs) = changes::changed(&bench.program, seed);
    let prepared = PolicyTree::prepare(&program, &heirs, bench.flows).unwrap();
    let prepared = match engine.change(prepared, bench.now) {
        Ok(_) => None,
        Err(refused) => {
            // A turn was abandoned and none begun since: a change would lose its charge.
            let outstanding = matches!(refused.why, ChangeError::TurnOutstanding { .. });
            prop_assert!(outstanding, "{}", refused.why);
            Some(refused.prepared)
        }
    };
    if let Some(prepared) = prepared {
        if let Some(turn) = same_turn(bench, engine, reference)? {
            prop_assert_eq!(engine.finish(turn, Bytes(100), true, bench.now), Ok(()));
            reference.finish(Bytes(100), true, bench.now);
        }
        prop_assert!(engine.change(prepared, bench.now).is_ok());
    }
    reference.change(&program, &heirs, bench.now);
    bench.program = program;
    Ok(())
}

/// Asks both for the next turn; they must agree, and must not idle while a packet could be sent.
fn same_turn(
    bench: &mut Bench,
    engine: &mut PolicyTree,
    reference: &mut Reference,
) -> Result<Option<Turn>, TestCaseError> {
    let could_send = reference.could_send(bench.now);
    let expected = reference.next(bench.now);
    let (answer, turn) = match engine.next(bench.now) {
        Next::Turn(turn) => (Answer::Turn(turn.flow(), turn.lane()), Some(turn)),
        Next::Wait(until) => (Answer::Wait(until), None),
        Next::Idle => (Answer::Idle, None),
    };
    prop_assert_eq!(&answer, &expected);
    prop_assert!(could_send.is_none_or(|could| could == turn.is_some()), "work conservation");
    bench.release = if let Answer::Wait(until) = answer { Some(until) } else { None };
    Ok(turn)
}

fn check_packets(program: Program, operations: impl Iterator<Item = Operation>) -> Result<(), TestCaseError> {
    let mut bench = Bench::new(program);
    let mut engine = PacketScheduler::new(&bench.program).unwrap();
    let mut reference = PacketReference::new(&bench.program);
    for (handle, operation) in operations.enumerate() {
        packet_step(&mut bench, &mut engine, &mut reference, &operation, handle as u64)?;
        prop_assert_eq!(engine.check_invariants(), Ok(()), "after {:?}", operation);
        prop_assert_eq!(engine.held().get(), reference.held.iter().sum::<u64>());
    }
    Ok(())
}

fn packet_step(
    bench: &mut Bench,
    engine: &mut PacketScheduler,
    reference: &mut PacketReference,
    operation: &Operation,
    handle: u64,
) -> Result<(), TestCaseError> {
    match *operation {
        Operation::Arrive { flow, len } => {
            let (flow, descriptor) = (bench.flow(flow), Descriptor { len: Bytes(len), handle });
            let told = random::metadata(&mut Rng::new(handle), bench.now.as_nanos());
            let taken = engine.enqueue_with(flow, descriptor, &told, bench.now).is_ok();
            prop_assert_eq!(taken, reference.enqueue(flow, descriptor, told, bench.now));
        }
        Operation::Serve { .. } => {
            let could_send = reference.tree.could_send(bench.now);
            let answer = engine.dequeue(bench.now);
            prop_assert_eq!(answer, reference.dequeue(bench.now));
            let sent = matches!(answer, Dequeue::Packet(_) | Dequeue::Drop(_));
            prop_assert!(could_send.is_none_or(|could| could == sent), "work conservation");
            bench.release = if let Dequeue::Wait(until) = answer { Some(until) } else { None };
        }
        Operation::Abandon => {}
        Operation::Advance { nanos } => bench.advance(bench.now + Nanos(nanos)),
        Operation::AdvanceToRelease => bench.advance(bench.release.unwrap_or(bench.now)),
        Operation::SetRate { limit, seed } => {
            let Some(limit) = bench.limit(limit) else { return Ok(()) };
            let rate = random::rate(&mut Rng::new(seed));
            prop_assert_eq!(engine.set_rate(limit, BitsPerSec(rate), bench.now), Ok(()));
            reference.tree.set_rate(limit, rate, bench.now);
        }
        Operation::SetWeight { flow, seed } => {
            let (flow, weight) = (bench.flow(flow), weight(seed));
            prop_assert_eq!(engine.set_weight(flow, weight).is_ok(), reference.tree.exists(flow));
            if reference.tree.exists(flow) {
                reference.tree.set_weight(flow, weight.get());
            }
        }
        Operation::AddFlow { lane, seed } => {
            let (lane, weight) = (bench.lane(lane), weight(seed));
            let flow = engine.add_flow(lane, weight).unwrap();
            reference.add_flow(flow, lane, weight.get());
            bench.flows = bench.flows.max(flow.index() + 1);
        }
        Operation::RemoveFlow { flow } => {
            let flow = bench.flow(flow);
            prop_assert_eq!(engine.remove_flow(flow).is_ok(), reference.tree.remove_flow(flow));
        }
        Operation::MoveFlow { flow, lane } => {
            let (flow, lane) = (bench.flow(flow), bench.lane(lane));
            prop_assert_eq!(engine.move_flow(flow, lane).is_ok(), reference.move_flow(flow, lane));
        }
        Operation::Change { seed } => {
            let (program, heirs) = changes::changed(&bench.program, seed);
            let prepared = PacketScheduler::prepare(&program, &heirs, bench.flows).unwrap();
            prop_assert!(engine.change(prepared, bench.now).is_ok());
            reference.change(&program, &heirs, bench.now);
            bench.program = program;
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16384, ..ProptestConfig::default() })]

    #[test]
    fn turns_agree(program in any::<u64>(), operations in prop::collection::vec(operation(), 1..200)) {
        check_turns(random::program(program), begin(FLOWS, program).chain(operations))?;
    }

    #[test]
    fn packets_agree(program in any::<u64>(), operations in prop::collection::vec(operation(), 1..200)) {
        check_packets(random::program(program), begin(FLOWS, program).chain(operations))?;
    }
}

proptest! {
    // Programs take longer, and there is more to draw.
    #![proptest_config(ProptestConfig { cases: 4096, ..ProptestConfig::default() })]

    #[test]
    fn scripted_turns_agree(program in any::<u64>(), operations in prop::collection::vec(operation(), 1..200)) {
        check_turns(random::scripted(program), begin(FLOWS, program).chain(operations))?;
    }

    #[test]
    fn scripted_packets_agree(program in any::<u64>(), operations in prop::collection::vec(operation(), 1..200)) {
        check_packets(random::scripted(program), begin(FLOWS, program).chain(operations))?;
    }
}

proptest! {
    // The slow scheduler reads every child.
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn turns_of_many_children_agree(
        program in any::<u64>(),
        operations in prop::collection::vec(operation(), 1..400),
    ) {
        check_turns(random::wide(program), crowd(program).chain(operations))?;
    }

    #[test]
    fn packets_of_many_children_agree(
        program in any::<u64>(),
        operations in prop::collection::vec(operation(), 1..400),
    ) {
        check_packets(random::wide(program), crowd(program).chain(operations))?;
    }
}

#[test]
fn random_programs_have_every_discipline() {
    let nodes = (0..100).flat_map(|seed| random::scripted(seed).nodes);
    let seen: BTreeSet<_> = nodes.map(|node| node.discipline.native()).collect();
    let wanted = (0..Discipline::NATIVE.len()).map(Some).chain([None]).collect();
    assert_eq!(seen, wanted, "tests/suite/slow/random.rs draws every discipline");
}
