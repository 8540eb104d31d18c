//! The arithmetic of programs in eBPF, without a jump: the kernel's verifier follows both ways of each jump, and a program of
//! 256 operations would have too many of them. [`crate::arithmetic`] has the rules.
//!
//! The operands are in `LEFT`, `RIGHT` and `THIRD`, which may be changed, and the result goes to `RESULT`. Condition bits are 0 or 1, masks
//! are 0 or all ones.

use super::BLOCK;
use super::assembler::{Alu, Assembler, Register};
use super::block::ROOTS_AT;
use crate::arithmetic::OVER_SQRT_BITS;
use crate::operation::{Binary, Product};

pub(super) const RESULT: Register = Register::R0;
pub(super) const LEFT: Register = Register::R1;
pub(super) const RIGHT: Register = Register::R2;
pub(super) const THIRD: Register = Register::R3;
/// Registers for intermediate values.
const T: Register = Register::R4;
const U: Register = Register::R5;
const W: Register = Register::R7;
const X: Register = Register::R8;

const SIGN: u64 = 1 << 63;

/// `to = 0 - to`, with `zero` as an intermediate: `neg` of the least number is an error in one executor.
fn negate(asm: &mut Assembler, to: Register, zero: Register) {
    asm.constant(zero, 0);
    asm.alu(Alu::Sub, zero, to);
    asm.copy(to, zero);
}

/// `to = 1` if `to` is not 0, otherwise 0.
pub(super) fn truth(asm: &mut Assembler, to: Register, temporary: Register) {
    asm.constant(temporary, 0);
    asm.alu(Alu::Sub, temporary, to);
    asm.alu(Alu::Or, to, temporary);
    asm.alu_with(Alu::ShiftRight, to, 63);
}

/// `to = 1` if `left < right`, otherwise 0: the borrow of the subtraction. `to`, T and U differ from the operands.
fn less(asm: &mut Assembler, to: Register, left: Register, right: Register) {
    asm.copy(to, left);
    asm.alu_with(Alu::Xor, to, -1);
    asm.copy(T, to);
    asm.alu(Alu::Or, T, right);
    asm.alu(Alu::And, to, right);
    asm.copy(U, left);
    asm.alu(Alu::Sub, U, right);
    asm.alu(Alu::And, T, U);
    asm.alu(Alu::Or, to, T);
    asm.alu_with(Alu::ShiftRight, to, 63);
}

/// Inverts the sign bits of both operands, so that unsigned comparison gives the signed order.
fn shift_signs(asm: &mut Assembler) {
    asm.constant(T, SIGN);
    asm.alu(Alu::Xor, LEFT, T);
    asm.alu(Alu::Xor, RIGHT, T);
}

/// `RESULT = LEFT` if the mask is all ones, `RIGHT` if it is 0.
fn choose(asm: &mut Assembler, mask: Register) {
    asm.copy(RESULT, LEFT);
    asm.alu(Alu::Xor, RESULT, RIGHT);
    asm.alu(Alu::And, RESULT, mask);
    asm.alu(Alu::Xor, RESULT, RIGHT);
}

/// `RESULT = LEFT` if `THIRD` is not 0, otherwise `RIGHT`.
pub(super) fn select(asm: &mut Assembler) {
    truth(asm, THIRD, T);
    negate(asm, THIRD, T);
    choose(asm, THIRD);
}

/// An operator on `LEFT` and `RIGHT`.
pub(super) fn binary(asm: &mut Assembler, operator: Binary) {
    match operator {
        Binary::Add => add(asm),
        Binary::Sub => sub(asm),
        Binary::Mul => mul(asm),
        Binary::Div => in_place(asm, Alu::Div),
        Binary::Rem => in_place(asm, Alu::Rem),
        Binary::AddSigned => add_signed(asm),
        Binary::SubSigned => sub_signed(asm),
        Binary::MulSigned => mul_signed(asm),
        Binary::DivSigned => div_signed(asm),
        Binary::Min => least(asm, LEFT, RIGHT),
        Binary::Max => least(asm, RIGHT, LEFT),
        Binary::Eq => {
            differ(asm);
            asm.alu_with(Alu::Xor, RESULT, 1);
        }
        Binary::Ne => differ(asm),
        Binary::Lt => less(asm, RESULT, LEFT, RIGHT),
        Binary::Le => not_less(asm),
        Binary::LtSigned => {
            shift_signs(asm);
            less(asm, RESULT, LEFT, RIGHT);
        }
        Binary::LeSigned => {
            shift_signs(asm);
            not_less(asm);
        }
        Binary::And => join(asm, Alu::And),
        Binary::Or => join(asm, Alu::Or),
        Binary::OverSqrt => over_sqrt(asm),
    }
}

