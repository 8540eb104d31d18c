//! Programs, and the checks that every program has passed.

use crate::operation::{Effect, Operation, Slot, Value};
use crate::part::Part;
use thiserror::Error;

/// The program of one part of an algorithm: operations in single-assignment form, and effects at the end.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Program {
    part: Part,
    operations: Vec<Operation>,
    effects: Vec<Effect>,
}

/// The reason why operations and effects are no program.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum ProgramError {
    /// The program is too long.
    #[error("the program of `{part}` has more than {max} operations")]
    TooLong {
        /// The part.
        part: Part,
        /// The most operations of a program.
        max: usize,
    },
    /// A value is used that no earlier operation yields.
    #[error("operation {at} of `{part}` uses value {value}, which no earlier operation yields")]
    Undefined {
        /// The part.
        part: Part,
        /// The place of the operation; the number of operations, if an effect uses the value.
        at: usize,
        /// The place of the value.
        value: usize,
    },
    /// A slot or a parameter is beyond what an algorithm may have.
    #[error("operation {at} of `{part}` uses {what} {index}; an algorithm has at most {max}")]
    OutOfRange {
        /// The part.
        part: Part,
        /// The place of the operation.
        at: usize,
        /// The kind of word.
        what: &'static str,
        /// The word's number.
        index: usize,
        /// The most words of the kind.
        max: usize,
    },
    /// An input does not exist in the part.
    #[error("operation {at} of `{part}` reads an input that this part does not have")]
    NoSuchInput {
        /// The part.
        part: Part,
        /// The place of the operation.
        at: usize,
    },
    /// A program of `rank` writes state. A child is ranked as often as the engine likes, so ranking has no other effect.
    #[error("operation {at} of `rank` writes state; the engine may rank a child any number of times")]
    StoreInRank {
        /// The place of the operation.
        at: usize,
    },
    /// An effect does not exist in the part, or is there twice.
    #[error("effect {at} of `{part}` does not belong there, or is there twice")]
    Effect {
        /// The part.
        part: Part,
        /// The place of the effect.
        at: usize,
    },
}

impl Program {
    /// The most operations of a program.
    pub const OPERATIONS_MAX: usize = 256;
    /// The most fields of a node: 256 bytes.
    pub const NODE_SLOTS_MAX: usize = 32;
    /// The most fields of a child: 64 bytes.
    pub const CHILD_SLOTS_MAX: usize = 8;
    /// The most parameters of a child.
    pub const PARAMETERS_MAX: usize = 32;

    /// Checks operations and effects from anywhere.
    pub fn new(part: Part, operations: Vec<Operation>, effects: Vec<Effect>) -> Result<Self, ProgramError> {
        let program = Self { part, operations, effects };
        program.validate()?;
        Ok(program)
    }

    /// Checks that each value is defined before its use, that slots are in range, and that inputs and effects exist in the
    /// part. Every program has passed this check.
    pub fn validate(&self) -> Result<(), ProgramError> {
        if self.operations.len() > Self::OPERATIONS_MAX {
            return Err(ProgramError::TooLong { part: self.part, max: Self::OPERATIONS_MAX });
        }
        for at in 0..self.operations.len() {
            check_operation(self.part, &self.operations[..=at])?;
        }
        for at in 0..self.effects.len() {
            check_effect(self.part, &self.operations, &self.effects[..=at])?;
        }
        Ok(())
    }

    /// A program that a builder has checked piece by piece.
    pub(crate) fn checked(part: Part, operations: Vec<Operation>, effects: Vec<Effect>) -> Self {
        Self { part, operations, effects }
    }

    /// The part that the program is for.
    pub const fn part(&self) -> Part {
        self.part
    }

    /// The operations.
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// The effects.
    pub fn effects(&self) -> &[Effect] {
        &self.effects
    }

    /// The words of state and parameters that the program needs: one more than the greatest number of each kind.
    pub fn words(&self) -> Words {
        let mut words = Words::default();
        for operation in &self.operations {
            let (counter, index) = match *operation {
                Operation::Load(Slot::Node(index)) => (&mut words.node, index),
                Operation::Load(Slot::Child(index)) => (&mut words.child, index),
                Operation::Store { slot: Slot::Node(index), .. } => (&mut words.node, index),
                Operation::Store { slot: Slot::Child(index), .. } => (&mut words.child, index),
                Operation::Parameter(index) => (&mut words.parameters, index),
                _ => continue,
            };
            *counter = (*counter).max(usize::from(index) + 1);
        }
        words
    }
}

/// Numbers of words of each kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Words {
    /// Fields of the node.
    pub node: usize,
    /// Fields of the child.
    pub child: usize,
    /// Parameters.
    pub parameters: usize,
}

/// Checks the last of `operations`, whose earlier ones are checked.
pub(crate) fn check_operation(part: Part, operations: &[Operation]) -> Result<(), ProgramError> {
    let Some((operation, earlier)) = operations.split_last() else { return Ok(()) };
    let at = earlier.len();
    if at >= Program::OPERATIONS_MAX {
        return Err(ProgramError::TooLong { part, max: Program::OPERATIONS_MAX });
    }
    for value in operation.operands() {
        check_value(part, earlier, at, value)?;
    }
    match *operation {
        Operation::Input(input) if !input.allowed_in(part) => Err(ProgramError::NoSuchInput { part, at }),
        Operation::Store { .. } if part == Part::Rank => Err(ProgramError::StoreInRank { at }),
        Operation::Load(slot) | Operation::Store { slot, .. } => check_slot(part, at, slot),
        Operation::Parameter(index) => check_index(part, at, "parameter", index, Program::PARAMETERS_MAX),
        _ => Ok(()),
    }
}

fn check_slot(part: Part, at: usize, slot: Slot) -> Result<(), ProgramError> {
    match slot {
        Slot::Node(index) => check_index(part, at, "field of the node", index, Program::NODE_SLOTS_MAX),
        Slot::Child(index) => check_index(part, at, "field of the child", index, Program::CHILD_SLOTS_MAX),
    }
}

fn check_index(part: Part, at: usize, what: &'static str, index: u8, max: usize) -> Result<(), ProgramError> {
    let index = usize::from(index);
    if index < max { Ok(()) } else { Err(ProgramError::OutOfRange { part, at, what, index, max }) }
}

fn check_value(part: Part, earlier: &[Operation], at: usize, value: Value) -> Result<(), ProgramError> {
    let defined = earlier.get(value.index()).is_some_and(Operation::has_result);
    if defined { Ok(()) } else { Err(ProgramError::Undefined { part, at, value: value.index() }) }
}

/// Checks the last of `effects`, whose earlier ones are checked.
pub(crate) fn check_effect(
    part: Part,
    operations: &[Operation],
    effects: &[Effect],
) -> Result<(), ProgramError> {
    let Some((effect, earlier)) = effects.split_last() else { return Ok(()) };
    if !effect.allowed_in(part) || earlier.iter().any(|other| effect.excludes(*other)) {
        return Err(ProgramError::Effect { part, at: earlier.len() });
    }
    effect.operands().try_for_each(|value| check_value(part, operations, operations.len(), value))
}
