//! `weft profile symbols`: the table of categories beside this kernel's functions, or beside a profile.

use super::document::Profile;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use weft_cli::output;
use weft_facts::human;
use weft_host::kallsyms::KernelSymbols;
use weft_profile::categories::Categories;
use weft_profile::coverage::{self, Coverage, UNMAPPED_MAX, Unmapped};

/// Compare the table of categories with this kernel's functions, or judge how much of a profile's time it covers.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  sudo weft profile symbols
  sudo weft profile symbols --missing > mine.csv      # then: weft profile single --categories mine.csv
  weft profile symbols --profile single.json          # exit code 1 if 2 % or more of a part's time is unmapped")]
pub(super) struct Args {
    /// Print functions that the table does not have, as rules to complete: those of the network stack, or of the profile.
    #[arg(long)]
    missing: bool,
    /// A profile, whose unmapped time is judged.
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
}

/// Runs the command.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if let Some(path) = &args.profile {
        return judge(path, args);
    }
    let (symbols, table) = (KernelSymbols::load()?, Categories::shipped()?);
    let Coverage { functions, with_rule, network_missing, absent } = coverage::of(&symbols, &table);
    output::message(&format!(
        "table {}: {with_rule} of {functions} functions have a rule; {} of the network stack have none; {absent} exact names are \
         not in this kernel",
        table.version(),
        network_missing.len()
    ));
    if args.missing {
        rules(network_missing.iter())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints functions as rules to complete.
fn rules<'a>(names: impl Iterator<Item = &'a String>) -> std::io::Result<()> {
    output::print(&names.map(|name| format!("exact,{name},etc\n")).collect::<String>())
}

/// Judges the unmapped time of a profile.
fn judge(path: &Path, args: &Args) -> anyhow::Result<ExitCode> {
    let (parts, missing) = match Profile::read(path)? {
        Profile::Trials(report) => (coverage::unmapped(&report), report.missing),
        Profile::Attached(report) => (coverage::unmapped_attached(&report), report.missing),
    };
    for part in &parts {
        output::message(&line(part));
    }
    let seconds: f64 = parts.iter().map(|part| part.kernel_s).sum();
    let without = missing.values().fold(0.0, |all, one| all + one);
    let share = human::percent(if seconds > 0.0 { without / seconds } else { 0.0 });
    output::message(&format!(
        "innermost functions without a rule: {}, with {share} of the time",
        missing.len()
    ));
    if args.missing {
        rules(missing.keys())?;
    }
    let covered = parts.iter().all(Unmapped::is_covered);
    Ok(if covered { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn line(part: &Unmapped) -> String {
    let verdict = if part.is_covered() { "below" } else { "NOT BELOW" };
    let (share, most) = (human::percent(part.share), human::percent(UNMAPPED_MAX));
    format!("{}: {share} of {:.2} s unmapped, {verdict} {most}", part.part, part.kernel_s)
}
