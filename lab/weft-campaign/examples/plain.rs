//! The runs of a shard alone, on one thread: the peer of `weft campaign run` in `scripts/bench-peers campaign`.
//!
//! `plain GRID.toml I/N` simulates them and keeps nothing; `plain GRID.toml I/N DIR` is the same program with a store. Both print the
//! number of runs.

use std::error::Error;
use std::hint::black_box;
use std::path::Path;
use weft_campaign::campaign::Campaign;
use weft_campaign::grid::Shard;
use weft_campaign::run;
use weft_campaign::store::ResultStore;
use weft_policy::FileError;
use weft_sim::run::simulate;

/// The scenario of the comparison names no files.
fn no_files(path: &Path) -> Result<String, FileError> {
    Err(FileError::Missing(path.display().to_string()))
}

fn alone(campaign: &Campaign, shard: Shard) -> Result<u64, Box<dyn Error>> {
    let (mut prepared, mut runs) = (None, 0);
    for run in campaign.grid().runs(shard) {
        let number = run.combination.number;
        let of = match prepared.take() {
            Some((known, of)) if known == number => of,
            _ => campaign.prepare(&run.combination)?,
        };
        let (_, of) = prepared.insert((number, of));
        black_box(simulate(&of.scenario, run.seed)?);
        runs += 1;
    }
    Ok(runs)
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [grid, shard, store @ ..] = &words[..] else {
        return Err("name a grid file and a shard, and a folder of results if they are to be kept".into());
    };
    let (campaign, shard) = (Campaign::read(Path::new(grid), no_files)?, shard.parse()?);
    let runs = match store {
        [] => alone(&campaign, shard)?,
        [folder, ..] => {
            let store = ResultStore::create(Path::new(folder))?;
            run::run(&campaign, &store, (shard, 1), &|| false, &mut |_| {})?.made
        }
    };
    println!("{runs}");
    Ok(())
}
