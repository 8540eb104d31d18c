//! Ordinary mistakes of policies, and the words that were meant.
//!
//! The functions read the next tokens. Each one that finds its mistake reports it with a fix, and leaves the parser in a
//! state where the grammar continues as if the text were right, so that one mistake is one error. A function that finds none
//! changes nothing.

pub(super) mod algorithms;
mod conditions;
mod items;
mod lists;
mod values;
mod words;

use super::RESERVED;
use super::kind::SyntaxKind::*;
use super::parser::{Parsed, Parser};
use crate::code::Code;
use crate::corrections::{Synonyms, pairs};
use crate::diagnostic::{Edit, SpannedDiagnostic};
use crate::disciplines::is_word;
use weft_text::{Span, nearest};
use words::{ATTRIBUTES, LOWER_CASE, PLACE_SYNONYMS};
pub(crate) use words::{BARE_TESTS, TESTS};

pub(super) use conditions::{
    close_paren, in_quotes, joins, named_protocol, negates, ports_word, test_word, value_list, value_set,
};
pub(super) use items::{
    at_item_or_mistake, at_node, class_without_word, equals, goal_without_steer, item_word, leftover,
    node_as_class,
};
pub(super) use lists::{
    Opening, by_port, closes_otherwise, colon, colon_for_comma, comma_for_colon, fair_of_list,
    limit_to_class, node_word, of_without_fair, separator, superfluous_comma, unknown_node,
};
pub(super) use values::{
    before_value, burst_word, port_of_address, range_apart, rate_behind_address, unit_apart, word_before_rate,
};

fn among(p: &Parser<'_>, ahead: usize, words: &[&str]) -> bool {
    p.kind_at(ahead) == Some(Word) && words.contains(&p.text_at(ahead))
}

/// Whether a test begins `ahead` tokens after the cursor.
pub(super) fn begins_test(p: &Parser<'_>, ahead: usize) -> bool {
    match p.text_at(ahead) {
        "priority" => p.number_at(ahead + 1),
        word if ATTRIBUTES.contains(&word) => {
            let value = matches!(p.kind_at(ahead + 1), Some(Word | Text)) && !p.line_start(ahead + 1);
            value && !RESERVED.contains(&p.text_at(ahead + 1)) && !p.knows_algorithm(word)
        }
        _ => among(p, ahead, TESTS),
    }
}

/// Whether an expression with a keyword begins `ahead` tokens after the cursor.
pub(super) fn begins_node(p: &Parser<'_>, ahead: usize) -> bool {
    let next = p.kind_at(ahead + 1);
    match p.text_at(ahead) {
        word if is_word(word) => next == Some(OpenBrace),
        "fair" => p.text_at(ahead + 1) == "of",
        "limit" => p.number_at(ahead + 1) || p.text_at(ahead + 1) == "by",
        _ => false,
    }
}

/// Reports a mistake at `span`, with its fix.
fn report(p: &mut Parser<'_>, span: Span, message: &str, help: &str, edit: impl Into<Option<Edit>>) {
    p.report(SpannedDiagnostic::new(Code::Unexpected, span, message, help).fix(edit));
}

/// Corrects the next word if it is close to one of `words`.
fn corrected(
    p: &mut Parser<'_>,
    what: &str,
    words: &[&'static str],
    synonyms: &[Synonyms],
    help: &str,
) -> bool {
    if !p.at(Word) || RESERVED.contains(&p.text()) {
        return false;
    }
    let meant = nearest(p.text(), words.iter().copied(), &pairs(synonyms));
    if let Some(word) = meant.and_then(|meant| words.iter().find(|word| **word == meant)) {
        let capitals = p.text().eq_ignore_ascii_case(word);
        p.correct(what, word, if capitals { LOWER_CASE } else { help });
        return true;
    }
    false
}

/// Reads the word `word`, or reports that it was expected. A misspelt word is read as `word`.
pub(super) fn word(p: &mut Parser<'_>, word: &'static str, help: &str) -> Parsed {
    if p.eat_word(word) {
        return Ok(());
    }
    let what = format!("`{word}`");
    if !p.at_item() && corrected(p, &what, &[word], PLACE_SYNONYMS, help) {
        p.bump();
        return Ok(());
    }
    let inserts = match word {
        "of" => p.at(Word) && !p.at_line_start() && !p.number_at(0) && !p.number_at(1),
        "on" | "by" => p.number_at(0) && !p.at_line_start(),
        _ => ["packets", "queues", "flows"].contains(&word) && (p.text() == "of" || p.at_line_start()),
    };
    let edit = inserts.then(|| Edit::insert(p.end_before(), format!(" {word}")));
    p.unexpected_but(&what, help, edit)
}
