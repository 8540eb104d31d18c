//! The arithmetic of programs as Cranelift's instructions. `weft_rank::arithmetic` has the rules; tests compare the two in every bit.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, InstBuilder, MemFlagsData, Type, Value as Ssa, types};
use cranelift_frontend::FunctionBuilder;
use weft_rank::Binary;
use weft_rank::arithmetic::{OVER_SQRT, OVER_SQRT_BITS};

/// The table of [`over_sqrt`], at an address that compiled programs have as a constant.
static ROOTS: [u32; 256] = OVER_SQRT;

/// The largest signed number.
const SIGNED_MAX: u64 = i64::MAX as u64;

/// Adds instructions to a function.
pub(crate) struct Ins<'a, 'f> {
    builder: &'a mut FunctionBuilder<'f>,
}

/// Declares a method for each instruction on two values.
macro_rules! instructions {
    ($($name:ident = $instruction:ident;)*) => {
        $(
            pub(crate) fn $name(&mut self, left: Ssa, right: Ssa) -> Ssa {
                self.builder.ins().$instruction(left, right)
            }
        )*
    };
}

impl<'a, 'f> Ins<'a, 'f> {
    pub(crate) fn new(builder: &'a mut FunctionBuilder<'f>) -> Self {
        Self { builder }
    }

    instructions! {
        add = iadd;
        sub = isub;
        mul = imul;
        mul_high = umulhi;
        mul_high_signed = smulhi;
        divide = udiv;
        divide_signed = sdiv;
        min = umin;
        max = umax;
        and = band;
        or = bor;
        xor = bxor;
        shift_left = ishl;
        shift_right = ushr;
        shift_right_signed = sshr;
    }

    pub(crate) fn constant(&mut self, value: u64) -> Ssa {
        self.builder.ins().iconst(types::I64, value as i64)
    }

    pub(crate) fn compare(&mut self, condition: IntCC, left: Ssa, right: Ssa) -> Ssa {
        self.builder.ins().icmp(condition, left, right)
    }

    /// Compares a value of any width with a constant.
    pub(crate) fn compare_with(&mut self, condition: IntCC, left: Ssa, right: i64) -> Ssa {
        self.builder.ins().icmp_imm_s(condition, left, right)
    }

    pub(crate) fn select(&mut self, condition: Ssa, yes: Ssa, no: Ssa) -> Ssa {
        self.builder.ins().select(condition, yes, no)
    }

    /// A byte as a word.
    pub(crate) fn extend(&mut self, byte: Ssa) -> Ssa {
        self.builder.ins().uextend(types::I64, byte)
    }

    pub(crate) fn and_constant(&mut self, value: Ssa, mask: u64) -> Ssa {
        let mask = self.constant(mask);
        self.and(value, mask)
    }

    fn shift_right_by(&mut self, value: Ssa, bits: u64) -> Ssa {
        let bits = self.constant(bits);
        self.shift_right(value, bits)
    }

    /// A word of state.
    pub(crate) fn load(&mut self, address: Ssa, offset: i32) -> Ssa {
        self.builder.ins().load(types::I64, MemFlagsData::trusted(), address, offset)
    }

    /// Memory that does not change while the program runs.
    pub(crate) fn load_constant(&mut self, width: Type, address: Ssa, offset: i32) -> Ssa {
        self.builder.ins().load(width, MemFlagsData::trusted().with_readonly(), address, offset)
    }

    pub(crate) fn store(&mut self, value: Ssa, address: Ssa, offset: i32) {
        self.builder.ins().store(MemFlagsData::trusted(), value, address, offset);
    }

    /// A byte, 0 or 1.
    pub(crate) fn truth(&mut self, holds: bool) -> Ssa {
        self.builder.ins().iconst(types::I8, i64::from(holds))
    }

    /// Ends a block with a branch to two: the first runs if the condition holds, the second if it does not.
    pub(crate) fn split(&mut self, condition: Ssa) -> [Block; 2] {
        let blocks = [(); 2].map(|()| self.builder.create_block());
        self.builder.ins().brif(condition, blocks[0], &[], blocks[1], &[]);
        blocks
    }

