//! Lowered programs in user space, checked and executed by rbpf.

use super::{State, block, operands, operations, random_cases, sample_cases, state};
use weft_rank::ebpf::{BlockSource, lower};
use weft_rank::generate::Case;
use weft_rank::{Inputs, Program};

fn run(program: &Program, inputs: &Inputs, parameters: &[u64], node: &[u64], child: &[u64]) -> State {
    let instructions = lower(program, BlockSource::Argument);
    let vm = rbpf::EbpfVmRaw::new(Some(&instructions)).expect("rbpf accepts the program");
    let mut block = block(inputs, parameters, node, child);
    assert_eq!(vm.execute_program(block.bytes_mut()).expect("no access out of bounds"), 0);
    state(&block, node, child)
}

#[track_caller]
fn agrees(case: &Case) {
    let found = run(&case.program, &case.inputs, &case.parameters, &case.node, &case.child);
    assert_eq!(found, case.interpret(), "{:?}", case.program);
}

#[test]
fn operations_agree_at_their_edges() {
    for (program, count) in operations() {
        for parameters in operands(count) {
            let found = run(&program, &Inputs::default(), &parameters, &[], &[7]);
            let mut child = vec![7];
            let effects = program.run(&Inputs::default(), &parameters, &mut [], &mut child);
            assert_eq!(found, (effects, vec![], child), "{parameters:#x?}: {program:?}");
        }
    }
}

#[test]
fn random_programs_agree() {
    random_cases(4_000).for_each(|case| agrees(&case));
}

#[test]
fn samples_agree() {
    sample_cases(100).for_each(|case| agrees(&case));
}
