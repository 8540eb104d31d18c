//! The atomics of the lines. The model checker has its own in their place.

pub(crate) use std::sync::atomic::{AtomicU64, Ordering};
