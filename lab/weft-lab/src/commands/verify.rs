//! `weft steer verify`.

use std::path::PathBuf;
use std::process::ExitCode;
use weft_cli::output::{self, OutputTarget};
use weft_cli::progress;
use weft_cli::signals::{Removes, Stop};
use weft_cli::steering::Problem;
use weft_experiments::experiments::dragonet::verification;
use weft_facts::record::Document;
use weft_host::require_network_rights;
use weft_run::steering::{input, planning};
use weft_steer::Configuration;

/// Send flows through the software NIC, which executes the NIC's model, and count their packets by queue.
///
/// Runs in network namespaces that it makes and removes. Needs root. The exit code is 1 when a packet arrives
/// elsewhere.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weft steer verify --nic intel-82599 --flows flows.csv --policy balance
  weft steer verify --nic mlx5 --flows flows.csv --policy 'isolate hp on 4 queues' --packets 10 --json seen.json")]
pub(crate) struct Args {
    #[command(flatten)]
    problem: Problem,
    /// The flows, as CSV.
    #[arg(long, value_name = "FILE")]
    flows: PathBuf,
    /// Packets of each flow.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    packets: u32,
    /// Write the results to a file as JSON (`-` for standard output).
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Verifies the plan.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let nic = input::model(&args.problem.nic)?;
    let policy = input::policy(&args.problem.policy)?;
    let flows = input::flows(&args.flows)?;
    let json = OutputTarget::open(args.json.as_deref())?;
    let planned = planning::plan(&nic, policy, flows, args.problem.options(), &Configuration::default())?;
    require_network_rights()?;
    let stop = Stop::install(Removes::Made)?;
    let bar = progress::bar("{bar:30} {pos} of {len} flows, {eta} left", planned.flows.len() as u64);
    let report =
        verification::verify_plan(&planned, args.packets, args.problem.seed, &|| stop.asked(), &mut |done| {
            bar.set_position(done as u64)
        });
    bar.finish_and_clear();
    let Some(report) = report? else { return Ok(stop.exit_code()) };
    output::tables(&report.tables(), &json)?;
    json.write_json(&report)?;
    Ok(if report.ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
