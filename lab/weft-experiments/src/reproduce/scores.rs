//! Stored scores, which may not fall: `experiments/scores.toml`.
//!
//! Simulated runs are a function of their seeds. With the file's settings they give the file's figures exactly, until
//! the model, a parameter or a scenario changes. A change that lowers a score fails; a change that raises one also
//! updates the file.

use super::file::{self, ExperimentFileError};
use super::{ReproduceOptions, catalogue};
use core::fmt::Write as _;
use serde::Deserialize;
use std::collections::BTreeMap;
use weft_report::judgement::Judgement;
use weft_report::reproduce::Experiment;

const FILE: &str = "scores.toml";
/// Decimals of stored scores; scores equal in these are equal.
const DECIMALS: usize = 4;
/// Half of the last decimal.
const ROUNDING: f64 = 0.5e-4;
/// The statement of the claim about scores.
const STATEMENT: &str = "No score is lower than the stored one";

/// The file: settings of the runs, and scores by experiment.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    seeds: u32,
    seed: u64,
    experiments: BTreeMap<String, Scores>,
}

/// An experiment's scores that may not fall.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Scores {
    /// Kendall's tau by column.
    #[serde(default)]
    tau: BTreeMap<String, f64>,
    /// Cells in the band or within 25 %, by column.
    #[serde(default)]
    close: BTreeMap<String, usize>,
    /// Claims that hold.
    #[serde(default)]
    claims: Vec<String>,
}

impl Scores {
    fn of(experiment: &Experiment) -> Self {
        let claims = experiment.claims.iter().filter(|claim| claim.holds && claim.statement != STATEMENT);
        Self {
            tau: experiment.tau.iter().filter_map(|(column, tau)| Some((column.clone(), (*tau)?))).collect(),
            close: experiment
                .scores
                .iter()
                .filter(|s| s.cells > 0)
                .map(|s| (s.column.clone(), s.close))
                .collect(),
            claims: claims.map(|claim| claim.statement.clone()).collect(),
        }
    }

    /// Returns the scores that are lower than in `stored`, in words.
    fn fallen(&self, stored: &Self) -> Vec<String> {
        let tau = stored.tau.iter().filter_map(|(column, least)| {
            let tau = self.tau.get(column).copied().unwrap_or(f64::NEG_INFINITY);
            (tau + ROUNDING < *least).then(|| format!("tau of {column} is {tau:.DECIMALS$}, was {least}"))
        });
        let close = stored.close.iter().filter_map(|(column, least)| {
            let close = self.close.get(column).copied().unwrap_or(0);
            (close < *least).then(|| format!("{close} cells of {column} are close, were {least}"))
        });
        let claims = stored.claims.iter().filter(|claim| !self.claims.contains(claim));
        tau.chain(close).chain(claims.map(|claim| format!("no longer holds: {claim}"))).collect()
    }
}

/// Returns seeds and first seed of the stored runs, and the experiments that have stored scores.
///
/// # Errors
/// Fails if the file is invalid, which is a defect of weftline.
pub fn stored_settings() -> Result<(u32, u64, Vec<String>), ExperimentFileError> {
    let stored = stored()?;
    Ok((stored.seeds, stored.seed, stored.experiments.into_keys().collect()))
}

fn stored() -> Result<Stored, ExperimentFileError> {
    file::parse(FILE, catalogue::text(FILE)?)
}

/// Adds to each experiment with stored scores the claim that none has fallen, if the runs had the file's settings.
pub(super) fn hold(
    experiments: &mut [Experiment],
    options: &ReproduceOptions,
) -> Result<(), ExperimentFileError> {
    let stored = stored()?;
    let alike = options.seeds == Some(stored.seeds)
        && options.seed == stored.seed
        && options.flows.is_none()
        && options.transfer.is_none()
        && options.costs.is_none()
        && options.measured.is_none();
    if alike {
        for experiment in experiments {
            if let Some(scores) = stored.experiments.get(&experiment.id) {
                hold_one(experiment, scores);
            }
        }
    }
    Ok(())
}

