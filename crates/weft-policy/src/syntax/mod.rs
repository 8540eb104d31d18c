//! The syntax of policies: tokens, the lossless tree, and the parser, which never fails.

mod grammar;
mod kind;
mod lexer;
mod parser;

pub use kind::{PolicyLanguage, SyntaxKind, SyntaxNode, SyntaxToken};
pub(crate) use parser::parse;

/// The greatest nesting depth of conditions and expressions. It bounds every recursion over the tree.
pub const NESTING_MAX: usize = 64;

/// The longest text accepted as a policy, in bytes.
pub const TEXT_MAX: usize = 16 << 20;

/// The reserved words, which cannot be names.
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
