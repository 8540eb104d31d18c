//! The second pass over an algorithm: from its model to programs.
//!
//! [`check`] declares parameters and fields, then translates the parts, `rank` first, since the others may read the rank that a child
//! had. A part is translated statement by statement (`statements`, `expressions`): an expression becomes operations, and an
//! assignment a new value of its field. The fields are written once, at the end of the part. Both branches of an `if` are
//! translated, and a field that one of them assigns is selected between the two values; so a program has no jumps.
//!
//! A quotient of bytes by a weight or a rate has a fraction. If a field is assigned such a quotient, a hidden field keeps the
//! fraction for the next time, as the engine's own accounts do: long-run shares and rates are exact. A fraction counts only while the
//! field continues from its own value; a field that was raised to the clock begins anew.

pub(super) mod declare;
mod expressions;
mod operators;
mod part;
mod statements;

use super::model::{Body, Definition, Owner, RankText};
use super::types::Type;
use crate::code::Code;
use crate::diagnostic::SpannedDiagnostic;
use part::PartCheck;
use std::collections::BTreeSet;
use weft_rank::{
    Aggregates, Algorithm, Effect, Field, Kind, Metadatum, Part, Parts, Program, RankWord, Reading,
};
use weft_text::Span;
use weft_units::Nanos;

/// A parameter of an algorithm.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CheckedParameter {
    /// Its name.
    pub name: String,
    /// Its unit.
    pub of: Type,
    /// The word that holds if a use does not give one.
    pub default: Option<u64>,
    /// Whether the algorithm divides by it, so that it cannot be 0.
    pub divides: bool,
    /// The parameter of a rate that this one repeats in bytes per nanosecond, for products with durations.
    pub repeats: Option<usize>,
}

/// A field of the state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CheckedField {
    /// Its name. A hidden field has the name of the field whose fraction it keeps, with `'`.
    pub name: String,
    /// Its unit.
    pub of: Type,
    /// Its first content.
    pub initial: u64,
    /// The silence after which it may be forgotten.
    pub forget: Option<Nanos>,
}

/// An algorithm that has passed all checks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CheckedAlgorithm {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: Kind,
    /// The parameters.
    pub parameters: Vec<CheckedParameter>,
    /// The state of a node.
    pub node: Vec<CheckedField>,
    /// The state of a child.
    pub child: Vec<CheckedField>,
    /// Whether a node ranks a child anew when the child's next packet changes.
    pub follows_head: bool,
    /// The metadata of the next packet that the algorithm reads.
    pub reads: Vec<Metadatum>,
    /// The units of the rank's components.
    pub rank: Vec<Type>,
    /// The programs.
    pub program: Algorithm,
}

impl CheckedAlgorithm {
    /// Whether a shaper holds each flow of a class by itself: it has state of flows, or reads their next packets. Other
    /// shapers hold everything below them.
    pub(crate) fn holds_flows(&self) -> bool {
        !self.child.is_empty() || (!self.reads.is_empty() && !self.follows_head)
    }
}

/// The checks of one algorithm: its declarations and what the parts have asked for so far.
pub(super) struct Check<'a> {
    definition: &'a Definition,
    diagnostics: Vec<SpannedDiagnostic>,
    parameters: Vec<CheckedParameter>,
    node: Vec<CheckedField>,
    child: Vec<CheckedField>,
    /// The units of the rank's components, once the rank is known.
    rank: Vec<Type>,
    aggregates: Aggregates,
    reads: Vec<Metadatum>,
    /// The names that were reported because nothing has them.
    unknown: BTreeSet<String>,
}

/// Checks an algorithm; `None` if a diagnostic is an error, or if the parser has reported one.
pub(crate) fn check(definition: &Definition) -> (Option<CheckedAlgorithm>, Vec<SpannedDiagnostic>) {
    if definition.broken {
        return (None, Vec::new());
    }
    let mut check = Check {
        definition,
        diagnostics: Vec::new(),
        parameters: Vec::new(),
        node: Vec::new(),
        child: Vec::new(),
        rank: Vec::new(),
        aggregates: Aggregates::default(),
        reads: Vec::new(),
        unknown: BTreeSet::new(),
    };
    check.declare();
    // What uses a wrong declaration is not wrong itself.
    if !check.diagnostics.is_empty() {
        return (None, check.diagnostics);
    }
    check.check_parts();
    let programs = check.programs();
    let algorithm = check.finish(programs);
    (algorithm.filter(|_| check.diagnostics.is_empty()), check.diagnostics)
}

