//! Claims: conditions on cells that state the papers' sentences.
//!
//! A condition is `CELL < NUMBER` or `CELL < FACTOR * CELL`, or has `>`; a cell is `ROW.COLUMN@FLOWS`.
//!
//! Each claim has a null model: the cells as they would be if the statement were false. A claim that its null model
//! also passes shows nothing.

use serde::Deserialize;
use std::collections::BTreeMap;
use weft_facts::stats;
use weft_report::judgement::Judgement;

/// Simulated values by row, column and flow count.
pub(super) type Values = BTreeMap<(String, String, u32), f64>;

/// The reason that a claim cannot be judged.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(super) enum ClaimError {
    /// The null model names something that the table lacks.
    #[error("the null model's `{0}` is neither a row nor a column")]
    NullName(String),
    /// The null model takes values from a row or column without them.
    #[error("the null model's `{0}` has no such cell")]
    NullCell(String),
    /// The condition is no comparison of two sides.
    #[error("`{0}` needs exactly one `<` or `>`")]
    Comparison(String),
    /// A factor of a side has an unknown form.
    #[error("`{0}` is neither a number nor ROW.COLUMN@FLOWS")]
    Factor(String),
    /// The cell is missing, as with flow counts other than the paper's.
    #[error("there is no cell `{0}`")]
    NoCell(String),
}

/// An evaluated condition.
struct Evaluated {
    /// The two sides in words.
    text: String,
    holds: bool,
}

/// A null model, computed from the run's own cells.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Null {
    /// One dimension makes no difference.
    Alike(Alike),
    /// Rows or columns have the values of others: `{ T1 = "C6" }` gives T1 the values of C6. A column may have one
    /// value throughout: `{ ratio = 1 }`.
    Instead(BTreeMap<String, Instead>),
}

/// The dimension without effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
pub(super) enum Alike {
    /// The configuration: each cell is the mean of its column over all rows.
    #[serde(rename = "alike rows")]
    Rows,
    /// The varied number: each cell is the mean of its row over all flow counts.
    #[serde(rename = "alike flows")]
    Flows,
    /// The metric: each cell is the mean of its row over all columns. Columns of one unit only.
    #[serde(rename = "alike columns")]
    Columns,
}

/// The replacement of a row or a column.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Instead {
    Other(String),
    Value(f64),
}

impl Null {
    /// Describes the null model for readers of reports.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Alike(Alike::Rows) => "all rows are alike".to_owned(),
            Self::Alike(Alike::Flows) => "all flow counts are alike".to_owned(),
            Self::Alike(Alike::Columns) => "all columns are alike".to_owned(),
            Self::Instead(pairs) => {
                let text = |(name, instead): (&String, &Instead)| match instead {
                    Instead::Other(other) => format!("{name} is as {other}"),
                    Instead::Value(value) => format!("{name} is {value}"),
                };
                pairs.iter().map(text).collect::<Vec<_>>().join(", ")
            }
        }
    }

    /// Returns the cells under the null model; the reason if it names a missing row or column.
    fn of(&self, values: &Values) -> Result<Values, ClaimError> {
        match self {
            Self::Alike(which) => Ok(alike(*which, values)),
            Self::Instead(pairs) => pairs
                .iter()
                .try_fold(values.clone(), |values, (name, instead)| replaced(&values, name, instead)),
        }
    }
}

fn alike(which: Alike, values: &Values) -> Values {
    let group = |(row, column, flows): &(String, String, u32)| match which {
        Alike::Rows => (None, Some(column.clone()), Some(*flows)),
        Alike::Flows => (Some(row.clone()), Some(column.clone()), None),
        Alike::Columns => (Some(row.clone()), None, Some(*flows)),
    };
    let mut groups: BTreeMap<_, Vec<f64>> = BTreeMap::new();
    for (cell, value) in values {
        groups.entry(group(cell)).or_default().push(*value);
    }
    let mean = |cell| groups.get(&group(cell)).and_then(|all| stats::mean(all)).unwrap_or(f64::NAN);
    values.keys().map(|cell| (cell.clone(), mean(cell))).collect()
}

fn replaced(values: &Values, name: &str, instead: &Instead) -> Result<Values, ClaimError> {
    let is_row = values.keys().any(|(row, _, _)| row == name);
    if !is_row && !values.keys().any(|(_, column, _)| column == name) {
        return Err(ClaimError::NullName(name.to_owned()));
    }
    let mut changed = values.clone();
    for ((row, column, flows), value) in &mut changed {
        if (if is_row { row } else { column }) != name {
            continue;
        }
        *value = match instead {
            Instead::Value(constant) => *constant,
            Instead::Other(other) => {
                let (from_row, from_column) = if is_row { (other, column) } else { (row, other) };
                let from = (from_row.clone(), from_column.clone(), *flows);
                *values.get(&from).ok_or_else(|| ClaimError::NullCell(other.clone()))?
            }
        };
    }
    Ok(changed)
}

