//! Lowered programs agree with the interpreter in every bit: in user space by rbpf, and in the kernel by its own executor.

mod kernel;
mod user;

use weft_rank::ebpf::Block;
use weft_rank::generate::Case;
use weft_rank::{
    Binary, Effects, Inputs, Operation, Part, Product, Program, ProgramBuilder, Slot, Value, samples,
};

/// The outcome of a run: its effects, and the state of node and child.
type State = (Effects, Vec<u64>, Vec<u64>);

/// The block of a run.
fn block(inputs: &Inputs, parameters: &[u64], node: &[u64], child: &[u64]) -> Block {
    Block::new(inputs, parameters, node, child)
}

/// The outcome that a run left in a block.
fn state(block: &Block, node: &[u64], child: &[u64]) -> State {
    let (mut node, mut child) = (node.to_vec(), child.to_vec());
    block.state(&mut node, &mut child);
    (block.effects(), node, child)
}

const EDGES: [u64; 18] = [
    0,
    1,
    2,
    3,
    63,
    64,
    255,
    256,
    1 << 31,
    (1 << 32) - 1,
    1 << 32,
    0x1234_5678_9abc_def0,
    (1 << 63) - 1,
    1 << 63,
    (1 << 63) + 1,
    u64::MAX - 1,
    u64::MAX,
    0xffff_ffff_0000_003f,
];

/// A program that writes the result of an operation on three parameters into the child.
fn of_operation(operation: impl Fn([Value; 3]) -> Operation) -> Program {
    let mut b = ProgramBuilder::new(Part::Sent);
    let operands = [0, 1, 2].map(|index| b.parameter(index));
    let result = b.push(operation(operands));
    b.store(Slot::Child(0), result);
    b.build().expect("a program")
}

/// A program for each operation, with the number of its operands.
fn operations() -> Vec<(Program, usize)> {
    let mut found = Vec::new();
    for operator in Binary::ALL {
        found.push((of_operation(|[left, right, _]| Operation::Binary { operator, left, right }), 2));
    }
    found.push((of_operation(|[value, ..]| Operation::Not(value)), 1));
    found.push((of_operation(|[condition, yes, no]| Operation::Select { condition, yes, no }), 3));
    for product in [Product::Whole, Product::Rest] {
        found.push((
            of_operation(|[value, scale, carry]| Operation::Scale { product, value, scale, carry }),
            3,
        ));
    }
    found
}

/// All triples of edges that matter for so many operands.
fn operands(count: usize) -> impl Iterator<Item = [u64; 3]> {
    let some = |used: bool| if used { &EDGES[..] } else { &EDGES[..1] };
    let (second, third) = (some(count > 1), some(count > 2));
    EDGES
        .into_iter()
        .flat_map(move |a| second.iter().flat_map(move |b| third.iter().map(move |c| [a, *b, *c])))
}

/// Pseudo-random bytes (xorshift).
fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed * 2 + 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    (0..length).map(|_| next()).collect()
}

/// Random programs of all lengths, each with what a run takes.
fn random_cases(count: u64) -> impl Iterator<Item = Case> {
    (0..count).map(|seed| Case::from_bytes(&noise(seed, 100 + 7 * (seed as usize % 300))))
}

/// The programs of the samples, each with the inputs and the state of a random case.
fn sample_cases(rounds: u64) -> impl Iterator<Item = Case> {
    (0..rounds).flat_map(|round| {
        let inputs = Case::from_bytes(&noise(round + 1_000_000, 500));
        samples::all().into_iter().flat_map(move |algorithm| {
            let inputs = inputs.clone();
            let programs: Vec<Program> = algorithm.parts.iter().cloned().collect();
            programs.into_iter().map(move |program| Case { program, ..inputs.clone() })
        })
    })
}
