//! Homes of values: a word of the stack from the operation that yields a value to the last one that takes it.

use super::BLOCK;
use super::assembler::Register;
use super::block::VALUES_AT;
use crate::operation::Effect;
use crate::program::Program;

/// The words of the stack, which has 512 bytes.
const STACK_WORDS: usize = 64;

/// The home of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Home {
    /// Nothing takes the value.
    Unused,
    /// A word of the stack.
    Stack(usize),
    /// A word of the block.
    Block(usize),
}

impl Home {
    /// The register and the offset of the home.
    pub(super) fn address(self) -> (Register, i16) {
        match self {
            Self::Unused => (BLOCK, VALUES_AT as i16),
            Self::Stack(word) => (Register::Frame, -8 * (word as i16 + 1)),
            Self::Block(word) => (BLOCK, (VALUES_AT + 8 * word) as i16),
        }
    }

    /// The same, if there is one.
    pub(super) fn kept(self) -> Option<(Register, i16)> {
        (self != Self::Unused).then(|| self.address())
    }
}

/// The home of each operation's value.
pub(super) fn homes(program: &Program) -> Vec<Home> {
    let operations = program.operations();
    let last = last_uses(program);
    let mut homes = vec![Home::Unused; operations.len()];
    let mut free: Vec<usize> = (0..STACK_WORDS).rev().collect();
    for (at, operation) in operations.iter().enumerate() {
        // Operands are read before the result is written, so its home may be that of an operand that is taken for the last time.
        let mut ended: Vec<usize> = operation
            .operands()
            .map(|value| value.index())
            .filter(|index| last[*index] == Some(at))
            .collect();
        ended.sort_unstable();
        ended.dedup();
        free.extend(ended.into_iter().filter_map(|index| match homes[index] {
            Home::Stack(word) => Some(word),
            _ => None,
        }));
        if last[at].is_some() {
            homes[at] = free.pop().map_or(Home::Block(at), Home::Stack);
        }
    }
    homes
}

/// For each operation the last one that takes its value. The effects take theirs after all operations.
fn last_uses(program: &Program) -> Vec<Option<usize>> {
    let operations = program.operations();
    let mut last = vec![None; operations.len()];
    for (at, operation) in operations.iter().enumerate() {
        operation.operands().for_each(|value| last[value.index()] = Some(at));
    }
    let of_effects = program.effects().iter().flat_map(Effect::operands);
    of_effects.for_each(|value| last[value.index()] = Some(operations.len()));
    debug_assert!(
        operations.iter().zip(&last).all(|(operation, last)| last.is_none() || operation.has_result())
    );
    last
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builder::ProgramBuilder;
    use crate::operation::Slot;
    use crate::part::Part;

    #[test]
    fn words_are_used_again_and_the_block_has_the_rest() {
        let mut b = ProgramBuilder::new(Part::Sent);
        let mut sum = b.constant(1);
        for _ in 0..100 {
            sum = b.add(sum, sum);
        }
        b.store(Slot::Node(0), sum);
        let found = homes(&b.build().expect("a program"));
        assert!(found[..101].iter().all(|home| *home == Home::Stack(0)), "{found:?}");

        let mut b = ProgramBuilder::new(Part::Sent);
        let values: Vec<_> = (0..70).map(|value| b.constant(value)).collect();
        for value in values {
            b.store(Slot::Node(0), value);
        }
        let found = homes(&b.build().expect("a program"));
        assert_eq!((found[63], found[64], found[70]), (Home::Stack(63), Home::Block(64), Home::Unused));
    }
}
