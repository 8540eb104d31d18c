//! The facts that commands state: counts, balances, statuses and documents, with their JSON Schemas and tables. Runs nothing.
//!
//! A fact has one type, which is the same on the wire, in the report, in the metrics and in the schema. The modules, in suggested
//! reading order:
//!
//! | module | content |
//! |---|---|
//! | [`counters`] | the tables of counters: a row is declared once |
//! | [`ports`] | ports and their limits |
//! | [`record`] | the common parts of documents: the host, the [`record::Document`] trait, packet and byte balances |
//! | [`status`], [`mod@config`], [`tenants`] | what a running daemon says of itself |
//! | [`diagnostic`], [`doctor`], [`policy_check`], [`policy_cost`], [`policy_diff`], [`policy_explain`], [`policy_test`], [`replay`], [`run`], [`steer`], [`titan`] | the documents of the other commands |
//! | [`schema`] | the JSON Schema of each document, made from its type |
//! | [`stats`] | percentiles, fairness (Jain, FM, NFM), share errors: pure functions on slices |
//! | [`table`] | text tables |
//! | [`json`] | documents to and from JSON text |
//! | [`human`] | numbers formatted for people |
//!
//! **Invariant:** this crate opens no file, reads no clock and starts no process. Its input and output are text.
//!
//! Numbers in the documents are in SI base units: bits per second, bytes, seconds. `docs/schemas/` has the schema of each
//! document, which the tests write and compare.
#![forbid(unsafe_code)]

pub mod counters;
pub mod ports;
pub mod record;
pub mod schema;

pub mod apply;
pub mod config;
pub mod diagnostic;
pub mod doctor;
pub mod policy_check;
pub mod policy_cost;
pub mod policy_diff;
pub mod policy_explain;
pub mod policy_test;
pub mod replay;
pub mod run;
pub mod status;
pub mod steer;
pub mod tenants;
pub mod titan;

pub mod human;
pub mod json;
pub mod stats;
pub mod table;
