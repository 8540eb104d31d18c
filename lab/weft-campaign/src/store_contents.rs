//! Contents of stores: counted for a grid, and taken over from other stores.

use crate::campaign::{Campaign, CampaignError, PreparedCombination};
use crate::grid::Shard;
use crate::record::ResultRecordError;
use crate::store::{Lookup, ResultStore, ResultStoreError};
use std::path::PathBuf;

/// The most results that are written at once.
const BATCH: usize = 64;

/// The numbers of a grid's results that a store has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Status {
    /// The runs of the grid.
    pub runs: u64,
    /// Runs whose results are there.
    pub there: u64,
    /// Runs with a file that is no result.
    pub broken: u64,
}

/// Looks for each result of a grid; none is made. `stopped` ends the search early.
///
/// # Errors
/// If parameters make no scenario, or the store cannot be read.
pub fn status(
    campaign: &Campaign,
    store: &ResultStore,
    stopped: &dyn Fn() -> bool,
) -> Result<Status, CampaignError> {
    let mut status = Status { runs: campaign.grid().count(), ..Status::default() };
    let mut prepared: Option<(u64, PreparedCombination)> = None;
    for run in campaign.grid().runs(Shard::ALL) {
        if stopped() {
            break;
        }
        let number = run.combination.number;
        let of = match prepared.take() {
            Some((known, of)) if known == number => of,
            _ => campaign.prepare(&run.combination)?,
        };
        let (_, of) = prepared.insert((number, of));
        match store.look(&of.identity(run.seed).key())? {
            Lookup::Whole(_) => status.there += 1,
            Lookup::Broken(_) => status.broken += 1,
            Lookup::Missing => {}
        }
    }
    Ok(status)
}

/// The result of a merge.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Merged {
    /// Results that were taken over.
    pub taken: u64,
    /// Results that were there.
    pub there: u64,
    /// Files that are no results, which were left.
    pub broken: u64,
}

/// Takes the results of `from` over into `into`. `tell` receives the files that are no results; they are left where
/// they are.
///
/// # Errors
/// If one of them cannot be read or written. What was taken over is kept.
pub fn merge(
    from: &ResultStore,
    into: &ResultStore,
    stopped: &dyn Fn() -> bool,
    tell: &mut dyn FnMut(PathBuf, ResultRecordError),
) -> Result<Merged, ResultStoreError> {
    let mut merged = Merged::default();
    let mut batch = Vec::new();
    let mut flush = |batch: &mut Vec<_>| {
        let (written, error) = into.write(batch);
        merged.taken += written as u64;
        batch.clear();
        error.map_or(Ok(()), Err)
    };
    let (mut there, mut broken) = (0, 0);
    for key in from.keys() {
        if stopped() {
            break;
        }
        let key = key?;
        let record = match from.look(&key)? {
            Lookup::Whole(record) => record,
            Lookup::Missing => continue,
            Lookup::Broken(error) => {
                broken += 1;
                tell(from.path(&key), error);
                continue;
            }
        };
        if matches!(into.look(&key)?, Lookup::Whole(_)) {
            there += 1;
            continue;
        }
        batch.extend(record.write().map(|text| (key, text)));
        if batch.len() == BATCH {
            flush(&mut batch)?;
        }
    }
    flush(&mut batch)?;
    Ok(Merged { there, broken, ..merged })
}