    /// Goes on in another block.
    pub(crate) fn switch_to(&mut self, block: Block) {
        self.builder.switch_to_block(block);
    }

    /// Ends the function.
    pub(crate) fn end(&mut self) {
        self.builder.ins().return_(&[]);
    }

    /// Begins a block that runs only if the condition holds. The result is the block after it, for [`Ins::merge`].
    pub(crate) fn branch(&mut self, condition: Ssa, otherwise: Ssa) -> Block {
        let (then, merged) = (self.builder.create_block(), self.builder.create_block());
        self.builder.append_block_param(merged, types::I64);
        self.builder.ins().brif(condition, then, &[], merged, &[otherwise.into()]);
        self.builder.switch_to_block(then);
        merged
    }

    /// Ends a block that began with [`Ins::branch`]: `value`, or what the branch had otherwise.
    pub(crate) fn merge(&mut self, merged: Block, value: Ssa) -> Ssa {
        self.builder.ins().jump(merged, &[value.into()]);
        self.builder.switch_to_block(merged);
        self.builder.block_params(merged)[0]
    }

    /// The number of leading zero bits.
    fn leading_zeros(&mut self, value: Ssa) -> Ssa {
        self.builder.ins().clz(value)
    }
}

/// The result of an operation.
#[derive(Clone, Copy)]
pub(crate) enum Lowered {
    /// A word.
    Word(Ssa),
    /// A byte, 0 or 1.
    Truth(Ssa),
    /// No result.
    Nothing,
}

impl Lowered {
    /// The result as a word.
    pub(crate) fn word(self, ins: &mut Ins<'_, '_>) -> Ssa {
        match self {
            Self::Word(word) => word,
            Self::Truth(truth) => ins.extend(truth),
            Self::Nothing => ins.constant(0),
        }
    }

    /// Whether the result is not 0, as a byte.
    pub(crate) fn truth(self, ins: &mut Ins<'_, '_>) -> Ssa {
        match self {
            Self::Truth(truth) => truth,
            other => {
                let word = other.word(ins);
                ins.compare_with(IntCC::NotEqual, word, 0)
            }
        }
    }
}

/// An operator.
pub(crate) fn binary(ins: &mut Ins<'_, '_>, operator: Binary, left: Lowered, right: Lowered) -> Lowered {
    let compare = |ins: &mut Ins<'_, '_>, condition| {
        let (left, right) = (left.word(ins), right.word(ins));
        Lowered::Truth(ins.compare(condition, left, right))
    };
    let calculate = |ins: &mut Ins<'_, '_>, rule: fn(&mut Ins<'_, '_>, Ssa, Ssa) -> Ssa| {
        let (left, right) = (left.word(ins), right.word(ins));
        Lowered::Word(rule(ins, left, right))
    };
    let join = |ins: &mut Ins<'_, '_>, rule: fn(&mut Ins<'_, '_>, Ssa, Ssa) -> Ssa| {
        let (left, right) = (left.truth(ins), right.truth(ins));
        Lowered::Truth(rule(ins, left, right))
    };
    match operator {
        Binary::Add => calculate(ins, add),
        Binary::Sub => calculate(ins, sub),
        Binary::Mul => calculate(ins, mul),
        Binary::Div => calculate(ins, div),
        Binary::Rem => calculate(ins, rem),
        Binary::AddSigned => calculate(ins, add_signed),
        Binary::SubSigned => calculate(ins, sub_signed),
        Binary::MulSigned => calculate(ins, mul_signed),
        Binary::DivSigned => calculate(ins, div_signed),
        Binary::Min => calculate(ins, |ins, left, right| ins.min(left, right)),
        Binary::Max => calculate(ins, |ins, left, right| ins.max(left, right)),
        Binary::OverSqrt => calculate(ins, over_sqrt),
        Binary::Eq => compare(ins, IntCC::Equal),
        Binary::Ne => compare(ins, IntCC::NotEqual),
        Binary::Lt => compare(ins, IntCC::UnsignedLessThan),
        Binary::Le => compare(ins, IntCC::UnsignedLessThanOrEqual),
        Binary::LtSigned => compare(ins, IntCC::SignedLessThan),
        Binary::LeSigned => compare(ins, IntCC::SignedLessThanOrEqual),
        Binary::And => join(ins, |ins, left, right| ins.and(left, right)),
        Binary::Or => join(ins, |ins, left, right| ins.or(left, right)),
    }
}

