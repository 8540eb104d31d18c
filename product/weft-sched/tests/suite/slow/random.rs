//! Random programs.

use std::sync::Arc;

use weft_rank::generate::Case;
use weft_rank::{Aggregates, Algorithm, Field, Kind, Metadata, Metadatum, Part, Scale, samples};
use weft_sched::{
    Child, Custom, Discipline, HeadUse, LaneSpec, LeafDiscipline, LeafSpec, LimitSpec, NodeSpec, Program,
};
use weft_units::testing::Rng;
use weft_units::{BitsPerSec, Bytes, ClassId, LeafId, LimitId, NodeId, Packets, Weight};

/// A random program with user-defined algorithms among its disciplines.
pub(crate) fn scripted(seed: u64) -> Program {
    let mut rng = Rng::new(seed ^ 0x5c71);
    let mut program = program(seed);
    for leaf in &mut program.leaves {
        if rng.below(2) == 0 {
            leaf.discipline = leaf_discipline(&mut rng, true);
        }
    }
    for node in &mut program.nodes {
        if rng.below(2) == 0 {
            node.discipline = custom_node(&mut rng, node.children.len());
        }
    }
    program
}

/// A discipline for a leaf.
pub(crate) fn leaf_discipline(rng: &mut Rng, scripted: bool) -> LeafDiscipline {
    if !scripted || rng.below(4) == 0 {
        return if rng.below(2) == 0 { LeafDiscipline::Fifo } else { LeafDiscipline::Fair };
    }
    let algorithm = pick(rng, |_| true);
    let parameters = vec![parameters(rng, &algorithm)];
    let mut custom = Custom::new(algorithm, parameters);
    if rng.below(3) == 0 {
        let dropper = pick(rng, |kind| kind == Kind::Dropper);
        let parameters = vec![self::parameters(rng, &dropper)];
        custom.dropper = Some(Arc::new(Custom::new(dropper, parameters)));
    }
    LeafDiscipline::Custom(Arc::new(custom))
}

/// An algorithm for a node with `children` children.
pub(crate) fn custom_node(rng: &mut Rng, children: usize) -> Discipline {
    let algorithm = pick(rng, |kind| kind != Kind::Dropper);
    let parameters = (0..children).map(|_| parameters(rng, &algorithm)).collect();
    let mut custom = Custom::new(algorithm, parameters);
    custom.head = if rng.below(2) == 0 { HeadUse::Hidden } else { HeadUse::Followed };
    Discipline::Custom(Arc::new(custom))
}

fn pick(rng: &mut Rng, kind: impl Fn(Kind) -> bool) -> Arc<Algorithm> {
    if kind(Kind::Algorithm) && rng.below(3) == 0 {
        return Arc::new(senseless(rng));
    }
    let fitting: Vec<Algorithm> =
        samples::all().into_iter().filter(|algorithm| kind(algorithm.kind)).collect();
    Arc::new(fitting[rng.below(fitting.len() as u32) as usize].clone())
}

/// An algorithm of random programs, which no one would write.
fn senseless(rng: &mut Rng) -> Algorithm {
    let mut words = |count: usize| -> Vec<Field> {
        (0..count).map(|_| Field::unsigned("word", u64::from(rng.below(4)) * 1000)).collect()
    };
    let (parameters, node, child) = (words(4), words(4), words(weft_rank::Program::CHILD_SLOTS_MAX));
    let mut algorithm = Algorithm { parameters, node, child, ..Algorithm::new("senseless", Kind::Algorithm) };
    for (at, part) in Part::ALL.into_iter().enumerate() {
        if part != Part::Rank && rng.below(3) == 0 {
            continue;
        }
        // The first byte chooses the part, the second one the length.
        let mut bytes: Vec<u8> = (0..800).map(|_| rng.below(256) as u8).collect();
        (bytes[0], bytes[1]) = (at as u8, rng.below(24) as u8);
        *algorithm.parts.get_mut(part) = Some(Case::from_bytes(&bytes).program);
    }
    let mut field = || Some(rng.below(4) as u8);
    algorithm.aggregates =
        Aggregates { weights: field(), lowest: field(), clock: field(), ..Aggregates::default() };
    assert_eq!(algorithm.validate(), Ok(()));
    algorithm
}

