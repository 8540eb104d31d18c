//! The third pass: from the model to a graph and a match table that keep the rules.
//!
//! The steps, in the order in which `compile` runs them:
//!
//! 1. [`build`] resolves names. Classes come first in the graph, then `default`, then nodes; unknown and duplicate
//!    names are reported. If a name is unknown, the graph is marked incomplete; cycles are still reported, and the later steps
//!    are skipped.
//! 2. [`shape`] rejects cycles, then computes reachable nodes in topological order, their parents, and for each node
//!    the first node on all its paths to the root (its join). `default` is placed if the policy has not done it.
//! 3. [`rules`] checks Loom's restricted DAG (section 4): a node has several parents only if all of them shape, and these
//!    must join in a single FIFO. It also checks that FIFOs and `fair` have classes below them, that limits side by side
//!    have distinct destinations, and that every class is reachable.
//! 4. [`terms`] turns each condition into alternatives, each a row of tests with exceptions.
//! 5. [`rows`] turns the alternatives of all classes into one table without exceptions: the rows of an exception come first,
//!    so the first match decides.
//!
//! The graph belongs to `build` while it is under construction; afterwards only the placement of `default` and the caller's
//! rates for limits change it. The later steps read it.
//!
//! These rules hold:
//!
//! - An error is reported at the place in the text that the author has to change.
//! - Shape is computed only for an acyclic graph. Recursive passes run after the check of [`shape::LEVELS_MAX`].
//! - The table's last row matches everything, so every packet has a class.
//! - Expanding conditions can grow exponentially. Therefore alternatives, rows and steps are limited, and a condition
//!   beyond the limits is refused with `E0402` or `E0403`; it never takes long or becomes approximate.
//!
//! `oracle` and `limits_oracle` test the table and the limits against direct evaluation of single packets. Each rare branch
//! ends in a diagnostic with its own code, so none needs a counter.

pub(crate) mod algorithms;
pub(crate) mod build;
pub(crate) mod graph;
#[cfg(test)]
mod limits_oracle;
#[cfg(test)]
mod oracle;
mod root;
pub(crate) mod row_index;
pub(crate) mod rows;
pub(crate) mod rules;
pub(crate) mod shape;
pub(crate) mod terms;
