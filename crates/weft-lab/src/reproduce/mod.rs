//! Experiments: a file for each published table or figure, run in the simulator and set beside what was published.
//!
//! `experiments/*.toml` say what is run and what is compared (docs/reproducing.md); they are part of the program, so that it needs no
//! source tree. An experiment's runs differ in configuration, number of flows and seed, and are independent: all of them go over all
//! processors at once.

mod catalogue;
mod claim;
mod cross;
mod fig2;
mod file;
mod generate;
mod here;
mod kernel_path;
mod measured;
mod metric;
mod native;
mod run;
mod scores;

pub use catalogue::{claims_of, ids, title};
pub use cross::{Cross, CrossOptions};
pub use measured::{Measured, RUNS as MEASURED_RUNS, TITAN};
pub use run::{Options, ReproduceError, run};
pub use scores::{stored_settings, stored_text};
