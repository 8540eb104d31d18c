//! Senders and receivers of experiments.

pub mod churn;
pub mod ordered;
