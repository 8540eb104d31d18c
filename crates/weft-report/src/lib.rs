//! Records, statistics, tables, plots and documents. Runs nothing.
//!
//! The modules, in suggested reading order:
//!
//! | module | what it holds |
//! |---|---|
//! | [`stats`] | percentiles, fairness (Jain, FM, NFM), share errors: pure functions on slices |
//! | [`judgement`] | how a verdict or claim stands, and the exit code of `--strict` |
//! | [`record`] | what every document shares: the host, the [`record::Document`] trait, packet and byte balances |
//! | [`demo`] | the document of `weft demo`, its summary, its verdicts, its tables and its HTML page |
//! | [`mod@bench`], [`replay`], [`reproduce`], [`policy_check`], [`doctor`], [`run`], [`sim`], [`steer`] | the documents of the other commands |
//! | [`table`] | text tables |
//! | [`html`] | self-contained HTML pages with interactive plots |
//! | [`json`] | documents to and from JSON text |
//! | [`human`] | numbers as people read them |
//!
//! **Invariant:** this crate opens no file, reads no clock and starts nothing: text goes in, text comes out.
//!
//! Numbers in the documents are SI base units: bits per second, bytes, seconds. `docs/schemas/` describes each document as
//! JSON Schema, and this crate's tests hold the two together.
#![forbid(unsafe_code)]

pub mod stats;

pub mod judgement;
pub mod record;

pub mod demo;

pub mod bench;
pub mod doctor;
pub mod policy_check;
pub mod replay;
pub mod reproduce;
pub mod run;
pub mod sim;
pub mod steer;
pub mod titan;

pub mod html;
pub mod table;

pub mod human;
pub mod json;