/// An evaluated claim.
pub(super) struct Judged {
    pub(super) figures: String,
    /// The judgement of the run's cells.
    pub(super) judgement: Judgement,
    /// The judgement of the null model's cells.
    pub(super) under_null: Judgement,
}

/// Evaluates all conditions of a claim on the cells and on its null model's. `None` where cells are missing, as with
/// flow counts other than the paper's: the statement is about other cells.
pub(super) fn judge(
    conditions: &[String],
    null: &Null,
    values: &Values,
) -> Result<Option<Judged>, ClaimError> {
    let Some(here) = evaluate_all(conditions, values)? else { return Ok(None) };
    let figures = here.iter().map(|one| one.text.as_str()).collect::<Vec<_>>().join("; ");
    let holds = here.iter().all(|one| one.holds);
    let under_null = evaluate_all(conditions, &null.of(values)?)?;
    let null_holds = under_null.is_some_and(|all| all.iter().all(|one| one.holds));
    Ok(Some(Judged { figures, judgement: Judgement::of(holds), under_null: Judgement::of(null_holds) }))
}

fn evaluate_all(conditions: &[String], values: &Values) -> Result<Option<Vec<Evaluated>>, ClaimError> {
    let mut all = Vec::new();
    for condition in conditions {
        match evaluate(condition, values) {
            Ok(evaluated) => all.push(evaluated),
            Err(ClaimError::NoCell(_)) => return Ok(None),
            Err(error) => return Err(error),
        }
    }
    Ok(Some(all))
}

/// Evaluates a condition. Fails if it is invalid or names a missing cell.
fn evaluate(condition: &str, values: &Values) -> Result<Evaluated, ClaimError> {
    let (left, less, right) = match (condition.split_once('<'), condition.split_once('>')) {
        (Some((left, right)), None) => (left, true, right),
        (None, Some((left, right))) => (left, false, right),
        _ => return Err(ClaimError::Comparison(condition.to_owned())),
    };
    let (a, b) = (side(left, values)?, side(right, values)?);
    Ok(Evaluated { text: format!("{a:.3} against {b:.3}"), holds: if less { a < b } else { a > b } })
}

fn side(text: &str, values: &Values) -> Result<f64, ClaimError> {
    text.split('*').map(|factor| term(factor.trim(), values)).product()
}

