//! Renaming: all places of a name, if the new one is free and the policy still compiles.

use crate::host::Compiler;
use crate::line_index::LineIndex;
use crate::symbols::{Place, Scope, Symbols};
use gen_lsp_types::TextEdit;
use weft_policy::syntax::is_name;
use weft_policy::{INFRASTRUCTURE, Source, library, parse, words};
use weft_text::{Span, quoted};

/// The reason that a name cannot be changed, in one line.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Denied {
    #[error("there is no name of a class, node, limit or algorithm here")]
    NoName,
    #[error("the text has syntax errors; correct them first")]
    Unreadable,
    #[error("{0} is not defined in this text")]
    NotHere(String),
    #[error(
        "{0} cannot be a name: it begins with a letter and goes on with letters, digits, `_`, `-` and `.`"
    )]
    NoForm(String),
    #[error("{0} is a word of the language")]
    Reserved(String),
    #[error("{0} has a meaning of its own")]
    Special(String),
    #[error("there is {0} already")]
    Taken(String),
    #[error("the policy would be refused: {0}")]
    Refused(String),
}

/// The names that mean something by themselves.
const SPECIAL: [&str; 3] = ["default", "root", INFRASTRUCTURE];

/// The name at `offset`, if it can be renamed.
pub(crate) fn renamable(text: &str, offset: usize) -> Result<Place, Denied> {
    let (tree, errors) = parse(Source { name: "", text });
    let symbols = Symbols::new(&tree);
    let place = symbols.at(offset).ok_or(Denied::NoName)?;
    if !errors.is_empty() {
        return Err(Denied::Unreadable);
    }
    if symbols.find(place.scope, &place.name).is_none() {
        return Err(Denied::NotHere(quoted(&place.name)));
    }
    if place.scope == Scope::Tree && SPECIAL.contains(&place.name.as_str()) {
        return Err(Denied::Special(quoted(&place.name)));
    }
    Ok(place.clone())
}

/// The edits that rename what is at `offset`.
pub(crate) fn rename(
    compiler: Compiler<'_>,
    text: &str,
    offset: usize,
    new: &str,
) -> Result<Vec<TextEdit>, Denied> {
    let place = renamable(text, offset)?;
    if !is_name(new) {
        return Err(Denied::NoForm(quoted(new)));
    }
    if words::reserved().contains(&new) {
        return Err(Denied::Reserved(quoted(new)));
    }
    let symbols = Symbols::new(&parse(Source { name: "", text }).0);
    let shipped = || library::shipped().iter().any(|shipped| shipped.name == new);
    match place.scope {
        Scope::Tree if SPECIAL.contains(&new) => return Err(Denied::Special(quoted(new))),
        scope
            if new != place.name
                && (symbols.find(scope, new).is_some() || (scope == Scope::Algorithms && shipped())) =>
        {
            return Err(Denied::Taken(quoted(new)));
        }
        _ => {}
    }
    let places = symbols.places.iter().filter(|other| other.scope == place.scope && other.name == place.name);
    let spans: Vec<Span> = places.map(|place| place.span).collect();
    check(compiler, text, &replaced(text, &spans, new))?;
    let lines = LineIndex::new(text);
    Ok(spans
        .into_iter()
        .map(|span| TextEdit { range: lines.range(span), new_text: new.to_owned() })
        .collect())
}

/// The text with `new` at all `spans`, which are in order.
fn replaced(text: &str, spans: &[Span], new: &str) -> String {
    let (mut out, mut at) = (String::new(), 0);
    for span in spans {
        out += text.get(at..span.start).unwrap_or_default();
        out += new;
        at = span.end;
    }
    out + text.get(at..).unwrap_or_default()
}

/// Denies a text with more errors than the one before.
fn check(compiler: Compiler<'_>, before: &str, after: &str) -> Result<(), Denied> {
    let errors = |text: &str| -> Vec<String> {
        let compilation = compiler.compile(text);
        compilation
            .diagnostics
            .into_iter()
            .filter(|found| found.is_error())
            .map(|found| found.message)
            .collect()
    };
    let (before, after) = (errors(before), errors(after));
    match after.first().filter(|_| after.len() > before.len()) {
        Some(first) => Err(Denied::Refused(first.clone())),
        None => Ok(()),
    }
}