/// The instruction's own rule: a division by 0 is 0, and its remainder the dividend (RFC 9669).
fn in_place(asm: &mut Assembler, alu: Alu) {
    asm.copy(RESULT, LEFT);
    asm.alu(alu, RESULT, RIGHT);
}

fn differ(asm: &mut Assembler) {
    in_place(asm, Alu::Xor);
    truth(asm, RESULT, T);
}

/// `RESULT = 1` if `LEFT <= RIGHT`.
fn not_less(asm: &mut Assembler) {
    less(asm, RESULT, RIGHT, LEFT);
    asm.alu_with(Alu::Xor, RESULT, 1);
}

fn join(asm: &mut Assembler, alu: Alu) {
    truth(asm, LEFT, T);
    truth(asm, RIGHT, T);
    in_place(asm, alu);
}

/// `RESULT =` the smaller operand, if `below` and `above` are the operands in order; otherwise the larger one.
fn least(asm: &mut Assembler, below: Register, above: Register) {
    less(asm, W, below, above);
    negate(asm, W, T);
    choose(asm, W);
}

fn add(asm: &mut Assembler) {
    in_place(asm, Alu::Add);
    less(asm, W, RESULT, LEFT);
    negate(asm, W, T);
    asm.alu(Alu::Or, RESULT, W);
}

fn sub(asm: &mut Assembler) {
    in_place(asm, Alu::Sub);
    less(asm, W, LEFT, RIGHT);
    asm.alu_with(Alu::Sub, W, 1);
    asm.alu(Alu::And, RESULT, W);
}

/// A product that wraps gives another quotient.
fn mul(asm: &mut Assembler) {
    in_place(asm, Alu::Mul);
    asm.copy(W, RESULT);
    asm.alu(Alu::Div, W, LEFT);
    asm.alu(Alu::Xor, W, RIGHT);
    truth(asm, W, T);
    truth(asm, LEFT, T);
    asm.alu(Alu::And, W, LEFT);
    negate(asm, W, T);
    asm.alu(Alu::Or, RESULT, W);
}

/// `RESULT` stays, or becomes the limit on the side of `LEFT`, if the sign bit of `W` is set.
fn limit(asm: &mut Assembler) {
    asm.alu_with(Alu::ShiftRightSigned, W, 63);
    asm.alu_with(Alu::ShiftRightSigned, LEFT, 63);
    asm.constant(T, SIGN - 1);
    asm.alu(Alu::Xor, LEFT, T);
    asm.alu(Alu::Xor, LEFT, RESULT);
    asm.alu(Alu::And, LEFT, W);
    asm.alu(Alu::Xor, RESULT, LEFT);
}

fn add_signed(asm: &mut Assembler) {
    in_place(asm, Alu::Add);
    asm.copy(W, RESULT);
    asm.alu(Alu::Xor, W, LEFT);
    asm.alu(Alu::Xor, RIGHT, RESULT);
    asm.alu(Alu::And, W, RIGHT);
    limit(asm);
}

fn sub_signed(asm: &mut Assembler) {
    in_place(asm, Alu::Sub);
    asm.copy(W, LEFT);
    asm.alu(Alu::Xor, W, RESULT);
    asm.alu(Alu::Xor, RIGHT, LEFT);
    asm.alu(Alu::And, W, RIGHT);
    limit(asm);
}

/// `to` becomes its magnitude; `temporary` is all ones if it was negative.
fn magnitude(asm: &mut Assembler, to: Register, temporary: Register) {
    asm.copy(temporary, to);
    asm.alu_with(Alu::ShiftRightSigned, temporary, 63);
    asm.alu(Alu::Xor, to, temporary);
    asm.alu(Alu::Sub, to, temporary);
}

/// `LEFT` and `RIGHT` become magnitudes; `X` is all ones if the signs differed.
fn magnitudes(asm: &mut Assembler) {
    magnitude(asm, LEFT, X);
    magnitude(asm, RIGHT, T);
    asm.alu(Alu::Xor, X, T);
}

/// `RESULT`, a magnitude, becomes a number with the sign in `X`, within the range of signed numbers.
fn with_sign(asm: &mut Assembler) {
    asm.copy(LEFT, RESULT);
    asm.constant(RIGHT, SIGN - 1);
    asm.alu(Alu::Sub, RIGHT, X);
    least(asm, LEFT, RIGHT);
    asm.alu(Alu::Xor, RESULT, X);
    asm.alu(Alu::Sub, RESULT, X);
}

fn mul_signed(asm: &mut Assembler) {
    magnitudes(asm);
    mul(asm);
    with_sign(asm);
}

