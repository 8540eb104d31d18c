//! The memory that a lowered program reads and writes: one block, such as the value of a map.

use crate::arithmetic::OVER_SQRT;
use crate::effects::{Effects, Rank};
use crate::inputs::{Inputs, Place};
use crate::operation::{Input, Metadatum, RankWord};
use crate::program::Program;
use core::mem::offset_of;

const WORD: usize = 8;

/// The place of the parameters, after the inputs.
pub const PARAMETERS_AT: usize = size_of::<Inputs>();
/// The place of the node's state.
pub const NODE_AT: usize = PARAMETERS_AT + WORD * Program::PARAMETERS_MAX;
/// The place of the child's state.
pub const CHILD_AT: usize = NODE_AT + WORD * Program::NODE_SLOTS_MAX;
/// The place of the effects.
pub const EFFECTS_AT: usize = CHILD_AT + WORD * Program::CHILD_SLOTS_MAX;
/// The place of values that find no room on the stack.
pub const VALUES_AT: usize = EFFECTS_AT + size_of::<Effects>();
/// The place of the table of roots.
pub const ROOTS_AT: usize = VALUES_AT + WORD * Program::OPERATIONS_MAX;
/// The size of a block.
pub const BLOCK_BYTES: usize = ROOTS_AT + size_of::<[u32; 256]>();

const _: () = assert!(PARAMETERS_AT.is_multiple_of(WORD) && ROOTS_AT.is_multiple_of(WORD));
const _: () = assert!(BLOCK_BYTES < i16::MAX as usize, "offsets of instructions have 16 bits");

/// A block, filled for a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Block(Vec<u8>);

impl Block {
    /// A block with the inputs, parameters and state of a run.
    pub fn new(inputs: &Inputs, parameters: &[u64], node: &[u64], child: &[u64]) -> Self {
        let mut block = Self(vec![0; BLOCK_BYTES]);
        all_inputs().for_each(|input| block.write_input(input, inputs.word(input)));
        let sections = [
            (PARAMETERS_AT, parameters, Program::PARAMETERS_MAX),
            (NODE_AT, node, Program::NODE_SLOTS_MAX),
            (CHILD_AT, child, Program::CHILD_SLOTS_MAX),
        ];
        for (at, words, most) in sections {
            for (index, word) in words.iter().take(most).enumerate() {
                block.write(at + WORD * index, *word);
            }
        }
        for (index, root) in OVER_SQRT.iter().enumerate() {
            let at = ROOTS_AT + size_of::<u32>() * index;
            block.0[at..at + size_of::<u32>()].copy_from_slice(&root.to_ne_bytes());
        }
        block
    }

    /// The block in the bytes that an executor left; `None` if their number is wrong.
    pub fn from_bytes(bytes: Vec<u8>) -> Option<Self> {
        (bytes.len() == BLOCK_BYTES).then_some(Self(bytes))
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The bytes, for an executor.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }

    /// The effects of the run.
    pub fn effects(&self) -> Effects {
        let word = |at| self.read(EFFECTS_AT + at);
        Effects {
            present: word(offset_of!(Effects, present)),
            rank: Rank::new(word(offset_of!(Effects, rank.first)), word(offset_of!(Effects, rank.second))),
            from: word(offset_of!(Effects, from)),
            until: word(offset_of!(Effects, until)),
            until_rank: Rank::new(
                word(offset_of!(Effects, until_rank.first)),
                word(offset_of!(Effects, until_rank.second)),
            ),
        }
    }

    /// Reads the state after a run.
    pub fn state(&self, node: &mut [u64], child: &mut [u64]) {
        for (index, word) in node.iter_mut().take(Program::NODE_SLOTS_MAX).enumerate() {
            *word = self.read(NODE_AT + WORD * index);
        }
        for (index, word) in child.iter_mut().take(Program::CHILD_SLOTS_MAX).enumerate() {
            *word = self.read(CHILD_AT + WORD * index);
        }
    }

    fn read(&self, at: usize) -> u64 {
        let mut bytes = [0; WORD];
        bytes.copy_from_slice(&self.0[at..at + WORD]);
        u64::from_ne_bytes(bytes)
    }

    fn write(&mut self, at: usize, word: u64) {
        self.0[at..at + WORD].copy_from_slice(&word.to_ne_bytes());
    }

    fn write_input(&mut self, input: Input, word: u64) {
        match Inputs::place(input) {
            Place::Word(at) => self.write(at, word),
            Place::Truth(at) => self.0[at] = u8::from(word != 0),
            Place::Bit(at, bit) => {
                let others = self.read(at) & !(1 << bit);
                self.write(at, others | word << bit);
            }
        }
    }
}

/// All inputs.
fn all_inputs() -> impl Iterator<Item = Input> {
    let single = [
        Input::Now,
        Input::Bytes,
        Input::More,
        Input::Rank(RankWord::First),
        Input::Rank(RankWord::Second),
        Input::Weights,
        Input::Lowest,
        Input::QueuedBytes,
        Input::QueuedPackets,
    ];
    let of_packets = |metadatum| {
        [
            Input::Head(metadatum),
            Input::HeadKnown(metadatum),
            Input::Packet(metadatum),
            Input::PacketKnown(metadatum),
        ]
    };
    single.into_iter().chain(Metadatum::ALL.into_iter().flat_map(of_packets))
}
