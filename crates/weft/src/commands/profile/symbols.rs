//! `weft profile symbols`: the table of categories beside this kernel's functions.

use crate::output;
use std::process::ExitCode;
use weft_host::kallsyms::KernelSymbols;
use weft_profile::categories::Categories;
use weft_profile::coverage::{self, Coverage};

/// Compare the table of categories with this kernel's functions.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  sudo weft profile symbols
  sudo weft profile symbols --missing > mine.csv      # then: weft profile single --categories mine.csv")]
pub(super) struct Args {
    /// Print functions of the network stack that the table does not have, as rules to complete.
    #[arg(long)]
    missing: bool,
}

/// Runs the command.
pub(super) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let (symbols, table) = (KernelSymbols::load()?, Categories::shipped()?);
    let Coverage { functions, with_rule, network_missing, absent } = coverage::of(&symbols, &table);
    output::message(&format!(
        "table {}: {with_rule} of {functions} functions have a rule; {} of the network stack have none; {absent} exact names are \
         not in this kernel",
        table.version(),
        network_missing.len()
    ));
    if args.missing {
        let rules: String = network_missing.iter().map(|name| format!("exact,{name},etc\n")).collect();
        output::print(&rules)?;
    }
    Ok(ExitCode::SUCCESS)
}
