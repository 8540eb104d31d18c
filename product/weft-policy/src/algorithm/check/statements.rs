//! Statements: assignments, values with names, choices and actions.

use super::declare::kind_name;
use super::part::{Assigned, Operand, PartCheck, Target, action_number};
use crate::algorithm::inputs::{NAMES, constant};
use crate::algorithm::model::{Action, Expression, Owner, Statement};
use crate::algorithm::types::{Operator, Type};
use crate::code::Code;
use crate::spanned::Spanned;
use weft_rank::{Kind, Part, Value};
use weft_text::{Span, quoted};

impl PartCheck<'_, '_> {
    /// Translates statements. Names that they give hold up to their end.
    pub(super) fn statements(&mut self, statements: &[Statement]) {
        let locals = self.locals.len();
        for statement in statements {
            match statement {
                Statement::Let(name, value) => self.local(name, value),
                Statement::Assign(name, operator, value) => self.assign(name, *operator, value),
                Statement::If(condition, yes, no) => self.choose(condition, yes, no),
                Statement::Act(action, span) => self.act(*action, *span),
            }
        }
        self.locals.truncate(locals);
    }

    fn local(&mut self, name: &Spanned<String>, value: &Expression) {
        let operand = self.expression(value);
        let declared = self.check.field(&name.value).is_some()
            || self.check.parameters.iter().any(|parameter| parameter.name == name.value)
            || self.locals.iter().any(|(local, _)| *local == name.value);
        let known = NAMES.contains(&name.value.as_str()) || constant(&name.value).is_some();
        if declared || known {
            let message = format!("{} has a meaning already", quoted(&name.value));
            self.check.find(Code::DefinedTwice, name.span, message, "give the value another name");
        }
        // A value that could not be read is not reported again where it is used.
        let zero = self.builder.constant(0);
        let operand =
            operand.unwrap_or(Operand { zero: true, positive: true, ..Operand::new(zero, Type::Number) });
        self.locals.push((name.value.clone(), operand));
    }

    fn assign(&mut self, name: &Spanned<String>, operator: Option<Operator>, value: &Expression) {
        let Some((owner, at)) = self.check.field(&name.value) else { return self.not_a_field(name, value) };
        let of = self.check.fields(owner)[at].of;
        let slot = Self::slot(owner, at);
        self.target = Some(Target { owner, at, adds: operator == Some(Operator::Add) });
        let operand = self.expression(value);
        self.target = None;
        let Some(operand) = operand else { return };
        let whole = name.span.to(value.span);
        let result = match operator {
            None => Some(operand),
            Some(operator) => {
                let content = self.content(slot);
                let field = Operand::new(content, of);
                self.combine(operator, field, operand, whole, value)
            }
        };
        let Some(result) = result else { return };
        if result.of.common(of, result.zero).is_none() {
            let message = format!(
                "{} is of the type {of}, and the value of the type {}",
                quoted(&name.value),
                result.of
            );
            let help = match (of, result.of) {
                (Type::Time, Type::Duration) => {
                    "a duration is a span: add it to a time, such as `now + interval`"
                }
                (Type::Duration, Type::Time) => "a time is a point: subtract another time from it",
                (Type::VirtualTime, Type::Bytes) => "divide the bytes by a weight: `bytes / weight`",
                (_, Type::Number) => "write the number's unit",
                _ => "a field keeps the unit that it was declared with",
            };
            self.check.find(Code::UnitMismatch, value.span, message, help);
            return;
        }
        let value = self.signed_as(result, of.is_signed());
        self.assigned.fields.insert(slot, value);
    }

    /// Reports the assignment of what is no field.
    fn not_a_field(&mut self, name: &Spanned<String>, value: &Expression) {
        let text = name.value.as_str();
        let parameter = self.check.parameters.iter().any(|parameter| parameter.name == text);
        let local = self.locals.iter().any(|(local, _)| local == text);
        let why = match () {
            () if parameter => "it is a parameter, whose value the policy gives",
            () if local => "it names a value, which does not change",
            () if NAMES.contains(&text) || constant(text).is_some() => "the engine gives it",
            () => {
                let locals: Vec<String> = self.locals.iter().map(|(local, _)| local.clone()).collect();
                self.check.unknown(text, name.span, &locals);
                return;
            }
        };
        let message = format!("{} cannot be assigned: {why}", quoted(text));
        let help = "what is to last is a field: `node NAME: TYPE` or `child NAME: TYPE`";
        self.check.find(Code::NotAssignable, name.span, message, help);
        let _ = self.expression(value);
    }

