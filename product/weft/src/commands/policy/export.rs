//! `weft policy export`: a policy as commands of other systems.

use std::path::PathBuf;
use std::process::ExitCode;
use weft_cli::output;
use weft_cli::policy_file::PolicyText;
use weft_cli::values;
use weft_policy::CompileOptions;
use weft_policy::export::to_tc;
use weft_units::BitsPerSec;

/// Print a policy as commands of another system, with comments on what they cannot express. Nothing is run.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weft policy export my.weft --to tc --dev eth0
  weft policy export my.weft --to tc --dev eth0 --rate 10gbps | sudo sh -e")]
pub(crate) struct Args {
    /// The policy.
    file: PathBuf,
    /// The system.
    #[arg(long)]
    to: System,
    /// The device at whose egress the policy is to hold.
    #[arg(long, value_name = "DEVICE")]
    dev: String,
    /// The link's rate, in place of the policy's `link`.
    #[arg(long, value_parser = values::rate)]
    rate: Option<BitsPerSec>,
}

/// A system that enforces policies.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum System {
    /// The kernel's qdiscs and filters, by tc(8).
    Tc,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let options = CompileOptions { link: args.rate, ..CompileOptions::default() };
    let policy = PolicyText::read(&args.file)?.load(&options)?;
    let commands = match args.to {
        System::Tc => to_tc(&policy, &args.dev)?,
    };
    output::print(&commands)?;
    Ok(ExitCode::SUCCESS)
}
