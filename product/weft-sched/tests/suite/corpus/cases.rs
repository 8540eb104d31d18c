//! The cases, as data: a policy, arrivals, and the expected order. The numbers are those of the corpus.

use weft_rank::{
    Aggregates, Algorithm, Effect, Field, Kind, Metadatum, Part, Parts, ProgramBuilder, Scale, Slot, samples,
};
use weft_sched::HeadUse;
use weft_units::BitsPerSec;

use super::tree::Tree::{self, Class, Fair, Flows, Limited, Node, Priority, Wfq};

/// A case: a number and a source, a policy, and a text with `packet` and `expect` lines.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) tree: Tree,
    pub(crate) text: &'static str,
}

fn case(name: &'static str, tree: Tree, text: &'static str) -> Case {
    Case { name, tree, text }
}

/// An algorithm at a node that sees no packets, with a parameter for each child.
fn hidden<const N: usize>(algorithm: Algorithm, children: [(Tree, u64); N]) -> Tree {
    let children = children.into_iter().map(|(child, parameter)| (child, vec![parameter])).collect();
    Node(algorithm, HeadUse::Hidden, children)
}

fn flows(algorithm: Algorithm, parameters: &[u64]) -> Tree {
    Flows("K", algorithm, parameters.to_vec(), None)
}

fn boxed(tree: Tree) -> Box<Tree> {
    Box::new(tree)
}

fn program(part: Part, write: impl FnOnce(&mut ProgramBuilder)) -> weft_rank::Program {
    let mut builder = ProgramBuilder::new(part);
    write(&mut builder);
    builder.build().expect("a program")
}

fn by_hand(name: &str, parts: Vec<weft_rank::Program>, child: Vec<Field>) -> Algorithm {
    let parts = Parts::from_iter(parts);
    Algorithm { parts, child, aggregates: Aggregates::default(), ..Algorithm::new(name, Kind::Algorithm) }
}

/// `rank = head.prio or most`.
fn by_priority() -> Algorithm {
    let rank = program(Part::Rank, |b| {
        let most = b.constant(u64::MAX);
        let rank = b.head_or(Metadatum::Priority, most);
        b.rank(rank);
    });
    by_hand("by_priority", vec![rank], Vec::new())
}

/// `active { least = most }  arrives { least = min(least, p.deadline or most); rerank }  rank = least`.
fn edf_of_least() -> Algorithm {
    let least = Slot::Child(0);
    let active = program(Part::Active, |b| {
        let most = b.constant(u64::MAX);
        b.store(least, most);
    });
    let arrives = program(Part::Arrives, |b| {
        let (most, known, yes) = (b.constant(u64::MAX), b.load(least), b.constant(1));
        let told = b.packet_or(Metadatum::Deadline, most);
        let lower = b.min(known, told);
        b.store(least, lower);
        b.effect(Effect::Rerank(yes));
    });
    let rank = program(Part::Rank, |b| {
        let least = b.load(least);
        b.rank(least);
    });
    by_hand("edf_of_least", vec![active, arrives, rank], vec![Field::unsigned("least", u64::MAX)])
}

/// The word of a rate from bytes to nanoseconds.
pub(crate) fn word(rate: u64) -> u64 {
    Scale::time_per_byte(BitsPerSec(rate)).word()
}

const STRICT: &str = "packet C1 1000 class C
packet B1 1000 class B
packet A1 1000 class A
packet C2 1000 class C
packet B2 1000 class B
packet A2 1000 class A
expect A1 A2 B1 B2 C1 C2";

const NO_PREEMPTION: &str = "packet B1 B2 1000 class B
packet A1 1000 class A at 500ns
expect B1 A1 B2";

const STFQ: &str = "packet A1 A2 A3 1000 class A
packet B1 B2 B3 B4 B5 B6 1000 class B
expect A1 B1 B2 A2 B3 B4 A3 B5 B6";

const STFQ_SIZES: &str = "packet A1 A2 A3 1500 class A
packet B1 B2 B3 B4 B5 B6 B7 500 class B
expect A1 B1 B2 B3 A2 B4 B5 B6 A3 B7";

const NO_CREDIT: &str = "packet A1 A2 A3 A4 A5 A6 A7 A8 1000 class A
packet B1 B2 B3 1000 class B at 3500ns
expect A1 A2 A3 A4 B1 A5 B2 A6 B3 A7 A8";

const FORMAL: &str = "packet P1 1000 class P
packet B1 1000 class B
packet P2 1000 class P
packet B2 B3 1000 class B
packet T1 1000 class T
expect P1 B1 T1 B2 P2 B3";

