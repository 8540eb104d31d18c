//! Experiments on this machine, by paper.
//!
//! | module | the paper, and the experiment |
//! |---|---|
//! | [`loom`] | Loom (NSDI 2019): isolation of tenants, which `weft demo` shows |
//! | [`titan`] | Titan (ATC 2017 and technical report): fairness, order and shuffles on a multiqueue NIC |
//! | [`dragonet`] | Dragonet (TRIOS 2015): isolation of memcached's clients, cost of the search, verification of a plan |
//! | [`kernel_tcp`] | none: the kernel's TCP through a bottleneck, which the simulator's is held against |

pub mod dragonet;
pub mod kernel_tcp;
pub mod loom;
mod request;
pub mod titan;

pub(crate) use request::Native;
pub use request::{ExperimentError, ExperimentRequest};