    fn choose(&mut self, condition: &Expression, yes: &[Statement], no: &[Statement]) {
        let operand = self.expression(condition);
        if let Some(other) = operand.filter(|operand| operand.of != Type::YesNo) {
            let message = format!("the question of `if` is a condition, found {}", other.of);
            self.check.find(Code::UnitMismatch, condition.span, message, "compare it, such as `credit <= 0`");
        }
        let before = self.assigned.clone();
        self.statements(yes);
        let after_yes = core::mem::replace(&mut self.assigned, before.clone());
        self.statements(no);
        let after_no = core::mem::replace(&mut self.assigned, before);
        if let Some(operand) = operand {
            self.merge(operand.value, &after_yes, &after_no);
        }
    }

    /// The values behind an `if`: of what the branches have assigned differently, one is selected.
    fn merge(&mut self, condition: Value, yes: &Assigned, no: &Assigned) {
        let slots = yes.fields.keys().chain(no.fields.keys()).copied();
        for slot in slots.collect::<std::collections::BTreeSet<_>>() {
            let before = self.content(slot);
            let value = |after: &Assigned| after.fields.get(&slot).copied().unwrap_or(before);
            let (one, other) = (value(yes), value(no));
            let chosen = if one == other { one } else { self.builder.select(condition, one, other) };
            self.assigned.fields.insert(slot, chosen);
        }
        let actions = yes.actions.keys().chain(no.actions.keys()).copied();
        for action in actions.collect::<std::collections::BTreeSet<_>>() {
            let (one, other) = (yes.actions.get(&action).copied(), no.actions.get(&action).copied());
            let when = match (one, other) {
                (Some(one), Some(other)) if one == other => one,
                (Some(one), Some(other)) => self.builder.select(condition, one, other),
                (Some(one), None) => self.builder.and(condition, one),
                (None, Some(other)) => {
                    let otherwise = self.builder.not(condition);
                    self.builder.and(otherwise, other)
                }
                (None, None) => continue,
            };
            self.assigned.actions.insert(action, when);
        }
    }

    fn act(&mut self, action: Action, span: Span) {
        let kind = self.check.definition.kind;
        let wrong = match (action, self.part) {
            (Action::Rerank, Part::Arrives) | (Action::Drop | Action::Mark, Part::Fetched) => None,
            (Action::Rerank, _) => {
                Some(("rerank", "`rerank` is for `arrives`: a child is ranked after every turn anyway"))
            }
            (Action::Drop, _) => Some(("drop", "a packet is dropped in `fetched`, once it is in hand")),
            (Action::Mark, _) => Some(("mark", "a packet is marked in `fetched`, once it is in hand")),
        };
        if let Some((word, help)) = wrong {
            let message = format!("`{word}` has no meaning in `{}`", self.part);
            return self.check.find(Code::NotHere, span, message, help);
        }
        if kind != Kind::Algorithm && action == Action::Rerank {
            let message = format!("{} ranks nothing", kind_name(kind));
            return self.check.find(Code::NotHere, span, message, "leave `rerank` out");
        }
        let always = self.builder.constant(1);
        self.assigned.actions.insert(action_number(action), always);
    }

    /// The value of an operand as a word with or without a sign.
    pub(super) fn signed_as(&mut self, operand: Operand, signed: bool) -> Value {
        match (operand.of.is_signed(), signed) {
            (false, true) if !operand.narrow => {
                let most = self.builder.constant(i64::MAX as u64);
                self.builder.min(operand.value, most)
            }
            (true, false) => {
                let zero = self.builder.constant(0);
                let negative = self.builder.lt_signed(operand.value, zero);
                self.builder.select(negative, zero, operand.value)
            }
            _ => operand.value,
        }
    }

    /// The hidden field that keeps the fraction of the field `at`, which it declares.
    pub(super) fn fraction_field(&mut self, owner: Owner, at: usize) -> usize {
        let fields = self.check.fields(owner);
        let name = format!("{}'", fields[at].name);
        if let Some(known) = fields.iter().position(|field| field.name == name) {
            return known;
        }
        let forget = fields[at].forget;
        fields.push(super::CheckedField { name, of: Type::Count, initial: 0, forget });
        fields.len() - 1
    }
}
