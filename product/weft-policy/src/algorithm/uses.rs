//! Algorithms at nodes and leaves: which definition a name means, and the arguments of each child.

use super::check::declare::{quantity, word};
use super::check::{CheckedAlgorithm, check};
use super::model::Definition;
use super::read::definitions;
use super::types::Type;
use crate::code::Code;
use crate::diagnostic::{Edit, SpannedDiagnostic};
use crate::library::shipped;
use crate::spanned::Spanned;
use std::sync::{Arc, OnceLock};
use weft_rank::Scale;
use weft_text::{Span, nearest, quoted};
use weft_units::BitsPerSec;

/// The most algorithms that a policy may define.
const ALGORITHMS_MAX: usize = 64;

/// The algorithms in scope: a policy's own, and the shipped ones behind them.
#[derive(Debug, Default)]
pub(crate) struct Scope {
    /// `None` for one with an error: its uses are not checked.
    own: Vec<(String, Option<Arc<CheckedAlgorithm>>)>,
}

/// The checked texts of the library.
fn library() -> &'static [(&'static str, Arc<CheckedAlgorithm>)] {
    static LIBRARY: OnceLock<Vec<(&'static str, Arc<CheckedAlgorithm>)>> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let checked = shipped().iter().filter_map(|shipped| {
            let (tree, _) = crate::syntax::parse(shipped.text);
            let definition = definitions(&tree, &|_| false).pop()?;
            Some((shipped.name, Arc::new(check(&definition).0?)))
        });
        checked.collect()
    })
}

/// The shipped algorithm of a name, checked.
pub fn shipped_algorithm(name: &str) -> Option<Arc<CheckedAlgorithm>> {
    library().iter().find(|(shipped, _)| *shipped == name).map(|(_, algorithm)| Arc::clone(algorithm))
}

impl Scope {
    /// Checks a policy's own algorithms.
    pub(crate) fn new(definitions: &[Definition]) -> (Self, Vec<SpannedDiagnostic>) {
        let (mut own, mut diagnostics) = (Vec::new(), Vec::new());
        if let Some(beyond) = definitions.get(ALGORITHMS_MAX) {
            let message = format!("the policy defines more than {ALGORITHMS_MAX} algorithms");
            let help = "give one algorithm parameters, in place of several";
            diagnostics.push(SpannedDiagnostic::new(Code::TooMuch, beyond.name.span, message, help));
        }
        for definition in definitions.iter().take(ALGORITHMS_MAX) {
            let name = &definition.name;
            if own.iter().any(|(known, _)| *known == name.value) {
                let message = format!("the algorithm {} is defined twice", quoted(&name.value));
                let help = "give one of them another name";
                diagnostics.push(SpannedDiagnostic::new(Code::DefinedTwice, name.span, message, help));
                continue;
            }
            let (checked, more) = check(definition);
            diagnostics.extend(more);
            own.push((name.value.clone(), checked.map(Arc::new)));
        }
        (Self { own }, diagnostics)
    }

    /// The algorithm of a name; `None` if it has an error.
    pub(crate) fn get(&self, name: &str) -> Option<Arc<CheckedAlgorithm>> {
        match self.own.iter().find(|(own, _)| own == name) {
            Some((_, algorithm)) => algorithm.clone(),
            None => shipped_algorithm(name),
        }
    }
}

/// An argument as written; without a name, it is that of the first parameter.
#[derive(Clone, Debug)]
pub(crate) struct ArgumentText {
    pub(crate) name: Option<Spanned<String>>,
    pub(crate) value: Spanned<String>,
}

