//! Programs as eBPF instructions, for the kernel's executors.
//!
//! A lowered program has one argument, the address of a [`Block`], and returns 0. It has no jumps and calls nothing, so the kernel's verifier
//! follows it once, from its first instruction to its last. The values are on the stack as long as they are needed; those that find no
//! room there are in the block.

mod arithmetic;
mod assembler;
mod block;
mod room;

pub use assembler::INSTRUCTION_BYTES;
pub use block::{BLOCK_BYTES, Block, CHILD_AT, EFFECTS_AT, NODE_AT, PARAMETERS_AT, ROOTS_AT, VALUES_AT};

use crate::effects::Effects;
use crate::inputs::{Inputs, Place};
use crate::operation::{Effect, Input, Operation, Slot, Value};
use crate::program::Program;
use arithmetic::{LEFT, RESULT, RIGHT, THIRD, truth};
use assembler::{Alu, Assembler, Register};
use core::mem::offset_of;
use room::{Home, homes};

/// The address of the block, while a program runs.
const BLOCK: Register = Register::R6;
/// A register for intermediate values that no operand is in.
const TEMPORARY: Register = Register::R4;

/// The source of the block's address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BlockSource {
    /// The first argument.
    Argument,
    /// The value of a map with one element, by the map's file descriptor.
    Map(i32),
}

/// The instructions of a program, as bytes in this machine's order.
pub fn lower(program: &Program, source: BlockSource) -> Vec<u8> {
    let mut lowering = Lowering { asm: Assembler::default(), homes: homes(program) };
    match source {
        BlockSource::Argument => lowering.asm.copy(BLOCK, Register::R1),
        BlockSource::Map(map) => lowering.asm.map_value(BLOCK, map),
    }
    for (at, operation) in program.operations().iter().enumerate() {
        lowering.operation(at, operation);
    }
    lowering.effects(program.effects());
    lowering.asm.constant(RESULT, 0);
    lowering.asm.exit();
    lowering.asm.into_bytes()
}

struct Lowering {
    asm: Assembler,
    homes: Vec<Home>,
}

/// The place of a slot in the block.
fn place(slot: Slot) -> i16 {
    let at = match slot {
        Slot::Node(index) => NODE_AT + 8 * usize::from(index),
        Slot::Child(index) => CHILD_AT + 8 * usize::from(index),
    };
    at as i16
}

impl Lowering {
    fn get(&mut self, to: Register, value: Value) {
        let (register, offset) = self.homes[value.index()].address();
        self.asm.load(to, register, offset);
    }

    fn operation(&mut self, at: usize, operation: &Operation) {
        match *operation {
            Operation::Constant(value) => self.asm.constant(RESULT, value),
            Operation::Input(input) => self.input(input),
            Operation::Parameter(index) => {
                self.asm.load(RESULT, BLOCK, (PARAMETERS_AT + 8 * usize::from(index)) as i16);
            }
            Operation::Load(slot) => self.asm.load(RESULT, BLOCK, place(slot)),
            Operation::Store { slot, value, when } => {
                self.store(slot, value, when);
                return;
            }
            Operation::Not(value) => {
                self.get(RESULT, value);
                truth(&mut self.asm, RESULT, TEMPORARY);
                self.asm.alu_with(Alu::Xor, RESULT, 1);
            }
            Operation::Binary { operator, left, right } => {
                self.get(LEFT, left);
                self.get(RIGHT, right);
                arithmetic::binary(&mut self.asm, operator);
            }
            Operation::Select { condition, yes, no } => {
                self.get(LEFT, yes);
                self.get(RIGHT, no);
                self.get(THIRD, condition);
                arithmetic::select(&mut self.asm);
            }
            Operation::Scale { product, value, scale, carry } => {
                self.get(LEFT, value);
                self.get(RIGHT, scale);
                self.get(THIRD, carry);
                arithmetic::scale(&mut self.asm, product);
            }
        }
        if let Some((register, offset)) = self.homes[at].kept() {
            self.asm.store(register, offset, RESULT);
        }
    }

    fn input(&mut self, input: Input) {
        match Inputs::place(input) {
            Place::Word(at) => self.asm.load(RESULT, BLOCK, at as i16),
            Place::Truth(at) => self.asm.load_byte(RESULT, BLOCK, at as i16),
            Place::Bit(at, bit) => {
                self.asm.load(RESULT, BLOCK, at as i16);
                self.asm.alu_with(Alu::ShiftRight, RESULT, bit as i32);
                self.asm.alu_with(Alu::And, RESULT, 1);
            }
        }
    }

    fn store(&mut self, slot: Slot, value: Value, when: Option<Value>) {
        match when {
            None => self.get(RESULT, value),
            Some(condition) => {
                self.get(LEFT, value);
                self.asm.load(RIGHT, BLOCK, place(slot));
                self.get(THIRD, condition);
                arithmetic::select(&mut self.asm);
            }
        }
        self.asm.store(BLOCK, place(slot), RESULT);
    }

    /// Writes all words of the effects; those that the program does not have are 0.
    fn effects(&mut self, effects: &[Effect]) {
        self.asm.constant(RESULT, 0);
        for at in (0..size_of::<Effects>()).step_by(8) {
            self.asm.store(BLOCK, (EFFECTS_AT + at) as i16, RESULT);
        }
        let mut always = 0;
        for effect in effects {
            match *effect {
                Effect::Rank(first, second) => {
                    self.put(offset_of!(Effects, rank.first), first);
                    self.put(offset_of!(Effects, rank.second), second);
                    always |= Effects::RANK;
                }
                Effect::FromTime(time) => {
                    self.put(offset_of!(Effects, from), time);
                    always |= Effects::FROM_TIME;
                }
                Effect::FromVirtualTime(time) => {
                    self.put(offset_of!(Effects, from), time);
                    always |= Effects::FROM_VIRTUAL_TIME;
                }
                Effect::Until { time, rank: (first, second) } => {
                    self.put(offset_of!(Effects, until), time);
                    self.put(offset_of!(Effects, until_rank.first), first);
                    self.put(offset_of!(Effects, until_rank.second), second);
                    always |= Effects::UNTIL;
                }
                Effect::Rerank(condition) => self.put_if(condition, Effects::RERANK),
                Effect::Drop(condition) => self.put_if(condition, Effects::DROP),
                Effect::Mark(condition) => self.put_if(condition, Effects::MARK),
            }
        }
        self.or_present(|asm| asm.constant(LEFT, always));
    }

    fn put(&mut self, at: usize, value: Value) {
        self.get(RESULT, value);
        self.asm.store(BLOCK, (EFFECTS_AT + at) as i16, RESULT);
    }

    /// Sets the bit of an effect whose condition holds.
    fn put_if(&mut self, condition: Value, bit: u64) {
        self.get(LEFT, condition);
        truth(&mut self.asm, LEFT, TEMPORARY);
        self.or_present(|asm| asm.alu_with(Alu::Mul, LEFT, bit as i32));
    }

    /// Adds the bits that `write` leaves in `LEFT`.
    fn or_present(&mut self, write: impl FnOnce(&mut Assembler)) {
        let at = (EFFECTS_AT + offset_of!(Effects, present)) as i16;
        write(&mut self.asm);
        self.asm.load(RESULT, BLOCK, at);
        self.asm.alu(Alu::Or, RESULT, LEFT);
        self.asm.store(BLOCK, at, RESULT);
    }
}
