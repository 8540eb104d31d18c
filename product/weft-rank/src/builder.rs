//! Building programs, with each piece checked when it is added.

use crate::operation::{Binary, Effect, Input, Metadatum, Operation, Product, Slot, Value};
use crate::part::Part;
use crate::program::{Program, ProgramError, check_effect, check_operation};

/// Builds a [`Program`]. The first error is kept, and [`ProgramBuilder::build`] returns it, so that the pieces can be added
/// without a test after each.
///
/// ```
/// use weft_rank::{Effect, Inputs, Metadatum, Part, ProgramBuilder};
/// use weft_units::Instant;
///
/// // rank = head.deadline or head.arrived + 5ms
/// let mut b = ProgramBuilder::new(Part::Rank);
/// let (arrived, budget) = (b.head(Metadatum::Arrived), b.constant(5_000_000));
/// let fallback = b.add(arrived, budget);
/// let deadline = b.head_or(Metadatum::Deadline, fallback);
/// b.rank(deadline);
/// let edf = b.build().expect("a program");
///
/// let mut inputs = Inputs::at(Instant::from_micros(7));
/// inputs.head.set(Metadatum::Arrived, 1_000);
/// let effects = edf.run(&inputs, &[], &mut [], &mut []);
/// assert_eq!(effects.rank().map(|rank| rank.first), Some(5_001_000));
/// ```
#[derive(Clone, Debug)]
pub struct ProgramBuilder {
    part: Part,
    operations: Vec<Operation>,
    effects: Vec<Effect>,
    error: Option<ProgramError>,
}

/// Declares a method for each operator.
macro_rules! operators {
    ($($method:ident = $operator:ident: $doc:literal;)*) => {
        $(
            #[doc = $doc]
            pub fn $method(&mut self, left: Value, right: Value) -> Value {
                self.push(Operation::Binary { operator: Binary::$operator, left, right })
            }
        )*
    };
}

impl ProgramBuilder {
    /// An empty program of `part`.
    pub const fn new(part: Part) -> Self {
        Self { part, operations: Vec::new(), effects: Vec::new(), error: None }
    }

    /// The part that the program is for.
    pub const fn part(&self) -> Part {
        self.part
    }

    /// The number of operations so far.
    pub const fn operations(&self) -> usize {
        self.operations.len()
    }

    /// Adds an operation and returns its result. After an error, the result means nothing.
    pub fn push(&mut self, operation: Operation) -> Value {
        let value = Value(u8::try_from(self.operations.len()).unwrap_or(u8::MAX));
        if self.error.is_none() {
            self.operations.push(operation);
            if let Err(error) = check_operation(self.part, &self.operations) {
                self.operations.pop();
                self.error = Some(error);
            }
        }
        value
    }

    /// Adds an effect.
    pub fn effect(&mut self, effect: Effect) {
        if self.error.is_none() {
            self.effects.push(effect);
            self.error = check_effect(self.part, &self.operations, &self.effects).err();
        }
    }

    /// The program, or the first error.
    pub fn build(self) -> Result<Program, ProgramError> {
        match self.error {
            Some(error) => Err(error),
            None => Ok(Program::checked(self.part, self.operations, self.effects)),
        }
    }

    /// A constant.
    pub fn constant(&mut self, value: u64) -> Value {
        self.push(Operation::Constant(value))
    }

    /// An input.
    pub fn input(&mut self, input: Input) -> Value {
        self.push(Operation::Input(input))
    }

    /// The time.
    pub fn now(&mut self) -> Value {
        self.input(Input::Now)
    }

    /// A metadatum of the child's next packet; 0 if it is unknown.
    pub fn head(&mut self, metadatum: Metadatum) -> Value {
        self.input(Input::Head(metadatum))
    }

