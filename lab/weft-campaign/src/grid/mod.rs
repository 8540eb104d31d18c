//! Grid files: a scenario, the axes of its parameters, and seeds (docs/campaigns.md).

mod expand;
mod range;
mod read;

pub use expand::{Combination, Combinations, Cursor, GridRun, Shard, ShardError, ShardRuns};
pub use read::read;

use crate::condition::Condition;
use crate::scalar::Scalar;
use core::ops::Range;
use toml::Value;
use weft_text::{LocatedError, ParseError};

/// A grid, as its file says.
#[derive(Clone, PartialEq, Debug)]
pub struct Grid {
    /// The scenario's path, relative to the grid file's folder.
    pub scenario: String,
    axes: Vec<ParameterAxis>,
    dimensions: Vec<Dimension>,
    seeds: Seeds,
    conditions: Vec<Condition>,
    /// Place of the scenario's path.
    place: Range<usize>,
    file: String,
    text: String,
}

/// A parameter and its values.
#[derive(Clone, PartialEq, Debug)]
pub struct ParameterAxis {
    /// The scenario's key that it sets.
    pub key: String,
    /// The short name for conditions.
    pub name: Option<String>,
    /// The values, none twice unless zipped with another axis.
    pub values: Vec<Value>,
    /// The values as conditions compare them.
    scalars: Vec<Scalar>,
    /// The name of the axes that advance with it.
    zip: Option<String>,
    /// Place of its key.
    place: Range<usize>,
}

/// Axes that advance together; without a zip, one.
#[derive(Clone, PartialEq, Debug)]
struct Dimension {
    axes: Vec<usize>,
    length: usize,
}

/// The seeds of each combination.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Seeds {
    /// As many from a first one.
    Range { first: u64, count: u64 },
    /// These.
    List(Vec<u64>),
}

impl Seeds {
    fn len(&self) -> u64 {
        match self {
            Self::Range { count, .. } => *count,
            Self::List(list) => list.len() as u64,
        }
    }

    fn get(&self, index: u64) -> u64 {
        match self {
            Self::Range { first, .. } => first + index,
            Self::List(list) => list.get(index as usize).copied().unwrap_or_default(),
        }
    }
}

impl Grid {
    /// Returns the axes in the order of the file.
    pub fn axes(&self) -> &[ParameterAxis] {
        &self.axes
    }

    /// Returns the number of seeds of each combination.
    pub fn seeds(&self) -> u64 {
        self.seeds.len()
    }

    /// Returns an error at the path of the scenario.
    pub fn error_at_scenario(&self, what: impl AsRef<str>, hint: impl AsRef<str>) -> LocatedError {
        ParseError::new(self.place.clone(), what, hint).locate(&self.file, &self.text)
    }

    /// Returns an error at the key of an axis.
    pub fn error_at_axis(&self, axis: usize, what: impl AsRef<str>, hint: impl AsRef<str>) -> LocatedError {
        let place = self.axes.get(axis).map_or(self.place.clone(), |axis| axis.place.clone());
        ParseError::new(place, what, hint).locate(&self.file, &self.text)
    }
}
