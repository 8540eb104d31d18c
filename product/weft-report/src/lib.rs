//! Records, statistics, tables, plots and documents. Runs nothing.
//!
//! The modules, in suggested reading order:
//!
//! | module | content |
//! |---|---|
//! | [`stats`] | percentiles, fairness (Jain, FM, NFM), share errors: pure functions on slices |
//! | [`judgement`] | the judgement of a verdict or claim, and the exit code of `--strict` |
//! | [`record`] | the common parts of documents: the host, the [`record::Document`] trait, packet and byte balances |
//! | [`demo`] | the document of `weft demo`, its summary, its verdicts, its tables and its HTML page |
//! | [`mod@bench`], [`campaign`], [`mod@config`], [`doctor`], [`policy_check`], [`policy_cost`], [`policy_diff`], [`policy_explain`], [`policy_test`], [`profile`], [`replay`], [`reproduce`], [`run`], [`sim`], [`status`], [`steer`], [`tenants`], [`tune`] | the documents of the other commands |
//! | [`table`] | text tables |
//! | [`html`] | self-contained HTML pages with interactive plots |
//! | [`svg`] | charts as SVG files |
//! | [`json`] | documents to and from JSON text |
//! | [`schema`] | the JSON Schema of each document, made from its type |
//! | [`human`] | numbers formatted for people |
//!
//! **Invariant:** this crate opens no file, reads no clock and starts no process. Its input and output are text.
//!
//! Numbers in the documents are in SI base units: bits per second, bytes, seconds. `docs/schemas/` has the schema of each
//! document, which this crate's tests write and compare.
#![forbid(unsafe_code)]

pub mod stats;

pub mod judgement;
pub mod record;

pub mod demo;

pub mod bench;
pub mod campaign;
pub mod config;
pub mod doctor;
pub mod policy_check;
pub mod policy_cost;
pub mod policy_diff;
pub mod policy_explain;
pub mod policy_test;
pub mod profile;
pub mod replay;
pub mod reproduce;
pub mod run;
pub mod sim;
pub mod status;
pub mod steer;
pub mod tenants;
pub mod titan;
pub mod tune;

pub mod html;
pub mod svg;
pub mod table;

pub mod human;
pub mod json;
pub mod schema;