/// Random parameters of an algorithm, of the size of what happens in a test.
pub(crate) fn parameters(rng: &mut Rng, algorithm: &Algorithm) -> Vec<u64> {
    let parameter = |field: &weft_rank::Field, rng: &mut Rng| match field.name.as_str() {
        "weight" => weight(rng).into(),
        "rate" | "min" | "max" | "line" => Scale::time_per_byte(BitsPerSec(rate(rng))).word(),
        "burst" | "quantum" | "least" => [0, 300, 1500, 20_000][rng.below(4) as usize],
        "level" => rng.below(3).into(),
        _ => rng.below(60_000).into(),
    };
    algorithm.parameters.iter().map(|field| parameter(field, rng)).collect()
}

/// Random metadata of a packet, small enough for ties.
pub(crate) fn metadata(rng: &mut Rng, now: u64) -> Metadata {
    let mut metadata = Metadata::UNKNOWN;
    for metadatum in Metadatum::ALL {
        let value = match metadatum {
            Metadatum::Length | Metadatum::Arrived => continue,
            Metadatum::Deadline | Metadatum::SendTime => now.saturating_add(u64::from(rng.below(5)) * 10_000),
            Metadatum::Pace => Scale::time_per_byte(BitsPerSec(rate(rng))).word(),
            _ => u64::from(rng.below(5)) * 1000,
        };
        if rng.below(2) == 0 {
            metadata.set(metadatum, value);
        }
    }
    metadata
}

/// A random program of depth 1 to 5 with random disciplines, lanes and shared limits; equal seeds, equal programs.
pub(crate) fn program(seed: u64) -> Program {
    let mut rng = Rng::new(seed);
    let mut program = Program {
        root: Child::Leaf(LeafId(0)),
        nodes: Vec::new(),
        leaves: Vec::new(),
        limits: Vec::new(),
        lanes: Vec::new(),
    };
    let depth = rng.below(5);
    program.root = child(&mut program, &mut rng, depth);
    // Leaves of one lane only, many limits at a lane and paths of many levels have separate records.
    let mut shape = Rng::new(seed ^ 0x0501e);
    let lanes = 1 + shape.below(3);
    if shape.below(4) == 0 {
        deepen(&mut program, shape.below(5));
    }
    let limits = if shape.below(4) == 0 { 8 } else { 4 };
    for at in 0..rng.below(limits) {
        program.limits.push(LimitSpec {
            name: format!("limit{at}"),
            rate: BitsPerSec(rate(&mut rng)),
            burst: Bytes([0, 0, 1500, 20_000][rng.below(4) as usize]),
        });
    }
    for leaf in 0..program.leaves.len() {
        for _ in 0..1 + rng.below(lanes) {
            let limits = (0..program.limits.len()).filter(|_| rng.below(3) == 0).map(LimitId::from_index);
            let limits = limits.collect();
            program.lanes.push(LaneSpec {
                class: ClassId(rng.below(5)),
                leaf: LeafId::from_index(leaf),
                limits,
                packet_bound: Packets([3, 1000][rng.below(2) as usize]),
            });
        }
    }
    program
}

