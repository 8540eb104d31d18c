//! The declarations of an algorithm: parameters, fields, and which parts its kind has.

use super::{Check, CheckedField, CheckedParameter};
use crate::algorithm::inputs::{NAMES, constant};
use crate::algorithm::model::{Body, Owner};
use crate::algorithm::types::Type;
use crate::code::Code;
use crate::diagnostic::Edit;
use crate::spanned::Spanned;
use core::str::FromStr;
use weft_rank::{Kind, Part, Program, Scale};
use weft_text::{Span, quoted};
use weft_units::{BitsPerSec, Bytes, Nanos};

/// The most characters of a quantity in a message.
const EXAMPLE: &str = "such as 5ms, 64kib, 1gbps or 3";

/// A quantity as written: its type and its value.
pub(crate) fn quantity(text: &str) -> Option<(Type, u64)> {
    if let Ok(number) = text.parse::<u64>() {
        return Some((Type::Number, number));
    }
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    if unit.is_empty() || !text.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let rate = BitsPerSec::from_str(text).ok().map(|rate| (Type::Rate, rate.get()));
    let time = || Nanos::from_str(text).ok().map(|time| (Type::Duration, time.get()));
    let size = || Bytes::from_str(text).ok().map(|size| (Type::Bytes, size.get()));
    rate.or_else(time).or_else(size)
}

/// The word of a quantity of type `of` in programs.
pub(crate) fn word(of: Type, value: u64) -> u64 {
    match of {
        Type::Rate => Scale::time_per_byte(BitsPerSec(value)).word(),
        _ => value,
    }
}

