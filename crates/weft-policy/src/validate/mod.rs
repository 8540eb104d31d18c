//! What must hold of a policy: names, the shape of its graph, and the match table of its classes.

pub(crate) mod build;
pub(crate) mod graph;
#[cfg(test)]
mod limits_oracle;
#[cfg(test)]
mod oracle;
pub(crate) mod rows;
pub(crate) mod rules;
pub(crate) mod shape;
pub(crate) mod terms;
