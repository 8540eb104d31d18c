//! The target of fuzzing: any bytes are a program with its inputs, on which interpreter and eBPF agree.

use crate::Effects;
use crate::ebpf::{Block, BlockSource, lower};
use crate::generate::Case;

/// Runs a program of any bytes by the interpreter and as eBPF.
///
/// # Panics
/// If they differ, or if one of them fails.
pub fn fuzz_rank(data: &[u8]) {
    let case = Case::from_bytes(data);
    let expected = case.interpret();
    assert_eq!(ebpf(&case), expected, "eBPF: {:?}", case.program);
    // Most bytes are refused; what counts is that the checks end.
    let _ = Case::unchecked(data);
}

type State = (Effects, Vec<u64>, Vec<u64>);

fn ebpf(case: &Case) -> State {
    let instructions = lower(&case.program, BlockSource::Argument);
    let vm = rbpf::EbpfVmRaw::new(Some(&instructions)).expect("rbpf accepts the program");
    let mut block = Block::new(&case.inputs, &case.parameters, &case.node, &case.child);
    assert_eq!(vm.execute_program(block.bytes_mut()).expect("no access out of bounds"), 0);
    let (mut node, mut child) = (case.node.clone(), case.child.clone());
    block.state(&mut node, &mut child);
    (block.effects(), node, child)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_units::testing::FuzzRun;

    /// Seeded changes of a few programs: what `make fuzz` does for longer, and guided by coverage.
    #[test]
    fn changed_programs_keep_the_executors_together() {
        let mut run = FuzzRun::from_environment(600);
        let mut state = run.seed;
        let mut next = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize
        };
        let mut data: Vec<u8> = (0..700).map(|_| next() as u8).collect();
        while run.next_round() {
            for _ in 0..=next() % 8 {
                let at = next() % data.len();
                data[at] = match next() % 4 {
                    0 => data[at].wrapping_add(1),
                    1 => data[at] ^ 1 << (next() % 8),
                    _ => next() as u8,
                };
            }
            fuzz_rank(&data[..data.len() - next() % 300]);
        }
        fuzz_rank(&[]);
        println!("{} programs, seed {}", run.done(), run.seed);
    }
}
