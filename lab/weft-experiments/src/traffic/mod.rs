//! Senders and receivers of experiments.

pub mod churn;
pub(crate) mod iperf;
pub mod ordered;
