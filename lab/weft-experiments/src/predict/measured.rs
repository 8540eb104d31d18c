//! The same configurations on real traffic, each group as a session of `weft-profile`.

use super::cells::Group;
use super::{PredictError, PredictOptions, named, names};
use weft_facts::human;
use weft_facts::record::Host;
use weft_host::process::ProcessError;
use weft_profile::categories::Categories;
use weft_profile::error::ProfileError;
use weft_profile::session::{self, TrialPlan, TrialProgress, WhenBusy};
use weft_profile::setup::Setup;
use weft_profile::traffic::TrafficLoad;
use weft_report::profile::predict::{Cell, Figures};

/// Measures the cells that this machine can have, and enters the reasons for the others. Returns labels of the figures.
pub(super) fn fill(
    cells: &mut [Cell],
    groups: &[Group],
    options: &PredictOptions,
    categories: &Categories,
    stop: &(dyn Fn() -> bool + Sync),
    heard: &mut dyn FnMut(&str),
) -> Result<Vec<String>, PredictError> {
    let runs = |group: &Group| options.trials.repeats as usize * group.cells.len();
    let possible = || groups.iter().filter(|group| group.not_here.is_none());
    let of: usize = possible().map(runs).sum();
    let (mut done, mut labels, mut first): (usize, Vec<String>, bool) = (0, Vec::new(), true);
    for group in groups {
        if let Some(reason) = group.not_here {
            give_up(cells, group, reason);
            continue;
        }
        // One refusal is enough: a load that begins later is a label, and shows in the share of others.
        let loaded = if first { options.trials.loaded } else { WhenBusy::Label };
        let progress = |progress: &TrialProgress| {
            done += 1;
            heard(&line((done, of), group, progress));
        };
        let profile = session::run(
            &session_options(group, options, loaded),
            categories,
            Host::default(),
            &|| stop(),
            progress,
        );
        match profile {
            Ok(profile) => {
                let own = profile.report.labels.into_iter();
                // Every session checks the machine; the shortage of cores is a label already.
                let is_new = |label: &String, known: &[String]| {
                    let kind = |text: &str| text.split(':').next().map(str::to_owned);
                    *label != group.layout.shortage && !known.iter().any(|one| kind(one) == kind(label))
                };
                for label in own {
                    if is_new(&label, &labels) {
                        labels.push(label);
                    }
                }
                for (one, config) in group.cells.iter().zip(&profile.report.configs) {
                    if let Some(cell) = named(cells, &one.name) {
                        cell.measured = Figures::of_runs(&config.runs);
                        cell.foreign_share = Some(config.foreign_share);
                    }
                }
                first = false;
            }
            Err(ProfileError::Stopped) => return Err(PredictError::Stopped),
            Err(error) if Setup::lacks(&error) || lacks_requests(&error, group) => {
                give_up(cells, group, &error.to_string());
                done += runs(group);
            }
            Err(error) => {
                let cell = names(group).collect::<Vec<_>>().join(", ");
                return Err(PredictError::Measured { cell, error: Box::new(error) });
            }
        }
    }
    Ok(labels)
}

/// Whether the program of requests is missing, which is another one than that of all other groups.
fn lacks_requests(error: &ProfileError, group: &Group) -> bool {
    let missing = matches!(error, ProfileError::Process(ProcessError::NotInstalled { .. }));
    missing && group.load != TrafficLoad::Bulk
}

fn give_up(cells: &mut [Cell], group: &Group, reason: &str) {
    for name in names(group) {
        if let Some(cell) = named(cells, name) {
            cell.not_measured = Some(reason.to_owned());
        }
    }
}

fn session_options(group: &Group, options: &PredictOptions, loaded: WhenBusy) -> session::SessionOptions {
    session::SessionOptions {
        pattern: group.pattern,
        flows: group.flows,
        load: group.load,
        levels: group.cells.iter().map(|cell| cell.level).collect(),
        setup: group.setup.clone(),
        trials: TrialPlan { loaded, ..options.trials.clone() },
    }
}

/// A finished trial in a line.
fn line((done, of): (usize, usize), group: &Group, progress: &TrialProgress) -> String {
    let name =
        group.cells.iter().find(|cell| cell.level.name() == progress.level).map_or("", |cell| &cell.name);
    let (rate, others) = (human::rate(progress.run.bare_bps), human::percent(progress.run.foreign_share()));
    format!(
        "{done} of {of}: {name}, repeat {}: {rate}, others had {others} of the samples",
        progress.run.repeat
    )
}
