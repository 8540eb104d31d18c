//! `titan-shuffle`: the report's Figure 7 on this machine, in three configurations, each in several runs.
//!
//! The seeds are the outer loop, so that changes of the machine's load affect all configurations alike.

use super::error::ShuffleError;
use super::run::{ShuffleOutcome, run};
use super::settings::{ShuffleConfig, ShuffleSettings, ShuffleSettingsError, TOTAL_RATE};
use crate::experiments::{ExperimentError, ExperimentRequest, Native};
use std::collections::BTreeMap;
use std::time::Instant;
use weft_facts::stats;
use weft_report::judgement::Judgement;
use weft_report::reproduce::{Experiment, Series, TableCell};
use weft_units::ParseUnitError;

/// The experiment's id.
const ID: &str = "titan-shuffle";
/// The experiment.
pub(crate) const NATIVE: Native = Native {
    id: ID,
    title: "Fairness of a shuffle of servers on this machine",
    source: "Titan technical report, Figures 7 and 8, on real packets",
    needs_rights: true,
    run: experiment,
};

/// The default number of runs of each configuration.
const RUNS: u32 = 3;
/// Steps of progress in each run.
const STEPS: usize = 100;
/// The factor up to which Titan's slowest flow counts as no slower than vanilla's: runs differ by as much.
const NO_SLOWER: f64 = 1.05;
/// Points per line of a plot.
const POINTS: usize = 200;

/// The runs of each configuration, by seed.
type Outcomes = BTreeMap<ShuffleConfig, Vec<ShuffleOutcome>>;

/// A figure of a run.
type Figure = fn(&ShuffleOutcome) -> Option<f64>;

/// The table's columns, all in seconds.
const COLUMNS: [(&str, Figure); 4] = [
    ("spread_s_median", |outcome| stats::median(&outcome.spreads())),
    ("spread_s_p90", |outcome| stats::percentile(&outcome.spreads(), 90.0)),
    ("completion_s_p50", |outcome| stats::percentile(&outcome.times(), 50.0)),
    ("completion_s_p99", |outcome| stats::percentile(&outcome.times(), 99.0)),
];

