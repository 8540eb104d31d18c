//! `weft policy check`: the errors of policies, and the places that can run them.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use weft_cli::output::{self, OutputTarget};
use weft_cli::policy_file::{PolicyText, with_cure};
use weft_facts::policy_check::{PlaceAnswer, PlacePromise, PolicyCheckReport};
use weft_facts::record::Document;
use weft_policy::promise::Promise;
use weft_policy::{CompileOptions, Diagnostic};
use weft_run::host_facts;
use weft_run::place::{Answer, Place, line};

/// Check policies: a line per finding, and the places that can run them. Exit code 1 if one is refused.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weft policy check policies/tenants.weft
  weft policy check my.weft --for daemon
  weft policy check my.weft --for port --for sim
  weft policy check --json - my.weft

A policy is right on its own, and yet a place may have too little for it: a port of the daemon has 64 rings, and each lane needs
one. The note says for each place whether it runs the policy. With --for, a place that cannot run it is an error.")]
pub(super) struct Args {
    /// The policies.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// A place that must be able to run the policies; may be repeated.
    #[arg(long = "for", value_name = "PLACE")]
    places: Vec<Wanted>,
    /// Write the findings and what each place keeps of the policies to a file as JSON (`-` for standard output).
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Print nothing; only set the exit code.
    #[arg(long, short)]
    quiet: bool,
}

/// A place, as a value of the option.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Wanted {
    /// The port of `weft run`
    Port,
    /// The ports of the daemon
    Daemon,
    /// The simulator
    Sim,
    /// A replay of a capture
    Replay,
    /// The kernel's qdiscs, with a classifying program
    Kernel,
    /// The kernel's qdiscs, by `weft policy export`
    Tc,
}

impl From<Wanted> for Place {
    fn from(wanted: Wanted) -> Self {
        match wanted {
            Wanted::Port => Self::Port,
            Wanted::Daemon => Self::Daemon,
            Wanted::Sim => Self::Sim,
            Wanted::Replay => Self::Replay,
            Wanted::Kernel => Self::Kernel,
            Wanted::Tc => Self::Tc,
        }
    }
}

/// The findings of all files.
struct Findings {
    report: PolicyCheckReport,
    refused: usize,
}

/// Runs the command.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let json = OutputTarget::open(args.json.as_deref())?;
    let texts = args.files.iter().map(|f| PolicyText::read(f)).collect::<anyhow::Result<Vec<_>>>()?;
    let pretty = std::io::stdout().is_terminal();
    let shown = !args.quiet && !json.is_stdout();
    let (schema, host) = (PolicyCheckReport::SCHEMA.to_owned(), host_facts::detect());
    let report = PolicyCheckReport { schema, host, diagnostics: vec![], places: vec![], promises: vec![] };
    let mut findings = Findings { report, refused: 0 };
    for text in &texts {
        let said = findings.check(text, args, pretty)?;
        if shown {
            output::print(&said)?;
        }
    }
    if pretty && shown {
        let count = texts.len();
        let files = if count == 1 { "policy" } else { "policies" };
        output::print(&match findings.refused {
            0 => format!("{count} {files} checked: no errors\n"),
            refused => format!("{count} {files} checked: {refused} refused\n"),
        })?;
    }
    json.write_json(&findings.report)?;
    Ok(if findings.refused == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Findings {
    /// Checks a policy, and returns what is to be printed.
    fn check(&mut self, text: &PolicyText, args: &Args, pretty: bool) -> anyhow::Result<String> {
        let compilation = text.compile(&CompileOptions::default());
        let mut said = text.diagnostics(&compilation, pretty, output::stdout_style());
        let answers: Vec<Answer> = match &compilation.policy {
            Some(policy) => Place::ALL.map(|place| text.ask(place, policy)).into(),
            None => Vec::new(),
        };
        let wanted = |answer: &&Answer| args.places.iter().any(|place| Place::from(*place) == answer.place);
        let mut refusals = Vec::new();
        for answer in answers.iter().filter(wanted) {
            let refusal = answer.refusal.as_ref().and_then(|of| text.refusal(answer.place.title(), of));
            said += &refusal.iter().map(|found| drawn(text, found, pretty)).collect::<String>();
            refusals.extend(refusal);
        }
        if !answers.is_empty() {
            said += &format!("{}: note: {}\n", text.name, line(&answers));
        }
        self.refused += usize::from(compilation.has_errors() || !refusals.is_empty());
        let all = compilation.diagnostics.iter().chain(&refusals);
        self.report.diagnostics.extend(all.map(Diagnostic::stated));
        for answer in answers.iter().filter(|answer| args.places.is_empty() || wanted(answer)) {
            self.report.places.push(place(text, answer));
            self.report.promises.extend(answer.promises.iter().map(|of| promise(text, answer.place, of)));
        }
        Ok(said)
    }
}

/// A refusal as text.
fn drawn(text: &PolicyText, found: &Diagnostic, pretty: bool) -> String {
    if pretty {
        return text.drawn(std::slice::from_ref(found), true, output::stdout_style());
    }
    with_cure(found) + "\n"
}

fn place(text: &PolicyText, answer: &Answer) -> PlaceAnswer {
    let reason = answer.refusal.as_ref().map(|refusal| refusal.reason.clone());
    let instead = answer.refusal.as_ref().map(|refusal| refusal.instead.clone());
    let (file, place) = (text.name.clone(), answer.place.name().to_owned());
    PlaceAnswer { file, place, runs: answer.runs(), reason, instead }
}

fn promise(text: &PolicyText, place: Place, of: &Promise) -> PlacePromise {
    PlacePromise {
        file: text.name.clone(),
        place: place.name().to_owned(),
        promise: of.promise.clone(),
        kept: of.kept.as_str().to_owned(),
        within: of.within.clone(),
        instead: of.instead.clone(),
    }
}
