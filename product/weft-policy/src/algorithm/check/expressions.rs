//! Expressions: names, operators and functions, with their units.

use super::declare::quantity;
use super::part::{Operand, PartCheck, RateOf};
use crate::algorithm::inputs::{FUNCTION_NAMES, METADATA, Presence, constant, elsewhere, input};
use crate::algorithm::model::{Expression, Form, Owner};
use crate::algorithm::types::{Operator, Type};
use crate::code::Code;
use crate::diagnostic::{Edit, SpannedDiagnostic};
use crate::spanned::Spanned;
use weft_rank::{Input, Kind, RankWord, Scale};
use weft_text::{Span, nearest, quoted};
use weft_units::BitsPerSec;

impl PartCheck<'_, '_> {
    /// The value of an expression, which is certainly there.
    pub(super) fn expression(&mut self, expression: &Expression) -> Option<Operand> {
        let operand = self.open(expression)?;
        if operand.present.is_none() {
            return Some(operand);
        }
        let example = match operand.of {
            Type::Time => "never",
            Type::Duration => "0s",
            Type::Rate => "unlimited",
            _ => "most",
        };
        let text = match &expression.form {
            Form::Name(name) => quoted(name),
            _ => "this".to_owned(),
        };
        let message = format!("{text} may be missing: `or` says what holds without it");
        let help = "the sender of a packet tells its deadline, slack, size left, lateness, send time and rate, or does not";
        let edit = match &expression.form {
            Form::Name(name) => Edit::replace(expression.span, format!("({name} or {example})")),
            _ => Edit::insert(expression.span.end, format!(" or {example}")),
        };
        self.check
            .report(SpannedDiagnostic::new(Code::MissingMetadata, expression.span, message, help).fix(edit));
        None
    }

    /// The value of an expression, which may be missing.
    fn open(&mut self, expression: &Expression) -> Option<Operand> {
        let span = expression.span;
        match &expression.form {
            Form::Number(text) => self.number(text, span),
            Form::Name(name) => self.name(name, span),
            Form::Not(inner) => {
                let operand = self.expression(inner)?;
                if operand.of != Type::YesNo {
                    let message = format!("`not` takes a condition, found {}", operand.of);
                    self.check.find(Code::UnitMismatch, inner.span, message, "such as `not (a < b)`");
                    return None;
                }
                Some(Operand::new(self.builder.not(operand.value), Type::YesNo))
            }
            Form::Call(function, arguments) => self.call(function, arguments, span),
            Form::Lowest(field) => self.lowest(field),
            Form::Chain(first, rest) => self.chain(first, rest),
        }
    }

    fn chain(&mut self, first: &Expression, rest: &[(Operator, Expression)]) -> Option<Operand> {
        let alternatives = rest.iter().any(|(operator, _)| *operator == Operator::Or);
        let mut left = if alternatives { self.open(first) } else { self.expression(first) };
        for (operator, expression) in rest {
            let span = first.span.to(expression.span);
            if *operator == Operator::Or {
                let right = self.open(expression);
                left = match (left, right) {
                    (Some(left), Some(right)) => self.alternative(left, right, span),
                    _ => None,
                };
                continue;
            }
            let (base, divides) = (self.base, self.in_divisor);
            self.base = match operator {
                Operator::Add => left.map(|left| left.value),
                Operator::Mul | Operator::Div => base,
                _ => None,
            };
            self.in_divisor = *operator == Operator::Div;
            let right = self.expression(expression);
            (self.base, self.in_divisor) = (base, divides);
            left = match (left, right) {
                (Some(left), Some(right)) => self.combine(*operator, left, right, span, expression),
                _ => None,
            };
        }
        left
    }

    fn number(&mut self, text: &str, span: Span) -> Option<Operand> {
        let Some((of, value)) = quantity(text) else {
            let help = "such as 5ms, 64kib, 1gbps or 3";
            self.check.find(Code::BadQuantity, span, format!("{} is not a quantity", quoted(text)), help);
            return None;
        };
        let constant = self.builder.constant(super::declare::word(of, value));
        let rate = if of == Type::Rate { RateOf::Written(BitsPerSec(value)) } else { RateOf::Other };
        let (zero, narrow) = (value == 0, value <= i64::MAX as u64);
        Some(Operand { zero, positive: !zero, narrow, rate, ..Operand::new(constant, of) })
    }

