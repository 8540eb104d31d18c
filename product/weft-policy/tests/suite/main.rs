//! The crate's external tests in one program: snapshots, shapes, bounds and the fuzz loop.

mod change;
mod common;
mod live_changes;
#[path = "../../../weft-sched/tests/suite/slow/mod.rs"]
#[expect(dead_code, reason = "its random programs are for the engine's own tests")]
mod slow;

mod latency;
mod policies;

mod errors_algorithms;
mod errors_dag;
mod errors_meaning;
mod errors_syntax;
mod errors_values;

mod mistakes;
mod port_limits;

mod algorithm_mistakes;
mod algorithms;
mod attributes;
mod bounds;
mod default_place;
mod drawings;
mod editors;
mod executors;
mod format;
mod fuzz;
mod kernel;
mod kernel_random;
mod shapes;
mod shared_tables;
mod steering;
mod tenants;
mod tools;
mod trials;
