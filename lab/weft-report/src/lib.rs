//! Documents, plots and pages of the laboratory, and the order of rounds that others measure.
//!
//! The modules, in suggested reading order:
//!
//! | module | content |
//! |---|---|
//! | [`judgement`] | the judgement of a verdict or claim, and the exit code of `--strict` |
//! | [`rounds`] | the order of variants that are measured in turns, and ratios within a round |
//! | [`demo`] | the document of `weft demo`, its summary, its verdicts, its tables and its HTML page |
//! | [`mod@bench`], [`campaign`], [`profile`], [`reproduce`], [`sim`], [`tune`] | the documents of the other commands |
//! | [`html`] | self-contained HTML pages with interactive plots |
//! | [`svg`] | charts as SVG files |
//!
//! **Invariant:** this crate opens no file, reads no clock and starts no process. Its input and output are text.
#![forbid(unsafe_code)]

pub mod judgement;
pub mod rounds;

pub mod demo;

pub mod bench;
pub mod campaign;
pub mod profile;
pub mod reproduce;
pub mod sim;
pub mod tune;

pub mod html;
pub mod svg;
