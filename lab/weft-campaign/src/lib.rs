//! Campaigns: a scenario over a grid of parameters and seeds, and the store of the results.
//!
//! | module | contents |
//! |---|---|
//! | [`grid`], [`condition`] | grid files and their runs, one after the other; the comparisons that leave combinations out |
//! | [`campaign`] | a grid with its scenario: what each run simulates |
//! | [`key`], [`record`], [`figures`] | the name, the text and the figures of a result |
//! | [`document`] | the document of runs, as `weft sim` writes it |
//! | [`store`] | one file per result, found by its content |
//! | [`mod@run`], [`store_contents`], [`mod@export`] | making results, counting and merging them, and tables of them |
//! | [`engines`] | commands and scripts for other programs that run shards |
#![forbid(unsafe_code)]

pub mod campaign;
pub mod condition;
pub mod document;
pub mod engines;
pub mod export;
pub mod figures;
mod fuzz;
pub mod grid;
pub mod key;
pub mod record;
pub mod run;
pub mod scalar;
pub mod store;
pub mod store_contents;

#[doc(hidden)]
pub use fuzz::fuzz_grid;