    fn name(&mut self, name: &str, span: Span) -> Option<Operand> {
        if let Some((_, operand)) = self.locals.iter().find(|(local, _)| local == name) {
            return Some(*operand);
        }
        if let Some((owner, at)) = self.check.field(name) {
            let of = self.check.fields(owner)[at].of;
            return Some(Operand::new(self.content(Self::slot(owner, at)), of));
        }
        if let Some(at) = self.check.parameters.iter().position(|parameter| parameter.name == name) {
            let of = self.check.parameters[at].of;
            let value = self.builder.parameter(u8::try_from(at).unwrap_or(u8::MAX));
            let positive = matches!(of, Type::Rate | Type::Weight);
            let rate = RateOf::Parameter(at);
            return Some(Operand { positive, parameter: Some(at), rate, ..Operand::narrow(value, of) });
        }
        if let Some(words) = elsewhere(name, self.part) {
            let message = format!("{} has no value in `{}`", quoted(name), self.part);
            self.check.find(Code::NotHere, span, message, format!("it has one in {words}"));
            return None;
        }
        if name == "rank" || name.starts_with("rank.") {
            return self.rank_name(name, span);
        }
        if let Some((of, word)) = constant(name) {
            let value = self.builder.constant(word);
            let narrow = word <= i64::MAX as u64;
            return Some(Operand { positive: true, narrow, ..Operand::new(value, of) });
        }
        if let Some((of, known)) = input(name) {
            if name == "weights" && !self.sums_weights(span) {
                return None;
            }
            let value = self.builder.input(known);
            return Some(Operand { positive: of == Type::Weight, ..Operand::narrow(value, of) });
        }
        self.metadatum(name, span)
    }

    /// Notes that the engine keeps the sum of weights.
    fn sums_weights(&mut self, span: Span) -> bool {
        let weight = self.check.parameters.iter().position(|parameter| parameter.of == Type::Weight);
        self.check.aggregates.weights = weight.and_then(|at| u8::try_from(at).ok());
        if weight.is_none() {
            let help =
                "`weights` is the sum of the children's parameter of the type weight: declare `(weight)`";
            self.check.find(Code::UnknownValue, span, "the children have no weights", help);
        }
        weight.is_some()
    }

    /// A metadatum of the next packet (`head.`) or of the one at hand (`p.`).
    fn metadatum(&mut self, name: &str, span: Span) -> Option<Operand> {
        let (owner, field) = name.split_once('.').unwrap_or(("", name));
        let known =
            METADATA.iter().find(|known| known.name == field).filter(|_| matches!(owner, "head" | "p"));
        let Some(known) = known else {
            let locals: Vec<String> = self.locals.iter().map(|(local, _)| local.clone()).collect();
            self.check.unknown(name, span, &locals);
            return None;
        };
        let (value, present) = match owner {
            "head" => (Input::Head(known.metadatum), Input::HeadKnown(known.metadatum)),
            _ => (Input::Packet(known.metadatum), Input::PacketKnown(known.metadatum)),
        };
        if owner == "head" && !self.check.reads.contains(&known.metadatum) {
            self.check.reads.push(known.metadatum);
        }
        let present = match known.presence {
            Presence::Always => None,
            Presence::Perhaps => Some(self.builder.input(present)),
        };
        let value = self.builder.input(value);
        let narrow = matches!(known.of, Type::Bytes | Type::Count);
        Some(Operand { present, narrow, ..Operand::new(value, known.of) })
    }