const MIX: &str = "packet B1 B2 1000 class B
packet A1 1000 class A
packet C1 C2 1000 class C
packet D1 1000 class D
packet E1 1000 class E
expect A1 C1 B1 D1 B2 E1 C2";

const SIZES: &str = "packet p7 1000 flow f0 left 7
packet p9 1000 flow f1 left 9
packet p8 1000 flow f1 left 8
packet p6 1000 flow f1 left 6";

const CALM_HEAD: &str = "packet a 1000 flow f1 deadline 9us
packet b 1000 flow f1 deadline 1us
packet c 1000 flow f2 deadline 5us";

const QUANTA: &str = "packet q1a 200 class Q1
packet q1b 750 class Q1
packet q1c 20 class Q1
packet q2a q2b 500 class Q2
packet q3a 100 class Q3
packet q3b 600 class Q3
packet q3c 200 class Q3
packet q4a 180 class Q4
packet q4b 700 class Q4
packet q4c 50 class Q4
expect q1a q1b q2a q3a q3b q4a q4b q1c q2b q3c q4c";

const WORST_CASE: &str = "packet a a a a a a a a a a a 1000 flow k1*10
packet b 1000 flow k2
packet c 1000 flow k3
packet d 1000 flow k4
packet e 1000 flow k5
packet f 1000 flow k6
packet g 1000 flow k7
packet h 1000 flow k8
packet i 1000 flow k9
packet j 1000 flow k10
packet k 1000 flow k11";

const FIVE: &str = "packet A1 A2 A3 A4 A5 1000 class A
expect A1 at 0, A2 at 1us, A3 at 2us, A4 at 8us, A5 at 16us";

/// Texts of arrivals, joined with what is expected of one algorithm.
macro_rules! with {
    ($($part:expr),+) => { Box::leak([$($part),+].join("\n").into_boxed_str()) };
}

