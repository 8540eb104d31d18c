//! `weft bench engine`: the engine in memory, with Figure 1's policy or a user-defined one.

use super::Case;
use std::path::{Path, PathBuf};
use weft_cli::failure::usage;
use weft_cli::output;
use weft_cli::policy_file::PolicyText;
use weft_cli::values;
use weft_experiments::bench;
use weft_experiments::bench::policy::{LENGTHS, PolicyOptions};
use weft_facts::human;
use weft_policy::CompileOptions;
use weft_report::bench::BenchCase;
use weft_units::BitsPerSec;

/// The options of the case `engine`.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Options of engine")]
pub(super) struct Options {
    /// Measure this policy instead of Figure 1's, with packets of 64, 594 and 1518 bytes. Limits bind as on the policy's link.
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// Number of flows, which take the policy's lanes in turn [default: 10000, or as many as there are lanes]
    #[arg(long, value_name = "N", requires = "policy", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    flows: Option<u32>,
    /// The link's rate, such as 40gbps [default: the policy's `link`, or 100gbps]
    #[arg(long, requires = "policy", value_parser = values::rate)]
    rate: Option<BitsPerSec>,
}

impl Options {
    /// Refuses options of this case beside others.
    pub(super) fn check(&self, cases: &[Case]) -> anyhow::Result<()> {
        match self.policy {
            Some(_) if cases != [Case::Engine] => {
                Err(usage("--policy is measured by the case engine alone: weft bench engine --policy FILE"))
            }
            _ => Ok(()),
        }
    }

    /// Measures the case.
    pub(super) fn measure(&self, runs: u32, measured: &mut Vec<BenchCase>) -> anyhow::Result<()> {
        if cfg!(debug_assertions) {
            output::warn("this is a debug build: its speed says nothing about the released program");
        }
        match &self.policy {
            Some(file) => self.measure_policy(file, runs, measured),
            None => figure_1(runs, measured),
        }
    }

    fn measure_policy(&self, file: &Path, runs: u32, measured: &mut Vec<BenchCase>) -> anyhow::Result<()> {
        let options = CompileOptions { link: self.rate, ..CompileOptions::default() };
        let policy = PolicyText::read(file)?.load(&options)?;
        for len in LENGTHS {
            let case = bench::policy::run(&policy, len, PolicyOptions { flows: self.flows, runs })?;
            let carried = human::or_none(case.ours_bps, human::rate);
            output::note(&format!("{}: {}, {carried}", case.case, human::pps(case.ours_pps)));
            measured.push(case);
        }
        Ok(())
    }
}

fn figure_1(runs: u32, measured: &mut Vec<BenchCase>) -> anyhow::Result<()> {
    for flows in bench::engine::FLOWS {
        let case = bench::engine::run(flows, runs)?;
        output::note(&format!("{}: {:.1} M packets/s", case.case, case.ours_pps / 1e6));
        measured.push(case);
    }
    Ok(())
}