impl Check<'_> {
    /// Declares the parameters and the fields.
    pub(super) fn declare(&mut self) {
        let definition = self.definition;
        for text in &definition.parameters {
            let name = &text.name.value;
            let of = match &text.of {
                Some(of) => of.value,
                None => match Type::named(name) {
                    Some(of) => of,
                    None => {
                        let message = format!("the parameter {} has no type", quoted(name));
                        let help = "write `NAME: TYPE`; only a parameter with the name of its type needs none, such as `weight`";
                        self.find(Code::UnitMismatch, text.name.span, message, help);
                        Type::Number
                    }
                },
            };
            if matches!(of, Type::VirtualTime | Type::Time) || of.is_signed() {
                let help = "parameters are counts, bytes, durations, rates and weights";
                let message = format!("a parameter cannot be of the type {of}");
                self.find(
                    Code::UnitMismatch,
                    text.of.as_ref().map_or(text.name.span, |of| of.span),
                    message,
                    help,
                );
            }
            self.declared(&text.name);
            let default = text.default.as_ref().and_then(|default| self.value(default, of));
            self.parameters.push(CheckedParameter {
                name: name.clone(),
                of,
                default: default.map(|value| word(of, value)),
                divides: matches!(of, Type::Rate | Type::Weight),
                repeats: None,
            });
        }
        for text in &definition.fields {
            self.declared(&text.name);
            let of = text.of.value;
            let initial = text.initial.as_ref().and_then(|initial| self.value(initial, of));
            let forget = text.forget.as_ref().and_then(|time| self.value(time, Type::Duration));
            let initial = word(of, initial.unwrap_or_default());
            let field =
                CheckedField { name: text.name.value.clone(), of, initial, forget: forget.map(Nanos) };
            if text.owner == Owner::Node && forget.is_some() {
                let help = "a node lives as long as the policy; `forget after` is for the state of children";
                self.find(Code::PartUnwanted, text.name.span, "the state of a node is not forgotten", help);
            }
            self.fields(text.owner).push(field);
        }
    }

    /// Reports a name that is taken.
    fn declared(&mut self, name: &Spanned<String>) {
        let taken = self.parameters.iter().any(|parameter| parameter.name == name.value);
        if taken || self.field(&name.value).is_some() {
            let message = format!("{} is declared twice", quoted(&name.value));
            self.find(Code::DefinedTwice, name.span, message, "give one of them another name");
        } else if NAMES.contains(&name.value.as_str()) || constant(&name.value).is_some() {
            let message = format!("{} is a name that every algorithm has", quoted(&name.value));
            self.find(Code::ReservedName, name.span, message, "choose another name");
        }
    }

    /// A constant of type `of`, as a value in its unit.
    pub(crate) fn value(&mut self, text: &Spanned<String>, of: Type) -> Option<u64> {
        let known = constant(&text.value).filter(|(known, _)| *known != Type::Rate);
        let Some((found, value)) = known.or_else(|| quantity(&text.value)) else {
            let message = format!("{} is not a value", quoted(&text.value));
            self.find(Code::BadQuantity, text.span, message, EXAMPLE);
            return None;
        };
        if found.common(of, value == 0).is_none() {
            let message = format!("expected {of}, found {found}: {}", quoted(&text.value));
            let help = match (of, found) {
                (Type::Duration | Type::Time | Type::Rate, Type::Number) => {
                    "write the number's unit, such as 5ms or 1gbps"
                }
                _ => "the value has the unit of its name",
            };
            self.find(Code::UnitMismatch, text.span, message, help);
            return None;
        }
        if value == 0 && matches!(of, Type::Rate | Type::Weight) {
            let message = format!("a {of} cannot be 0");
            self.find(Code::DivisorZero, text.span, message, "write a value above 0");
            return None;
        }
        Some(value)
    }

    /// Checks that the parts are there once, and fit the kind.
    pub(super) fn check_parts(&mut self) {
        let definition = self.definition;
        let mut seen: Vec<&str> = Vec::new();
        for part in &definition.parts {
            let (word, wrong) = match (&part.body, definition.kind) {
                (Body::Rank(_), Kind::Algorithm) | (Body::From(_), Kind::Shaper) => ("rank", None),
                (Body::Rank(_), Kind::Shaper) => {
                    ("rank", Some("a shaper says `from` when a child may send; an `algorithm` ranks"))
                }
                (Body::From(_), Kind::Algorithm) => {
                    ("from", Some("`from` follows the rank: `rank = R from T`"))
                }
                (Body::Rank(_) | Body::From(_), _) => {
                    ("rank", Some("a dropper drops in `fetched`; an `algorithm` ranks"))
                }
                (Body::Event(Part::Fetched, _), Kind::Algorithm | Kind::Shaper) => {
                    ("fetched", Some("packets are dropped and marked by a `dropper`"))
                }
                (Body::Event(of, _), _) => (of.name(), None),
            };
            let kind = kind_name(definition.kind);
            if let Some(help) = wrong {
                self.find(Code::PartUnwanted, part.span, format!("{kind} has no part `{word}`"), help);
            } else if seen.contains(&word) {
                let help = "join the two: a part is there once";
                self.find(Code::DefinedTwice, part.span, format!("the part `{word}` is there twice"), help);
            }
            seen.push(word);
        }
        let (needs, help, edit) = match definition.kind {
            Kind::Algorithm => {
                ("rank", "say what is served first, such as `rank = head.arrived`", None::<Edit>)
            }
            Kind::Shaper => ("rank", "say from when a child may send, such as `from next`", None),
            Kind::Dropper => (
                "fetched",
                "say when a packet is dropped, such as `fetched { if queued.packets > 100 { drop } }`",
                None,
            ),
        };
        let shown = if definition.kind == Kind::Shaper { "from" } else { needs };
        if !seen.contains(&needs) && self.diagnostics.is_empty() {
            let message = format!("{} has no part `{shown}`", quoted(&definition.name.value));
            let diagnostic = crate::diagnostic::SpannedDiagnostic::new(
                Code::PartMissing,
                definition.name.span,
                message,
                help,
            );
            self.report(diagnostic.fix(edit));
        }
    }

    /// Checks that the state fits.
    pub(super) fn check_state(&mut self) {
        let sizes = [
            ("child", counted(&self.child), Program::CHILD_SLOTS_MAX),
            ("node", counted(&self.node), Program::NODE_SLOTS_MAX),
        ];
        let Some((what, (count, hidden), most)) =
            sizes.into_iter().find(|(_, (count, _), most)| count > most)
        else {
            return;
        };
        let last = self.definition.fields.last();
        let span = last.map_or(self.definition.name.span, |field| field.name.span);
        let kept = match hidden {
            0 => String::new(),
            _ => format!(", {} of them for fractions of quotients", 8 * hidden),
        };
        let message =
            format!("a {what} has {} bytes of state{kept}; at most {} are possible", 8 * count, 8 * most);
        let help = "each field takes 8 bytes: compute one from the others where that is possible";
        self.find(Code::TooMuch, span, message, help);
    }

    /// The place and the help of a name that nothing has, with the nearest one.
    pub(super) fn unknown(&mut self, name: &str, span: Span, locals: &[String]) {
        if !self.unknown.insert(name.to_owned()) {
            return;
        }
        let fields = self.node.iter().chain(&self.child).map(|field| field.name.clone());
        let parameters = self.parameters.iter().map(|parameter| parameter.name.clone());
        let metadata = crate::algorithm::inputs::METADATA.iter();
        let metadata =
            metadata.flat_map(|known| ["head", "p"].map(|owner| format!("{owner}.{}", known.name)));
        let constants = NAMES.iter().chain(&["unlimited"]).map(|name| (*name).to_owned());
        let all: Vec<String> =
            fields.chain(parameters).chain(locals.iter().cloned()).chain(metadata).chain(constants).collect();
        let all = all.iter().map(String::as_str).filter(|known| !known.ends_with('\''));
        let near = weft_text::nearest(name, all, crate::algorithm::inputs::SYNONYMS);
        let message = format!("the algorithm knows no value {}", quoted(name));
        let help = match name.split_once('.') {
            Some(("head" | "p", _)) => {
                "a packet has: len, arrived, deadline, slack, left, late, prio, txtime, pace"
            }
            _ => {
                "a value is a parameter, a field, a `let`, `now`, `head.` and what the packet tells, or a constant"
            }
        };
        let diagnostic = match near {
            Some(near) => {
                let message = format!("{message}: did you mean {}?", quoted(near));
                crate::diagnostic::SpannedDiagnostic::new(Code::UnknownValue, span, message, help)
                    .fix(Edit::replace(span, near))
            }
            None => crate::diagnostic::SpannedDiagnostic::new(Code::UnknownValue, span, message, help),
        };
        self.report(diagnostic);
    }
}

/// The number of fields, and of those that are hidden.
fn counted(fields: &[CheckedField]) -> (usize, usize) {
    (fields.len(), fields.iter().filter(|field| field.name.ends_with('\'')).count())
}

/// The name of a kind, with its article.
pub(super) const fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Algorithm => "an algorithm",
        Kind::Shaper => "a shaper",
        Kind::Dropper => "a dropper",
    }
}