    /// `rank`, `rank.1` or `rank.2`
    fn rank_name(&mut self, name: &str, span: Span) -> Option<Operand> {
        let types = self.check.rank.clone();
        let (at, word) = if name == "rank.2" { (1, RankWord::Second) } else { (0, RankWord::First) };
        let help = match (types.len(), name) {
            (0, _) if self.check.definition.kind == Kind::Algorithm => return None,
            (0, _) => "a rank is given by an `algorithm`",
            (2, "rank") => "the rank has two components: write `rank.1` or `rank.2`",
            (1, "rank.2") => "the rank has one component: write `rank`",
            (_, "rank" | "rank.1" | "rank.2") => {
                let of = types[at];
                if of.is_signed() {
                    self.check.find(
                        Code::NotHere,
                        span,
                        "a rank that may be negative cannot be read",
                        "keep it in a field",
                    );
                    return None;
                }
                let of = if of == Type::Number { Type::Count } else { of };
                return Some(Operand::new(self.builder.input(Input::Rank(word)), of));
            }
            _ => "a rank has the components `rank.1` and `rank.2`",
        };
        self.check.find(Code::UnknownValue, span, format!("there is no {}", quoted(name)), help);
        None
    }

    /// `lowest FIELD`: the least value of a field over the other children.
    fn lowest(&mut self, field: &Spanned<String>) -> Option<Operand> {
        let Some((Owner::Child, at)) = self.check.field(&field.value) else {
            let message = format!("{} is no field of the children", quoted(&field.value));
            self.check.find(
                Code::UnknownValue,
                field.span,
                message,
                "such as `child s: vtime` and `lowest s`",
            );
            return None;
        };
        let slot = u8::try_from(at).ok();
        if self.check.aggregates.lowest.is_some_and(|known| Some(known) != slot) {
            let help = "the engine keeps one least value for an algorithm";
            self.check.find(Code::TooMuch, field.span, "`lowest` of a second field", help);
            return None;
        }
        self.check.aggregates.lowest = slot;
        Some(Operand::new(self.builder.input(Input::Lowest), self.check.child[at].of))
    }

    fn call(&mut self, function: &str, arguments: &[Expression], span: Span) -> Option<Operand> {
        if !FUNCTION_NAMES.contains(&function) {
            let known = nearest(
                function,
                FUNCTION_NAMES.iter().copied(),
                &[
                    ("sqrt", "over_sqrt"),
                    ("least", "min"),
                    ("minimum", "min"),
                    ("maximum", "max"),
                    ("most", "max"),
                ],
            );
            let message = format!("there is no function {}", quoted(function));
            let name = Span::new(span.start, span.start + function.len());
            let diagnostic = match known {
                Some(known) => SpannedDiagnostic::new(
                    Code::UnknownValue,
                    name,
                    format!("{message}: did you mean {}?", quoted(known)),
                    FUNCTIONS,
                )
                .fix(Edit::replace(name, known)),
                None => SpannedDiagnostic::new(Code::UnknownValue, name, message, FUNCTIONS),
            };
            self.check.report(diagnostic);
            return None;
        }
        let base = self.base.take();
        let operands: Vec<Option<Operand>> =
            arguments.iter().map(|argument| self.expression(argument)).collect();
        self.base = base;
        let wanted = if function == "over_sqrt" { 2..=2 } else { 2..=8 };
        if !wanted.contains(&operands.len()) {
            let message = format!(
                "`{function}` takes {} values, found {}",
                if function == "over_sqrt" { "two" } else { "two or more" },
                operands.len()
            );
            self.check.find(Code::BadArgument, span, message, FUNCTIONS);
            return None;
        }
        let operands: Vec<Operand> = operands.into_iter().collect::<Option<_>>()?;
        if function == "over_sqrt" {
            let (interval, count) = (operands[0], operands[1]);
            if interval.of != Type::Duration || count.of.unit().common(Type::Count, false).is_none() {
                let message = format!(
                    "`over_sqrt` takes a duration and a count, found {} and {}",
                    interval.of, count.of
                );
                self.check.find(Code::UnitMismatch, span, message, "such as `over_sqrt(interval, drops)`");
                return None;
            }
            return Some(Operand::new(self.builder.over_sqrt(interval.value, count.value), Type::Duration));
        }
        self.least_or_most(function, &operands, arguments)
    }

