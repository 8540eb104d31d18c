//! `weft policy test`: arrivals and the order in which they must leave, run on the engine.

use crate::output;
use crate::policy_file::PolicyText;
use anyhow::anyhow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use weft_policy::trial::Trials;
use weft_policy::trial::run::run as run_trial;
use weft_policy::{CompileOptions, CompiledPolicy};

/// Run tests of a policy: arrivals as text, and the order in which they must leave; docs/algorithms.md has the grammar.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weft policy test policies/tests/*.wefttest
  weft policy test --policy my.weft mine.wefttest
  weft policy test --show mine.wefttest

The tests run on the engine in virtual time, with nothing sent. A test that fails is a line with what was expected and what left; exit code 1.")]
pub(crate) struct Args {
    /// The tests.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The policy, in place of the one that the tests name.
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// Print each departure with the time at which its transmission begins.
    #[arg(long)]
    show: bool,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let (mut passed, mut failed) = (0, 0);
    for file in &args.files {
        let (name, trials) = read(file)?;
        let policy = policy_of(args, file, &name, &trials)?;
        for (number, trial) in trials.cases.iter().enumerate() {
            let title = match trial.name.as_str() {
                "" => format!("test {}", number + 1),
                title => title.to_owned(),
            };
            let outcome = run_trial(trial, &policy).map_err(|error| anyhow!("{name}: {title}: {error}"))?;
            match outcome.difference(trial) {
                None => passed += 1,
                Some(difference) => {
                    failed += 1;
                    output::print(&format!("{name}: {title}: {difference}\n"))?;
                }
            }
            if args.show {
                let departures = outcome.sent.iter().map(|of| match of.at {
                    Some(at) => format!("{} at {at}", of.name),
                    None => of.name.clone(),
                });
                output::print(&format!("  {}\n", departures.collect::<Vec<_>>().join(", ")))?;
            }
        }
    }
    output::print(&format!("{passed} passed, {failed} failed\n"))?;
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The tests of a file.
fn read(file: &Path) -> anyhow::Result<(String, Trials)> {
    let name = file.display().to_string();
    let text = std::fs::read_to_string(file).map_err(|e| anyhow!("cannot read the tests {name}: {e}"))?;
    let parsed = text.parse::<Trials>();
    let trials = parsed.map_err(|error| error.locate(&name, &text))?;
    Ok((name, trials))
}

/// The policy that the tests of a file name, or that of the command.
fn policy_of(args: &Args, file: &Path, name: &str, trials: &Trials) -> anyhow::Result<CompiledPolicy> {
    let path = match (&args.policy, &trials.policy) {
        (Some(path), _) => path.clone(),
        (None, Some(path)) => file.parent().unwrap_or(Path::new("")).join(path),
        (None, None) => {
            return Err(anyhow!("{name} names no policy; begin it with `policy \"FILE\"`, or give --policy"));
        }
    };
    PolicyText::read(&path)?.load(&CompileOptions::default())
}
