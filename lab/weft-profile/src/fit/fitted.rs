//! The measurements to which costs were fitted, as `[fitted]` of a machine's file: the cells, and the null model of predictions.

use std::fmt::Write;

use weft_facts::stats;
use weft_report::profile::predict::Figures;
use weft_report::profile::{ProfileReport, Side};

/// The cells to which costs were fitted, and the means over them. The means are the null model of predictions: every configuration
/// costs as much as these did.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Fitted {
    /// The cells, by [`cell_name`].
    pub cells: Vec<String>,
    /// Means of the cells.
    pub mean: Figures,
}

/// The name of a configuration: the pattern, the number of flows, the level.
pub fn cell_name(pattern: &str, flows: u32, level: &str) -> String {
    format!("{pattern} {flows}x {level}")
}

impl Fitted {
    /// The cells of the documents that have figures.
    pub fn of(reports: &[ProfileReport]) -> Self {
        let (mut cells, mut figures): (Vec<String>, Vec<Figures>) = Default::default();
        for report in reports {
            let rpc = report.rpc_bytes.map_or_else(String::new, |bytes| format!(" of {bytes} B"));
            for config in &report.configs {
                let name = cell_name(&report.pattern, config.flows, &config.level) + &rpc;
                if let Some(found) = Figures::of_runs(&config.runs) {
                    cells.push(name);
                    figures.push(found);
                }
            }
        }
        cells.sort();
        cells.dedup();
        let mean = |of: fn(&Figures) -> f64| stats::mean(&figures.iter().map(of).collect::<Vec<_>>());
        let mean = Figures {
            sender_ns_per_byte: mean(|f| f.sender_ns_per_byte).unwrap_or(0.0),
            receiver_ns_per_byte: mean(|f| f.receiver_ns_per_byte).unwrap_or(0.0),
            bps: mean(|f| f.bps).unwrap_or(0.0),
        };
        Self { cells, mean }
    }

    /// The table of the file.
    pub(super) fn text(&self) -> String {
        let cells: Vec<String> = self.cells.iter().map(|cell| format!("{cell:?}")).collect();
        let mut out =
            String::from("\n# The cells to which the costs were fitted, and their means.\n[fitted]\n");
        let _ = writeln!(out, "cells = [{}]", cells.join(", "));
        for side in Side::ALL {
            let _ = writeln!(out, "{}_ns_per_byte = {:.6}", side.name(), self.mean.ns_per_byte(side));
        }
        let _ = writeln!(out, "bps = {:.0}", self.mean.bps);
        out
    }
}
