//! From a program to Cranelift's intermediate form.
//!
//! A slot is loaded at its first use and written once, at the end: between them its content is a value, so there is nothing for an alias
//! analysis to find out. A condition that holds or not selects between two values. There is a branch only around an expensive operation
//! whose result nothing but a conditional store takes, and where a program is cut in two halves ([`split`]).

use crate::arithmetic::{self, Ins, Lowered};
use crate::guard;
use crate::split::{self, Facts};
use core::mem::offset_of;
use core::ops::Range;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Function, InstBuilder, Value as Ssa, types};
use cranelift_codegen::isa::TargetFrontendConfig;
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use weft_rank::{Effect, Effects, Input, Inputs, Operation, Place, Product, Program, Slot, Value};

/// The addresses that a compiled program gets.
#[derive(Clone, Copy)]
struct Addresses {
    inputs: Ssa,
    parameters: Ssa,
    node: Ssa,
    child: Ssa,
    effects: Ssa,
}

/// The words of effects.
const WORDS: usize = size_of::<Effects>() / 8;

/// The content of a slot, and whether it differs from the memory's.
#[derive(Clone, Copy)]
struct Content {
    value: Ssa,
    dirty: bool,
}

struct Lowering<'a, 'f> {
    ins: Ins<'a, 'f>,
    addresses: Addresses,
    program: &'a Program,
    /// The stores that operations wait for; the others are lowered in order.
    guarded: Vec<Option<usize>>,
    /// The conditions that are known in this half of the program.
    facts: Facts,
    state: State,
}

/// The results so far, and the contents of the slots.
#[derive(Clone)]
struct State {
    values: Vec<Lowered>,
    node: [Option<Content>; Program::NODE_SLOTS_MAX],
    child: [Option<Content>; Program::CHILD_SLOTS_MAX],
}

/// Writes the code of `program` into `function`, whose signature is that of a compiled program.
pub(crate) fn lower(
    program: &Program,
    function: &mut Function,
    context: &mut FunctionBuilderContext,
    config: TargetFrontendConfig,
) {
    let mut builder = FunctionBuilder::new(function, context);
    let block = builder.create_block();
    builder.append_block_params_for_function_params(block);
    builder.switch_to_block(block);
    if let [effects, inputs, parameters, node, child] = *builder.block_params(block) {
        let taken = program.effects().iter().flat_map(Effect::operands).map(Value::index);
        let mut lowering = Lowering {
            ins: Ins::new(&mut builder),
            addresses: Addresses { inputs, parameters, node, child, effects },
            program,
            guarded: guard::guarded(program.operations(), taken),
            facts: Facts::none(program.operations().len()),
            state: State {
                values: Vec::with_capacity(program.operations().len()),
                node: [None; Program::NODE_SLOTS_MAX],
                child: [None; Program::CHILD_SLOTS_MAX],
            },
        };
        lowering.whole();
    } else {
        builder.ins().return_(&[]);
    }
    builder.seal_all_blocks();
    builder.finalize(config);
}

/// The place of a word in an array.
fn offset(index: usize) -> i32 {
    8 * index as i32
}

impl Lowering<'_, '_> {
    /// The program up to where it is cut, and its halves; or the program in one piece.
    fn whole(&mut self) {
        let count = self.program.operations().len();
        let cut = split::best(self.program.operations(), self.program.effects());
        // An operation that waits for a store has no result yet.
        let Some(cut) = cut.filter(|at| self.guarded[*at].is_none()) else { return self.rest(0..count) };
        self.operations(0..cut + 1);
        let condition = self.truth(Value(cut as u8));
        let blocks = self.ins.split(condition);
        let before = self.state.clone();
        for (block, holds) in blocks.into_iter().zip([true, false]) {
            self.ins.switch_to(block);
            self.state = before.clone();
            self.facts = Facts::of(self.program.operations(), cut, holds);
            for (at, operation) in self.program.operations().iter().enumerate().take(cut + 1) {
                if let Some(known) = self.known(at, operation) {
                    self.state.values[at] = known;
                }
            }
            self.rest(cut + 1..count);
        }
    }

    /// These operations, which are the last, and the end of the program.
    fn rest(&mut self, range: Range<usize>) {
        self.operations(range);
        self.write_slots();
        self.effects(self.program.effects());
        self.ins.end();
    }

