//! Making the results of a shard that are not there, on the threads of this machine.
//!
//! Workers take runs from a cursor, look into the store, and simulate. The calling thread writes what they have made: all that is finished
//! while a batch is being written makes the next batch, so the disk delays no worker. The channel holds few results, so that a process that
//! is killed loses few.

use crate::campaign::{Campaign, CampaignError, PreparedCombination};
use crate::figures::figures;
use crate::grid::{Cursor, GridRun, Shard};
use crate::key::ResultKey;
use crate::record::{ResultRecord, ResultRecordError};
use crate::store::{Lookup, ResultStore};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;
use weft_sim::run::simulate;

/// The time between two looks for a wish to stop.
const LOOK: Duration = Duration::from_millis(100);
/// The most results that are written at once.
const BATCH: usize = 64;

/// The state of a shard.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ShardProgress {
    /// The runs of the shard.
    pub runs: u64,
    /// Results that were there.
    pub there: u64,
    /// Results that were made.
    pub made: u64,
    /// Files that were no results and were made again.
    pub broken: u64,
    /// Whether it was stopped before all runs were made.
    pub stopped: bool,
}

/// A message for the user.
#[derive(Debug)]
#[non_exhaustive]
pub enum CampaignEvent<'a> {
    /// There is progress.
    Progress(&'a ShardProgress),
    /// A file in the store is not the result that its name promises; the result is made again.
    Broken(PathBuf, ResultRecordError),
}

/// A worker's message.
enum Message {
    There,
    Broken(ResultKey, ResultRecordError),
    Made(ResultKey, String),
    Failed(CampaignError),
}

/// Shared by the workers.
struct Work {
    campaign: Campaign,
    store: ResultStore,
    cursor: Mutex<Cursor>,
    stop: AtomicBool,
}

/// Makes the results of a shard that are not in the store, on `threads` threads. When `stopped` says so, it returns with what is
/// finished; the runs under way are abandoned and end with the process.
///
/// # Errors
/// If parameters make no scenario, or the store cannot be read or written. What is finished is kept.
pub fn run(
    campaign: &Campaign,
    store: &ResultStore,
    (shard, threads): (Shard, usize),
    stopped: &dyn Fn() -> bool,
    tell: &mut dyn FnMut(CampaignEvent<'_>),
) -> Result<ShardProgress, CampaignError> {
    let mut progress =
        ShardProgress { runs: shard.runs(campaign.grid().count()), ..ShardProgress::default() };
    let cursor = Mutex::new(campaign.grid().cursor(shard));
    let (campaign, store) = (campaign.clone(), store.clone());
    let work = Arc::new(Work { campaign, store, cursor, stop: AtomicBool::new(false) });
    let (sender, receiver) = mpsc::sync_channel(threads.max(1));
    for _ in 0..threads.max(1) {
        let (work, sender) = (Arc::clone(&work), sender.clone());
        let builder = thread::Builder::new().name("weft-campaign".to_owned());
        builder.spawn(move || work.on(&sender)).map_err(CampaignError::Thread)?;
    }
    drop(sender);
    let mut failed = None;
    loop {
        tell(CampaignEvent::Progress(&progress));
        let first = match receiver.recv_timeout(LOOK) {
            Ok(message) => Some(message),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => break,
        };
        let mut made = Vec::new();
        for message in first.into_iter().chain(receiver.try_iter()) {
            match message {
                Message::There => progress.there += 1,
                Message::Broken(key, error) => {
                    progress.broken += 1;
                    tell(CampaignEvent::Broken(work.store.path(&key), error));
                }
                Message::Made(key, text) => made.push((key, text)),
                Message::Failed(error) => failed = Some(error),
            }
            if made.len() == BATCH {
                break;
            }
        }
        let (written, error) = work.store.write(&made);
        progress.made += written as u64;
        failed = error.map(CampaignError::Store).or(failed);
        progress.stopped = stopped();
        if failed.is_some() || progress.stopped {
            work.stop.store(true, Ordering::Relaxed);
            break;
        }
    }
    // What was finished meanwhile.
    let rest = receiver.try_iter().filter_map(|message| match message {
        Message::Made(key, text) => Some((key, text)),
        _ => None,
    });
    let (written, error) = work.store.write(&rest.collect::<Vec<_>>());
    progress.made += written as u64;
    failed = failed.or(error.map(CampaignError::Store));
    tell(CampaignEvent::Progress(&progress));
    // A wish to stop after the last run has nothing to stop.
    progress.stopped &= progress.there + progress.made < progress.runs;
    failed.map_or(Ok(progress), Err)
}

impl Work {
    /// Takes runs until none is left, one fails, or the receiver is gone.
    fn on(&self, sender: &SyncSender<Message>) {
        let mut prepared: Option<(u64, PreparedCombination)> = None;
        while !self.stop.load(Ordering::Relaxed) {
            let next =
                self.cursor.lock().unwrap_or_else(PoisonError::into_inner).advance(self.campaign.grid());
            let Some(run) = next else { return };
            let message = self.one(&run, &mut prepared, sender).unwrap_or_else(Message::Failed);
            let last = matches!(message, Message::Failed(_));
            if sender.send(message).is_err() || last {
                return;
            }
        }
    }

    fn one(
        &self,
        run: &GridRun,
        prepared: &mut Option<(u64, PreparedCombination)>,
        sender: &SyncSender<Message>,
    ) -> Result<Message, CampaignError> {
        let number = run.combination.number;
        let of = match prepared.take() {
            Some((known, of)) if known == number => of,
            _ => self.campaign.prepare(&run.combination)?,
        };
        let (_, of) = prepared.insert((number, of));
        let identity = of.identity(run.seed);
        let key = identity.key();
        match self.store.look(&key)? {
            Lookup::Whole(_) => return Ok(Message::There),
            Lookup::Missing => {}
            Lookup::Broken(error) => {
                // The receiver is gone after a failure, which is reported then.
                let _ = sender.send(Message::Broken(key.clone(), error));
            }
        }
        let outcome = simulate(&of.scenario, run.seed).map_err(|error| CampaignError::Run {
            parameters: self.campaign.describe(&run.combination),
            error,
        })?;
        let figures = figures(&of.scenario, &outcome);
        let text = ResultRecord { identity, figures }.write().unwrap_or_default();
        Ok(Message::Made(key, text))
    }
}
