//! The crate's external tests in one program: snapshots, shapes, bounds and the fuzz loop.

mod change;
mod common;

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
mod bounds;
mod drawings;
mod editors;
mod format;
mod fuzz;
mod shapes;
mod tools;
mod trials;