    fn operations(&mut self, range: Range<usize>) {
        for at in range {
            let lowered = match self.guarded[at] {
                Some(_) => Lowered::Nothing,
                None => self.operation(at, &self.program.operations()[at]),
            };
            self.state.values.push(lowered);
        }
    }

    /// The result of an operation that follows from what is known.
    fn known(&mut self, at: usize, operation: &Operation) -> Option<Lowered> {
        let holds = self.facts.get(Value(at as u8)).filter(|_| operation.is_truth())?;
        Some(Lowered::Truth(self.ins.truth(holds)))
    }

    /// A value as a word.
    fn word(&mut self, value: Value) -> Ssa {
        self.state.values[value.index()].word(&mut self.ins)
    }

    /// Whether a value is not 0, as a byte.
    fn truth(&mut self, value: Value) -> Ssa {
        self.state.values[value.index()].truth(&mut self.ins)
    }

    fn operation(&mut self, at: usize, operation: &Operation) -> Lowered {
        if let Some(known) = self.known(at, operation) {
            return known;
        }
        match *operation {
            Operation::Constant(value) => Lowered::Word(self.ins.constant(value)),
            Operation::Input(input) => self.input(input),
            Operation::Parameter(index) => {
                let (address, at) = (self.addresses.parameters, offset(usize::from(index)));
                Lowered::Word(self.ins.load_constant(types::I64, address, at))
            }
            Operation::Load(slot) => Lowered::Word(self.load(slot)),
            Operation::Store { slot, value, when } => {
                self.store(at, slot, value, when);
                Lowered::Nothing
            }
            Operation::Not(value) => {
                let truth = self.truth(value);
                Lowered::Truth(self.ins.compare_with(IntCC::Equal, truth, 0))
            }
            Operation::Binary { operator, left, right } => {
                let (left, right) = (self.state.values[left.index()], self.state.values[right.index()]);
                arithmetic::binary(&mut self.ins, operator, left, right)
            }
            Operation::Select { condition, yes, no } => {
                let condition = self.truth(condition);
                let (yes, no) = (self.word(yes), self.word(no));
                Lowered::Word(self.ins.select(condition, yes, no))
            }
            Operation::Scale { product, value, scale, carry } => {
                let (value, scale, carry) = (self.word(value), self.word(scale), self.word(carry));
                Lowered::Word(match product {
                    Product::Whole => arithmetic::scale(&mut self.ins, value, scale, carry),
                    Product::Rest => arithmetic::scale_rest(&mut self.ins, value, scale, carry),
                })
            }
        }
    }

    fn input(&mut self, input: Input) -> Lowered {
        let address = self.addresses.inputs;
        match Inputs::place(input) {
            Place::Word(at) => Lowered::Word(self.ins.load_constant(types::I64, address, at as i32)),
            Place::Truth(at) => Lowered::Truth(self.ins.load_constant(types::I8, address, at as i32)),
            Place::Bit(at, bit) => {
                let word = self.ins.load_constant(types::I64, address, at as i32);
                let masked = self.ins.and_constant(word, 1 << bit);
                Lowered::Truth(self.ins.compare_with(IntCC::NotEqual, masked, 0))
            }
        }
    }

    fn content(&mut self, slot: Slot) -> &mut Option<Content> {
        match slot {
            Slot::Node(index) => &mut self.state.node[usize::from(index)],
            Slot::Child(index) => &mut self.state.child[usize::from(index)],
        }
    }

    fn place(&self, slot: Slot) -> (Ssa, i32) {
        match slot {
            Slot::Node(index) => (self.addresses.node, offset(usize::from(index))),
            Slot::Child(index) => (self.addresses.child, offset(usize::from(index))),
        }
    }

    fn load(&mut self, slot: Slot) -> Ssa {
        if let Some(content) = *self.content(slot) {
            return content.value;
        }
        let (address, at) = self.place(slot);
        let value = self.ins.load(address, at);
        *self.content(slot) = Some(Content { value, dirty: false });
        value
    }

