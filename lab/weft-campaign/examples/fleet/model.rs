//! Many workers, one store, no lock: the runs of each shard, the names and the folders of results are those of the crate; simulations
//! and files are in memory. Workers advance in random order, die at random moments, also between two files of a batch, and are started
//! again from the beginning of their shard. Of some that are taken for dead, the first continues beside the second.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;
use std::path::Path;
use weft_campaign::campaign::{Campaign, PreparedCombination};
use weft_campaign::grid::{Cursor, Shard};
use weft_campaign::key::ResultKey;
use weft_campaign::store::ResultStore;
use weft_policy::FileError;

/// Combinations of the grid; the rest is seeds.
const COMBINATIONS: u64 = 10;
/// The most results that a worker on one thread has not written: one in its hands, two in the channel, one batch.
const BATCH_MAX: usize = 4;
/// A name in as many is compared with the path that the store gives.
const COMPARED: u64 = 4096;
/// The folders of results.
const FOLDERS: usize = 1 << 16;

/// The size of a simulation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) workers: u64,
    pub(crate) results: u64,
    /// Deaths of workers, apparent ones included.
    pub(crate) kills: u64,
    /// Of as many deaths, one is only apparent; 0 for none.
    pub(crate) twins: u64,
    pub(crate) seed: u64,
}

/// The outcome.
#[derive(Clone, Default, Debug)]
pub(crate) struct Counts {
    pub(crate) results: u64,
    pub(crate) missing: u64,
    pub(crate) killed: u64,
    pub(crate) twins: u64,
    /// Runs that were simulated and not written.
    pub(crate) lost: u64,
    /// Results that were written when they were there: a worker had looked before another wrote.
    pub(crate) twice: u64,
    /// Looks for a result that was there.
    pub(crate) found: u64,
    /// The most files in a folder at any time, unfinished ones included.
    pub(crate) files_max: u32,
    /// Unfinished files at the end.
    pub(crate) leftovers: u64,
    pub(crate) folders: u64,
    /// Entries that were listed to remove leftovers.
    pub(crate) listed: u64,
    /// The most workers at the same run.
    pub(crate) same_run_max: u8,
}

impl Counts {
    pub(crate) fn json(&self) -> Value {
        json!({
            "results": self.results, "missing": self.missing, "killed": self.killed, "twins": self.twins, "lost": self.lost,
            "written_twice": self.twice, "found": self.found, "files_in_a_folder_max": self.files_max,
            "unfinished_files_left": self.leftovers, "folders": self.folders, "entries_listed": self.listed,
            "workers_at_the_same_run_max": self.same_run_max,
        })
    }
}

struct Worker {
    shard: u64,
    cursor: Cursor,
    /// Ordinal of the next run.
    next: u64,
    /// Simulated and not written.
    pending: Vec<(u64, ResultKey)>,
    prepared: Option<(u64, PreparedCombination)>,
}

/// The workers and the store.
pub(crate) struct Fleet {
    plan: Plan,
    campaign: Campaign,
    store: ResultStore,
    workers: Vec<Worker>,
    /// By ordinal of a run: whether its result is there, and the workers that have it in their hands.
    there: Vec<bool>,
    claims: Vec<u8>,
    /// By folder: results and unfinished files.
    files: Vec<u32>,
    /// Unfinished files by the run's ordinal.
    unfinished: BTreeMap<u64, u32>,
    counts: Counts,
    random: u64,
}

fn no_files(path: &Path) -> Result<String, FileError> {
    Err(FileError::Missing(path.display().to_string()))
}

impl Fleet {
    /// Writes a grid of as many results into a folder, and starts all workers.
    pub(crate) fn new(plan: Plan, folder: &Path) -> Result<Self, Box<dyn Error>> {
        let seeds = plan.results / COMBINATIONS;
        let mut grid = format!("scenario = \"scenario.toml\"\nseeds = {seeds}\n");
        write!(
            grid,
            "[[axes]]\nkey = \"flows.0.count\"\nrange = {{ from = 1, to = {COMBINATIONS}, step = 1 }}\n"
        )?;
        std::fs::write(folder.join("grid.toml"), grid)?;
        std::fs::write(folder.join("scenario.toml"), "duration = \"1ms\"\n[[flows]]\ncount = 1\n")?;
        let campaign = Campaign::read(&folder.join("grid.toml"), no_files)?;
        let store = ResultStore::create(&folder.join("results"))?;
        let results = campaign.grid().count();
        let mut fleet = Self {
            plan,
            campaign,
            store,
            workers: Vec::new(),
            there: vec![false; results as usize],
            claims: vec![0; results as usize],
            files: vec![0; FOLDERS],
            unfinished: BTreeMap::new(),
            counts: Counts::default(),
            random: plan.seed,
        };
        for shard in 1..=plan.workers {
            let worker = fleet.worker(shard)?;
            fleet.workers.push(worker);
        }
        Ok(fleet)
    }

