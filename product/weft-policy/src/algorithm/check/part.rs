//! The translation of one part: the program under construction and the present values of the fields.

use super::Check;
use crate::algorithm::model::{Action, Expression, Owner};
use crate::algorithm::types::Type;
use crate::code::Code;
use std::collections::BTreeMap;
use weft_rank::{Effect, Kind, Part, Program, ProgramBuilder, Slot, Value};
use weft_text::{Span, quoted};
use weft_units::BitsPerSec;

/// The origin of a rate, which decides what may be done with it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RateOf {
    /// A rate in the text.
    Written(BitsPerSec),
    /// A parameter.
    Parameter(usize),
    /// Metadata, or a choice between several.
    Other,
}

/// An operand: its value in the program and what is known of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operand {
    pub(super) value: Value,
    pub(super) of: Type,
    /// Whether it is the number 0.
    pub(super) zero: bool,
    /// Whether it is certainly not 0.
    pub(super) positive: bool,
    /// Whether it is certainly below 2^63, so that it is the same number with a sign.
    pub(super) narrow: bool,
    /// The condition under which it has a value; `None`: always.
    pub(super) present: Option<Value>,
    /// The parameter that it is.
    pub(super) parameter: Option<usize>,
    pub(super) rate: RateOf,
}

impl Operand {
    /// A value of which nothing else is known.
    pub(super) const fn new(value: Value, of: Type) -> Self {
        Self {
            value,
            of,
            zero: false,
            positive: false,
            narrow: false,
            present: None,
            parameter: None,
            rate: RateOf::Other,
        }
    }

    /// A value below 2^63.
    pub(super) const fn narrow(value: Value, of: Type) -> Self {
        Self { narrow: true, ..Self::new(value, of) }
    }
}

/// The values that statements have assigned.
#[derive(Clone, Default, Debug)]
pub(super) struct Assigned {
    pub(super) fields: BTreeMap<Slot, Value>,
    /// The conditions of `rerank`, `drop` and `mark`.
    pub(super) actions: BTreeMap<u8, Value>,
}

/// The field that the statement at hand assigns, which keeps the fraction of a quotient.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    pub(super) owner: Owner,
    pub(super) at: usize,
    /// Whether the statement adds to the field, as `+=` does.
    pub(super) adds: bool,
}

/// The translation of one part.
pub(super) struct PartCheck<'c, 'a> {
    pub(super) check: &'c mut Check<'a>,
    pub(super) builder: ProgramBuilder,
    pub(super) part: Part,
    pub(super) assigned: Assigned,
    /// The contents of fields at the start of the part.
    loaded: BTreeMap<Slot, Value>,
    pub(super) locals: Vec<(String, Operand)>,
    pub(super) target: Option<Target>,
    /// The left side of the sum whose right side is being read.
    pub(super) base: Option<Value>,
    /// Whether a divisor is being read, where `or` replaces 0.
    pub(super) in_divisor: bool,
}

impl<'c, 'a> PartCheck<'c, 'a> {
    pub(super) fn new(check: &'c mut Check<'a>, part: Part) -> Self {
        Self {
            check,
            builder: ProgramBuilder::new(part),
            part,
            assigned: Assigned::default(),
            loaded: BTreeMap::new(),
            locals: Vec::new(),
            target: None,
            base: None,
            in_divisor: false,
        }
    }

    /// The content of a field at this point.
    pub(super) fn content(&mut self, slot: Slot) -> Value {
        match self.assigned.fields.get(&slot) {
            Some(value) => *value,
            None => self.original(slot),
        }
    }

    /// The content of a field at the start of the part.
    fn original(&mut self, slot: Slot) -> Value {
        if let Some(value) = self.loaded.get(&slot) {
            return *value;
        }
        let value = self.builder.load(slot);
        self.loaded.insert(slot, value);
        value
    }

    /// The slot of a field.
    pub(super) fn slot(owner: Owner, at: usize) -> Slot {
        let at = u8::try_from(at).unwrap_or(u8::MAX);
        match owner {
            Owner::Node => Slot::Node(at),
            Owner::Child => Slot::Child(at),
        }
    }

    /// One component of a rank.
    pub(super) fn rank_component(&mut self, component: &Expression) -> Option<Operand> {
        let rank = self.expression(component)?;
        if rank.of == Type::YesNo || rank.of == Type::Rate {
            let message = format!("a rank is a quantity that has an order, and not {}", rank.of);
            let help = "such as a time, a vtime, bytes or a count";
            self.check.find(Code::UnitMismatch, component.span, message, help);
            return None;
        }
        let value = self.ordered(rank);
        Some(Operand { value, ..rank })
    }

