//! Machine code and interpreter agree in every bit: on all operators at their edges, on random programs, and on the samples.

use proptest::prelude::*;
use std::sync::{Arc, LazyLock};
use weft_rank::generate::Case;
use weft_rank::{
    Algorithm, Binary, Effects, Execute, Field, Inputs, Operation, Part, Product, ProgramBuilder, Slot,
    samples,
};
use weft_rank_cranelift::{Compiled, compile};

fn compiled(algorithm: Algorithm) -> Compiled {
    let compiled = compile(&[Arc::new(algorithm)]).expect("machine code");
    compiled.into_iter().next().expect("an algorithm")
}

type State = (Effects, Vec<u64>, Vec<u64>);

fn run(
    execute: &dyn Execute,
    part: Part,
    inputs: &Inputs,
    parameters: &[u64],
    node: &[u64],
    child: &[u64],
) -> State {
    let (mut node, mut child) = (node.to_vec(), child.to_vec());
    let effects = execute.run(part, inputs, parameters, &mut node, &mut child);
    (effects, node, child)
}

const EDGES: [u64; 22] = [
    0,
    1,
    2,
    3,
    7,
    8,
    63,
    64,
    255,
    256,
    1023,
    1 << 31,
    (1 << 32) - 1,
    1 << 32,
    (1 << 32) + 1,
    0x1234_5678_9abc_def0,
    (1 << 63) - 1,
    1 << 63,
    (1 << 63) + 1,
    u64::MAX - 1,
    u64::MAX,
    0xffff_ffff_0000_003f,
];

/// An algorithm whose `sent` writes the result of an operation on parameters into the child.
fn of_operation(operation: impl Fn([weft_rank::Value; 3]) -> Operation) -> Algorithm {
    let mut b = ProgramBuilder::new(Part::Sent);
    let operands = [0, 1, 2].map(|index| b.parameter(index));
    let result = b.push(operation(operands));
    b.store(Slot::Child(0), result);
    let mut algorithm = samples::round_robin();
    algorithm.parts.sent = Some(b.build().expect("a program"));
    algorithm.parameters = vec![Field::unsigned("operand", 0); 3];
    algorithm.child = vec![Field::unsigned("result", 0)];
    algorithm
}

#[track_caller]
fn same_at_edges(algorithm: &Algorithm, operands: usize) {
    let code = compiled(algorithm.clone());
    let thirds = if operands == 3 { &EDGES[..] } else { &EDGES[..1] };
    for (a, b, c) in EDGES
        .into_iter()
        .flat_map(|a| EDGES.into_iter().flat_map(move |b| thirds.iter().map(move |c| (a, b, *c))))
    {
        let inputs = Inputs::default();
        let [found, expected] = [&code as &dyn Execute, algorithm]
            .map(|execute| run(execute, Part::Sent, &inputs, &[a, b, c], &[], &[7]));
        assert_eq!(found, expected, "{:?} of {a:#x}, {b:#x}, {c:#x}", algorithm.parts.sent);
    }
}

#[test]
fn operators_agree_at_their_edges() {
    for operator in Binary::ALL {
        same_at_edges(&of_operation(|[left, right, _]| Operation::Binary { operator, left, right }), 2);
    }
    same_at_edges(&of_operation(|[value, ..]| Operation::Not(value)), 2);
    same_at_edges(&of_operation(|[condition, yes, no]| Operation::Select { condition, yes, no }), 3);
    for product in [Product::Whole, Product::Rest] {
        same_at_edges(
            &of_operation(|[value, scale, carry]| Operation::Scale { product, value, scale, carry }),
            3,
        );
    }
}

/// Compiles both operands as constants, where Cranelift computes the result itself.
#[test]
fn constants_fold_to_the_same_results() {
    let edges = [0, 1, 3, 256, 1 << 63, (1 << 63) - 1, u64::MAX];
    for operator in Binary::ALL {
        let mut b = ProgramBuilder::new(Part::Sent);
        let values = edges.map(|edge| b.constant(edge));
        let mut algorithm = samples::round_robin();
        for (index, left) in values.into_iter().enumerate() {
            let mut b = b.clone();
            for (at, right) in values.into_iter().enumerate() {
                let result = b.push(Operation::Binary { operator, left, right });
                b.store(Slot::Node(at as u8), result);
            }
            algorithm.parts.sent = Some(b.build().expect("a program"));
            algorithm.node = vec![Field::unsigned("result", 0); 7];
            let code = compiled(algorithm.clone());
            let [found, expected] = [&code as &dyn Execute, &algorithm]
                .map(|execute| run(execute, Part::Sent, &Inputs::default(), &[], &[7; 7], &[]));
            assert_eq!(found, expected, "{operator:?} of {:#x}", edges[index]);
        }
    }
}

static SAMPLES: LazyLock<Vec<Compiled>> = LazyLock::new(|| {
    let algorithms: Vec<Arc<Algorithm>> = samples::all().into_iter().map(Arc::new).collect();
    compile(&algorithms).expect("machine code")
});

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn random_programs_agree(data in prop::collection::vec(any::<u8>(), 100..2000)) {
        let case = Case::from_bytes(&data);
        let code = compiled(case.algorithm());
        let found = run(&code, case.program.part(), &case.inputs, &case.parameters, &case.node, &case.child);
        prop_assert_eq!(found, case.interpret(), "{:?}", case.program);
    }

    /// The samples, with any inputs and state; words that are missing are as in the interpreter.
    #[test]
    fn samples_agree(data in prop::collection::vec(any::<u8>(), 400..600), missing in 0..4_usize) {
        let case = Case::from_bytes(&data);
        for code in &*SAMPLES {
            let algorithm = Arc::clone(code.algorithm());
            let cut = |words: &[u64]| words[missing.min(words.len())..].to_vec();
            for part in Part::ALL {
                let [found, expected] = [code as &dyn Execute, &*algorithm].map(|execute| {
                    run(execute, part, &case.inputs, &cut(&case.parameters), &cut(&case.node), &case.child)
                });
                prop_assert_eq!(found, expected, "{} {}", algorithm.name, part);
            }
        }
    }
}

/// Executors move between threads and outlive the list that they came in; the last one returns the memory.
#[test]
fn code_lives_as_long_as_its_last_executor() {
    let algorithms: Vec<Arc<Algorithm>> = samples::all().into_iter().map(Arc::new).collect();
    let mut compiled = compile(&algorithms).expect("machine code");
    let strict = compiled.swap_remove(1);
    drop(compiled);
    let rank =
        std::thread::spawn(move || strict.run(Part::Rank, &Inputs::default(), &[5], &mut [], &mut []).rank());
    assert_eq!(rank.join().expect("a rank").map(|rank| rank.first), Some(5));
}

#[test]
fn algorithms_that_cannot_run_are_refused() {
    let wrong = Algorithm { parameters: Vec::new(), ..samples::strict() };
    let error = compile(&[Arc::new(wrong)]).map(|_| ()).expect_err("refused");
    assert!(error.to_string().contains("`strict`: rank uses parameter 0"), "{error}");
}
