//! From the syntax tree to what the policy says: values are read here, names are still names.

mod conditions;
mod items;
pub(crate) mod model;
mod values;

pub(crate) use items::lower;
