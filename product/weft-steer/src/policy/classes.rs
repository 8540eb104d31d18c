//! Classification of flows.

use super::{Balance, Policy};
use crate::flow::Flow;
use crate::predicate::Predicate;

/// Classes by predicate. The first predicate that contains the whole flow wins; other flows keep their own class.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Classes {
    /// Names and predicates, in order.
    pub rules: Vec<(String, Predicate)>,
}

impl Classes {
    /// Returns a flow's class; empty if it has none.
    pub fn of<'a>(&'a self, flow: &'a Flow) -> &'a str {
        let rule = self.rules.iter().find(|(_, predicate)| predicate.without(&flow.headers).is_empty());
        rule.map_or_else(|| flow.class.as_deref().unwrap_or(""), |(name, _)| name)
    }
}

/// A policy and its classes.
#[derive(Debug)]
pub struct PolicyFile {
    /// The policy.
    pub policy: Box<dyn Policy>,
    /// The classification of flows.
    pub classes: Classes,
}

impl Default for PolicyFile {
    fn default() -> Self {
        Self::from(Balance::default())
    }
}

impl<P: Policy + 'static> From<P> for PolicyFile {
    fn from(policy: P) -> Self {
        Self { policy: Box::new(policy), classes: Classes::default() }
    }
}

impl From<Box<dyn Policy>> for PolicyFile {
    fn from(policy: Box<dyn Policy>) -> Self {
        Self { policy, classes: Classes::default() }
    }
}
