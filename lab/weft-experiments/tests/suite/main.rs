//! The crate's tests of its public interface, in one program.

mod cross;
mod rate_limit;
mod reproduce;
mod steering;
mod titan;
mod tune;
mod verdicts;