    /// Works until no run is left to do.
    pub(crate) fn run(mut self) -> Result<Counts, Box<dyn Error>> {
        while !self.workers.is_empty() {
            let at = self.below(self.workers.len() as u64) as usize;
            if self.counts.killed + self.counts.twins < self.plan.kills
                && self.below(self.plan.results / self.plan.kills.max(1)) == 0
            {
                self.die(at)?;
            } else if !self.step(at)? {
                self.workers.swap_remove(at);
            }
        }
        let mut counts = self.counts;
        counts.results = self.there.iter().filter(|there| **there).count() as u64;
        counts.missing = self.there.len() as u64 - counts.results;
        counts.leftovers = self.unfinished.values().map(|files| u64::from(*files)).sum();
        counts.folders = self.files.iter().filter(|files| **files > 0).count() as u64;
        Ok(counts)
    }

    fn worker(&self, shard: u64) -> Result<Worker, Box<dyn Error>> {
        let cursor = self.campaign.grid().cursor(Shard::new(shard, self.plan.workers)?);
        Ok(Worker { shard, cursor, next: shard - 1, pending: Vec::new(), prepared: None })
    }

    /// Does a worker's next run and may write what it has; returns false after the last.
    fn step(&mut self, at: usize) -> Result<bool, Box<dyn Error>> {
        let Some(run) = self.workers[at].cursor.advance(self.campaign.grid()) else {
            self.write(at, usize::MAX)?;
            return Ok(false);
        };
        let ordinal = self.workers[at].next;
        self.workers[at].next += self.plan.workers;
        if self.there[ordinal as usize] {
            self.counts.found += 1;
            return Ok(true);
        }
        let number = run.combination.number;
        let of = match self.workers[at].prepared.take() {
            Some((known, of)) if known == number => of,
            _ => self.campaign.prepare(&run.combination)?,
        };
        let key = of.identity(run.seed).key();
        let worker = &mut self.workers[at];
        worker.prepared = Some((number, of));
        worker.pending.push((ordinal, key));
        let claims = &mut self.claims[ordinal as usize];
        *claims += 1;
        self.counts.same_run_max = self.counts.same_run_max.max(*claims);
        if worker.pending.len() == BATCH_MAX || self.below(2) == 0 {
            self.write(at, usize::MAX)?;
        }
        Ok(true)
    }

    /// Writes what a worker has, as the store does: all files beside their places, then the names. It may die after some of the names.
    fn write(&mut self, at: usize, names: usize) -> Result<(), Box<dyn Error>> {
        let batch = std::mem::take(&mut self.workers[at].pending);
        for (ordinal, key) in &batch {
            let folder = self.folder(*ordinal, key)?;
            *self.unfinished.entry(*ordinal).or_default() += 1;
            self.files[folder] += 1;
            self.counts.files_max = self.counts.files_max.max(self.files[folder]);
        }
        for (done, (ordinal, key)) in batch.iter().enumerate() {
            self.claims[*ordinal as usize] -= 1;
            if done >= names {
                self.counts.lost += 1;
                continue;
            }
            let folder = self.folder(*ordinal, key)?;
            self.counts.listed += u64::from(self.files[folder]);
            // The name takes one of the unfinished files, leftovers of the same result go.
            self.files[folder] -= self.unfinished.remove(ordinal).unwrap_or_default();
            if self.there[*ordinal as usize] {
                self.counts.twice += 1;
            } else {
                self.files[folder] += 1;
                self.there[*ordinal as usize] = true;
            }
        }
        Ok(())
    }

    /// Ends a worker, with files begun or not, and starts another one for its shard; or the first only seems dead.
    fn die(&mut self, at: usize) -> Result<(), Box<dyn Error>> {
        let again = self.worker(self.workers[at].shard)?;
        if self.plan.twins > 0 && self.below(self.plan.twins) == 0 {
            self.counts.twins += 1;
            self.workers.push(again);
            return Ok(());
        }
        self.counts.killed += 1;
        if self.below(2) == 0 {
            let names = self.below(BATCH_MAX as u64) as usize;
            self.write(at, names)?;
        }
        for (ordinal, _) in std::mem::take(&mut self.workers[at].pending) {
            self.claims[ordinal as usize] -= 1;
            self.counts.lost += 1;
        }
        self.workers[at] = again;
        Ok(())
    }

    /// Returns the folder of a result, of 65,536.
    fn folder(&self, ordinal: u64, key: &ResultKey) -> Result<usize, Box<dyn Error>> {
        let name = key.as_str();
        if ordinal.is_multiple_of(COMPARED) {
            let end = format!("results/{}/{}/{}.json", &name[..2], &name[2..4], &name[4..]);
            assert!(self.store.path(key).ends_with(end), "the model has other folders than the store");
        }
        Ok(usize::from_str_radix(&name[..4], 16)?)
    }

    /// Returns a random number below a limit: SplitMix64.
    fn below(&mut self, limit: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % limit.max(1)
    }
}
