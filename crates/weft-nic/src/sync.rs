//! Atomics behind a facade: loom's when a model is checked (`RUSTFLAGS="--cfg loom"`), the standard ones otherwise.

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

#[cfg(not(loom))]
pub(crate) use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
