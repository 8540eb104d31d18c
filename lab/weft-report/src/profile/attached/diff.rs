//! The difference of two attached profiles, in nanoseconds per byte of each direction, with 95 % confidence intervals.
//!
//! Each window with bytes is one observation, so the interval is that of the load's variation within the spans. Time between two spans
//! may differ by more.

use super::{AttachedReport, Direction, Window};
use crate::profile::Category;
use crate::profile::diff::{Difference, rows_of, same_conditions};
use weft_facts::table::Table;

pub use crate::profile::diff::DiffError;

/// A direction in both profiles: the differences by category; `None` for all of them.
#[derive(Clone, PartialEq, Debug)]
pub struct DirectionDiff {
    /// The direction.
    pub direction: Direction,
    /// The differences.
    pub rows: Vec<(Option<Category>, Difference)>,
}

/// Compares two profiles.
///
/// # Errors
/// If clock, rate, table of categories, kernel or kind of subject differ, or no direction has bytes in both.
pub fn diff(a: &AttachedReport, b: &AttachedReport) -> Result<Vec<DirectionDiff>, DiffError> {
    same_conditions((&a.conditions, &a.host), (&b.conditions, &b.host))?;
    let [of_a, of_b] = [a, b].map(|report| report.subject.kind.name().to_owned());
    if of_a != of_b {
        return Err(DiffError::Conditions { what: "subject", a: of_a, b: of_b });
    }
    let of = |direction| direction_diff(direction, &a.windows, &b.windows);
    let found: Vec<DirectionDiff> = Direction::ALL.into_iter().filter_map(of).collect();
    if found.is_empty() { Err(DiffError::NoBytes) } else { Ok(found) }
}

fn direction_diff(direction: Direction, a: &[Window], b: &[Window]) -> Option<DirectionDiff> {
    let with_bytes = |windows: &[Window]| windows.iter().any(|window| window.moved.bytes(direction) > 0);
    if !with_bytes(a) || !with_bytes(b) {
        return None;
    }
    let row = |category: Option<Category>| {
        let of = |windows: &[Window]| -> Vec<f64> {
            windows.iter().filter_map(|window| ns_per_byte(window, direction, category)).collect()
        };
        (category, Difference::of(&of(a), &of(b)))
    };
    let categories = Category::ALL.into_iter().map(Some);
    Some(DirectionDiff { direction, rows: [None].into_iter().chain(categories).map(row).collect() })
}

fn ns_per_byte(window: &Window, direction: Direction, category: Option<Category>) -> Option<f64> {
    let bytes = window.moved.bytes(direction);
    let times = window.network_s.get(&direction);
    let seconds: f64 = times.map_or(0.0, |times| match category {
        Some(category) => times.get(&category).copied().unwrap_or(0.0),
        None => times.values().sum(),
    });
    (bytes > 0).then(|| seconds * 1e9 / bytes as f64)
}

/// The differences as one table.
pub fn tables(directions: &[DirectionDiff]) -> Vec<Table> {
    let rows = directions.iter().flat_map(|of| {
        let named = |(category, d): &(Option<Category>, Difference)| {
            (of.direction.title(), category.map_or("all in the network stack", Category::title), *d)
        };
        of.rows.iter().map(named)
    });
    let mut table = rows_of("Attached: nanoseconds per byte", "direction", rows);
    table.note(
        "Positive: B costs more. The intervals are Welch's, of the means over the windows of each span.",
    );
    vec![table]
}

#[cfg(test)]
mod tests {
    use super::super::{Moved, NetworkTime, SubjectKind};
    use super::*;

    fn report(copies: &[f64]) -> AttachedReport {
        let window = |ns: &f64| Window {
            span_s: 1.0,
            moved: Moved { rx_bytes: 1_000_000, ..Moved::default() },
            network_s: NetworkTime::from([(Direction::Receive, [(Category::DataCopy, ns * 1e-3)].into())]),
        };
        AttachedReport { windows: copies.iter().map(window).collect(), ..AttachedReport::default() }
    }

    #[test]
    fn windows_are_the_observations() {
        let (cheap, dear) = (report(&[0.10, 0.11, 0.09]), report(&[0.20, 0.21, 0.19]));
        let found = diff(&cheap, &dear).expect("comparable");
        assert_eq!(found.iter().map(|d| d.direction).collect::<Vec<_>>(), [Direction::Receive]);
        let copy = found[0].rows.iter().find(|row| row.0 == Some(Category::DataCopy)).expect("a row").1;
        assert!((copy.delta() - 0.1).abs() < 1e-9 && copy.is_significant(), "{copy:?}");
        assert_eq!(found[0].rows[0].1, copy, "all of it");
        assert!(tables(&found)[0].render(false).contains("+0.1000"));
    }

    #[test]
    fn other_subjects_and_profiles_without_bytes_are_refused() {
        let mut process = report(&[0.1]);
        process.subject.kind = SubjectKind::Process;
        let refused = diff(&report(&[0.1]), &process).expect_err("subjects").to_string();
        assert!(refused.contains("host and process"), "{refused}");
        assert_eq!(diff(&report(&[]), &report(&[0.1])), Err(DiffError::NoBytes));
    }
}
