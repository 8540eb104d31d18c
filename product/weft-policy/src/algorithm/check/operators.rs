//! Operators between two operands: units, divisors, fractions.

use super::part::{Operand, PartCheck, RateOf, Target};
use crate::algorithm::model::{Expression, Form};
use crate::algorithm::types::{Operator, Rule, Type};
use crate::code::Code;
use crate::diagnostic::{Edit, SpannedDiagnostic};
use weft_rank::arithmetic::VIRTUAL_UNITS_PER_BYTE;
use weft_rank::{Slot, Value};
use weft_text::Span;

impl PartCheck<'_, '_> {
    /// Joins two operands. `span` is the place of both, `divisor` that of the right one.
    pub(super) fn combine(
        &mut self,
        operator: Operator,
        left: Operand,
        right: Operand,
        span: Span,
        divisor: &Expression,
    ) -> Option<Operand> {
        let (of, rule) = match left.of.combine(operator, right.of, left.zero || right.zero) {
            Ok(combined) => combined,
            Err(help) => {
                let message = match operator {
                    Operator::Add => format!("{} and {} cannot be added", left.of, right.of),
                    Operator::Sub => format!("{} cannot be subtracted from {}", right.of, left.of),
                    Operator::Mul => format!("{} and {} cannot be multiplied", left.of, right.of),
                    Operator::Div => format!("{} cannot be divided by {}", left.of, right.of),
                    Operator::And | Operator::Or => {
                        format!("{} and {} cannot be joined by `and`", left.of, right.of)
                    }
                    _ => format!("{} and {} cannot be compared", left.of, right.of),
                };
                self.check.find(Code::UnitMismatch, span, message, help);
                return None;
            }
        };
        if operator == Operator::Div && !self.divides(right, divisor) {
            return None;
        }
        match rule {
            Rule::Scaled => return Some(self.scaled(left, right)),
            Rule::Weighted => return Some(self.weighted(left, right)),
            Rule::Sent => {
                let (rate, time) = if left.of == Type::Rate { (left, right) } else { (right, left) };
                let scale = self.bytes_per_nano(rate.rate, span)?;
                let zero = self.builder.constant(0);
                return Some(Operand::new(self.builder.scale(time.value, scale, zero), Type::Bytes));
            }
            Rule::Unsigned | Rule::Signed => {}
        }
        let signed = rule == Rule::Signed;
        let (one, two) = (self.signed_as(left, signed), self.signed_as(right, signed));
        let value = self.operate(operator, one, two, signed);
        let grows = operator == Operator::Add && !signed;
        let positive = grows && (left.positive || right.positive);
        let narrow = operator == Operator::Div && left.narrow;
        Some(Operand { positive, narrow, ..Operand::new(value, of) })
    }

    fn operate(&mut self, operator: Operator, one: Value, two: Value, signed: bool) -> Value {
        let b = &mut self.builder;
        match (operator, signed) {
            (Operator::Add, false) => b.add(one, two),
            (Operator::Add, true) => b.add_signed(one, two),
            (Operator::Sub, false) => b.sub(one, two),
            (Operator::Sub, true) => b.sub_signed(one, two),
            (Operator::Mul, false) => b.mul(one, two),
            (Operator::Mul, true) => b.mul_signed(one, two),
            (Operator::Div, false) => b.div(one, two),
            (Operator::Div, true) => b.div_signed(one, two),
            (Operator::Lt, false) => b.lt(one, two),
            (Operator::Lt, true) => b.lt_signed(one, two),
            (Operator::Le, false) => b.le(one, two),
            (Operator::Le, true) => b.le_signed(one, two),
            (Operator::Gt, false) => b.lt(two, one),
            (Operator::Gt, true) => b.lt_signed(two, one),
            (Operator::Ge, false) => b.le(two, one),
            (Operator::Ge, true) => b.le_signed(two, one),
            (Operator::Eq, _) => b.eq(one, two),
            (Operator::Ne, _) => b.ne(one, two),
            (Operator::And, _) => b.and(one, two),
            (Operator::Or, _) => b.or(one, two),
        }
    }

    /// Whether the right side may divide. A parameter may: the values that uses give it are checked.
    fn divides(&mut self, right: Operand, divisor: &Expression) -> bool {
        if let Some(at) = right.parameter {
            self.check.parameters[at].divides = true;
            return true;
        }
        if right.positive {
            return true;
        }
        let span = divisor.span;
        let message = if right.zero { "a quantity is divided by 0" } else { "the divisor may be 0" };
        let help = "`or` says what divides in place of 0, such as `bytes / (n or 1)`; rates, weights and parameters are never 0";
        let edit = match &divisor.form {
            Form::Name(name) => {
                let one = if right.of == Type::Duration { "1ns" } else { "1" };
                Some(Edit::replace(span, format!("({name} or {one})")))
            }
            _ => None,
        };
        self.check.report(SpannedDiagnostic::new(Code::DivisorZero, span, message, help).fix(edit));
        false
    }

    /// Bytes divided by a rate.
    fn scaled(&mut self, bytes: Operand, rate: Operand) -> Operand {
        let carries = !matches!(rate.rate, RateOf::Other);
        let fraction = if carries { self.fraction() } else { None };
        let carry = match fraction {
            Some((_, carry)) => carry,
            None => self.builder.constant(0),
        };
        let value = self.builder.scale(bytes.value, rate.value, carry);
        if let Some((slot, _)) = fraction {
            let rest = self.builder.scale_rest(bytes.value, rate.value, carry);
            self.assigned.fields.insert(slot, rest);
        }
        Operand::new(value, Type::Duration)
    }

    /// Bytes divided by a weight.
    fn weighted(&mut self, bytes: Operand, weight: Operand) -> Operand {
        let scale = self.builder.constant(VIRTUAL_UNITS_PER_BYTE);
        let mut units = self.builder.mul(bytes.value, scale);
        let fraction = self.fraction();
        if let Some((_, carry)) = fraction {
            units = self.builder.add(units, carry);
        }
        let value = self.builder.div(units, weight.value);
        if let Some((slot, _)) = fraction {
            let rest = self.builder.rem(units, weight.value);
            self.assigned.fields.insert(slot, rest);
        }
        Operand::new(value, Type::VirtualTime)
    }

    /// The hidden field that keeps the fraction of a quotient, and the fraction so far: 0 unless the assigned field continues from
    /// its own value. `None` if no field is assigned that a fraction could be added to.
    fn fraction(&mut self) -> Option<(Slot, Value)> {
        let Target { owner, at, adds } = self.target?;
        let base = self.base.filter(|_| !adds);
        if !adds && base.is_none() {
            return None;
        }
        // One quotient of a statement carries: two would share a fraction.
        self.target = None;
        let own = self.content(Self::slot(owner, at));
        let hidden = self.fraction_field(owner, at);
        let slot = Self::slot(owner, hidden);
        let kept = self.content(slot);
        let carry = match base {
            Some(base) if base != own => {
                let same = self.builder.eq(base, own);
                let zero = self.builder.constant(0);
                self.builder.select(same, kept, zero)
            }
            _ => kept,
        };
        Some((slot, carry))
    }
}
