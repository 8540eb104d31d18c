//! The text's syntax: tokens, the lossless tree, and the parser, which never fails.

mod grammar;
mod kind;
mod lexer;
mod parser;

pub use kind::{PolicyLanguage, SyntaxKind, SyntaxNode, SyntaxToken};
pub(crate) use parser::parse;

/// How deeply conditions and expressions may be nested. It bounds every recursion over the tree.
pub const NESTING_MAX: usize = 64;

/// The longest text that is read as a policy, in bytes.
pub const TEXT_MAX: usize = 16 << 20;

/// The words of the language, which cannot be names.
pub(crate) const RESERVED: &[&str] = &[
    "and",
    "any",
    "bound",
    "burst",
    "by",
    "cgroup",
    "class",
    "destination",
    "dport",
    "fair",
    "fifo",
    "from",
    "icmp",
    "icmpv6",
    "limit",
    "link",
    "mark",
    "not",
    "of",
    "or",
    "packets",
    "port",
    "priority",
    "protocol",
    "sctp",
    "sport",
    "tcp",
    "to",
    "udp",
    "wfq",
];
