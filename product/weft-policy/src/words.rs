//! The words of the language, for editors: they complete and colour what the compiler reads.

use crate::algorithm::inputs::{FUNCTION_NAMES, METADATA, NAMES};
use crate::syntax::{ALGORITHM_WORDS, BARE_TESTS, CONTEXTUAL, KEYWORDS, PARTS, RESERVED, TESTS, TYPES};

/// The reserved words, which cannot be names.
pub const fn reserved() -> &'static [&'static str] {
    RESERVED
}

/// Words with a meaning in one place only, which may be names elsewhere.
pub const fn contextual() -> &'static [&'static str] {
    CONTEXTUAL
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
