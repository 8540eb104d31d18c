//! `weft policy test`: arrivals and the order in which they must leave, run on the engine.

use anyhow::anyhow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use weft_cli::output::{self, OutputTarget};
use weft_cli::policy_file::PolicyText;
use weft_facts::policy_test::{PolicyTest, PolicyTestReport, TestDeparture};
use weft_facts::record::Document;
use weft_policy::trial::run::{Outcome, run_changing};
use weft_policy::trial::{Departure, Trial, Trials};
use weft_policy::{CompileOptions, CompiledPolicy, Tenant, texts_of};
use weft_run::host_facts;
use weft_units::Nanos;

/// Run tests of a policy: arrivals and changes as text, and the order in which packets must leave; docs/algorithms.md has the grammar.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weft policy test policies/tests/*.wefttest
  weft policy test --policy my.weft mine.wefttest
  weft policy test --show mine.wefttest
  weft policy test --json - mine.wefttest

The tests run on the engine in virtual time, with nothing sent. A test that fails is a line with what was expected and what left; exit code 1. A line such as
`change \"new.weft\" at 200ns` in a test changes the policy while packets wait.")]
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
    /// Write the tests and what left in them to a file as JSON (`-` for standard output).
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let json = OutputTarget::open(args.json.as_deref())?;
    let mut tests = Vec::new();
    for file in &args.files {
        let (name, trials) = read(file)?;
        let (policy, tenants) = policy_of(args, file, &name, &trials)?;
        for (number, trial) in trials.cases.iter().enumerate() {
            let title = match trial.name.as_str() {
                "" => format!("test {}", number + 1),
                title => title.to_owned(),
            };
            let others = changed_policies(file, trial, &tenants)?;
            let outcome = run_changing(trial, &policy, &others);
            let outcome = outcome.map_err(|error| anyhow!("{name}: {title}: {error}"))?;
            let test = report(&name, title, trial, outcome);
            if !json.is_stdout() {
                output::print(&told(&test, args.show))?;
            }
            tests.push(test);
        }
    }
    let failed = tests.iter().filter(|test| test.difference.is_some()).count();
    if !json.is_stdout() {
        output::print(&format!("{} passed, {failed} failed\n", tests.len() - failed))?;
    }
    let schema = PolicyTestReport::SCHEMA.to_owned();
    json.write_json(&PolicyTestReport { schema, host: host_facts::detect(), tests })?;
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A test with its outcome.
fn report(file: &str, name: String, trial: &Trial, outcome: Outcome) -> PolicyTest {
    let difference = outcome.difference(trial);
    let departure = |of: Departure| TestDeparture { packet: of.name, at_ns: of.at.unwrap_or_default().get() };
    let sent = outcome.sent.into_iter().map(departure).collect();
    PolicyTest { file: file.to_owned(), name, difference, sent, dropped: outcome.dropped }
}

/// The difference, and the departures if they are to be shown.
fn told(test: &PolicyTest, show: bool) -> String {
    let mut text = match &test.difference {
        Some(difference) => format!("{}: {}: {difference}\n", test.file, test.name),
        None => String::new(),
    };
    if show {
        let departures = test.sent.iter().map(|of| format!("{} at {}", of.packet, Nanos(of.at_ns)));
        text += &format!("  {}\n", departures.collect::<Vec<_>>().join(", "));
    }
    text
}

/// The policies that a test changes to, by the paths that it gives them. As in a daemon that reads its configuration again, a tenant
/// whose file is refused keeps its last good one: that of the change listed before, or of the first policy.
fn changed_policies(
    file: &Path,
    trial: &Trial,
    tenants: &[Tenant],
) -> anyhow::Result<BTreeMap<String, CompiledPolicy>> {
    let mut policies = BTreeMap::new();
    let mut good = texts_of(tenants);
    for change in &trial.changes {
        if !policies.contains_key(&change.policy) {
            let text = PolicyText::read(&beside(file, &change.policy))?;
            let (policy, tenants) = text.load_around(&CompileOptions::default(), &good)?;
            good.0.extend(texts_of(&tenants).0);
            policies.insert(change.policy.clone(), policy);
        }
    }
    Ok(policies)
}

/// A path that the file names.
fn beside(file: &Path, path: &str) -> PathBuf {
    file.parent().unwrap_or(Path::new("")).join(path)
}

/// The tests of a file.
fn read(file: &Path) -> anyhow::Result<(String, Trials)> {
    let name = file.display().to_string();
    let text = std::fs::read_to_string(file).map_err(|e| anyhow!("cannot read the tests {name}: {e}"))?;
    let parsed = text.parse::<Trials>();
    let trials = parsed.map_err(|error| error.locate(&name, &text))?;
    Ok((name, trials))
}

/// The policy that the tests of a file name, or that of the command, with its tenants.
fn policy_of(
    args: &Args,
    file: &Path,
    name: &str,
    trials: &Trials,
) -> anyhow::Result<(CompiledPolicy, Vec<Tenant>)> {
    let path = match (&args.policy, &trials.policy) {
        (Some(path), _) => path.clone(),
        (None, Some(path)) => beside(file, path),
        (None, None) => {
            return Err(anyhow!("{name} names no policy; begin it with `policy \"FILE\"`, or give --policy"));
        }
    };
    PolicyText::read(&path)?.load_whole(&CompileOptions::default())
}
