//! The interpreter: the reference for all executors.

use crate::arithmetic::{
    Scale, add_signed, divide, divide_signed, mul_signed, over_sqrt, remainder, sub_signed,
};
use crate::effects::{Effects, Rank};
use crate::inputs::Inputs;
use crate::operation::{Binary, Effect, Operation, Product, Slot, Value};
use crate::program::Program;

/// The values of a run. `N` is a power of two and at least the number of operations.
struct Values<const N: usize>([u64; N]);

impl<const N: usize> Values<N> {
    /// A value. The mask changes no index of a checked program; it makes the access one without a test for the bounds.
    #[inline(always)]
    fn get(&self, value: Value) -> u64 {
        self.0[value.index() & (N - 1)]
    }
}

/// The state that a run reads and writes. Words beyond the slices are 0, and are not written.
struct State<'a> {
    parameters: &'a [u64],
    node: &'a mut [u64],
    child: &'a mut [u64],
}

impl State<'_> {
    #[inline]
    fn load(&self, slot: Slot) -> u64 {
        let word = match slot {
            Slot::Node(index) => self.node.get(usize::from(index)),
            Slot::Child(index) => self.child.get(usize::from(index)),
        };
        word.copied().unwrap_or(0)
    }

    #[inline]
    fn store(&mut self, slot: Slot, value: u64) {
        let word = match slot {
            Slot::Node(index) => self.node.get_mut(usize::from(index)),
            Slot::Child(index) => self.child.get_mut(usize::from(index)),
        };
        if let Some(word) = word {
            *word = value;
        }
    }
}

impl Program {
    /// Runs the program: reads `inputs`, `parameters` and the state, and writes the state of `node` and `child`.
    ///
    /// A word that a slice lacks is 0, and is not written. Nothing is allocated, and no input makes the run panic.
    pub fn run(&self, inputs: &Inputs, parameters: &[u64], node: &mut [u64], child: &mut [u64]) -> Effects {
        let state = State { parameters, node, child };
        // Most programs are short, and clearing the longest array would take longer than running them.
        match self.operations().len() {
            0..=16 => self.run_in::<16>(inputs, state),
            17..=64 => self.run_in::<64>(inputs, state),
            _ => self.run_in::<{ Self::OPERATIONS_MAX }>(inputs, state),
        }
    }

    fn run_in<const N: usize>(&self, inputs: &Inputs, mut state: State<'_>) -> Effects {
        let mut values = Values([0; N]);
        for (at, operation) in self.operations().iter().enumerate() {
            values.0[at & (N - 1)] = step(operation, &values, inputs, &mut state);
        }
        let mut effects = Effects::NONE;
        for effect in self.effects() {
            apply(effect, &values, &mut effects);
        }
        effects
    }
}

/// The result of an operation; 0 if it has none.
#[inline(always)]
fn step<const N: usize>(
    operation: &Operation,
    values: &Values<N>,
    inputs: &Inputs,
    state: &mut State<'_>,
) -> u64 {
    match *operation {
        Operation::Constant(value) => value,
        Operation::Input(input) => inputs.word(input),
        Operation::Parameter(index) => state.parameters.get(usize::from(index)).copied().unwrap_or(0),
        Operation::Load(slot) => state.load(slot),
        Operation::Store { slot, value, when } => {
            if when.is_none_or(|condition| values.get(condition) != 0) {
                state.store(slot, values.get(value));
            }
            0
        }
        Operation::Not(value) => u64::from(values.get(value) == 0),
        Operation::Binary { operator, left, right } => binary(operator, values.get(left), values.get(right)),
        Operation::Select { condition, yes, no } => {
            if values.get(condition) != 0 {
                values.get(yes)
            } else {
                values.get(no)
            }
        }
        Operation::Scale { product, value, scale, carry } => {
            let scale = Scale::from_word(values.get(scale));
            match product {
                Product::Whole => scale.whole(values.get(value), values.get(carry)),
                Product::Rest => scale.rest(values.get(value), values.get(carry)),
            }
        }
    }
}

#[inline(always)]
fn binary(operator: Binary, left: u64, right: u64) -> u64 {
    match operator {
        Binary::Add => left.saturating_add(right),
        Binary::Sub => left.saturating_sub(right),
        Binary::Mul => left.saturating_mul(right),
        Binary::Div => divide(left, right),
        Binary::Rem => remainder(left, right),
        Binary::AddSigned => add_signed(left, right),
        Binary::SubSigned => sub_signed(left, right),
        Binary::MulSigned => mul_signed(left, right),
        Binary::DivSigned => divide_signed(left, right),
        Binary::Min => left.min(right),
        Binary::Max => left.max(right),
        Binary::Eq => u64::from(left == right),
        Binary::Ne => u64::from(left != right),
        Binary::Lt => u64::from(left < right),
        Binary::Le => u64::from(left <= right),
        Binary::LtSigned => u64::from((left as i64) < right as i64),
        Binary::LeSigned => u64::from(left as i64 <= right as i64),
        Binary::And => u64::from(left != 0 && right != 0),
        Binary::Or => u64::from(left != 0 || right != 0),
        Binary::OverSqrt => over_sqrt(left, right),
    }
}

#[inline(always)]
fn apply<const N: usize>(effect: &Effect, values: &Values<N>, effects: &mut Effects) {
    let rank = |first, second| Rank::new(values.get(first), values.get(second));
    let bit_if = |bit, condition| if values.get(condition) != 0 { bit } else { 0 };
    effects.present |= match *effect {
        Effect::Rank(first, second) => {
            effects.rank = rank(first, second);
            Effects::RANK
        }
        Effect::FromTime(time) => {
            effects.from = values.get(time);
            Effects::FROM_TIME
        }
        Effect::FromVirtualTime(time) => {
            effects.from = values.get(time);
            Effects::FROM_VIRTUAL_TIME
        }
        Effect::Until { time, rank: (first, second) } => {
            effects.until = values.get(time);
            effects.until_rank = rank(first, second);
            Effects::UNTIL
        }
        Effect::Rerank(condition) => bit_if(Effects::RERANK, condition),
        Effect::Drop(condition) => bit_if(Effects::DROP, condition),
        Effect::Mark(condition) => bit_if(Effects::MARK, condition),
    };
}
