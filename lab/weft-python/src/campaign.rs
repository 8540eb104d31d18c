//! `weftline.campaign`: a grid's missing results, their count, and all results as a table.

use crate::background::LOOK;
use crate::export::Table;
use crate::failure::Failure;
use crate::files;
use crate::input::Given;
use crate::table::{self, Column};
use pyo3::prelude::*;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Instant;
use weft_campaign::campaign::Campaign;
use weft_campaign::export;
use weft_campaign::grid::Shard;
use weft_campaign::record::ResultRecord;
use weft_campaign::run::{self, CampaignEvent, ShardProgress};
use weft_campaign::store::{ResultStore, ResultStoreError};
use weft_campaign::store_contents;

/// The numbers of a shard's runs: all, those that were there, those that were made, and the files that were no results.
type Numbers = (u64, u64, u64, u64);

/// Makes the results of a grid that are missing. `progress` is called with the same numbers as they grow.
#[pyfunction]
pub(crate) fn campaign(
    py: Python<'_>,
    grid: &Bound<'_, PyAny>,
    out: PathBuf,
    threads: Option<usize>,
    shard: &str,
    progress: Option<Py<PyAny>>,
) -> PyResult<Numbers> {
    let campaign = read(grid)?;
    let shard: Shard = shard.parse().map_err(|error| Failure::plain(error, ""))?;
    let store = ResultStore::create(&out).map_err(stored)?;
    let threads = threads.unwrap_or_else(|| thread::available_parallelism().map_or(1, NonZero::get));
    let (done, ended) = py.detach(move || {
        let watch = Watch { error: RefCell::new(None), looked: Cell::new(Instant::now()) };
        let mut last = None;
        let done = run::run(&campaign, &store, (shard, threads), &|| watch.is_over(), &mut |event| {
            if let (CampaignEvent::Progress(now), Some(told)) = (event, &progress)
                && last != Some(*now)
            {
                last = Some(*now);
                watch.tell(told, *now);
            }
        });
        (done, watch.error.into_inner())
    });
    match ended {
        Some(error) => Err(error),
        None => Ok(numbers(done.map_err(Failure::from)?)),
    }
}

const fn numbers(progress: ShardProgress) -> Numbers {
    (progress.runs, progress.there, progress.made, progress.broken)
}

/// A check for news from Python while a campaign runs: a signal, or an exception of a callback.
struct Watch {
    error: RefCell<Option<PyErr>>,
    looked: Cell<Instant>,
}

impl Watch {
    /// Whether the campaign is to end. An interpreter that is ending ends it too.
    fn is_over(&self) -> bool {
        if self.error.borrow().is_some() {
            return true;
        }
        if self.looked.get().elapsed() < LOOK {
            return false;
        }
        self.looked.set(Instant::now());
        let Some(looked) = Python::try_attach(|py| py.check_signals()) else { return true };
        self.keep(looked)
    }

    fn tell(&self, told: &Py<PyAny>, progress: ShardProgress) {
        if self.error.borrow().is_none() {
            let called = Python::try_attach(|py| told.call1(py, numbers(progress)).map(drop));
            self.keep(called.unwrap_or(Ok(())));
        }
    }

    fn keep(&self, result: PyResult<()>) -> bool {
        let failed = result.is_err();
        if let Err(error) = result {
            *self.error.borrow_mut() = Some(error);
        }
        failed
    }
}

/// Counts the results of a grid that are in a store: all runs, results, files that are no results.
#[pyfunction]
pub(crate) fn status(py: Python<'_>, grid: &Bound<'_, PyAny>, out: PathBuf) -> PyResult<(u64, u64, u64)> {
    let campaign = read(grid)?;
    let store = ResultStore::open(&out).map_err(stored)?;
    let (status, ended) = py.detach(move || {
        let watch = Watch { error: RefCell::new(None), looked: Cell::new(Instant::now()) };
        let status = store_contents::status(&campaign, &store, &|| watch.is_over());
        (status, watch.error.into_inner())
    });
    if let Some(error) = ended {
        return Err(error);
    }
    let store_contents::Status { runs, there, broken } = status.map_err(Failure::from)?;
    Ok((runs, there, broken))
}

/// Returns the results of a store as a table, a row per run, with the numbers of results of other versions of the model and of files that
/// are no results, which it lacks.
#[pyfunction]
pub(crate) fn results(py: Python<'_>, out: PathBuf) -> PyResult<(Table, u64, u64)> {
    let store = ResultStore::open(&out).map_err(stored)?;
    let read = py.detach(move || {
        let mut records = Vec::new();
        export::each(&store, &mut |record| records.push(record.clone())).map(|told| (columns(&records), told))
    });
    let (columns, told) = read.map_err(stored)?;
    Ok((Table::new(table::Table::new(columns)), told.other_models, told.broken))
}

/// The columns of a campaign's table, as those of `weft campaign export`.
fn columns(records: &[ResultRecord]) -> Vec<Column> {
    let parameters: BTreeSet<&String> =
        records.iter().flat_map(|record| record.identity.parameters.keys()).collect();
    let figures: BTreeSet<&String> = records.iter().flat_map(|record| record.figures.keys()).collect();
    let of_parameter = |name: &&String| {
        let values = records.iter().map(|record| record.identity.parameters.get(*name));
        Column::of_json((*name).clone(), &values.collect::<Vec<_>>())
    };
    let seeds = records.iter().map(|record| i64::try_from(record.identity.seed).ok());
    let models = records.iter().map(|record| Some(i64::from(record.identity.model)));
    let fixed = [Column::integers("seed", seeds), Column::integers("model", models)];
    let of_figure = |name: &&String| {
        let values = records.iter().map(|record| record.figures.get(*name).copied().flatten());
        Column::floats((*name).clone(), values)
    };
    let parameters = parameters.iter().map(of_parameter);
    parameters.chain(fixed).chain(figures.iter().map(of_figure)).collect()
}

fn read(grid: &Bound<'_, PyAny>) -> Result<Campaign, Failure> {
    let given = Given::read(grid, "grid")?;
    Ok(Campaign::parse(&given.text, Path::new(&given.name), files::text)?)
}

fn stored(error: ResultStoreError) -> Failure {
    Failure::plain(error, "")
}
