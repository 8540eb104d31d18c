//! The second pass: from the syntax tree to a model of the policy ([`model`]).
//!
//! [`lower`] visits the items of the file once, in order:
//!
//! 1. `link` and `bound` items become a typed rate and typed packet counts (`values`).
//! 2. `class` items become conditions (`conditions`): single tests are rows of a match table, joined by `and`, `or` and
//!    `not`. A cgroup's path becomes the number of that cgroup; paths are numbered in order of first use.
//! 3. Node definitions become expressions (`items`). Names within them remain text. A tenant (`tenants`) becomes a node over one class,
//!    whose place its file takes later.
//!
//! The lowering owns the model under construction, its diagnostics, and the set of codes that are reported once only. It does
//! not resolve names: a name may be used before its definition, so only the complete model has them all. That is the
//! task of `validate`.
//!
//! These rules hold:
//!
//! - Names, rates and expressions in the model carry their places in the text, for the reports of later passes.
//! - A value that cannot be parsed yields one diagnostic and is left out: the condition is `None`, the expression
//!   `Broken`, the limit absent. Lowering continues, so one run reports every wrong value.
//! - A part that is missing or wrong because of a syntax error is not reported again: the parser has done that. A construct
//!   counts as complete when its closing brace was read; `units` finds the values with a syntax error.
//! - Recursion follows the tree, whose depth [`NESTING_MAX`](crate::syntax::NESTING_MAX) bounds.

mod algorithms;
pub(crate) mod conditions;
mod items;
pub(crate) mod model;
mod nodes;
pub(crate) mod steering;
mod tenants;
mod units;
mod values;
pub(crate) mod visit;

pub(crate) use items::lower;
