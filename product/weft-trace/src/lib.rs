//! Traces that other programs open.
//!
//! | module | contents |
//! |---|---|
//! | [`table`] | tables with typed columns, row by row: CSV, or Parquet with the cargo feature `parquet` |
//! | [`departures`] | the table of departures, with the same columns for the simulator and the software NIC |
//! | [`perfetto`] | tracks, spans, flows and counters as a Perfetto trace |
//! | [`lanes`], [`gauge`] | tracks for spans that overlap, and counters whose changes come out of order |
//!
//! **Invariant:** writers are streaming: a table holds one row group, a trace 64 KB, whatever was written before. Nothing is opened
//! here; a sink is the caller's.
#![forbid(unsafe_code)]

pub mod departures;
pub mod gauge;
pub mod lanes;
pub mod perfetto;
mod protobuf;
pub mod table;
#[doc(hidden)]
pub mod testing;

/// Whether Parquet is built in.
pub const PARQUET: bool = cfg!(feature = "parquet");