    fn store(&mut self, at: usize, slot: Slot, value: Value, when: Option<Value>) {
        let known = when.map_or(Some(true), |condition| self.facts.get(condition));
        let new = match when {
            _ if known == Some(false) => return,
            _ if known == Some(true) => {
                self.lower_guarded(at);
                self.word(value)
            }
            None => self.word(value),
            Some(condition) => {
                let (condition, old) = (self.truth(condition), self.load(slot));
                match self.guarded.contains(&Some(at)) {
                    true => self.guarded_word(at, value, condition, old),
                    false => {
                        let new = self.word(value);
                        self.ins.select(condition, new, old)
                    }
                }
            }
        };
        *self.content(slot) = Some(Content { value: new, dirty: true });
    }

    /// `value` if the condition holds, otherwise `old`. The operations that wait for the store `at` are done only if it holds.
    fn guarded_word(&mut self, at: usize, value: Value, condition: Ssa, old: Ssa) -> Ssa {
        let merged = self.ins.branch(condition, old);
        self.lower_guarded(at);
        let new = self.word(value);
        self.ins.merge(merged, new)
    }

    /// The operations that wait for the store `at`.
    fn lower_guarded(&mut self, at: usize) {
        for (index, operation) in self.program.operations().iter().enumerate() {
            if self.guarded[index] == Some(at) {
                self.state.values[index] = self.operation(index, operation);
            }
        }
    }

    fn write_slots(&mut self) {
        let nodes = (0..Program::NODE_SLOTS_MAX).map(|index| Slot::Node(index as u8));
        let children = (0..Program::CHILD_SLOTS_MAX).map(|index| Slot::Child(index as u8));
        for slot in nodes.chain(children) {
            if let Some(Content { value, dirty: true }) = *self.content(slot) {
                let (address, at) = self.place(slot);
                self.ins.store(value, address, at);
            }
        }
    }

    /// Writes all words of the effects; those that the program does not have are 0.
    fn effects(&mut self, effects: &[Effect]) {
        let mut words = [None; WORDS];
        let (mut always, mut conditions) = (0, Vec::new());
        let mut put = |at: usize, value: Value| words[at / 8] = Some(value);
        for effect in effects {
            match *effect {
                Effect::Rank(first, second) => {
                    put(offset_of!(Effects, rank.first), first);
                    put(offset_of!(Effects, rank.second), second);
                    always |= Effects::RANK;
                }
                Effect::FromTime(time) => {
                    put(offset_of!(Effects, from), time);
                    always |= Effects::FROM_TIME;
                }
                Effect::FromVirtualTime(time) => {
                    put(offset_of!(Effects, from), time);
                    always |= Effects::FROM_VIRTUAL_TIME;
                }
                Effect::Until { time, rank: (first, second) } => {
                    put(offset_of!(Effects, until), time);
                    put(offset_of!(Effects, until_rank.first), first);
                    put(offset_of!(Effects, until_rank.second), second);
                    always |= Effects::UNTIL;
                }
                Effect::Rerank(condition) => conditions.push((condition, Effects::RERANK)),
                Effect::Drop(condition) => conditions.push((condition, Effects::DROP)),
                Effect::Mark(condition) => conditions.push((condition, Effects::MARK)),
            }
        }
        for (condition, bit) in &conditions {
            if self.facts.get(*condition) == Some(true) {
                always |= bit;
            }
        }
        conditions.retain(|(condition, _)| self.facts.get(*condition).is_none());
        for (index, value) in words.into_iter().enumerate() {
            let word = value.map_or(Lowered::Nothing, |value| self.state.values[value.index()]);
            let word = word.word(&mut self.ins);
            if 8 * index != offset_of!(Effects, present) {
                self.ins.store(word, self.addresses.effects, offset(index));
            }
        }
        self.write_present(always, &conditions);
    }

    /// The bits of effects that are always there, and of those whose conditions hold.
    fn write_present(&mut self, always: u64, conditions: &[(Value, u64)]) {
        let mut present = self.ins.constant(always);
        for &(condition, bit) in conditions {
            let condition = self.truth(condition);
            let (bit, zero) = (self.ins.constant(bit), self.ins.constant(0));
            let bit = self.ins.select(condition, bit, zero);
            present = self.ins.or(present, bit);
        }
        self.ins.store(present, self.addresses.effects, offset_of!(Effects, present) as i32);
    }
}