fn div_signed(asm: &mut Assembler) {
    magnitudes(asm);
    // All ones, if the divisor is not 0.
    asm.copy(THIRD, RIGHT);
    truth(asm, THIRD, T);
    negate(asm, THIRD, T);
    in_place(asm, Alu::Div);
    // A negative quotient with a remainder is rounded away from 0.
    asm.alu(Alu::Rem, LEFT, RIGHT);
    truth(asm, LEFT, T);
    asm.alu(Alu::And, LEFT, X);
    asm.alu(Alu::Add, RESULT, LEFT);
    with_sign(asm);
    asm.alu(Alu::And, RESULT, THIRD);
}

/// `RESULT` and `W` become the lower and the upper word of `LEFT * multiplier`, for a multiplier of 32 bits in `RIGHT`.
fn wide_product(asm: &mut Assembler) {
    asm.copy(RESULT, LEFT);
    asm.constant(T, u64::from(u32::MAX));
    asm.alu(Alu::And, RESULT, T);
    asm.alu(Alu::Mul, RESULT, RIGHT);
    asm.alu_with(Alu::ShiftRight, LEFT, 32);
    asm.alu(Alu::Mul, LEFT, RIGHT);
    asm.copy(RIGHT, LEFT);
    asm.alu_with(Alu::ShiftLeft, RIGHT, 32);
    asm.alu_with(Alu::ShiftRight, LEFT, 32);
    asm.alu(Alu::Add, RESULT, RIGHT);
    less(asm, W, RESULT, RIGHT);
    asm.alu(Alu::Add, W, LEFT);
}

/// The value in `LEFT`, the scale in `RIGHT`, the carry in `THIRD`.
pub(super) fn scale(asm: &mut Assembler, product: Product) {
    asm.copy(X, RIGHT);
    asm.alu_with(Alu::And, X, 63);
    asm.alu_with(Alu::ShiftRight, RIGHT, 32);
    wide_product(asm);
    asm.alu(Alu::Add, RESULT, THIRD);
    match product {
        Product::Rest => {
            asm.constant(T, 1);
            asm.alu(Alu::ShiftLeft, T, X);
            asm.alu_with(Alu::Sub, T, 1);
            asm.alu(Alu::And, RESULT, T);
        }
        Product::Whole => {
            less(asm, LEFT, RESULT, THIRD);
            asm.alu(Alu::Add, W, LEFT);
            asm.alu(Alu::ShiftRight, RESULT, X);
            // `W << (64 - X)`, in two steps: a shift by 64 is one by 0.
            asm.copy(LEFT, W);
            asm.alu_with(Alu::ShiftLeft, LEFT, 1);
            asm.copy(RIGHT, X);
            asm.alu_with(Alu::Xor, RIGHT, 63);
            asm.alu(Alu::ShiftLeft, LEFT, RIGHT);
            asm.alu(Alu::Or, RESULT, LEFT);
            asm.alu(Alu::ShiftRight, W, X);
            truth(asm, W, T);
            negate(asm, W, T);
            asm.alu(Alu::Or, RESULT, W);
        }
    }
}

/// The interval in `LEFT`, the count in `RIGHT`.
fn over_sqrt(asm: &mut Assembler) {
    // Halves the count in pairs of bits until it is below 256; `X` counts the bits.
    asm.constant(X, 0);
    for bits in [32, 16, 8, 4, 2] {
        // The next step brings a count of this size to at least 64, so no pair is taken in vain.
        asm.copy(W, RIGHT);
        asm.alu_with(Alu::ShiftRight, W, 6 + bits);
        truth(asm, W, T);
        asm.alu_with(Alu::Mul, W, bits);
        asm.alu(Alu::ShiftRight, RIGHT, W);
        asm.alu(Alu::Add, X, W);
    }
    asm.alu_with(Alu::And, RIGHT, 255);
    asm.alu_with(Alu::ShiftLeft, RIGHT, 2);
    asm.alu(Alu::Add, RIGHT, BLOCK);
    asm.load_half(RIGHT, RIGHT, ROOTS_AT as i16);
    wide_product(asm);
    // The product, shifted by 31 and half of the bits: 31 to 59.
    asm.alu_with(Alu::ShiftRight, X, 1);
    asm.alu_with(Alu::Add, X, OVER_SQRT_BITS as i32);
    asm.alu(Alu::ShiftRight, RESULT, X);
    asm.constant(T, 64);
    asm.alu(Alu::Sub, T, X);
    asm.alu(Alu::ShiftLeft, W, T);
    asm.alu(Alu::Or, RESULT, W);
}
