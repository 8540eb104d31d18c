//! Queue assignment under test: the papers' experiment on real packets, and traffic that checks order and counts.

pub mod churn;
pub mod measured;
pub mod order;
pub mod shuffle;
pub mod traffic;

#[cfg(test)]
mod testbed;