impl Check<'_> {
    pub(super) fn find(&mut self, code: Code, span: Span, message: impl AsRef<str>, help: impl AsRef<str>) {
        self.report(SpannedDiagnostic::new(code, span, message, help));
    }

    /// Records a diagnostic, unless one at the same place was recorded: it is the cause.
    pub(super) fn report(&mut self, diagnostic: SpannedDiagnostic) {
        if !self.diagnostics.iter().any(|known| known.span() == diagnostic.span()) {
            self.diagnostics.push(diagnostic);
        }
    }

    /// Translates the parts. `rank` comes first: other parts may read it.
    fn programs(&mut self) -> Vec<Program> {
        let definition = self.definition;
        let mut programs = Vec::new();
        for part in &definition.parts {
            match &part.body {
                Body::Rank(text) => programs.extend(self.rank(text, part.span)),
                Body::From(time) => {
                    let text = RankText { rank: Vec::new(), from: Some(time.clone()), until: None };
                    programs.extend(self.rank(&text, part.span));
                }
                Body::Event(..) => {}
            }
        }
        for part in &definition.parts {
            if let Body::Event(of, statements) = &part.body {
                let mut check = PartCheck::new(self, *of);
                check.statements(statements);
                programs.extend(check.finish(part.span));
            }
        }
        programs
    }

    /// Translates `rank = R from T until T then R`, or `from T` alone.
    fn rank(&mut self, text: &RankText, span: Span) -> Option<Program> {
        let kind = self.definition.kind;
        let mut part = PartCheck::new(self, Part::Rank);
        if let [_, _, third, ..] = &text.rank[..] {
            let help =
                "a rank has one component, or two of which the second decides between equal first ones";
            part.check.find(Code::PartUnwanted, third.span, "a rank has at most two components", help);
        }
        let ranks: Vec<_> =
            text.rank.iter().take(2).map(|component| part.rank_component(component)).collect();
        let types: Vec<Type> =
            ranks.iter().map(|rank| rank.as_ref().map_or(Type::Number, |rank| rank.of)).collect();
        let pair = part.pair(&ranks);
        if let Some((first, second)) = pair {
            part.builder.effect(Effect::Rank(first, second));
        }
        if let Some(from) = &text.from {
            part.from(from, kind);
        }
        if let Some((time, then)) = &text.until {
            part.until(time, then, &types);
        }
        let virtual_rank = types.iter().position(|of| *of == Type::VirtualTime);
        part.check.aggregates.virtual_rank =
            virtual_rank.map(|at| if at == 0 { RankWord::First } else { RankWord::Second });
        part.check.rank = types;
        part.finish(span)
    }

    /// Collects the checked parts.
    fn finish(&mut self, programs: Vec<Program>) -> Option<CheckedAlgorithm> {
        self.check_state();
        let definition = self.definition;
        let field = |field: &CheckedField| Field {
            name: field.name.clone(),
            reading: match field.of {
                Type::VirtualTime => Reading::VirtualTime,
                of if of.is_signed() => Reading::Signed,
                _ => Reading::Unsigned,
            },
            initial: field.initial,
            forget: field.forget,
        };
        let parameter = |parameter: &CheckedParameter| {
            Field::unsigned(&parameter.name, parameter.default.unwrap_or_default())
        };
        let program = Algorithm {
            name: definition.name.value.clone(),
            kind: definition.kind,
            parameters: self.parameters.iter().map(parameter).collect(),
            node: self.node.iter().map(field).collect(),
            child: self.child.iter().map(field).collect(),
            aggregates: self.aggregates,
            parts: programs.into_iter().collect::<Parts>(),
        };
        if !self.diagnostics.is_empty() {
            return None;
        }
        if let Err(error) = program.validate() {
            let help = "leave out parts of it, or divide it between two nodes";
            self.find(Code::TooMuch, definition.name.span, error.to_string(), help);
            return None;
        }
        Some(CheckedAlgorithm {
            name: definition.name.value.clone(),
            kind: definition.kind,
            parameters: core::mem::take(&mut self.parameters),
            node: core::mem::take(&mut self.node),
            child: core::mem::take(&mut self.child),
            follows_head: definition.follows_head.is_some(),
            reads: core::mem::take(&mut self.reads),
            rank: core::mem::take(&mut self.rank),
            program,
        })
    }

    /// The fields of an owner.
    pub(super) fn fields(&mut self, owner: Owner) -> &mut Vec<CheckedField> {
        match owner {
            Owner::Node => &mut self.node,
            Owner::Child => &mut self.child,
        }
    }

    /// The owner and the number of the field `name`.
    pub(super) fn field(&self, name: &str) -> Option<(Owner, usize)> {
        let find = |fields: &[CheckedField]| fields.iter().position(|field| field.name == name);
        let child = find(&self.child).map(|at| (Owner::Child, at));
        find(&self.node).map(|at| (Owner::Node, at)).or(child)
    }
}
