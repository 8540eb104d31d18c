//! `weft profile PATTERN`: a session, its tables and files.

use super::RunArgs;
use super::restore::guarded;
use anyhow::Context;
use std::path::Path;
use std::process::ExitCode;
use weft_cli::failure::usage;
use weft_cli::output::{self, OutputTarget};
use weft_cli::signals::{Removes, Stop};
use weft_facts::human;
use weft_facts::record::{Document, Host};
use weft_host::cleanup_stale;
use weft_host::perf_event::Clock;
use weft_profile::categories::Categories;
use weft_profile::error::ProfileError;
use weft_profile::hosts::client;
use weft_profile::level::Level;
use weft_profile::session::{self, SessionOptions, SessionProfile, TrialPlan, TrialProgress, WhenBusy};
use weft_profile::setup::Setup;
use weft_profile::traffic::TrafficLoad;
use weft_profile::{remedy_trials, stacks, statements};
use weft_report::profile::profile_html;
use weft_run::host_facts;

/// Runs the command.
pub(super) fn run(args: RunArgs) -> anyhow::Result<ExitCode> {
    let outputs = &args.outputs;
    let targets = [&outputs.json, &outputs.html, &outputs.folded, &outputs.speedscope];
    let [json, html, folded, speedscope] = targets.map(|path| OutputTarget::open(path.as_deref()));
    let (json, html, folded, speedscope) = (json?, html?, folded?, speedscope?);
    let categories = categories(args.categories.as_deref())?;
    let options = options(&args)?;
    let stop = Stop::install(Removes::Made)?;
    cleanup_stale();
    super::restore::after_a_kill();
    let (host, asked) = (host_facts::detect(), || stop.asked());
    let profile: anyhow::Result<SessionProfile> = match &args.to {
        Some(to) => {
            client::run(&options, (to, args.device.as_deref().map(guarded)), &categories, host, &asked, told)
                .map_err(Into::into)
        }
        None => one_host(&options, &categories, host, &asked, args.try_remarks).map_err(Into::into),
    };
    if stop.asked() {
        output::message("interrupted; everything was removed");
        return Ok(stop.exit_code());
    }
    let profile = profile?;
    output::tables(&profile.report.tables(), &json)?;
    for statement in statements::of(&profile.report) {
        output::note(&statement.to_string());
    }
    html.write(&profile_html(&profile.report, &profile.flames))?;
    folded.write(&stacks::folded(&profile.flames))?;
    speedscope.write(&stacks::speedscope(&profile.flames).to_string())?;
    json.write_json(&profile.report)?;
    Ok(ExitCode::SUCCESS)
}

/// Runs a session on this host, and tries its remarks if asked to.
fn one_host(
    options: &SessionOptions,
    categories: &Categories,
    host: Host,
    stop: &dyn Fn() -> bool,
    try_remarks: bool,
) -> Result<SessionProfile, ProfileError> {
    let mut profile = session::run(options, categories, host, stop, told)?;
    if try_remarks {
        if profile.report.advice.is_empty() {
            output::note("there is no remark to try");
        }
        profile.report.tried = remedy_trials::run(options, categories, &profile.report, stop, told)?;
    }
    Ok(profile)
}

/// Tells of a finished trial.
fn told(progress: &TrialProgress) {
    output::note(&line(progress));
}

/// Reads the table of categories, with the user's rules over it.
pub(super) fn categories(overlay: Option<&Path>) -> anyhow::Result<Categories> {
    let mut table = Categories::shipped()?;
    if let Some(path) = overlay {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
        table.overlay(&name, &text)?;
    }
    Ok(table)
}

fn options(args: &RunArgs) -> anyhow::Result<SessionOptions> {
    let pattern = args.pattern.ok_or_else(|| usage("give a pattern, such as single"))?;
    let levels = levels(args)?;
    Ok(SessionOptions {
        pattern: pattern.0,
        flows: args.flows,
        load: args.rpc.map_or(TrafficLoad::Bulk, TrafficLoad::Requests),
        levels,
        setup: Setup::default(),
        trials: TrialPlan {
            repeats: args.repeats,
            span: args.span,
            warm_up: args.warm_up,
            clock: args.clock.map(Clock::from),
            rate: args.rate,
            processors: session::processors()?,
            loaded: if args.loaded { WhenBusy::Label } else { WhenBusy::Refuse },
        },
    })
}

/// The levels, each once. Between two hosts they are settings of a device; without a device the list is empty.
fn levels(args: &RunArgs) -> anyhow::Result<Vec<Level>> {
    let levels = match (&args.levels, &args.to, &args.device) {
        (_, None, Some(_)) => {
            return Err(usage(
                "a pattern on one host has devices of its own; --device needs --to or --attach",
            ));
        }
        (None, None, None) => return Ok(Level::STUDY.to_vec()),
        (None, Some(_), None) => return Ok(Vec::new()),
        (None, Some(_), Some(_)) => return Ok(vec![Level::NoOpt, Level::TsoGro, Level::Jumbo]),
        (Some(_), Some(_), None) => {
            let why = "levels are settings of a device: name the one on the way to the server with --device, or leave --levels out";
            return Err(usage(why));
        }
        (Some(levels), ..) => levels,
    };
    if args.to.is_some() && levels.iter().any(|level| level.0 == Level::Arfs) {
        return Err(usage(
            "level arfs steers what a device of the run's own receives; set aRFS at the server yourself",
        ));
    }
    let mut once = Vec::new();
    for level in levels {
        if once.contains(&level.0) {
            return Err(usage(format!("level {} is given twice", level.0.name())));
        }
        once.push(level.0);
    }
    Ok(once)
}

/// Formats a finished trial in a line.
fn line(progress: &TrialProgress) -> String {
    let TrialProgress { done, of, level, run } = progress;
    format!(
        "{done} of {of}: {level}, repeat {}: {}, others had {} of the samples",
        run.repeat,
        human::rate(run.bare_bps),
        human::percent(run.foreign_share()),
    )
}