/// The value of a constant of type `of`.
pub(crate) fn argument(text: &Spanned<String>, of: Type) -> Result<u64, Box<SpannedDiagnostic>> {
    let wrong = |code, message: String, help: &str| {
        Err(Box::new(SpannedDiagnostic::new(code, text.span, message, help)))
    };
    let Some((found, value)) = quantity(&text.value) else {
        let help = "such as 5ms, 64kib, 1gbps or 3";
        return wrong(Code::BadQuantity, format!("{} is not a quantity", quoted(&text.value)), help);
    };
    if found.common(of, value == 0).is_none() {
        let message = format!("expected {}, found {}: {}", article(of), article(found), quoted(&text.value));
        let help = match (of, found) {
            (Type::Duration, Type::Number) => "write its unit, such as 5ms",
            (Type::Rate, Type::Number) => "write its unit, such as 1gbps",
            _ => "the argument has the unit of its parameter",
        };
        return wrong(Code::BadArgument, message, help);
    }
    let weight = of == Type::Weight && u32::try_from(value).is_err();
    if weight || value > i64::MAX as u64 {
        return wrong(
            Code::BadArgument,
            format!("{} is too large", quoted(&text.value)),
            "weights go up to 4294967295",
        );
    }
    Ok(value)
}

fn article(of: Type) -> String {
    match of {
        Type::Number | Type::Bytes => of.to_string(),
        _ => format!("a {of}"),
    }
}

/// The words of the parameters of `algorithm` for `arguments`. `span` is the place of the child.
pub(crate) fn words(
    algorithm: &CheckedAlgorithm,
    arguments: &[ArgumentText],
    span: Span,
) -> Result<Vec<u64>, Box<SpannedDiagnostic>> {
    let mut values: Vec<Option<u64>> = vec![None; algorithm.parameters.len()];
    for argument_text in arguments {
        let at = parameter(algorithm, argument_text)?;
        let parameter = &algorithm.parameters[at];
        let value = argument(&argument_text.value, parameter.of)?;
        let place = argument_text.name.as_ref().map_or(argument_text.value.span, |name| name.span);
        if values[at].is_some() {
            let message = format!("{} is given twice", quoted(&parameter.name));
            return Err(Box::new(SpannedDiagnostic::new(
                Code::StatedTwice,
                place,
                message,
                "leave one of them out",
            )));
        }
        if parameter.divides && value == 0 {
            let message = format!("{} divides and cannot be 0", quoted(&parameter.name));
            let span = argument_text.value.span;
            return Err(Box::new(SpannedDiagnostic::new(
                Code::DivisorZero,
                span,
                message,
                "write a value above 0",
            )));
        }
        values[at] = Some(value);
    }
    let mut words = Vec::with_capacity(values.len());
    for (parameter, value) in algorithm.parameters.iter().zip(&values) {
        let given = match parameter.repeats {
            Some(of) => {
                values.get(of).copied().flatten().map(|rate| Scale::bytes_per_nano(BitsPerSec(rate)).word())
            }
            None => value.map(|value| word(parameter.of, value)),
        };
        let Some(given) = given.or(parameter.default) else {
            let message = format!(
                "{} needs {}: {}",
                quoted(&algorithm.name),
                quoted(&parameter.name),
                article(parameter.of)
            );
            let example = example(parameter.of);
            let help = format!("give it for each child, such as `{}: {} {example}`", "a", parameter.name);
            return Err(Box::new(SpannedDiagnostic::new(Code::BadArgument, span, message, help)));
        };
        words.push(given);
    }
    Ok(words)
}

/// An example of a value.
fn example(of: Type) -> &'static str {
    match of {
        Type::Duration => "5ms",
        Type::Rate => "1gbps",
        Type::Bytes => "64kib",
        _ => "1",
    }
}

/// The parameter that an argument is for.
fn parameter(algorithm: &CheckedAlgorithm, argument: &ArgumentText) -> Result<usize, Box<SpannedDiagnostic>> {
    let visible = || algorithm.parameters.iter().filter(|parameter| parameter.repeats.is_none());
    let Some(name) = &argument.name else {
        if visible().next().is_some() {
            return Ok(0);
        }
        let message = format!("{} has no parameters", quoted(&algorithm.name));
        let span = argument.value.span;
        return Err(Box::new(SpannedDiagnostic::new(
            Code::BadArgument,
            span,
            message,
            "leave the argument out",
        )));
    };
    let found = visible().position(|parameter| parameter.name == name.value);
    found.ok_or_else(|| {
        let names: Vec<&str> = visible().map(|parameter| parameter.name.as_str()).collect();
        let message = format!("{} has no parameter {}", quoted(&algorithm.name), quoted(&name.value));
        let help = match names.is_empty() {
            true => "it has none".to_owned(),
            false => format!("it has: {}", names.join(", ")),
        };
        Box::new(
            match nearest(&name.value, names.iter().copied(), &[("prio", "level"), ("share", "weight")]) {
                Some(near) => {
                    let message = format!("{message}: did you mean {}?", quoted(near));
                    SpannedDiagnostic::new(Code::BadArgument, name.span, message, help)
                        .fix(Edit::replace(name.span, near))
                }
                None => SpannedDiagnostic::new(Code::BadArgument, name.span, message, help),
            },
        )
    })
}

