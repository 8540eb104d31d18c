//! The claims of an experiment's file, judged on simulated cells or on measured ones.

use super::claim::{self, ClaimError, Values};
use super::file::{self, ExperimentFile, ExperimentFileError};
use weft_report::reproduce::{Claim, Experiment};

/// Adds the claims of an experiment's file once more, on the measured cells.
///
/// # Errors
/// Fails if the file or a claim in it is invalid.
pub(super) fn measured_claims(experiment: &mut Experiment) -> Result<(), ExperimentFileError> {
    let cells = experiment.cells.iter();
    let values = cells
        .filter_map(|cell| Some(((cell.row.clone(), cell.column.clone(), cell.flows), cell.measured?)))
        .collect();
    claims(&file::experiment(&experiment.id)?, "Measured: ", &values, experiment)
}

/// Adds the claims of `file`, judged on `values`; each statement begins with `of`.
///
/// # Errors
/// Fails if a claim is invalid.
pub(super) fn claims(
    file: &ExperimentFile,
    of: &str,
    values: &Values,
    experiment: &mut Experiment,
) -> Result<(), ExperimentFileError> {
    let wrong =
        |error: ClaimError| ExperimentFileError::Invalid { file: file.id.clone(), reason: error.to_string() };
    for claim in &file.claims {
        if let Some(judged) = claim::judge(&claim.holds, &claim.null, values).map_err(wrong)? {
            let (statement, expected) = (format!("{of}{}", claim.statement), claim.holds.join("; "));
            let judged_claim = Claim::new(statement, expected, judged.figures, judged.judgement);
            experiment.claims.push(judged_claim.with_null(claim.null.text(), &judged.under_null));
        }
    }
    Ok(())
}
