//! The corpus of scheduling algorithms: published cases over the engine and over the reference.
//!
//! Cases 23 and 34 are about texts that a policy compiler refuses; the engine sees none.

mod cases;
mod live;
mod rates;
mod run;
mod shapers;
mod tree;

use run::{Both, arrivals};

/// The names of an `expect` line, with the times that it states.
fn expected(text: &str) -> Vec<(String, Option<u64>)> {
    let line =
        text.lines().map(str::trim).find_map(|line| line.strip_prefix("expect ")).expect("an expectation");
    let mut words = line.split([' ', ',']).filter(|word| !word.is_empty()).peekable();
    let mut names = Vec::new();
    while let Some(name) = words.next() {
        let at = words.next_if_eq(&"at").and_then(|_| words.next()).map(run::number);
        names.push((name.to_owned(), at));
    }
    names
}

#[test]
fn cases_leave_in_the_published_order() {
    for case in cases::all() {
        let found = Both::new(&case.tree.build()).run(&arrivals(case.text), |_, _| {});
        let expected = expected(case.text);
        let names = |order: &[(String, u64)]| order.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        let wanted: Vec<String> = expected.iter().map(|(name, _)| name.clone()).collect();
        assert_eq!(names(&found), wanted, "{}", case.name);
        for ((name, start), (_, at)) in found.iter().zip(&expected) {
            assert!(at.is_none_or(|at| at == *start), "{}: {name} at {start}, expected {at:?}", case.name);
        }
    }
}

#[test]
fn a_mark_is_that_of_its_packet_alone() {
    use tree::Tree::{Class, Flows, Priority};
    use weft_rank::{Algorithm, Effect, Kind, Part, ProgramBuilder, samples};
    use weft_sched::{Dequeue, Descriptor, PacketScheduler};
    use weft_units::{Bytes, Instant, LaneId, Weight};

    let mut fetched = ProgramBuilder::new(Part::Fetched);
    let yes = fetched.constant(1);
    fetched.effect(Effect::Mark(yes));
    let marks = Algorithm {
        kind: Kind::Dropper,
        parts: [fetched.build().expect("a program")].into_iter().collect(),
        ..samples::codel()
    };
    let parameters = vec![0; marks.parameters.len()];
    let marked = Flows("marked", samples::las(), Vec::new(), Some((marks, parameters)));
    let built = Priority(vec![marked, Class("plain")]).build();
    let mut engine = PacketScheduler::new(&built.program).expect("a program");
    for class in ["plain", "marked"] {
        let lane = LaneId::from_index(built.lane(class));
        let flow = engine.add_flow(lane, Weight::new(1).expect("a weight")).expect("a flow");
        let descriptor = Descriptor { len: Bytes(1000), handle: 0 };
        engine.enqueue_with(flow, descriptor, &weft_rank::Metadata::UNKNOWN, Instant::ZERO).expect("room");
    }
    for mark in [true, false] {
        assert!(matches!(engine.dequeue(Instant::ZERO), Dequeue::Packet(_)));
        assert_eq!(engine.marked(), mark);
    }
}
