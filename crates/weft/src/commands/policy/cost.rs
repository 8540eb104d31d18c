//! `weft policy cost`: the price of a policy.

use crate::failure::Reported;
use crate::output;
use crate::policy_file::PolicyText;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use weft_policy::cost::Profile;
use weft_policy::{Diagnostic, Source, price};

/// Print the price of a policy: the orders that a packet passes, operations and state of algorithms; refuse it for a profile.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weft policy cost my.weft
  weft policy cost my.weft --profile loom-1ghz

A profile that cannot run the policy refuses it: exit code 1, with the term that costs most, its place and a cure.")]
pub(crate) struct Args {
    /// The policy.
    file: PathBuf,
    /// A place of execution that is to run the policy.
    #[arg(long, value_name = "PROFILE")]
    profile: Vec<Wanted>,
}

/// A place of execution, as a value of the option.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Wanted {
    /// The software NIC: anything, at a price in nanoseconds.
    Software,
    /// Loom's NIC at 1 GHz, 64-byte frames at 100 Gb/s.
    #[value(name = "loom-1ghz")]
    Loom1Ghz,
    /// A qdisc in eBPF.
    Kernel,
}

impl From<Wanted> for Profile {
    fn from(wanted: Wanted) -> Self {
        match wanted {
            Wanted::Software => Self::Software,
            Wanted::Loom1Ghz => Self::Loom1Ghz,
            Wanted::Kernel => Self::Kernel,
        }
    }
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let text = PolicyText::read(&args.file)?;
    let profiles: Vec<Profile> = args.profile.iter().copied().map(Profile::from).collect();
    let (cost, diagnostics) = price(Source { name: &text.name, text: &text.text }, &profiles);
    if let Some(cost) = &cost {
        output::print(&cost.to_string())?;
    }
    if !diagnostics.is_empty() {
        let pretty = std::io::stderr().is_terminal();
        output::message(text.drawn(&diagnostics, pretty, output::stderr_style()).trim_end());
    }
    if diagnostics.iter().any(Diagnostic::is_error) {
        return Err(Reported.into());
    }
    Ok(ExitCode::SUCCESS)
}