fn add(ins: &mut Ins<'_, '_>, left: Ssa, right: Ssa) -> Ssa {
    let sum = ins.add(left, right);
    let wraps = ins.compare(IntCC::UnsignedLessThan, sum, left);
    let most = ins.constant(u64::MAX);
    ins.select(wraps, most, sum)
}

fn sub(ins: &mut Ins<'_, '_>, left: Ssa, right: Ssa) -> Ssa {
    let difference = ins.sub(left, right);
    let wraps = ins.compare(IntCC::UnsignedLessThan, left, right);
    let zero = ins.constant(0);
    ins.select(wraps, zero, difference)
}

fn mul(ins: &mut Ins<'_, '_>, left: Ssa, right: Ssa) -> Ssa {
    let (low, high) = (ins.mul(left, right), ins.mul_high(left, right));
    let fits = ins.compare_with(IntCC::Equal, high, 0);
    let most = ins.constant(u64::MAX);
    ins.select(fits, low, most)
}

/// The quotient by the divisor, or by 1 if the divisor is 0: the processor's division traps at 0.
fn safe_quotient(ins: &mut Ins<'_, '_>, left: Ssa, right: Ssa) -> Ssa {
    let one = ins.constant(1);
    let divisor = ins.max(right, one);
    ins.divide(left, divisor)
}

fn div(ins: &mut Ins<'_, '_>, left: Ssa, right: Ssa) -> Ssa {
    let quotient = safe_quotient(ins, left, right);
    let defined = ins.compare_with(IntCC::NotEqual, right, 0);
    let zero = ins.constant(0);
    ins.select(defined, quotient, zero)
}

/// `left - quotient * right`, which is `left` if `right` is 0. A division of the same operands is done once for both.
fn rem(ins: &mut Ins<'_, '_>, left: Ssa, right: Ssa) -> Ssa {
    let quotient = safe_quotient(ins, left, right);
    let product = ins.mul(quotient, right);
    ins.sub(left, product)
}

/// The signed limit on the side of `value`: the least number if it is negative, otherwise the largest.
fn limit(ins: &mut Ins<'_, '_>, value: Ssa) -> Ssa {
    let (bits, most) = (ins.constant(63), ins.constant(SIGNED_MAX));
    let sign = ins.shift_right_signed(value, bits);
    ins.xor(sign, most)
}

fn add_signed(ins: &mut Ins<'_, '_>, left: Ssa, right: Ssa) -> Ssa {
    let sum = ins.add(left, right);
    // Overflow: the sum's sign differs from that of both.
    let (a, b) = (ins.xor(sum, left), ins.xor(sum, right));
    let both = ins.and(a, b);
    let wraps = ins.compare_with(IntCC::SignedLessThan, both, 0);
    let limit = limit(ins, left);
    ins.select(wraps, limit, sum)
}

fn sub_signed(ins: &mut Ins<'_, '_>, left: Ssa, right: Ssa) -> Ssa {
    let difference = ins.sub(left, right);
    // Overflow: the operands' signs differ, and the difference's sign is not the left one.
    let (a, b) = (ins.xor(left, right), ins.xor(left, difference));
    let both = ins.and(a, b);
    let wraps = ins.compare_with(IntCC::SignedLessThan, both, 0);
    let limit = limit(ins, left);
    ins.select(wraps, limit, difference)
}

fn mul_signed(ins: &mut Ins<'_, '_>, left: Ssa, right: Ssa) -> Ssa {
    let (low, high) = (ins.mul(left, right), ins.mul_high_signed(left, right));
    let bits = ins.constant(63);
    let extended = ins.shift_right_signed(low, bits);
    let fits = ins.compare(IntCC::Equal, high, extended);
    let signs = ins.xor(left, right);
    let limit = limit(ins, signs);
    ins.select(fits, low, limit)
}