/// A random program with a node of 33 to 80 children, most of them leaves of one lane, below up to two others. Three of four have
/// equal weights.
pub(crate) fn wide(seed: u64) -> Program {
    let mut rng = Rng::new(seed ^ 0x71de);
    let mut program = Program {
        root: Child::Leaf(LeafId(0)),
        nodes: Vec::new(),
        leaves: Vec::new(),
        limits: Vec::new(),
        lanes: Vec::new(),
    };
    let width = 33 + rng.below(48);
    let children: Vec<Child> = (0..width)
        .map(|_| {
            let depth = u32::from(rng.below(8) == 0);
            child(&mut program, &mut rng, depth)
        })
        .collect();
    let equal = (rng.below(4) > 0).then(|| weight(&mut rng));
    let weights = children.iter().map(|_| Weight::new(equal.unwrap_or_else(|| weight(&mut rng))).unwrap());
    let discipline = Discipline::Wfq(weights.collect());
    program.nodes.push(NodeSpec { name: "wide".to_owned(), discipline, children });
    program.root = Child::Node(NodeId::from_index(program.nodes.len() - 1));
    if rng.below(2) == 0 {
        let other = child(&mut program, &mut rng, 1);
        let children = vec![program.root, other];
        let discipline = native(&mut rng, children.len());
        program.nodes.push(NodeSpec { name: "above".to_owned(), discipline, children });
        program.root = Child::Node(NodeId::from_index(program.nodes.len() - 1));
    }
    for at in 0..rng.below(3) {
        let rate = BitsPerSec(rate(&mut rng));
        program.limits.push(LimitSpec { name: format!("limit{at}"), rate, burst: Bytes(1500) });
    }
    for leaf in 0..program.leaves.len() {
        for _ in 0..1 + rng.below(8) / 7 {
            let limits = (0..program.limits.len()).filter(|_| rng.below(4) == 0).map(LimitId::from_index);
            let (class, leaf) = (ClassId(0), LeafId::from_index(leaf));
            let spec = LaneSpec { class, leaf, limits: limits.collect(), packet_bound: Packets(1000) };
            program.lanes.push(spec);
        }
    }
    program
}

/// Puts `levels` nodes of one child above the root.
fn deepen(program: &mut Program, levels: u32) {
    for _ in 0..levels {
        let (name, children) = (format!("node{}", program.nodes.len()), vec![program.root]);
        let discipline = Discipline::Wfq(vec![Weight::ONE]);
        program.nodes.push(NodeSpec { name, discipline, children });
        program.root = Child::Node(NodeId::from_index(program.nodes.len() - 1));
    }
}

/// Rates that do not divide anything evenly, from 10 Mb/s to 20 Gb/s.
pub(crate) fn rate(rng: &mut Rng) -> u64 {
    10_000_019 << rng.below(11)
}

/// Weights of all sizes, equal ones often.
pub(crate) fn weight(rng: &mut Rng) -> u32 {
    [1, 1, 1, 2, 3, 7, 1000, u32::MAX][rng.below(8) as usize]
}

/// A discipline that is no user-defined algorithm.
fn native(rng: &mut Rng, children: usize) -> Discipline {
    let make = Discipline::NATIVE[rng.below(Discipline::NATIVE.len() as u32) as usize];
    let plain = make(Vec::new());
    match plain.weights() {
        Some(_) => make((0..children).map(|_| Weight::new(weight(rng)).unwrap()).collect()),
        None => plain,
    }
}

fn child(program: &mut Program, rng: &mut Rng, depth: u32) -> Child {
    if depth == 0 || (depth < 4 && rng.below(4) == 0) {
        let discipline = if rng.below(3) == 0 { LeafDiscipline::Fifo } else { LeafDiscipline::Fair };
        program.leaves.push(LeafSpec { name: format!("leaf{}", program.leaves.len()), discipline });
        return Child::Leaf(LeafId::from_index(program.leaves.len() - 1));
    }
    let children: Vec<Child> = (0..1 + rng.below(3)).map(|_| child(program, rng, depth - 1)).collect();
    let discipline = native(rng, children.len());
    program.nodes.push(NodeSpec { name: format!("node{}", program.nodes.len()), discipline, children });
    Child::Node(NodeId::from_index(program.nodes.len() - 1))
}
