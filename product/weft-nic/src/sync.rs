//! The atomics of the doorbell, imported in one place: the model checker compiles `doorbell/protocol.rs` against loom's
//! instead (`tests/loom_doorbell.rs`).

pub(crate) use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