    /// The value that a quantity is compared by, from 0: one that may be negative is moved up by 2^63.
    fn ordered(&mut self, rank: Operand) -> Value {
        if !rank.of.is_signed() {
            return rank.value;
        }
        let half = self.builder.constant(1 << 63);
        let zero = self.builder.constant(0);
        let negative = self.builder.lt_signed(rank.value, zero);
        let (above, below) = (self.builder.add(rank.value, half), self.builder.sub(rank.value, half));
        self.builder.select(negative, below, above)
    }

    /// The two components of a rank; the second is 0 if there is one.
    pub(super) fn pair(&mut self, ranks: &[Option<Operand>]) -> Option<(Value, Value)> {
        let first = ranks.first().copied()??;
        let second = match ranks.get(1) {
            Some(second) => (*second)?.value,
            None => self.builder.constant(0),
        };
        Some((first.value, second))
    }

    /// `from T`
    pub(super) fn from(&mut self, from: &Expression, kind: Kind) {
        let Some(time) = self.expression(from) else { return };
        match time.of {
            Type::Time => self.builder.effect(Effect::FromTime(time.value)),
            Type::VirtualTime if kind == Kind::Algorithm => {
                let clock = self.check.node.iter().position(|field| field.of == Type::VirtualTime);
                if clock.is_none() {
                    let message = "`from` a vtime needs the node's clock to compare it with";
                    let help = "declare it before the children's state, such as `node v: vtime`";
                    self.check.find(Code::PartMissing, from.span, message, help);
                }
                self.check.aggregates.clock = clock.and_then(|at| u8::try_from(at).ok());
                self.builder.effect(Effect::FromVirtualTime(time.value));
            }
            other => {
                let message = format!("`from` takes a time, found {other}");
                let help = match kind {
                    Kind::Shaper => "a shaper holds packets until a time, such as `from max(next, now)`",
                    _ => "a time holds the child back until then, a vtime until the node's clock is there",
                };
                self.check.find(Code::UnitMismatch, from.span, message, help);
            }
        }
    }

    /// `until T then R`
    pub(super) fn until(&mut self, time: &Expression, then: &[Expression], types: &[Type]) {
        let at = self.expression(time);
        if let Some(other) = at.filter(|at| at.of != Type::Time) {
            let help = "the time at which a waiting child gets the other rank, such as `since + patience`";
            self.check.find(
                Code::UnitMismatch,
                time.span,
                format!("`until` takes a time, found {}", other.of),
                help,
            );
        }
        if then.len() != types.len()
            && let Some(first) = then.first()
        {
            let message = format!("the rank has {} components, and this one {}", types.len(), then.len());
            self.check.find(Code::UnitMismatch, first.span, message, "both ranks have the same components");
            return;
        }
        let mut ranks = Vec::with_capacity(2);
        for (component, of) in then.iter().zip(types) {
            let rank = self.rank_component(component);
            if let Some(rank) = rank
                && rank.of.common(*of, rank.zero).is_none()
                && *of != Type::Number
            {
                let message = format!("the rank is of the type {of}, and this one of the type {}", rank.of);
                self.check.find(
                    Code::UnitMismatch,
                    component.span,
                    message,
                    "ranks are compared, so they have the same unit",
                );
            }
            ranks.push(rank);
        }
        if let (Some(at), Some(rank)) = (at, self.pair(&ranks)) {
            self.builder.effect(Effect::Until { time: at.value, rank });
        }
    }

    /// Writes the fields and adds the effects. `span` is the part's place.
    pub(super) fn finish(mut self, span: Span) -> Option<Program> {
        let assigned = core::mem::take(&mut self.assigned);
        for (slot, value) in assigned.fields {
            if self.loaded.get(&slot) != Some(&value) {
                self.builder.store(slot, value);
            }
        }
        for (action, when) in assigned.actions {
            self.builder.effect(match action {
                0 => Effect::Rerank(when),
                1 => Effect::Drop(when),
                _ => Effect::Mark(when),
            });
        }
        let part = self.part;
        match self.builder.build() {
            Ok(program) => Some(program),
            Err(_) if !self.check.diagnostics.is_empty() => None,
            Err(error) => {
                let message = format!("the part {} is too long: {error}", quoted(part.name()));
                let help = "name repeated expressions by `let`, and leave out what a field already holds";
                self.check.find(Code::TooMuch, span, message, help);
                None
            }
        }
    }
}

/// The number of an action in [`Assigned::actions`].
pub(super) const fn action_number(action: Action) -> u8 {
    match action {
        Action::Rerank => 0,
        Action::Drop => 1,
        Action::Mark => 2,
    }
}