fn hold_one(experiment: &mut Experiment, stored: &Scores) {
    let fallen = Scores::of(experiment).fallen(stored);
    let figures = if fallen.is_empty() { "none is".to_owned() } else { fallen.join("; ") };
    let expected = "those of experiments/scores.toml, or higher";
    experiment.claim_judged(STATEMENT, expected, figures, Judgement::of(fallen.is_empty()));
}

/// Returns the file's text for experiments run with these settings: for a change that raises scores, or that has a
/// reason to lower one.
pub fn stored_text(experiments: &[Experiment], seeds: u32, seed: u64) -> String {
    let mut text = String::from(
        "# Scores that may not fall: `weft reproduce --strict` compares runs with these settings, and so does the test\n\
         # `stored_scores_do_not_fall` of weft-experiments, which writes this file anew when UPDATE_SCORES is set.\n",
    );
    // Writing to a `String` cannot fail.
    let _ = writeln!(text, "seeds = {seeds}\nseed = {seed}");
    for experiment in experiments {
        let scores = Scores::of(experiment);
        let pairs = |pairs: Vec<String>| pairs.join(", ");
        let tau = scores.tau.iter().map(|(column, tau)| format!("{column} = {tau:.DECIMALS$}")).collect();
        let close = scores.close.iter().map(|(column, close)| format!("{column} = {close}")).collect();
        let _ = writeln!(
            text,
            "\n[experiments.{}]\ntau = {{ {} }}\nclose = {{ {} }}",
            experiment.id,
            pairs(tau),
            pairs(close)
        );
        if !scores.claims.is_empty() {
            let claims: Vec<String> = scores.claims.iter().map(|claim| format!("    {claim:?},\n")).collect();
            let _ = writeln!(text, "claims = [\n{}]", claims.concat());
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_report::reproduce::TableCell;

    fn experiment(simulated: [f64; 3]) -> Experiment {
        let mut experiment = Experiment::new("titan-tr-table3", "a", "b");
        for (row, (published, simulated)) in [1.0, 2.0, 3.0].into_iter().zip(simulated).enumerate() {
            experiment.cells.push(TableCell {
                row: row.to_string(),
                column: "nfm".to_owned(),
                published: Some(published),
                simulated: Some(simulated),
                ..TableCell::default()
            });
        }
        experiment.claim("A is fair", "", String::new(), true);
        experiment.finish()
    }

    #[test]
    fn what_falls_is_named_and_what_rises_is_not() {
        let good = Scores::of(&experiment([1.0, 2.0, 3.0]));
        let worse = Scores::of(&experiment([1.0, 4.0, 3.0]));
        assert_eq!(good.fallen(&worse), Vec::<String>::new());
        let fallen = worse.fallen(&good);
        assert!(
            fallen.len() == 2 && fallen[0].contains("tau of nfm") && fallen[1].contains("2 cells"),
            "{fallen:?}"
        );
        let mut refuted = experiment([1.0, 2.0, 3.0]);
        refuted.claims[0].holds = false;
        assert_eq!(Scores::of(&refuted).fallen(&good), ["no longer holds: A is fair"]);
    }

    #[test]
    fn what_is_written_is_what_is_read() {
        let experiment = experiment([1.0, 4.0, 3.0]);
        let text = stored_text(std::slice::from_ref(&experiment), 2, 7);
        let read: Stored = file::parse(FILE, &text).unwrap_or_else(|error| panic!("{error}: {text}"));
        assert_eq!((read.seeds, read.seed), (2, 7));
        let stored = &read.experiments["titan-tr-table3"];
        assert!(Scores::of(&experiment).fallen(stored).is_empty(), "{text}");
        assert_eq!(
            (&stored.close, &stored.claims),
            (&Scores::of(&experiment).close, &vec!["A is fair".to_owned()])
        );
    }

    #[test]
    fn other_settings_are_not_compared() {
        let (seeds, seed, ids) = stored_settings().expect("the file");
        assert!(!ids.is_empty());
        for (seeds, claims) in [(seeds, 2), (seeds + 1, 1)] {
            let mut experiments = [experiment([1.0, 2.0, 3.0])];
            experiments[0].id.clone_from(&ids[0]);
            let options = ReproduceOptions { seeds: Some(seeds), seed, ..ReproduceOptions::default() };
            hold(&mut experiments, &options).expect("read");
            assert_eq!(experiments[0].claims.len(), claims);
        }
    }
}
