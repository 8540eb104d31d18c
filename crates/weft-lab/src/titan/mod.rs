//! Titan's queue assignment: traffic that tries it, and checks of what it promises.

pub mod churn;
pub mod order;
pub mod traffic;

#[cfg(test)]
mod testbed;
