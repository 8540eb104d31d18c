//! The qdiscs that a kernel has besides HTB and the FIFOs, which the form requires.

use serde::{Deserialize, Serialize};

/// The qdiscs of a kernel. Without one of them the form keeps less, and its promises say so.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct KernelQdiscs {
    /// Deficit round robin: exact weights. Otherwise HTB classes share by weights.
    pub drr: bool,
    /// Strict priority below drr.
    pub prio: bool,
    /// Fairness of flows. Otherwise a class is one FIFO.
    pub fq_codel: bool,
    /// Departure times: limits by destination and port. Otherwise they do not hold.
    pub fq: bool,
}

impl KernelQdiscs {
    /// All of them, as the kernels of distributions have.
    pub const ALL: Self = Self { drr: true, prio: true, fq_codel: true, fq: true };

    /// The qdiscs of which `has` says that the kernel has them, asked by the words of tc.
    pub fn of(has: impl Fn(&str) -> bool) -> Self {
        Self { drr: has("drr"), prio: has("prio"), fq_codel: has("fq_codel"), fq: has("fq") }
    }
}
