//! The policy language: text to a checked DAG to a program for the engine.
//!
//! [`compile`] takes a text through these passes, in this order:
//!
//! 1. `syntax`: the text becomes a lossless tree. The parser never fails; it reports and goes on.
//! 2. `lowering`: the tree becomes a model with values, in which names are still names.
//! 3. `validate`: names become edges of a graph, which must keep the rules of Loom's restricted DAG (NSDI'19, section 4);
//!    the conditions of classes become rows of a match table.
//! 4. `program`: shaping nodes leave the graph and become limits of lanes; what is left is a tree.
//!
//! Nothing here knows where a policy will run, reads a file or looks at a clock. Every recursion is bounded by
//! [`syntax::NESTING_MAX`] or by the number of levels of a policy, and every table by a limit with a code of its own.
#![forbid(unsafe_code)]

pub mod code;
mod compile;
pub mod compiled;
pub mod describe;
pub mod diagnostic;
mod fuzz;
mod lowering;
mod program;
mod render;
pub mod syntax;
mod validate;

pub use code::{Code, Severity};
pub use compile::{Compilation, CompileOptions, DIAGNOSTICS_MAX, Source, compile, parse};
pub use compiled::{ClassInfo, CompiledPolicy, INFRASTRUCTURE, Rule};
pub use describe::{describe, describe_infrastructure, describe_match, to_dot};
pub use diagnostic::Diagnostic;
pub use fuzz::fuzz_policy;
pub use program::BOUND_DEFAULT;
pub use render::render;
/// Whether a drawn diagnostic has colours.
pub use weft_text::Style;
