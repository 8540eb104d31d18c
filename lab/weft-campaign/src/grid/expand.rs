//! The combinations and runs of a grid, one after the other: none is kept.

use super::{Grid, ParameterAxis};
use core::fmt;
use core::str::FromStr;
use thiserror::Error;
use toml::Value;

/// A combination of the axes' values.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Combination {
    /// Its number among all, those that conditions leave out included.
    pub number: u64,
    /// By axis, the index of its value.
    pub values: Vec<usize>,
}

/// A combination with a seed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GridRun {
    /// The combination.
    pub combination: Combination,
    /// The seed.
    pub seed: u64,
}

/// A part of a grid's runs: each `of`-th, from the `index`-th.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shard {
    /// From 1 to `of`.
    index: u64,
    of: u64,
}

/// The reason that a text names no shard.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("`{0}` is no shard: write I/N, such as 1/8, with I from 1 to N")]
pub struct ShardError(String);

impl Shard {
    /// All runs.
    pub const ALL: Self = Self { index: 1, of: 1 };

    /// Returns the `index`-th of `of` shards, counted from 1.
    ///
    /// # Errors
    /// If there is no such shard.
    pub fn new(index: u64, of: u64) -> Result<Self, ShardError> {
        let shard = Self { index, of };
        if (1..=of).contains(&index) { Ok(shard) } else { Err(ShardError(shard.to_string())) }
    }

    /// Returns the number of runs from the one with this ordinal, counted from 0, to the next that it has.
    const fn ahead(self, ordinal: u64) -> u64 {
        let (first, here) = (self.index - 1, ordinal % self.of);
        if here <= first { first - here } else { self.of - here + first }
    }

    /// Returns its number of runs, out of `all`.
    pub const fn runs(self, all: u64) -> u64 {
        if all < self.index { 0 } else { (all - self.index) / self.of + 1 }
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.of)
    }
}

impl FromStr for Shard {
    type Err = ShardError;

    fn from_str(text: &str) -> Result<Self, ShardError> {
        let error = || ShardError(weft_text::printable(text));
        let (index, of) = text.split_once('/').ok_or_else(error)?;
        let (index, of) = (index.parse().map_err(|_| error())?, of.parse().map_err(|_| error())?);
        Self::new(index, of).map_err(|_| error())
    }
}

/// The combinations that the conditions leave, in order: the last axis advances first.
#[derive(Clone, Debug)]
pub struct Combinations<'a> {
    grid: &'a Grid,
    /// The next one; `None` after the last.
    next: Option<Combination>,
}

impl Iterator for Combinations<'_> {
    type Item = Combination;

    fn next(&mut self) -> Option<Combination> {
        self.grid.take(&mut self.next)
    }
}

/// A place among the runs of a shard. It borrows nothing, so threads may share it.
#[derive(Clone, Debug)]
pub struct Cursor {
    shard: Shard,
    /// The next combination; `None` after the last.
    next: Option<Combination>,
    current: Option<Combination>,
    /// Index of the next seed of the current combination.
    seed: u64,
    ordinal: u64,
}

impl Cursor {
    /// Returns the next run of the cursor's grid. Seeds advance first. Its cost does not grow with the seeds that
    /// belong to other shards.
    pub fn advance(&mut self, grid: &Grid) -> Option<GridRun> {
        let seeds = grid.seeds.len();
        loop {
            if self.current.is_none() || self.seed == seeds {
                self.current = Some(grid.take(&mut self.next)?);
                self.seed = 0;
            }
            let ahead = self.shard.ahead(self.ordinal).min(seeds - self.seed);
            self.seed += ahead;
            self.ordinal += ahead;
            if self.seed < seeds {
                let combination = self.current.clone()?;
                self.seed += 1;
                self.ordinal += 1;
                return Some(GridRun { combination, seed: grid.seeds.get(self.seed - 1) });
            }
        }
    }
}

/// The runs of a shard, in order.
#[derive(Clone, Debug)]
pub struct ShardRuns<'a> {
    grid: &'a Grid,
    cursor: Cursor,
}

impl Iterator for ShardRuns<'_> {
    type Item = GridRun;

    fn next(&mut self) -> Option<GridRun> {
        self.cursor.advance(self.grid)
    }
}

impl Grid {
    /// Returns the combinations that the conditions leave.
    pub fn combinations(&self) -> Combinations<'_> {
        Combinations { grid: self, next: Some(self.first()) }
    }

    /// Returns a cursor before the first run of a shard.
    pub fn cursor(&self, shard: Shard) -> Cursor {
        Cursor { shard, next: Some(self.first()), current: None, seed: 0, ordinal: 0 }
    }

    fn first(&self) -> Combination {
        Combination { number: 0, values: vec![0; self.axes.len()] }
    }

    /// Takes the next combination that the conditions leave.
    fn take(&self, next: &mut Option<Combination>) -> Option<Combination> {
        loop {
            let found = next.take()?;
            *next = self.after(&found);
            if self.keeps(&found) {
                return Some(found);
            }
        }
    }

    /// Returns the runs of a shard.
    pub fn runs(&self, shard: Shard) -> ShardRuns<'_> {
        ShardRuns { grid: self, cursor: self.cursor(shard) }
    }

    /// Returns the number of all runs. With conditions each combination is tried.
    pub fn count(&self) -> u64 {
        let combinations = if self.conditions.is_empty() {
            self.dimensions.iter().map(|dimension| dimension.length as u64).product()
        } else {
            self.combinations().count() as u64
        };
        combinations * self.seeds.len()
    }

    /// Whether at most 100,000 combinations exist, those that conditions leave out included.
    pub(crate) fn is_small(&self) -> bool {
        let lengths = self.dimensions.iter().map(|dimension| dimension.length as u64);
        lengths.product::<u64>() <= 100_000
    }

    /// Returns the parameters of a combination: keys of the scenario and their values, in the order of the file.
    pub fn parameters<'a>(
        &'a self,
        combination: &'a Combination,
    ) -> impl Iterator<Item = (&'a str, &'a Value)> {
        let value =
            |(axis, at): (&'a ParameterAxis, &usize)| Some((axis.key.as_str(), axis.values.get(*at)?));
        self.axes.iter().zip(&combination.values).filter_map(value)
    }

    /// Whether all conditions hold.
    fn keeps(&self, combination: &Combination) -> bool {
        let value = |axis: usize| &self.axes[axis].scalars[combination.values[axis]];
        self.conditions.iter().all(|condition| condition.holds(&value))
    }

    /// Returns the combination after another, without asking the conditions.
    fn after(&self, combination: &Combination) -> Option<Combination> {
        let mut next = Combination { number: combination.number + 1, values: combination.values.clone() };
        for dimension in self.dimensions.iter().rev() {
            let at = next.values[dimension.axes[0]] + 1;
            let turned = at == dimension.length;
            for axis in &dimension.axes {
                next.values[*axis] = if turned { 0 } else { at };
            }
            if !turned {
                return Some(next);
            }
        }
        None
    }
}
