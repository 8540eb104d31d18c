//! `weft reproduce --cross`: scores of the simulator in sample and out of sample.

use std::path::Path;
use std::process::ExitCode;
use weft_cli::output::{self, OutputTarget};
use weft_cli::progress;
use weft_cli::signals::{Removes, Stop};
use weft_experiments::reproduce::{Cross, CrossOptions, ReproduceError};
use weft_facts::record::Document;
use weft_report::reproduce::CrossReport;
use weft_run::host_facts;

/// The default number of runs of each cell: the whole then takes some minutes on two processors.
const SEEDS: u32 = 2;

/// Runs the command.
pub(super) fn run(
    seeds: Option<u32>,
    seed: u64,
    threads: usize,
    json: Option<&Path>,
) -> anyhow::Result<ExitCode> {
    let json = OutputTarget::open(json)?;
    let stop = Stop::install(Removes::Nothing)?;
    let seeds = seeds.unwrap_or(SEEDS);
    let options =
        CrossOptions { seeds, seed, threads, keys: Vec::new(), rows: Vec::new(), flows: Vec::new() };
    let made = Cross::plan(options).and_then(|mut cross| {
        let most = cross.most_runs();
        let seconds = cross.trial(&|| stop.asked())?;
        let minutes = most as f64 * seconds / threads.max(1) as f64 / 60.0;
        output::message(&format!(
            "at most {most} runs of {seconds:.2} s, {threads} at a time: at most {minutes:.0} minutes, less where fits try the same parameters"
        ));
        let runs = progress::Runs::default();
        let report = cross.run(&|| stop.asked(), &mut |made| runs.set(made as u64, most as u64));
        runs.finish();
        report
    });
    match made {
        Ok(report) => {
            let (schema, host) = (CrossReport::SCHEMA.to_owned(), host_facts::detect());
            let report = CrossReport { schema, host, ..report };
            output::tables(&report.tables(), &json)?;
            json.write_json(&report)?;
            Ok(ExitCode::SUCCESS)
        }
        Err(ReproduceError::Stopped) => Ok(stop.exit_code()),
        Err(error) => Err(error.into()),
    }
}