pub(crate) fn all() -> Vec<Case> {
    let abc = || [Class("A"), Class("B"), Class("C")];
    let ab = |a, b| Wfq(vec![(Class("A"), a), (Class("B"), b)]);
    let [a, b, c] = abc();
    let strict = hidden(samples::strict(), [(a, 0), (b, 1), (c, 2)]);
    let strict_two = hidden(samples::strict(), [(Class("A"), 0), (Class("B"), 1)]);
    let stfq = |a, b| hidden(samples::stfq(), [(Class("A"), a), (Class("B"), b)]);
    let queues = ["Q1", "Q2", "Q3", "Q4"].map(|name| (Class(name), 500));
    let limited = |limit, class| Limited(limit, boxed(Class(class)));
    let bucket = |burst| {
        Node(samples::bucket(), HeadUse::Hidden, vec![(Class("A"), vec![word(1_000_000_000), burst])])
    };
    let formal = Wfq(vec![(Wfq(vec![(Class("P"), 1), (Class("T"), 1)]), 1), (Class("B"), 1)]);
    let right = Wfq(vec![(Class("C"), 1), (Class("D"), 1), (Class("E"), 1)]);
    let mix = Wfq(vec![(Priority(vec![Class("A"), Class("B")]), 1), (right, 1)]);
    let d2 = || limited((80_000_000, 0), "D2");
    vec![
        case("1 strict", Priority(abc().to_vec()), STRICT),
        case("1 strict, as a program", strict, STRICT),
        case("2 no preemption", Priority(vec![Class("A"), Class("B")]), NO_PREEMPTION),
        case("2 no preemption, as a program", strict_two, NO_PREEMPTION),
        case(
            "3 ties by reference",
            Node(samples::round_robin(), HeadUse::Hidden, vec![(Class("A"), vec![]), (Class("B"), vec![])]),
            "packet A1 A2 1000 class A\npacket B1 B2 1000 class B\nexpect A1 B1 A2 B2",
        ),
        case(
            "4 PIFO, figure 3",
            Node(by_priority(), HeadUse::Followed, vec![(Class("L"), vec![]), (Class("R"), vec![])]),
            "packet P1 1000 class R prio 1\npacket P2 1000 class R prio 2\npacket P3 1000 class L prio 0
             packet P4 1000 class L prio 3\nexpect P3 P1 P2 P4",
        ),
        case("5 STFQ", ab(1, 2), STFQ),
        case("5 STFQ, as a program", stfq(1, 2), STFQ),
        case("6 STFQ sizes", ab(1, 1), STFQ_SIZES),
        case("6 STFQ sizes, as a program", stfq(1, 1), STFQ_SIZES),
        case("7 no credit for idling", ab(1, 1), NO_CREDIT),
        case("7 no credit for idling, as a program", stfq(1, 1), NO_CREDIT),
        case("9 Formal Abstractions", formal, FORMAL),
        case("10 Rio mix_5_classes", mix, MIX),
        case("11 pFabric", flows(samples::pfabric(), &[50_000_000]), with!(SIZES, "expect p9 p8 p6 p7")),
        case("11 SRPT", flows(samples::srpt(), &[]), with!(SIZES, "expect p7 p9 p8 p6")),
        case(
            "12 EDF, deadline missing",
            flows(samples::edf(), &[5_000]),
            "packet p1 1000 flow f1 deadline 9us\npacket p2 1000 flow f2\npacket p3 1000 flow f3 deadline 3us
             expect p3 p2 p1",
        ),
        case(
            "13 urgent behind a calm head",
            flows(samples::edf(), &[5_000]),
            with!(CALM_HEAD, "expect c a b"),
        ),
        case("13, ranked by the least", flows(edf_of_least(), &[]), with!(CALM_HEAD, "expect a b c")),
        case(
            "14 LSTF",
            flows(samples::lstf(), &[10_000]),
            "packet W 5000 flow f1 slack 0us\npacket X 1000 flow f2 slack 10us
             packet Y 1000 flow f3 slack 5us at 3us\npacket Z 1000 flow f4 slack 6us at 4us\nexpect W Y X Z",
        ),
        case(
            "15 FIFO+",
            flows(samples::fifo_plus(), &[]),
            "packet W 3000 flow f1 late 9us\npacket P 1000 flow f2 late 0us
             packet Q 1000 flow f3 late 5us at 1us\npacket R 1000 flow f4 late 0us at 2us\nexpect W Q P R",
        ),
        case(
            "16 least slack",
            flows(samples::least_slack(), &[word(8_000_000_000)]),
            "packet D1 1000 flow f1 deadline 20us left 1000\npacket D2 1000 flow f2 deadline 25us left 9000
             packet D3 1000 flow f3 deadline 18us left 500\nexpect D2 D3 D1",
        ),
        case(
            "17 LAS",
            flows(samples::las(), &[]),
            "packet A1 A2 A3 A4 A5 A6 1000 flow f1\npacket B1 B2 1000 flow f2 at 3500ns
             expect A1 A2 A3 A4 B1 B2 A5 A6",
        ),
        case("18 DRR, quantum 500", hidden(samples::drr(), queues), QUANTA),
        // A reference went in earlier than the heavy flow's tenth, so `k` precedes it; the paper has them the other way.
        case(
            "19 WF2Q+",
            flows(samples::wf2q(), &[0]),
            with!(WORST_CASE, "expect a b a c a d a e a f a g a h a i a j k a a"),
        ),
        case(
            "19, by STFQ",
            flows(samples::stfq(), &[0]),
            with!(WORST_CASE, "expect a b c d e f g h i j k a a a a a a a a a a"),
        ),
        case("19, by fair", Fair("K"), with!(WORST_CASE, "expect a b c d e f g h i j k a a a a a a a a a a")),
        case(
            "20 limit without a burst",
            limited((1_000_000_000, 0), "A"),
            "packet A1 A2 A3 1000 class A\nexpect A1 at 0, A2 at 8us, A3 at 16us",
        ),
        case(
            "20 bucket without a burst",
            bucket(0),
            "packet A1 A2 A3 1000 class A\nexpect A1 at 0, A2 at 8us, A3 at 16us",
        ),
        case("20 limit with a burst", limited((1_000_000_000, 2000), "A"), FIVE),
        case("20 bucket with a burst", bucket(2000), FIVE),
        case(
            "21 Loom, figure 6",
            Priority(vec![d2(), Class("D1")]),
            "packet D2a 1000 class D2\npacket D1 1000 class D1 at 500ns\npacket D2b 1000 class D2 at 600ns
             expect D2a at 0, D1 at 1us, D2b at 100us",
        ),
        case(
            "22 Loom, figure 8",
            Priority(vec![Class("E"), d2(), Class("D1")]),
            "packet D2a 1000 class D2\npacket D2b 1000 class D2 at 600ns\npacket E1 1000 class E at 99900ns
             expect D2a at 0, E1 at 99900ns, D2b at 100900ns",
        ),
    ]
}
