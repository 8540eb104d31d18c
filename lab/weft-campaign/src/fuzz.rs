//! The fuzz target: guarantees for arbitrary bytes read as a grid.

use crate::grid::{self, Shard};

/// The file's name in errors.
const FILE: &str = "fuzz.toml";
/// The combinations that are looked at.
const LOOKED_AT: usize = 50;

/// Reads `data` as a grid. Panics if an error points outside the text or is not two lines, or if a combination lacks a parameter.
pub fn fuzz_grid(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match grid::read(&text, FILE) {
        Ok(grid) => {
            // Conditions may leave out all of very many, so the product alone is looked at then.
            if grid.is_small() {
                for run in grid.runs(Shard::ALL).take(LOOKED_AT) {
                    assert_eq!(grid.parameters(&run.combination).count(), grid.axes().len(), "{text}");
                }
            }
        }
        Err(error) => {
            assert_eq!(error.to_string().lines().count(), 2, "two lines: {error}");
            assert!(!error.what.is_empty() && !error.hint.is_empty(), "{error}");
            let line = text.split('\n').nth(error.line - 1);
            let columns = line.map(|line| line.chars().count());
            assert!(
                columns.is_some_and(|columns| error.column <= columns + 1),
                "{error} is outside the text"
            );
        }
    }
}
