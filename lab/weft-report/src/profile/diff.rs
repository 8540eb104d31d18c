//! The difference of two profiles, in nanoseconds per payload byte, with 95 % confidence intervals.
//!
//! A positive difference means that the second profile costs more. Each run is one observation; the interval is Welch's,
//! for runs of unequal variance. With one run of a level there is no interval.

use super::{Category, Conditions, ConfigReport, ProfileReport, Run, Side};
use weft_facts::human;
use weft_facts::record::Host;
use weft_facts::stats;
use weft_facts::table::{Column, Table};

/// The reason that two profiles cannot be compared.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DiffError {
    /// A condition differs.
    #[error(
        "the profiles have another {what}, {a} and {b}: their difference would be that of the instruments"
    )]
    Conditions {
        /// The condition.
        what: &'static str,
        /// Its value in the first.
        a: String,
        /// Its value in the second.
        b: String,
    },
    /// No level is in both.
    #[error("the profiles have no level in common")]
    NoLevel,
    /// One profile is of trials, the other of what ran on the host.
    #[error(
        "one profile is of trials and the other was attached: their figures divide by other bytes, and only two of a kind compare"
    )]
    Mixed,
    /// No direction has bytes in both.
    #[error(
        "the profiles have no direction in which both counted bytes; name the device of the traffic with --device"
    )]
    NoBytes,
}

/// A difference with its interval.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Difference {
    /// The mean of the first, in nanoseconds per byte.
    pub a: f64,
    /// The mean of the second.
    pub b: f64,
    /// Half of the interval of `b - a`; `None` with one run.
    pub half_width: Option<f64>,
}

impl Difference {
    /// Second minus first.
    pub fn delta(&self) -> f64 {
        self.b - self.a
    }

    /// Whether the interval excludes zero.
    pub fn is_significant(&self) -> bool {
        self.half_width.is_some_and(|half| self.delta().abs() > half)
    }

    /// The difference of the means of `a` and `b`.
    pub(super) fn of(a: &[f64], b: &[f64]) -> Self {
        let mean = |x: &[f64]| stats::mean(x).unwrap_or(0.0);
        Self { a: mean(a), b: mean(b), half_width: stats::welch_half_width(a, b) }
    }
}

/// A level in both profiles.
#[derive(Clone, PartialEq, Debug)]
pub struct LevelDiff {
    /// The level.
    pub level: String,
    /// The differences by side and category; `None` for all categories and the programs' own time.
    pub rows: Vec<(Side, Option<Category>, Difference)>,
}

/// Compares two profiles.
///
/// # Errors
/// If clock, rate, table of categories, kernel or receiving host differ, or no level is in both.
pub fn diff(a: &ProfileReport, b: &ProfileReport) -> Result<Vec<LevelDiff>, DiffError> {
    same_conditions((&a.conditions, &a.host), (&b.conditions, &b.host))?;
    let receiver = |report: &ProfileReport| {
        let peer = report.peer.as_ref();
        peer.map_or_else(
            || "this host".to_owned(),
            |peer| format!("{} (kernel {})", peer.address, peer.kernel),
        )
    };
    if receiver(a) != receiver(b) {
        let what = "receiving host";
        return Err(DiffError::Conditions { what, a: receiver(a), b: receiver(b) });
    }
    let pair = |one: &ConfigReport| {
        let other = b.configs.iter().find(|c| c.level == one.level && c.flows == one.flows)?;
        Some(level(&one.level, &one.runs, &other.runs))
    };
    let levels: Vec<LevelDiff> = a.configs.iter().filter_map(pair).collect();
    if levels.is_empty() { Err(DiffError::NoLevel) } else { Ok(levels) }
}

/// Refuses profiles of other instruments or kernels.
pub(super) fn same_conditions(a: (&Conditions, &Host), b: (&Conditions, &Host)) -> Result<(), DiffError> {
    let same = |what, x: String, y: String| {
        if x == y { Ok(()) } else { Err(DiffError::Conditions { what, a: x, b: y }) }
    };
    same("clock", a.0.clock.clone(), b.0.clock.clone())?;
    same("sampling rate", a.0.sample_hz.to_string(), b.0.sample_hz.to_string())?;
    same("table of categories", a.0.categories.clone(), b.0.categories.clone())?;
    same("kernel", a.1.kernel.clone(), b.1.kernel.clone())
}

fn level(name: &str, a: &[Run], b: &[Run]) -> LevelDiff {
    let row = |side: Side, category: Option<Category>| {
        let of = |runs: &[Run]| -> Vec<f64> {
            runs.iter().filter_map(|run| ns_per_byte(run, side, category)).collect()
        };
        (side, category, Difference::of(&of(a), &of(b)))
    };
    let rows = Side::ALL.into_iter().flat_map(|side| {
        let categories = Category::ALL.into_iter().map(Some);
        [None].into_iter().chain(categories).map(move |category| row(side, category))
    });
    LevelDiff { level: name.to_owned(), rows: rows.collect() }
}

