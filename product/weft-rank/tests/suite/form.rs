//! The form: the refusals of the checks, and the meaning of a run.

use weft_rank::{
    Algorithm, AlgorithmError, Binary, Effect, Effects, Eligibility, Execute, Field, Input, Inputs, Kind,
    Metadatum, Operation, Part, Program, ProgramBuilder, ProgramError, Rank, RankWord, Slot, Until, Value,
};
use weft_units::{Bytes, Instant, Packets};

const NODE: Slot = Slot::Node(0);
const CHILD: Slot = Slot::Child(0);

fn refused(part: Part, operations: &[Operation], effects: &[Effect]) -> ProgramError {
    Program::new(part, operations.to_vec(), effects.to_vec()).expect_err("refused")
}

#[test]
fn values_are_defined_before_their_use() {
    let own = Operation::Not(Value(0));
    assert_eq!(
        refused(Part::Sent, &[own], &[]),
        ProgramError::Undefined { part: Part::Sent, at: 0, value: 0 }
    );
    let store = Operation::Store { slot: NODE, value: Value(0), when: None };
    let of_store = [Operation::Constant(1), store, Operation::Not(Value(1))];
    assert_eq!(
        refused(Part::Sent, &of_store, &[]),
        ProgramError::Undefined { part: Part::Sent, at: 2, value: 1 },
        "a store has no result"
    );
    let later = refused(Part::Rank, &[Operation::Constant(1)], &[Effect::Rank(Value(0), Value(1))]);
    assert_eq!(later, ProgramError::Undefined { part: Part::Rank, at: 1, value: 1 });
}

#[test]
fn words_beyond_an_algorithms_limits_are_refused() {
    for (operation, index, max) in [
        (Operation::Load(Slot::Node(32)), 32, 32),
        (Operation::Load(Slot::Child(8)), 8, 8),
        (Operation::Parameter(255), 255, 32),
    ] {
        let error = refused(Part::Sent, &[operation], &[]);
        let ProgramError::OutOfRange { at: 0, index: found, max: limit, .. } = error else {
            panic!("{error}");
        };
        assert_eq!((found, limit), (index, max));
    }
}

#[test]
fn programs_are_at_most_256_operations() {
    let constants = vec![Operation::Constant(1); 256];
    assert!(Program::new(Part::Sent, constants.clone(), Vec::new()).is_ok());
    let error = refused(Part::Sent, &[constants, vec![Operation::Constant(1)]].concat(), &[]);
    assert_eq!(error, ProgramError::TooLong { part: Part::Sent, max: 256 });
    let mut builder = ProgramBuilder::new(Part::Sent);
    for _ in 0..300 {
        builder.constant(1);
    }
    assert_eq!(builder.build(), Err(error));
}

#[test]
fn inputs_effects_and_stores_belong_to_parts() {
    let bytes = [Operation::Input(Input::Bytes)];
    assert_eq!(refused(Part::Begin, &bytes, &[]), ProgramError::NoSuchInput { part: Part::Begin, at: 0 });
    let store = [Operation::Constant(1), Operation::Store { slot: NODE, value: Value(0), when: None }];
    assert_eq!(refused(Part::Rank, &store, &[]), ProgramError::StoreInRank { at: 1 });
    let one = [Operation::Constant(1)];
    let drop = Effect::Drop(Value(0));
    assert_eq!(refused(Part::Rank, &one, &[drop]), ProgramError::Effect { part: Part::Rank, at: 0 });
    assert_eq!(
        refused(Part::Fetched, &one, &[drop, drop]),
        ProgramError::Effect { part: Part::Fetched, at: 1 },
        "twice"
    );
    let both = [Effect::FromTime(Value(0)), Effect::FromVirtualTime(Value(0))];
    assert_eq!(refused(Part::Rank, &one, &both), ProgramError::Effect { part: Part::Rank, at: 1 });
}

#[test]
fn a_builder_keeps_the_first_error() {
    let mut b = ProgramBuilder::new(Part::Begin);
    let wrong = b.input(Input::Bytes);
    b.store(Slot::Node(200), wrong);
    b.effect(Effect::Drop(wrong));
    assert_eq!(b.build(), Err(ProgramError::NoSuchInput { part: Part::Begin, at: 0 }));
}