/// The reason that a request is invalid.
#[derive(Debug, thiserror::Error)]
enum RequestError {
    #[error("--transfer {size}: {error}")]
    Transfer { size: String, error: ParseUnitError },
    #[error(transparent)]
    Settings(#[from] ShuffleSettingsError),
}

/// Runs the experiment; fails when it cannot run here, a NIC's accounting does not balance, or it was stopped.
fn experiment(
    given: &ExperimentRequest,
    cancelled: &(dyn Fn() -> bool + Sync),
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Experiment, ExperimentError> {
    let failed = |reason: String| ExperimentError::Failed { id: ID.to_owned(), reason };
    let begin = Instant::now();
    let common = settings(given).map_err(|error| failed(error.to_string()))?;
    let runs = given.seeds.unwrap_or(RUNS).max(1);
    let mut outcomes = Outcomes::new();
    let all = runs as usize * ShuffleConfig::ALL.len() * STEPS;
    let mut done = 0;
    for seed in (given.seed..).take(runs as usize) {
        for config in ShuffleConfig::ALL {
            let settings = ShuffleSettings { config, seed, ..common.clone() };
            let mut told = |share: f64| progress(done + (share * STEPS as f64) as usize, all);
            let outcome = run(&settings, &cancelled, &mut told).map_err(|error| match error {
                ShuffleError::Stopped => ExperimentError::Stopped,
                other => failed(format!("{config}, seed {seed}: {other}")),
            })?;
            outcomes.entry(config).or_default().push(outcome);
            done += STEPS;
            progress(done, all);
        }
    }
    let mut experiment = conclude(&common, &outcomes);
    experiment.wall_s = begin.elapsed().as_secs_f64();
    Ok(experiment)
}

/// Returns the settings common to all runs.
fn settings(given: &ExperimentRequest) -> Result<ShuffleSettings, RequestError> {
    let mut settings = ShuffleSettings::default();
    settings.servers = given.flows.unwrap_or(settings.servers);
    settings.rate = ShuffleSettings::rate_for(settings.servers);
    if let Some(size) = &given.transfer {
        let invalid = |error| RequestError::Transfer { size: size.clone(), error };
        settings.transfer = size.parse().map_err(invalid)?;
    }
    settings.check()?;
    Ok(settings)
}

/// Builds table, plots, claims and notes.
fn conclude(common: &ShuffleSettings, outcomes: &Outcomes) -> Experiment {
    let mut experiment = NATIVE.record();
    for (config, runs) in outcomes {
        for (column, figure) in COLUMNS {
            let mut cell = TableCell {
                row: config.to_string(),
                column: column.to_owned(),
                flows: common.servers,
                unit: "s".to_owned(),
                floor: 1e-3,
                ..TableCell::default()
            };
            cell.take_measured(runs.iter().filter_map(figure).collect());
            experiment.cells.push(cell);
        }
    }
    for (config, runs) in outcomes {
        let pooled = |of: fn(&ShuffleOutcome) -> Vec<f64>| runs.iter().flat_map(of).collect::<Vec<f64>>();
        let lines = [
            (
                "Last less first completion of a server",
                "s",
                "share of servers",
                pooled(ShuffleOutcome::spreads),
            ),
            ("Completion times", "s", "share of flows", pooled(ShuffleOutcome::times)),
        ];
        for (plot, x_label, y_label, values) in lines {
            let (x, y) = distribution(&values);
            experiment.series.push(Series {
                plot: format!("{plot} ({} servers)", common.servers),
                name: config.to_string(),
                x_label: x_label.to_owned(),
                y_label: y_label.to_owned(),
                kind: "line".to_owned(),
                x,
                y,
            });
        }
    }
    claims(&mut experiment, outcomes);
    notes(&mut experiment, common, outcomes);
    experiment.finish()
}

/// Returns the distribution function of values, in at most [`POINTS`] points.
fn distribution(values: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let sorted = stats::sorted(values);
    let count = sorted.len();
    let points = count.min(POINTS);
    let rank = |point: usize| ((point + 1) * count).div_ceil(points.max(1));
    (0..points)
        .filter_map(|point| Some((*sorted.get(rank(point) - 1)?, rank(point) as f64 / count as f64)))
        .unzip()
}

/// Returns the mean of a figure over a configuration's runs.
fn mean(outcomes: &Outcomes, config: ShuffleConfig, figure: Figure) -> Option<f64> {
    let values: Vec<f64> = outcomes.get(&config)?.iter().filter_map(figure).collect();
    stats::mean(&values)
}

fn claims(experiment: &mut Experiment, outcomes: &Outcomes) {
    let [(_, spread), ..] = COLUMNS;
    let Some(titan) = mean(outcomes, ShuffleConfig::Titan, spread) else { return };
    for other in [ShuffleConfig::Vanilla, ShuffleConfig::Optimised] {
        let Some(theirs) = mean(outcomes, other, spread) else { continue };
        let closer = |spread: f64| Judgement::of(spread < theirs);
        experiment.claim_judged(
            &format!("Titan's flows complete closer together than those of {other}"),
            &format!("Titan spread_s_median < {other} spread_s_median"),
            format!("{titan:.3} s against {theirs:.3} s"),
            closer(titan),
        );
        experiment.null_of_last(&format!("Titan is as {other}"), &closer(theirs));
    }
    let slowest = |config| mean(outcomes, config, ShuffleOutcome::slowest);
    if let (Some(titan), Some(vanilla)) = (slowest(ShuffleConfig::Titan), slowest(ShuffleConfig::Vanilla)) {
        let no_slower = |seconds: f64| Judgement::of(seconds <= NO_SLOWER * vanilla);
        experiment.claim_judged(
            "Titan's slowest flow is no slower than vanilla's",
            &format!("Titan <= {NO_SLOWER} * vanilla"),
            format!("{titan:.3} s against {vanilla:.3} s"),
            no_slower(titan),
        );
        experiment.null_of_last("fairness is paid for: Titan takes twice as long", &no_slower(2.0 * vanilla));
    }
}

fn notes(experiment: &mut Experiment, common: &ShuffleSettings, outcomes: &Outcomes) {
    let all = || outcomes.values().flatten();
    let runs = outcomes.values().map(Vec::len).max().unwrap_or(0);
    experiment.notes.push(format!(
        "the figure prints no numbers; the papers' servers send 1 GB to each other at 10 Gb/s, these {} send {} at {}, so \
         that all together send {TOTAL_RATE}; {runs} runs of each configuration",
        common.servers, common.transfer, common.rate
    ));
    experiment.notes.push(
        "the switch has no rates of its own: only the senders' NICs hold flows back, not the links to the receivers".to_owned(),
    );
    let dropped: u64 = all().map(|outcome| outcome.dropped).sum();
    let again: u64 = all().map(|outcome| outcome.retransmitted).sum();
    let lost = all().map(|outcome| outcome.link_lost).fold(0.0, f64::max);
    experiment.notes.push(format!(
        "the accounting of all NICs balances; {dropped} packets were dropped at full queues, {again} segments were \
         retransmitted; links lost at most {:.1} % of a run's time because no processor was free",
        lost * 100.0
    ));
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_units::{BitsPerSec, Bytes, Nanos};

    /// Servers whose flows complete at these milliseconds.
    fn outcome(servers: &[&[u64]]) -> ShuffleOutcome {
        let millis = |times: &&[u64]| times.iter().copied().map(Nanos::from_millis).collect();
        ShuffleOutcome { completions: servers.iter().map(millis).collect(), ..ShuffleOutcome::default() }
    }

    fn outcomes(titan: ShuffleOutcome) -> Outcomes {
        let vanilla = outcome(&[&[500, 900], &[600, 800], &[100, 1000]]);
        let optimised = outcome(&[&[500, 1000], &[400, 1000], &[100, 1000]]);
        [
            (ShuffleConfig::Vanilla, vec![vanilla.clone(), vanilla]),
            (ShuffleConfig::Optimised, vec![optimised]),
            (ShuffleConfig::Titan, vec![titan]),
        ]
        .into()
    }

    fn holds(experiment: &Experiment) -> Vec<bool> {
        experiment.claims.iter().map(|claim| claim.holds).collect()
    }

    #[test]
    fn cells_are_means_over_runs_of_figures_over_servers() {
        let mut all = outcomes(outcome(&[&[900, 1000], &[950, 1000], &[990, 1000]]));
        let other = outcome(&[&[500, 700], &[600, 800], &[100, 300]]);
        all.entry(ShuffleConfig::Vanilla).and_modify(|runs| runs[1] = other);
        let experiment = conclude(&ShuffleSettings::default(), &all);
        assert_eq!(experiment.cells.len(), 12);
        let cell = &experiment.cells[0];
        assert_eq!((cell.row.as_str(), cell.column.as_str(), cell.flows), ("vanilla", "spread_s_median", 6));
        // Spreads 0.4, 0.2, 0.9 in one run, three times 0.2 in the other.
        let close = |a: f64, b: f64| (a - b).abs() < 1e-9;
        let measured = cell.measured.expect("measured");
        assert!(close(measured, 0.3) && close(cell.measured_runs[0], 0.4), "{cell:?}");
        assert!(cell.published.is_none() && cell.simulated.is_none());
        assert_eq!(experiment.series.len(), 6);
        let spreads = &experiment.series[0];
        assert!(spreads.x.is_sorted() && spreads.x.len() == 6 && close(spreads.y[5], 1.0), "{spreads:?}");
    }

    #[test]
    fn claims_follow_the_figures() {
        let fair = outcome(&[&[900, 1000], &[950, 1000], &[990, 1000]]);
        assert_eq!(holds(&conclude(&ShuffleSettings::default(), &outcomes(fair))), [true, true, true]);
        let slow = outcome(&[&[900, 1000], &[950, 1000], &[990, 1060]]);
        assert_eq!(holds(&conclude(&ShuffleSettings::default(), &outcomes(slow))), [true, true, false]);
        let unfair = outcome(&[&[500, 1000], &[550, 1000], &[590, 1000]]);
        assert_eq!(holds(&conclude(&ShuffleSettings::default(), &outcomes(unfair))), [false, true, true]);
    }

    #[test]
    fn long_distributions_keep_their_ends() {
        let values: Vec<f64> = (0..1001).rev().map(f64::from).collect();
        let (x, y) = distribution(&values);
        assert_eq!((x.len(), x.last(), y.last()), (POINTS, Some(&1000.0), Some(&1.0)));
        for (x, y) in x.iter().zip(&y) {
            let share = values.iter().filter(|value| *value <= x).count() as f64 / 1001.0;
            assert!((share - y).abs() < 1e-12);
        }
        assert_eq!(distribution(&[]), (Vec::new(), Vec::new()));
    }

    #[test]
    fn servers_share_the_rate_and_options_are_read() {
        let given = ExperimentRequest {
            flows: Some(25),
            transfer: Some("2MB".to_owned()),
            ..ExperimentRequest::default()
        };
        let of = settings(&given).expect("settings");
        assert_eq!((of.servers, of.transfer, of.rate), (25, Bytes(2_000_000), BitsPerSec(40_000_000)));
        assert!(
            settings(&ExperimentRequest { flows: Some(1), ..given.clone() })
                .expect_err("one")
                .to_string()
                .contains("servers")
        );
        let odd = settings(&ExperimentRequest { transfer: Some("much".to_owned()), ..given });
        assert!(odd.expect_err("no size").to_string().contains("--transfer much"));
    }
}
