//! The syntax of policies: tokens, the lossless tree, and the parser, which never fails.

mod algorithms;
mod body;
mod characters;
mod grammar;
mod kind;
mod lexer;
mod mistakes;
mod parser;
mod steering;
mod tenants;

use crate::disciplines;
use std::sync::LazyLock;

pub(crate) use algorithms::{KEYWORDS, PARTS, TYPES};
pub(crate) use body::ALGORITHM_WORDS;
pub use kind::{PolicyLanguage, SyntaxKind, SyntaxNode, SyntaxToken};
pub(crate) use mistakes::{BARE_TESTS, TESTS};
pub use parser::is_name;
pub(crate) use parser::parse;

/// The greatest nesting depth of conditions and expressions. It bounds every recursion over the tree.
pub const NESTING_MAX: usize = 64;

/// The longest text accepted as a policy, in bytes.
pub const TEXT_MAX: usize = 16 << 20;

/// The reserved words, which cannot be names, sorted.
pub(crate) static RESERVED: LazyLock<Vec<&str>> = LazyLock::new(|| {
    let others = "and any bound burst by cgroup class destination dport fair from icmp icmpv6 limit link mark not \
         of or packets port protocol sctp sport tcp to udp";
    let mut words: Vec<&str> = others.split(' ').chain(disciplines::words()).collect();
    words.sort_unstable();
    words
});

/// Words with a meaning in one place only, which may be names elsewhere.
pub(crate) static CONTEXTUAL: LazyLock<Vec<&str>> = LazyLock::new(|| {
    let words = "auto latency vlan pcp dscp ecn user classid cookie process tenant trust classes cost flows \
         cgroups ports rows masks entries limits nodes steer balance rate weight isolate on queue queues \
         flow static locality expression";
    words.split(' ').collect()
});

#[cfg(test)]
mod tests {
    use super::{CONTEXTUAL, RESERVED};
    use std::collections::BTreeSet;

    #[test]
    fn the_words_of_the_language_are_those_of_the_grammar_in_the_guide() {
        let path = format!("{}/../../docs/policy-language.md", env!("CARGO_MANIFEST_DIR"));
        let guide = std::fs::read_to_string(path).expect("the guide is there");
        let (_, grammar) = guide.split_once("\n## Grammar\n").expect("the guide has a grammar");
        let quoted = grammar.split('"').skip(1).step_by(2);
        let words: BTreeSet<&str> =
            quoted.filter(|word| word.starts_with(|c: char| c.is_ascii_lowercase())).collect();
        let known: BTreeSet<&str> = RESERVED.iter().chain(CONTEXTUAL.iter()).copied().collect();
        assert_eq!(words, known, "docs/policy-language.md and RESERVED differ");
    }
}
