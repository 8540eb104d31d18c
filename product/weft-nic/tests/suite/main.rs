//! The crate's tests of its public interface, in one program.

mod bound;
mod bytes;
mod classify;
mod common;
mod conservation;
mod deadlines;
mod divided;
mod doorbell_counts;
mod escape;
mod flows;
#[path = "../../../weft-packet/tests/suite/frames.rs"]
#[allow(dead_code, reason = "it uses a part")]
mod frames;
mod infrastructure;
mod kernel_side;
mod moves;
mod multiqueue;
mod port_workers;
mod receive;
mod receive_headers;
mod redirect;
mod tables;
mod tap_port;
mod titan;
mod titan_cores;
mod titan_exact;
mod titan_passed;
mod titan_queues;
mod titan_weights;
mod wake;
