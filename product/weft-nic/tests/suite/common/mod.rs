//! Helpers of the tests.

pub(crate) mod assigned;
pub(crate) mod bench;
pub(crate) mod compiled;
pub(crate) mod held;
pub(crate) mod raw;
pub(crate) mod streams;
pub(crate) mod wire;
pub(crate) mod xsk;