impl CheckedAlgorithm {
    /// The words of the parameters for arguments as they are written behind a child: `2ms`, or `min 4gbps max 10gbps`. `None` if they are
    /// wrong.
    pub fn arguments(&self, text: &str) -> Option<Vec<u64>> {
        let spanned = |text: &str| Spanned { value: text.to_owned(), span: Span::default() };
        let mut given = Vec::new();
        let mut rest = text.split_whitespace().peekable();
        while let Some(first) = rest.next() {
            let named = !first.starts_with(|c: char| c.is_ascii_digit());
            let (name, value) = if named { (Some(spanned(first)), rest.next()?) } else { (None, first) };
            given.push(ArgumentText { name, value: spanned(value) });
        }
        words(self, &given, Span::default()).ok()
    }
}

/// The algorithms that a text defines, checked; those with errors are left out.
pub fn algorithms(text: &str) -> Vec<Arc<CheckedAlgorithm>> {
    let (tree, errors) = crate::syntax::parse(text);
    let broken = |span: Span| {
        errors.iter().any(|error| span.start <= error.span().start && error.span().start <= span.end)
    };
    let (scope, _) = Scope::new(&definitions(&tree, &broken));
    scope.own.into_iter().filter_map(|(_, algorithm)| algorithm).collect()
}

/// The role of an algorithm at its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// It orders the children of an inner node.
    Children,
    /// It orders the flows of a class, holds them, or drops their packets.
    Flows,
}

/// An algorithm at a node or a leaf.
#[derive(Clone, Debug)]
pub(crate) struct Use {
    /// `None` if it has an error.
    pub(crate) algorithm: Option<Arc<CheckedAlgorithm>>,
    pub(crate) name: Spanned<String>,
    pub(crate) place: Place,
    /// The parameters of each child; one list for all flows.
    pub(crate) parameters: Vec<Vec<u64>>,
}

impl Use {
    /// Whether it is a shaper that holds all packets below it together, as a limit does.
    pub(crate) fn shapes_all(&self) -> bool {
        let shaper = |algorithm: &Arc<CheckedAlgorithm>| {
            algorithm.kind == weft_rank::Kind::Shaper && !algorithm.holds_flows()
        };
        self.algorithm.as_ref().is_some_and(shaper)
    }
}

/// Checks that an algorithm is permitted at its place.
pub(crate) fn check_place(
    algorithm: &CheckedAlgorithm,
    name: &Spanned<String>,
    place: Place,
) -> Option<SpannedDiagnostic> {
    let wrong = |message: String, help: &str| {
        Some(SpannedDiagnostic::new(Code::WrongPlace, name.span, message, help))
    };
    let text = quoted(&name.value);
    match (algorithm.kind, place) {
        (weft_rank::Kind::Shaper, Place::Children) => wrong(
            format!("{text} is a shaper and orders no children"),
            "it stands before one node: `NAME ... of x`",
        ),
        (weft_rank::Kind::Dropper, Place::Children) => wrong(
            format!("{text} is a dropper and orders no children"),
            "it stands before one leaf: `NAME of x`",
        ),
        (_, Place::Children) if !algorithm.reads.is_empty() && !algorithm.follows_head => wrong(
            format!("{text} reads the next packet of its children, which changes without a turn of theirs"),
            "write `follows head` in the algorithm: a child is then ranked anew whenever its next packet changes",
        ),
        _ => None,
    }
}
