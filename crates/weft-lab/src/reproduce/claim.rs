//! Conditions on cells: what the papers say in words.
//!
//! `CELL < NUMBER`, `CELL < FACTOR * CELL`, or with `>`; a cell is `ROW.COLUMN@FLOWS`.

use std::collections::BTreeMap;

/// Simulated values by row, column and flows.
pub(super) type Values = BTreeMap<(String, String, u32), f64>;

/// A condition, evaluated.
pub(super) struct Evaluated {
    /// The figures, as `left` and `right` in words.
    pub(super) text: String,
    pub(super) holds: bool,
}

/// Evaluates a condition; the reason where it cannot be read or names a cell that there is not.
pub(super) fn evaluate(condition: &str, values: &Values) -> Result<Evaluated, String> {
    let (left, less, right) = match (condition.split_once('<'), condition.split_once('>')) {
        (Some((left, right)), None) => (left, true, right),
        (None, Some((left, right))) => (left, false, right),
        _ => return Err(format!("`{condition}` has not one `<` or `>`")),
    };
    let (a, b) = (side(left, values)?, side(right, values)?);
    Ok(Evaluated { text: format!("{a:.3} against {b:.3}"), holds: if less { a < b } else { a > b } })
}

fn side(text: &str, values: &Values) -> Result<f64, String> {
    text.split('*').map(|factor| term(factor.trim(), values)).product()
}

fn term(text: &str, values: &Values) -> Result<f64, String> {
    if let Ok(number) = text.parse() {
        return Ok(number);
    }
    let wrong = || format!("`{text}` is neither a number nor ROW.COLUMN@FLOWS");
    let (cell, flows) = text.rsplit_once('@').ok_or_else(wrong)?;
    let (row, column) = cell.split_once('.').ok_or_else(wrong)?;
    let flows = flows.parse().map_err(|_| wrong())?;
    values
        .get(&(row.to_owned(), column.to_owned(), flows))
        .copied()
        .ok_or_else(|| format!("there is no cell `{text}`"))
}

#[cfg(test)]
mod tests {
    use super::{Values, evaluate};

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
