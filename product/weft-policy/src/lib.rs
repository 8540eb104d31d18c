//! The policy language: the compiler from a text to the engine's program and a match table.
//!
//! [`compile`] runs these passes in this order:
//!
//! 1. `syntax`: the text becomes a lossless tree. The parser never fails: it reports an error, skips to the next construct
//!    and continues, so one run reports every error. It finds ordinary mistakes, reports each once, and continues as meant.
//! 2. `lowering`: the tree becomes a model. Values are parsed into typed quantities; names remain names.
//! 3. `validate`: names become edges of a graph. The graph must be a restricted DAG as Loom defines it (NSDI'19, section 4).
//!    The conditions of the classes become rows of a match table, in which the first match decides.
//! 4. `program`: shaping nodes leave the graph and become limits of lanes. The remaining nodes form the engine's tree.
//!
//! Each pass takes the result of the pass before it and returns its own result with a list of diagnostics. No state
//! outlives [`compile`]. Syntax errors do not stop lowering or the checks of names. The graph as a whole is checked only when
//! every name is resolved, since a hole in it would raise errors that the author cannot act on. Rows and the program are
//! made only when no error has been found.
//!
//! These rules hold:
//!
//! - A policy is returned if and only if no diagnostic is an error.
//! - Every diagnostic has a stable code, a place in the text and a remedy, and a [`Fix`] where it is known what was meant. A
//!   code never changes its meaning.
//! - No text causes a panic. [`syntax::NESTING_MAX`] and the limit on a policy's levels bound every recursion; the text, the
//!   graph, the match table, the cgroups and the diagnostics have separate limits, so that compile time is bounded too.
//! - A packet's lane in the match table is the lane that the conditions and limits describe. The `oracle` modules compare
//!   the two on random policies and packets.
//! - The compiler does not depend on where a policy will run: it reads no file and no clock.
//!
//! Rare branches need no counters: a compilation is one call, and each of them ends in a diagnostic with its own code.
#![forbid(unsafe_code)]

pub mod algorithm;
mod attributes;
mod budget;
pub mod change;
pub mod code;
mod compile;
pub mod compiled;
mod corrections;
pub mod cost;
mod decode;
pub mod describe;
pub mod diagnostic;
mod disciplines;
pub mod drawing;
pub mod explain;
pub mod export;
pub mod files;
mod format;
mod fuzz;
mod goals;
pub mod kernel;
pub mod library;
mod lowering;
mod program;
pub mod promise;
mod region;
mod render;
pub mod senders;
mod spanned;
mod steering;
pub mod syntax;
mod tables;
pub mod trial;
mod users;
mod validate;
mod weights;
pub mod words;

pub use budget::Steps;
pub use change::{
    Numbers, Phase, PolicyKept, Renumbered, Resting, Step, Warning, renumber, renumber_around, successor_at,
};
pub use code::{Code, Severity};
pub use compile::{
    Compilation, CompileOptions, DIAGNOSTICS_MAX, Fallback, Source, TooManyRefused, compile, compile_with,
    compile_with_fallback, draw, parse, price, price_with, steer_with,
};
pub use compiled::{
    ClassInfo, CompiledPolicy, Destination, INFRASTRUCTURE, Rule, SteerClause, infrastructure_rate,
};
pub use decode::decode;
pub use describe::{describe, describe_infrastructure, describe_match, to_dot};
pub use diagnostic::{Diagnostic, Fix};
pub use explain::{explain, explain_with};
pub use files::{
    AtFault, FileError, FileText, GivenFirst, NoFiles, Quota, QuotaUse, Tenant, TenantFiles, TenantTexts,
    Wanted, is_below, is_given, texts_of,
};
pub use format::reformat;
pub use fuzz::fuzz_policy;
pub use goals::{fuzz_goals, read_goals};
pub use lowering::model::default_burst;
pub use program::BOUND_DEFAULT;
pub use render::render;
pub use tables::{ENTRIES_MAX, MASKS_MAX};
pub use users::Users;
pub use validate::terms::ROWS_MAX;
/// Whether a drawn diagnostic has colours.
pub use weft_text::Style;
pub use weights::{Weighed, weigh};
