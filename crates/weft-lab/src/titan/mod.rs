//! Queue assignment under test: the papers' experiment on real packets, and traffic by whose order and number it is checked.

pub mod churn;
pub mod measured;
pub mod order;
pub mod shuffle;
pub mod traffic;

#[cfg(test)]
mod testbed;