    fn least_or_most(
        &mut self,
        function: &str,
        operands: &[Operand],
        arguments: &[Expression],
    ) -> Option<Operand> {
        let mut all = *operands.first()?;
        for (operand, argument) in operands.iter().zip(arguments).skip(1) {
            let common = all.of.common(operand.of, all.zero || operand.zero);
            let Some(common) = common.filter(|of| !matches!(of, Type::Rate | Type::YesNo)) else {
                let message = format!("`{function}` of {} and {}", all.of, operand.of);
                let help = all.of.combine(Operator::Lt, operand.of, false).err();
                let help = help.unwrap_or("both values need the same unit");
                self.check.find(Code::UnitMismatch, argument.span, message, help);
                return None;
            };
            let (one, two) =
                (self.signed_as(all, common.is_signed()), self.signed_as(*operand, common.is_signed()));
            let value = match (function, common.is_signed()) {
                ("min", false) => self.builder.min(one, two),
                (_, false) => self.builder.max(one, two),
                (_, true) => {
                    let less = self.builder.lt_signed(one, two);
                    let (yes, no) = if function == "min" { (one, two) } else { (two, one) };
                    self.builder.select(less, yes, no)
                }
            };
            let positive = match function {
                "min" => all.positive && operand.positive,
                _ => (all.positive || operand.positive) && !common.is_signed(),
            };
            let narrow = all.narrow && operand.narrow || function == "min" && (all.narrow || operand.narrow);
            all = Operand { positive, narrow, ..Operand::new(value, common) };
        }
        Some(all)
    }

    /// `left or right`: what holds if the left value is missing, or is 0 and divides; of two conditions, whether one holds.
    fn alternative(&mut self, left: Operand, right: Operand, span: Span) -> Option<Operand> {
        if left.of == Type::YesNo && right.of == Type::YesNo {
            return Some(Operand::new(self.builder.or(left.value, right.value), Type::YesNo));
        }
        let Some(common) = left.of.common(right.of, right.zero).filter(|of| *of != Type::YesNo) else {
            let message = format!("`or` between {} and {}", left.of, right.of);
            let help = "both values need the same unit; conditions are joined in parentheses";
            self.check.find(Code::UnitMismatch, span, message, help);
            return None;
        };
        let divides = self.in_divisor && right.positive;
        let condition = match left.present {
            // Metadata that is missing is 0.
            _ if divides => left.value,
            Some(present) => present,
            None => {
                let message = "this value is always there: `or` has no effect";
                let help = "`or` follows metadata that may be missing, or a divisor that may be 0";
                self.check.find(Code::NotHere, span, message, help);
                return None;
            }
        };
        let (one, two) =
            (self.signed_as(left, common.is_signed()), self.signed_as(right, common.is_signed()));
        let value = self.builder.select(condition, one, two);
        let present = match (left.present, right.present) {
            (Some(one), Some(two)) => Some(self.builder.or(one, two)),
            _ => None,
        };
        let positive = divides || right.positive && left.positive;
        Some(Operand {
            present,
            positive,
            narrow: left.narrow && right.narrow,
            ..Operand::new(value, common)
        })
    }

    /// The word of a rate that durations are multiplied by.
    pub(super) fn bytes_per_nano(&mut self, rate: RateOf, span: Span) -> Option<weft_rank::Value> {
        match rate {
            RateOf::Written(rate) => Some(self.builder.constant(Scale::bytes_per_nano(rate).word())),
            RateOf::Parameter(at) => {
                let repeated =
                    self.check.parameters.iter().position(|parameter| parameter.repeats == Some(at));
                let index = repeated.unwrap_or_else(|| {
                    let of = &self.check.parameters[at];
                    let name = format!("{}'", of.name);
                    let repeat = super::CheckedParameter {
                        name,
                        of: Type::Rate,
                        default: None,
                        divides: true,
                        repeats: Some(at),
                    };
                    self.check.parameters.push(repeat);
                    self.check.parameters.len() - 1
                });
                Some(self.builder.parameter(u8::try_from(index).unwrap_or(u8::MAX)))
            }
            RateOf::Other => {
                let help = "a product needs a parameter or a rate in the text; bytes are divided by any rate";
                self.check.find(Code::NotHere, span, "this rate cannot be multiplied", help);
                None
            }
        }
    }
}

/// The help for functions.
const FUNCTIONS: &str = "the functions are min(a, b), max(a, b) and over_sqrt(interval, count)";