fn term(text: &str, values: &Values) -> Result<f64, ClaimError> {
    if let Ok(number) = text.parse() {
        return Ok(number);
    }
    let wrong = || ClaimError::Factor(text.to_owned());
    let (cell, flows) = text.rsplit_once('@').ok_or_else(wrong)?;
    let (row, column) = cell.split_once('.').ok_or_else(wrong)?;
    let flows = flows.parse().map_err(|_| wrong())?;
    values
        .get(&(row.to_owned(), column.to_owned(), flows))
        .copied()
        .ok_or_else(|| ClaimError::NoCell(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::{Alike, Instead, Judged, Judgement, Null, Values, evaluate, evaluate_all, judge};
    use weft_report::reproduce::Claim;

    fn values(cells: &[(&str, &str, u32, f64)]) -> Values {
        let cell = |&(row, column, flows, value): &(&str, &str, u32, f64)| {
            ((row.to_owned(), column.to_owned(), flows), value)
        };
        cells.iter().map(cell).collect()
    }

    fn instead(name: &str, instead: Instead) -> Null {
        Null::Instead([(name.to_owned(), instead)].into())
    }

    #[test]
    fn a_claim_that_its_null_model_passes_is_not_shown() {
        let cells = values(&[("T1", "nfm", 12, 0.5), ("C6", "nfm", 12, 2.0), ("C6", "nfm", 48, 2.4)]);
        let of = |conditions: &[&str], null: &Null| {
            let conditions: Vec<String> = conditions.iter().map(|text| (*text).to_owned()).collect();
            let claim = |judged: Judged| {
                Claim::new(String::new(), String::new(), judged.figures, judged.judgement)
                    .with_null(null.text(), &judged.under_null)
                    .judgement()
            };
            judge(&conditions, null, &cells).map(|judged| judged.map(claim))
        };
        let as_hash = instead("T1", Instead::Other("C6".to_owned()));
        assert_eq!(of(&["T1.nfm@12 < C6.nfm@12"], &as_hash), Ok(Some(Judgement::Holds)));
        assert_eq!(of(&["T1.nfm@12 < 0.1 * C6.nfm@12"], &as_hash), Ok(Some(Judgement::Fails)));
        // A margin of two per cent would be passed by the null model too.
        let lenient = of(&["T1.nfm@12 < 1.02 * C6.nfm@12"], &as_hash);
        assert!(matches!(lenient, Ok(Some(Judgement::NotShown(_)))), "{lenient:?}");
        assert_eq!(of(&["C6.nfm@48 > C6.nfm@12"], &Null::Alike(Alike::Flows)), Ok(Some(Judgement::Holds)));
        assert_eq!(of(&["T1.nfm@12 < C6.nfm@12"], &Null::Alike(Alike::Rows)), Ok(Some(Judgement::Holds)));
        let one = instead("nfm", Instead::Value(1.0));
        assert_eq!(of(&["C6.nfm@48 > 1.1"], &one), Ok(Some(Judgement::Holds)));
        assert_eq!(of(&["T1.nfm@3 < 1"], &as_hash), Ok(None), "other flow counts");
        assert!(of(&["T1.nfm@12 < 1"], &instead("T9", Instead::Value(0.0))).is_err());
        assert!(of(&["T1.nfm@12 < 1"], &instead("T1", Instead::Other("T9".to_owned()))).is_err());
    }

    #[test]
    fn null_models_are_read() {
        let read = |text: &str| {
            toml::from_str::<std::collections::BTreeMap<String, Null>>(text).map(|mut all| all.remove("null"))
        };
        assert_eq!(read("null = \"alike rows\""), Ok(Some(Null::Alike(Alike::Rows))));
        assert_eq!(read("null = { T1 = \"C6\" }"), Ok(Some(instead("T1", Instead::Other("C6".to_owned())))));
        assert_eq!(read("null = { ratio = 1.0 }"), Ok(Some(instead("ratio", Instead::Value(1.0)))));
        assert!(read("null = \"nothing\"").is_err());
    }

    /// Every claim of every experiment on its null model, with random cells. The names exist; where something makes
    /// no difference, a comparison of cells fails on all cells, and no other such claim always passes. A comparison
    /// with a number depends on the run, and each run judges it again.
    #[test]
    fn every_claim_has_a_null_model_that_it_fails() {
        let mut state = 7_u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            0.1 + (state >> 40) as f64 / f64::from(1_u32 << 24)
        };
        let (mut claims, mut depend) = (0, 0);
        for id in crate::reproduce::ids() {
            let Ok(file) = crate::reproduce::file::experiment(id) else { continue };
            for claim in &file.claims {
                claims += 1;
                let mut passed = 0;
                for _ in 0..50 {
                    let mut values = Values::new();
                    for (row, column) in
                        file.rows.iter().flat_map(|row| file.columns.iter().map(move |c| (row, c)))
                    {
                        for flows in &file.flows {
                            values.insert((row.clone(), column.name.clone(), *flows), random());
                        }
                    }
                    let cells = claim.null.of(&values).unwrap_or_else(|error| panic!("{id}: {error}"));
                    let all =
                        evaluate_all(&claim.holds, &cells).unwrap_or_else(|error| panic!("{id}: {error}"));
                    let all =
                        all.unwrap_or_else(|| panic!("{id}, {}: a cell that there is not", claim.statement));
                    passed += u32::from(all.iter().all(|one| one.holds));
                }
                depend += u32::from(passed > 0);
                let with_numbers = claim.holds.iter().any(|condition| {
                    condition.split(['<', '>']).any(|side| side.trim().parse::<f64>().is_ok())
                });
                assert!(with_numbers || passed < 50, "{id}, {}: passes always", claim.statement);
                let no_difference = matches!(claim.null, Null::Alike(_)) && !with_numbers;
                assert!(!no_difference || passed == 0, "{id}, {}: passes on its null model", claim.statement);
            }
        }
        assert!(claims > 50, "{claims}");
        println!("{claims} claims, of which {depend} depend on the run");
    }

    #[test]
    fn conditions_compare_cells_with_numbers_and_cells() {
        let cell = |row: &str, flows, value| ((row.to_owned(), "nfm".to_owned(), flows), value);
        let values: Values = [cell("T1", 12, 0.5), cell("C6", 12, 2.0)].into_iter().collect();
        let holds = |text| evaluate(text, &values).map(|evaluated| evaluated.holds);
        assert_eq!(holds("T1.nfm@12 < 0.6"), Ok(true));
        assert_eq!(holds("T1.nfm@12 < 0.2 * C6.nfm@12"), Ok(false));
        assert_eq!(holds("C6.nfm@12 > 3 * T1.nfm@12"), Ok(true));
        assert!(holds("T1.nfm@48 < 1").is_err());
        assert!(holds("T1.nfm 1").is_err());
        assert!(holds("T1 < 1").is_err());
    }
}