fn ns_per_byte(run: &Run, side: Side, category: Option<Category>) -> Option<f64> {
    let time = run.side(side);
    let seconds = match category {
        Some(category) => time.categories_s.get(&category).copied().unwrap_or(0.0),
        None => time.total_s(),
    };
    (run.work.bytes > 0).then(|| seconds * 1e9 / run.work.bytes as f64)
}

/// The differences as tables, one per level.
pub fn tables(levels: &[LevelDiff]) -> Vec<Table> {
    levels.iter().map(table).collect()
}

fn table(level: &LevelDiff) -> Table {
    let named = |(side, category, d): &(Side, Option<Category>, Difference)| {
        (side.name(), category.map_or("all, with programs", Category::title), *d)
    };
    let mut table =
        rows_of(&format!("{}: nanoseconds per byte", level.level), "side", level.rows.iter().map(named));
    table.note("Positive: B costs more. The intervals are Welch's, of the runs' means.");
    table
}

/// A table of differences; `of` heads the first column.
pub(super) fn rows_of<'a>(
    title: &str,
    of: &str,
    rows: impl Iterator<Item = (&'a str, &'a str, Difference)>,
) -> Table {
    let mut table = Table::new(title).columns(
        [of, "category"]
            .map(Column::left)
            .into_iter()
            .chain(["A", "B", "B - A", "95 %"].map(Column::right))
            .chain([Column::left("")]),
    );
    for (of, category, d) in rows {
        table.row([
            of.to_owned(),
            category.to_owned(),
            format!("{:.4}", d.a),
            format!("{:.4}", d.b),
            format!("{:+.4}", d.delta()),
            human::or_none(d.half_width, |half| format!("± {half:.4}")),
            if d.is_significant() { "differs" } else { "" }.to_owned(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Conditions, SideTime, Work};

    fn report(clock: &str, copies: &[f64]) -> ProfileReport {
        let run = |ns: &f64| Run {
            span_s: 1.0,
            work: Work { bytes: 1_000_000, ..Work::default() },
            receiver: SideTime {
                system_s: ns * 1e-3,
                categories_s: [(Category::DataCopy, ns * 1e-3)].into(),
                ..SideTime::default()
            },
            ..Run::default()
        };
        let runs: Vec<Run> = copies.iter().map(run).collect();
        ProfileReport {
            conditions: Conditions { clock: clock.to_owned(), ..Conditions::default() },
            configs: vec![ConfigReport::conclude("jumbo", 1, [1, 1], runs)],
            ..ProfileReport::default()
        }
    }

    #[test]
    fn the_sign_says_which_costs_more() {
        let (cheap, dear) =
            (report("cpu-clock", &[0.10, 0.11, 0.09]), report("cpu-clock", &[0.20, 0.21, 0.19]));
        let levels = diff(&cheap, &dear).expect("comparable");
        let copy =
            levels[0].rows.iter().find(|row| row.0 == Side::Receiver && row.1 == Some(Category::DataCopy));
        let (.., d) = copy.expect("a row");
        assert!((d.delta() - 0.1).abs() < 1e-9 && d.is_significant(), "{d:?}");
        let back = diff(&dear, &cheap).expect("comparable");
        assert!(back[0].rows.iter().all(|row| row.2.delta() <= 0.0));
        assert!(tables(&levels)[0].render(false).contains("+0.1000"));
        let one = diff(&report("x", &[0.1]), &report("x", &[0.2])).expect("comparable");
        assert!(one[0].rows.iter().all(|row| row.2.half_width.is_none() && !row.2.is_significant()));
    }

    #[test]
    fn other_instruments_are_refused() {
        let refused = diff(&report("cpu-clock", &[0.1]), &report("cycles", &[0.1])).expect_err("clocks");
        assert!(refused.to_string().contains("cpu-clock and cycles"), "{refused}");
        let mut elsewhere = report("cpu-clock", &[0.1]);
        elsewhere.peer = Some(super::super::Peer { address: "server1".to_owned(), ..Default::default() });
        let refused = diff(&report("cpu-clock", &[0.1]), &elsewhere).expect_err("hosts");
        assert!(refused.to_string().contains("receiving host, this host and server1"), "{refused}");
        assert!(diff(&elsewhere, &elsewhere).is_ok());
        let mut other = report("cpu-clock", &[0.1]);
        other.configs[0].level = "noopt".to_owned();
        assert_eq!(diff(&report("cpu-clock", &[0.1]), &other), Err(DiffError::NoLevel));
    }
}