    /// A metadatum of the child's next packet; `otherwise` if it is unknown.
    pub fn head_or(&mut self, metadatum: Metadatum, otherwise: Value) -> Value {
        let known = self.input(Input::HeadKnown(metadatum));
        let value = self.head(metadatum);
        self.select(known, value, otherwise)
    }

    /// A metadatum of the packet at hand; `otherwise` if it is unknown.
    pub fn packet_or(&mut self, metadatum: Metadatum, otherwise: Value) -> Value {
        let known = self.input(Input::PacketKnown(metadatum));
        let value = self.input(Input::Packet(metadatum));
        self.select(known, value, otherwise)
    }

    /// A parameter.
    pub fn parameter(&mut self, index: u8) -> Value {
        self.push(Operation::Parameter(index))
    }

    /// The present content of a slot.
    pub fn load(&mut self, slot: Slot) -> Value {
        self.push(Operation::Load(slot))
    }

    /// Writes a value into a slot.
    pub fn store(&mut self, slot: Slot, value: Value) {
        self.push(Operation::Store { slot, value, when: None });
    }

    /// Writes a value into a slot, if the condition holds.
    pub fn store_if(&mut self, condition: Value, slot: Slot, value: Value) {
        self.push(Operation::Store { slot, value, when: Some(condition) });
    }

    operators! {
        add = Add: "The unsigned sum, at most `u64::MAX`.";
        sub = Sub: "The unsigned difference, at least 0.";
        mul = Mul: "The unsigned product, at most `u64::MAX`.";
        div = Div: "The unsigned quotient, rounded down; 0 if the divisor is 0.";
        rem = Rem: "The unsigned remainder; the dividend if the divisor is 0.";
        add_signed = AddSigned: "The signed sum, within the range of `i64`.";
        sub_signed = SubSigned: "The signed difference, within the range of `i64`.";
        mul_signed = MulSigned: "The signed product, within the range of `i64`.";
        div_signed = DivSigned: "The signed quotient, rounded down; 0 if the divisor is 0.";
        min = Min: "The smaller of two unsigned values.";
        max = Max: "The larger of two unsigned values.";
        eq = Eq: "1 if both are equal, otherwise 0.";
        ne = Ne: "1 if both differ, otherwise 0.";
        lt = Lt: "1 if the left unsigned value is smaller, otherwise 0.";
        le = Le: "1 if the left unsigned value is not larger, otherwise 0.";
        lt_signed = LtSigned: "1 if the left signed value is smaller, otherwise 0.";
        le_signed = LeSigned: "1 if the left signed value is not larger, otherwise 0.";
        and = And: "1 if neither is 0, otherwise 0.";
        or = Or: "1 if not both are 0, otherwise 0.";
        over_sqrt = OverSqrt: "The left value divided by the square root of the right one.";
    }

    /// 1 if the value is 0, otherwise 0.
    pub fn not(&mut self, value: Value) -> Value {
        self.push(Operation::Not(value))
    }

    /// `yes` if the condition holds, otherwise `no`.
    pub fn select(&mut self, condition: Value, yes: Value, no: Value) -> Value {
        self.push(Operation::Select { condition, yes, no })
    }

    /// The whole units of a value times a [`Scale`](crate::Scale), plus the fraction `carry`.
    pub fn scale(&mut self, value: Value, scale: Value, carry: Value) -> Value {
        self.push(Operation::Scale { product: Product::Whole, value, scale, carry })
    }

    /// The fraction that [`ProgramBuilder::scale`] leaves.
    pub fn scale_rest(&mut self, value: Value, scale: Value, carry: Value) -> Value {
        self.push(Operation::Scale { product: Product::Rest, value, scale, carry })
    }

    /// The rank `first`, with 0 as the second component.
    pub fn rank(&mut self, first: Value) {
        let zero = self.constant(0);
        self.effect(Effect::Rank(first, zero));
    }

    /// The rank of two components.
    pub fn rank_pair(&mut self, first: Value, second: Value) {
        self.effect(Effect::Rank(first, second));
    }
}