/// Loads see earlier stores, a condition that does not hold prevents its store, and words that are missing are 0.
#[test]
fn state_is_read_and_written_in_order() {
    let mut b = ProgramBuilder::new(Part::Sent);
    let (seven, zero) = (b.constant(7), b.constant(0));
    b.store(NODE, seven);
    let seen = b.load(NODE);
    b.store_if(seen, CHILD, seen);
    b.store_if(zero, CHILD, zero);
    let parameter = b.parameter(1);
    let sum = b.add(parameter, seen);
    b.store(Slot::Child(1), sum);
    let program = b.build().expect("a program");
    assert_eq!((program.words().node, program.words().child, program.words().parameters), (1, 2, 2));

    let (mut node, mut child) = ([1], [2, 3]);
    program.run(&Inputs::default(), &[5, 6], &mut node, &mut child);
    assert_eq!((node, child), ([7], [7, 13]));
    program.run(&Inputs::default(), &[], &mut [], &mut child[..1]);
    assert_eq!(
        child,
        [7, 13],
        "the node's missing word is 0, and so is the condition; the second word was not there"
    );
}

#[test]
fn all_inputs_are_read() {
    let mut inputs = Inputs::at(Instant::from_nanos(1));
    inputs.bytes = Bytes(2);
    inputs.more = true;
    inputs.rank = Rank::new(3, 4);
    inputs.weights = 5;
    inputs.queued_bytes = Bytes(6);
    inputs.queued_packets = Packets(7);
    for metadatum in Metadatum::ALL {
        inputs.head.set(metadatum, 10 + metadatum.index() as u64);
    }
    inputs.head.clear(Metadatum::Pace);
    inputs.packet.set(Metadatum::Length, 30);
    let word = |input| inputs.word(input);
    assert_eq!([word(Input::Now), word(Input::Bytes), word(Input::More)], [1, 2, 1]);
    assert_eq!([RankWord::First, RankWord::Second].map(|which| word(Input::Rank(which))), [3, 4]);
    assert_eq!([word(Input::Weights), word(Input::Lowest)], [5, u64::MAX]);
    assert_eq!([word(Input::QueuedBytes), word(Input::QueuedPackets)], [6, 7]);
    assert_eq!(Metadatum::ALL.map(|m| word(Input::Head(m))), [10, 11, 12, 13, 14, 15, 16, 17, 0]);
    assert_eq!([word(Input::HeadKnown(Metadatum::Length)), word(Input::HeadKnown(Metadatum::Pace))], [1, 0]);
    assert_eq!([word(Input::Packet(Metadatum::Length)), word(Input::PacketKnown(Metadatum::Left))], [30, 0]);
    assert_eq!((inputs.head.get(Metadatum::Pace), inputs.head.get(Metadatum::Length)), (None, Some(10)));
}

#[test]
fn effects_are_returned() {
    let mut b = ProgramBuilder::new(Part::Rank);
    let [one, two, three] = [1, 2, 3].map(|value| b.constant(value));
    b.rank_pair(one, two);
    b.effect(Effect::FromTime(three));
    b.effect(Effect::Until { time: two, rank: (three, one) });
    let effects = b.build().expect("a program").run(&Inputs::default(), &[], &mut [], &mut []);
    assert_eq!(effects.rank(), Some(Rank::new(1, 2)));
    assert_eq!(effects.from(), Some(Eligibility::Time(Instant::from_nanos(3))));
    assert_eq!(effects.until(), Some(Until { time: Instant::from_nanos(2), rank: Rank::new(3, 1) }));
    assert!(!effects.reranks() && !effects.drops() && !effects.marks());

    let mut b = ProgramBuilder::new(Part::Fetched);
    let length = b.input(Input::Packet(Metadatum::Length));
    let none = b.not(length);
    b.effect(Effect::Drop(length));
    b.effect(Effect::Mark(none));
    let fetched = b.build().expect("a program");
    let mut inputs = Inputs::default();
    assert!(fetched.run(&inputs, &[], &mut [], &mut []).marks());
    inputs.packet.set(Metadatum::Length, 9);
    let effects = fetched.run(&inputs, &[], &mut [], &mut []);
    assert!(effects.drops() && !effects.marks() && effects.rank().is_none() && effects.from().is_none());
}

