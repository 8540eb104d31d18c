//! Trials of remedies: trials with and without what a remark proposes, in turns, in separate namespaces.
//!
//! A trial's namespaces end with it, so nothing has to be restored, and nothing of the host is changed. What only the host or an
//! application can change is not tried, and the document says why.

use weft_report::profile::{Effect, ProfileReport, Run, Side, Tried};
use weft_report::rounds::Rounds;

use crate::advice::{self, Remark};
use crate::categories::Categories;
use crate::error::ProfileError;
use crate::level::Level;
use crate::pattern::FlowLayout;
use crate::remedy::Remedy;
use crate::session::{SessionOptions, TrialProgress};
use crate::traffic::TrafficLoad;
use crate::trial::{self, First, Instrument};

/// Tries each remark of a finished session. `heard` receives each trial.
///
/// # Errors
/// If a trial fails, or the caller asks to stop.
pub fn run(
    options: &SessionOptions,
    categories: &Categories,
    report: &ProfileReport,
    stop: &dyn Fn() -> bool,
    mut heard: impl FnMut(&TrialProgress),
) -> Result<Vec<Tried>, ProfileError> {
    let layout = FlowLayout::new(options.pattern, options.flows, &options.trials.processors);
    let instrument = options.instrument(categories, stop);
    let level = |name: &str| options.levels.iter().copied().find(|level| level.name() == name);
    let configs = report.configs.iter().filter_map(|config| Some((config, level(&config.level)?)));
    let remarks: Vec<(Level, Remark)> = configs
        .flat_map(|(config, level)| advice::remarks(config).into_iter().map(move |r| (level, r)))
        .collect();
    let plans: Vec<(Level, Remark, Result<Remedy, String>)> = remarks
        .into_iter()
        .map(|(level, remark)| (level, remark.clone(), plan(&remark, level, options.load)))
        .collect();
    let of = 2 * options.trials.repeats * plans.iter().filter(|(.., plan)| plan.is_ok()).count() as u32;
    let mut done = 0;
    let mut all = Vec::new();
    for (level, remark, plan) in plans {
        let mut tried =
            Tried { level: level.name().to_owned(), evidence: remark.advice.evidence, ..Tried::default() };
        match plan {
            Err(why) => (tried.command, tried.not_tried) = (remark.advice.command, Some(why)),
            Ok(remedy) => {
                let mut told = |name: String, run: &Run| {
                    done += 1;
                    heard(&TrialProgress { done, of, level: name, run: run.clone() });
                };
                let runs = turns((level, remedy), options, &layout, &instrument, &mut told)?;
                tried.command = remedy.command().to_owned();
                conclude(&mut tried, &runs);
            }
        }
        all.push(tried);
    }
    Ok(all)
}

/// The change to try, or the reason that nothing can be tried.
fn plan(remark: &Remark, level: Level, load: TrafficLoad) -> Result<Remedy, String> {
    let remedy = remark.remedy.ok_or_else(|| remark.not_here.to_owned())?;
    if let Some(why) = remedy.is_there_at(level) {
        return Err(why.to_owned());
    }
    if remedy == Remedy::NoCopy && load != TrafficLoad::Bulk {
        return Err("sockperf has no way to send without a copy".to_owned());
    }
    Ok(remedy)
}

/// Runs without and with a change.
fn turns(
    (level, remedy): (Level, Remedy),
    options: &SessionOptions,
    layout: &FlowLayout,
    instrument: &Instrument<'_>,
    told: &mut dyn FnMut(String, &Run),
) -> Result<Rounds<Run>, ProfileError> {
    let variants = [("without", None), ("with", Some(remedy))];
    Rounds::measure(options.trials.repeats, &variants, &|| false, |turn| {
        let (sign, change) = *turn.variant;
        let first = (turn.round, First::of(turn.round));
        let run = trial::run((level, change), options.load, layout, first, instrument)?.run;
        told(format!("{} {sign} {}", level.name(), remedy.command()), &run);
        Ok(run)
    })
}

fn conclude(tried: &mut Tried, runs: &Rounds<Run>) {
    let figures = |figure: fn(&Run) -> Option<f64>| {
        [0, 1].map(|variant| runs.of(variant).filter_map(figure).collect::<Vec<f64>>())
    };
    let nanos = |run: &Run| {
        let seconds: f64 = Side::ALL.iter().map(|side| run.side(*side).total_s()).sum();
        (run.work.bytes > 0).then(|| seconds * 1e9 / run.work.bytes as f64)
    };
    let [without, with] = figures(|run| Some(run.bare_bps));
    tried.bps = Some(Effect::of(&without, &with));
    let [without, with] = figures(nanos);
    tried.ns_per_byte = Some(Effect::of(&without, &with));
    [tried.without, tried.with] = [0, 1].map(|variant| runs.of(variant).cloned().collect());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_effect_is_that_of_the_runs() {
        let run = |bps: f64, bytes| Run {
            bare_bps: bps,
            work: weft_report::profile::Work { bytes, ..Default::default() },
            sender: weft_report::profile::SideTime { user_s: 1.0, ..Default::default() },
            ..Run::default()
        };
        let mut tried = Tried::default();
        let first = vec![run(1e9, 1_000_000_000), run(2e9, 2_000_000_000)];
        let second = vec![run(1.1e9, 1_000_000_000), run(2.1e9, 2_000_000_000)];
        conclude(&mut tried, &Rounds(vec![first, second]));
        let bps = tried.bps.expect("figures");
        assert!((bps.with - bps.without - 1e9).abs() < 1.0 && bps.half_width.is_some_and(|half| half > 0.0));
        let nanos = tried.ns_per_byte.expect("figures");
        assert!((nanos.without - 1.0).abs() < 1e-9 && (nanos.with - 0.5).abs() < 1e-9);
        assert_eq!((tried.without.len(), tried.with.len()), (2, 2));
    }
}
