//! The words of the language, for editors: they complete and colour what the compiler reads.

use crate::algorithm::inputs::{FUNCTION_NAMES, METADATA, NAMES};
use crate::disciplines;
use crate::syntax::{ALGORITHM_WORDS, BARE_TESTS, CONTEXTUAL, KEYWORDS, PARTS, RESERVED, TESTS, TYPES};
use weft_sched::program::Discipline;

/// The reserved words, which cannot be names, sorted.
pub fn reserved() -> &'static [&'static str] {
    &RESERVED
}

/// The words that begin a node.
pub fn nodes() -> Vec<&'static str> {
    [&disciplines::words()[..], &["fair of", "limit"]].concat()
}

/// The word of a node's discipline: the language's, or the name of the algorithm.
pub fn of_discipline(discipline: &Discipline) -> &str {
    match discipline.custom() {
        Some(custom) => &custom.algorithm.name,
        None => disciplines::row_of(discipline).map_or("", |row| row.word),
    }
}

/// Words with a meaning in one place only, which may be names elsewhere.
pub fn contextual() -> &'static [&'static str] {
    &CONTEXTUAL
}

/// The words of tests in a condition.
pub const fn tests() -> &'static [&'static str] {
    TESTS
}

/// Whether `word` is that of a test which a value follows.
pub fn is_valued_test(word: &str) -> bool {
    TESTS.contains(&word) && !BARE_TESTS.contains(&word)
}

/// The words that begin the definition of an algorithm.
pub const fn algorithm_kinds() -> &'static [&'static str] {
    &ALGORITHM_WORDS
}

/// The words of parts, statements and types in the body of an algorithm, sorted.
pub fn algorithm_words() -> Vec<&'static str> {
    let mut words: Vec<&str> = [PARTS, KEYWORDS, TYPES, &["after", "head"]].concat();
    words.sort_unstable();
    words.dedup();
    words
}

/// The functions of algorithms.
pub const fn functions() -> &'static [&'static str] {
    FUNCTION_NAMES
}

/// The names that every algorithm has, with the metadata of its next packet and of the handled packet.
pub fn algorithm_names() -> Vec<String> {
    let of = |packet: &'static str| METADATA.iter().map(move |known| format!("{packet}.{}", known.name));
    let plain = NAMES.iter().map(|name| (*name).to_owned()).chain(["unlimited".to_owned()]);
    plain.chain(of("head")).chain(of("p")).collect()
}
