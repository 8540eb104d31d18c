//! Reproduction of published tables and figures: one file per experiment, simulated and compared with the published
//! values.
//!
//! `experiments/*.toml` state runs and comparisons (docs/reproducing.md). They are compiled in, so the program needs
//! no source tree.
//!
//! 1. Ids are resolved (`measured`) to experiments of the one list (`catalogue`), which says of each whether it is simulated from its
//!    file (`file`), runs on this machine, or has cells that are measured here.
//! 2. `run` plans units: a scenario with its seeds. A unit is keyed by the scenario's text, so runs that experiments
//!    share are made once. Each metric is evaluated on an empty outcome first, so that an invalid name costs no
//!    simulation.
//! 3. Titan's measurements run before the simulations, since missing rights must show early. All measurements run
//!    alone, since load would distort them.
//! 4. All simulations of all experiments are one list, spread over the threads. They are independent, so the result
//!    does not depend on the number of threads. With a store, runs whose metrics it has are not made again (`result_cache`).
//! 5. `metric` computes cells from outcomes, `claim` judges the paper's statements, each also on a null model that
//!    must fail it (`judge`, on simulated or measured cells), and `scores` compares the result with `experiments/scores.toml`.
//!
//! The experiment records own the results; `weft-report` formats them. A run never reads published values. Parameters
//! that were fitted to them say so in their sources, and `cross` scores them on cells that the fit has not seen.
//!
//! Rare branches need no counters, because each is visible: a cell without a value stays empty; a claim about missing
//! cells (other flow counts than the paper's) is left out; a failed run ends the command with row, flow count and
//! reason; a failed measurement is a note of its experiment.

mod catalogue;
mod claim;
mod cross;
mod doorbells;
mod fig2;
pub(crate) mod file;
mod generate;
mod hoststack;
mod judge;
mod kernel_path;
mod loom_cpu;
mod measured;
mod metric;
mod result_cache;
mod run;
mod scores;

pub use catalogue::{claims_of, ids, names, title};
pub use cross::{Cross, CrossOptions};
pub use file::ExperimentFileError;
pub use measured::{MeasuringOptions, RUNS as MEASURED_RUNS};
pub use result_cache::ResultCache;
pub use run::{ReproduceError, ReproduceOptions, run};
pub use scores::{stored_settings, stored_text};
