//! `weft profile PATTERN`: a session, its tables and files.

use super::RunArgs;
use crate::failure::usage;
use crate::output::{self, Target};
use crate::signals::Stop;
use anyhow::Context;
use std::process::ExitCode;
use weft_host::cleanup_stale;
use weft_host::perf_event::Clock;
use weft_profile::categories::Categories;
use weft_profile::session::{self, Loaded, Options, Progress};
use weft_profile::setup::Setup;
use weft_profile::traffic::Load;
use weft_profile::{stacks, statements};
use weft_report::human;
use weft_report::profile::profile_html;
use weft_report::record::Document;
use weft_run::host_facts;

/// Runs the command.
pub(super) fn run(args: RunArgs) -> anyhow::Result<ExitCode> {
    let outputs = &args.outputs;
    let targets = [&outputs.json, &outputs.html, &outputs.folded, &outputs.speedscope];
    let [json, html, folded, speedscope] = targets.map(|path| Target::open(path.as_deref()));
    let (json, html, folded, speedscope) = (json?, html?, folded?, speedscope?);
    let categories = categories(&args)?;
    let options = options(&args)?;
    let stop = Stop::install()?;
    cleanup_stale();
    let heard = |progress: &Progress| output::note(&line(progress));
    let profile = session::run(&options, &categories, host_facts::detect(), &|| stop.asked(), heard);
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

/// Reads the table of categories, with the user's rules over it.
pub(super) fn categories(args: &RunArgs) -> anyhow::Result<Categories> {
    let mut table = Categories::shipped()?;
    if let Some(path) = &args.categories {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
        table.overlay(&name, &text)?;
    }
    Ok(table)
}

fn options(args: &RunArgs) -> anyhow::Result<Options> {
    let pattern = args.pattern.ok_or_else(|| usage("give a pattern, such as single"))?;
    let mut levels = Vec::new();
    for level in &args.levels {
        if levels.contains(&level.0) {
            return Err(usage(format!("level {} is given twice", level.0.name())));
        }
        levels.push(level.0);
    }
    Ok(Options {
        pattern: pattern.0,
        flows: args.flows,
        load: args.rpc.map_or(Load::Bulk, Load::Requests),
        levels,
        setup: Setup::default(),
        repeats: args.repeats,
        span: args.span,
        warm_up: args.warm_up,
        clock: args.clock.map(Clock::from),
        rate: args.rate,
        processors: session::processors()?,
        loaded: if args.loaded { Loaded::Label } else { Loaded::Refuse },
    })
}

/// Formats a finished trial in a line.
fn line(progress: &Progress) -> String {
    let Progress { done, of, level, run } = progress;
    format!(
        "{done} of {of}: {}, repeat {}: {}, others had {} of the samples",
        level.name(),
        run.repeat,
        human::rate(run.bare_bps),
        human::percent(run.foreign_share()),
    )
}