/// The three sizes of the interpreter's array give equal results.
#[test]
fn long_programs_run_as_short_ones() {
    for length in [3, 16, 17, 64, 65, 256] {
        let mut b = ProgramBuilder::new(Part::Sent);
        let mut sum = b.constant(0);
        while b.operations() < length - 1 {
            sum = b.add(sum, Value(0));
            sum = if b.operations() < length - 1 { b.not(sum) } else { sum };
        }
        b.store(NODE, sum);
        let program = b.build().expect("a program");
        assert_eq!(program.operations().len(), length);
        let mut node = [5];
        program.run(&Inputs::default(), &[], &mut node, &mut []);
        let negations = (length - 2) / 2;
        assert_eq!(node[0], negations as u64 % 2, "{length}");
    }
}

fn strict() -> Algorithm {
    let mut b = ProgramBuilder::new(Part::Rank);
    let level = b.parameter(0);
    b.rank(level);
    let mut algorithm = Algorithm::new("strict", Kind::Algorithm);
    algorithm.parameters.push(Field::unsigned("level", 0));
    algorithm.parts.rank = b.build().ok();
    algorithm
}

#[test]
fn an_algorithm_runs_its_parts() {
    let algorithm = strict();
    assert_eq!(algorithm.validate(), Ok(()));
    let run = |part| Execute::run(&algorithm, part, &Inputs::default(), &[4], &mut [], &mut []);
    assert_eq!(run(Part::Rank).rank(), Some(Rank::new(4, 0)));
    assert_eq!(run(Part::Sent), Effects::NONE);
    let cost = algorithm.cost();
    assert_eq!((cost.of(Part::Rank), cost.per_packet(), cost.parameter_bytes), (2, 2, 8));
}

#[test]
fn algorithms_that_cannot_run_are_refused() {
    let mut without = strict();
    without.parameters.clear();
    assert!(matches!(
        without.validate(),
        Err(AlgorithmError::Missing { what: "parameter", index: 0, count: 0, .. })
    ));
    let mut misplaced = strict();
    misplaced.parts.sent = misplaced.parts.rank.take();
    assert_eq!(misplaced.validate(), Err(AlgorithmError::Misplaced { part: Part::Sent, found: Part::Rank }));
    for kind in [Kind::Shaper, Kind::Dropper] {
        let wrong = Algorithm { kind, ..strict() };
        assert!(matches!(wrong.validate(), Err(AlgorithmError::Kind(_))), "{kind:?}");
    }
    let mut many = strict();
    many.child = vec![Field::signed("credit", -1); 9];
    assert!(matches!(many.validate(), Err(AlgorithmError::TooMany { count: 9, max: 8, .. })));
    let mut clockless = strict();
    let mut b = ProgramBuilder::new(Part::Rank);
    let level = b.parameter(0);
    b.rank(level);
    b.effect(Effect::FromVirtualTime(level));
    clockless.parts.rank = b.build().ok();
    assert!(matches!(clockless.validate(), Err(AlgorithmError::Kind(_))));
    clockless.aggregates.clock = Some(0);
    assert!(matches!(clockless.validate(), Err(AlgorithmError::Missing { what: "field of the node", .. })));
}

#[test]
fn operators_say_which_results_are_truths() {
    for operator in Binary::ALL {
        let mut b = ProgramBuilder::new(Part::Sent);
        let (left, right) = (b.constant(9), b.constant(5));
        let result = b.push(Operation::Binary { operator, left, right });
        b.store(NODE, result);
        let mut node = [0];
        b.build().expect("a program").run(&Inputs::default(), &[], &mut node, &mut []);
        assert!(!operator.is_truth() || node[0] <= 1, "{operator:?} gave {}", node[0]);
    }
}