fn div_signed(ins: &mut Ins<'_, '_>, left: Ssa, right: Ssa) -> Ssa {
    let (zero, one) = (ins.constant(0), ins.constant(1));
    let undefined = ins.compare_with(IntCC::Equal, right, 0);
    let least = ins.constant(1 << 63);
    let at_least = ins.compare(IntCC::Equal, left, least);
    let by_minus_one = ins.compare_with(IntCC::Equal, right, -1);
    let overflows = ins.and(at_least, by_minus_one);
    // The processor's division traps at both.
    let traps = ins.or(undefined, overflows);
    let divisor = ins.select(traps, one, right);
    let quotient = ins.divide_signed(left, divisor);
    let product = ins.mul(quotient, divisor);
    let rest = ins.sub(left, product);
    let inexact = ins.compare_with(IntCC::NotEqual, rest, 0);
    let signs = ins.xor(rest, divisor);
    let opposite = ins.compare_with(IntCC::SignedLessThan, signs, 0);
    let above = ins.and(inexact, opposite);
    let above = ins.extend(above);
    let floor = ins.sub(quotient, above);
    let most = ins.constant(SIGNED_MAX);
    let result = ins.select(overflows, most, floor);
    ins.select(undefined, zero, result)
}

/// The lower and the upper word of `value * multiplier + carry`, and the shift of the scale.
fn product(ins: &mut Ins<'_, '_>, value: Ssa, scale: Ssa, carry: Ssa) -> (Ssa, Ssa, Ssa) {
    let multiplier = ins.shift_right_by(scale, 32);
    let shift = ins.and_constant(scale, 63);
    let (low, high) = (ins.mul(value, multiplier), ins.mul_high(value, multiplier));
    let low = ins.add(low, carry);
    let carries = ins.compare(IntCC::UnsignedLessThan, low, carry);
    let carries = ins.extend(carries);
    let high = ins.add(high, carries);
    (low, high, shift)
}

/// The whole units of a scaled value.
pub(crate) fn scale(ins: &mut Ins<'_, '_>, value: Ssa, scale: Ssa, carry: Ssa) -> Ssa {
    let (low, high, shift) = product(ins, value, scale, carry);
    let below = ins.shift_right(low, shift);
    // `high << (64 - shift)`, in two steps: a shift by 64 is one by 0.
    let (one, bits) = (ins.constant(1), ins.constant(63));
    let complement = ins.xor(shift, bits);
    let doubled = ins.shift_left(high, one);
    let above = ins.shift_left(doubled, complement);
    let whole = ins.or(below, above);
    let beyond = ins.shift_right(high, shift);
    let fits = ins.compare_with(IntCC::Equal, beyond, 0);
    let most = ins.constant(u64::MAX);
    ins.select(fits, whole, most)
}

/// The fraction of a scaled value.
pub(crate) fn scale_rest(ins: &mut Ins<'_, '_>, value: Ssa, scale: Ssa, carry: Ssa) -> Ssa {
    let (low, _, shift) = product(ins, value, scale, carry);
    let one = ins.constant(1);
    let unit = ins.shift_left(one, shift);
    let mask = ins.sub(unit, one);
    ins.and(low, mask)
}

fn over_sqrt(ins: &mut Ins<'_, '_>, interval: Ssa, count: Ssa) -> Ssa {
    // Pairs of bits above the eighth: (bits - 7) / 2, where there are more than 8.
    let (one, most) = (ins.constant(1), ins.constant(64 - 7));
    let zeros = ins.leading_zeros(count);
    let above = sub(ins, most, zeros);
    let pairs = ins.shift_right(above, one);
    let shift = ins.shift_left(pairs, one);
    let index = ins.shift_right(count, shift);
    let offset = ins.constant(2);
    let offset = ins.shift_left(index, offset);
    let table = ins.constant(ROOTS.as_ptr().addr() as u64);
    let address = ins.add(table, offset);
    let root = ins.load_constant(types::I32, address, 0);
    let root = ins.extend(root);
    let (low, high) = (ins.mul(interval, root), ins.mul_high(interval, root));
    let bits = ins.constant(u64::from(OVER_SQRT_BITS));
    let shift = ins.add(pairs, bits);
    let below = ins.shift_right(low, shift);
    let complement = ins.constant(64);
    let complement = ins.sub(complement, shift);
    let above = ins.shift_left(high, complement);
    ins.or(below, above)
}
