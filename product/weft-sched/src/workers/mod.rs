//! Several workers, one policy.
//!
//! Each worker has ports' rings and a separate scheduler that runs the whole program. What the policy says about all of them
//! together is in [`Shared`]: a line for each limit, two words for each class. There is no lock, and no list of workers.
//!
//! ```text
//!   worker 0: rings, PacketScheduler            worker 1: rings, PacketScheduler
//!        |   bursts, as without others               |
//!        v                                           v
//!   Worker::exchange, each 20 us               Worker::exchange, each 20 us
//!        |                                           |
//!        +------------> Shared <---------------------+
//!              limit: next | returned | rate         one atomic operation per lease
//!              class: bytes                          one per class and exchange
//! ```
//!
//! * **Limits** (module `lease`): time is what is divided. A limit's time from now on is cut into slots, each a span of some packets;
//!   a slot is worth rate times span in bytes, to be sent while it lasts or shortly after. Slots are disjoint, so the bytes in any
//!   span are bounded ([`Settings::excess`]) whatever the number of workers, and whatever becomes of one. A slot that is not used is
//!   returned, and the next one is by the worker's pace.
//! * **Shares** (module `shares`): workers publish the bytes they sent of each class, and charge those of the others to the
//!   class in their own tree. Each worker serves, among the classes that it has, the one furthest behind over all workers. The result
//!   is weighted max-min fairness of classes over workers that can each serve some of them, as miDRR has it for interfaces (Yap et
//!   al., CoNEXT 2013).
//! * **Strict priority** is per worker: no worker sends a class while it has one of higher priority.
//! * **Flows** of a leaf belong to one worker each; a leaf that two workers serve is divided among them by what they can send, not by
//!   their numbers of flows.
//!
//! Between exchanges a scheduler does exactly what it does alone, so a policy with one worker pays nothing: it has no [`Worker`].
//!
//! An exchange is linear in limits, lanes and children of fair nodes, and touches a shared line only for what took part.
//!
//! Time is an argument; the workers' clocks may differ by less than [`Settings::period`] without effect on the promises.

mod leading;
mod lease;
mod line;
mod link;
mod shares;

/// The atomics of the lines. The model checker has others in their place (`tests/loom_workers.rs`).
mod sync {
    pub(crate) use std::sync::atomic::{AtomicU64, Ordering};
}

pub use lease::{LeaseCounters, Settings};

use std::sync::Arc;

use thiserror::Error;
use weft_units::{BitsPerSec, Bytes, Instant, LaneId, LimitId};

use crate::packets::PacketScheduler;
use crate::program::Program;
use crate::tree::{PolicyTree, RateError};
use crate::validate::{self, Layout, ProgramError};
use lease::{Demand, Exchange, Lease};
use line::{Classes, LimitLine};
use link::Link;
use shares::Shares;
use sync::{AtomicU64, Ordering};

/// The most workers that publish shares at some exchanges only: at each third by two, at each second by four.
const FEW_WORKERS: u64 = 4;

/// Errors from sharing a policy among workers.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum SharedError {
    /// The program cannot be run.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// A user-defined algorithm keeps state that workers cannot share.
    #[error(
        "algorithm `{name}` cannot be shared by workers; run the policy with one worker, or use `wfq` or `priority`"
    )]
    Algorithm {
        /// The algorithm.
        name: String,
    },
    /// The scheduler runs another program.
    #[error("the scheduler has {given} limits and the shared policy {count}; build both from one program")]
    OtherProgram {
        /// The number of limits of the scheduler.
        given: usize,
        /// The number of limits of the shared policy.
        count: usize,
    },
}

/// The state of a policy that its workers share.
#[derive(Debug)]
pub struct Shared {
    program: Program,
    layout: Layout,
    settings: Settings,
    limits: Box<[LimitLine]>,
    classes: Classes,
    /// Whether some lane has several limits.
    layers: bool,
    /// The link, if it is one for all.
    link: Option<LimitLine>,
    /// The number of handles.
    workers: AtomicU64,
}

impl Shared {
    /// The shared state of `program`.
    ///
    /// # Errors
    /// When the program cannot be run, or has user-defined algorithms.
    pub fn new(program: &Program, settings: Settings) -> Result<Self, SharedError> {
        let layout = validate::check(program)?;
        if let Some(algorithm) = program.algorithms().first() {
            return Err(SharedError::Algorithm { name: algorithm.name.clone() });
        }
        let limits = program.limits.iter().map(|limit| LimitLine::new(limit.rate.get().max(1))).collect();
        let classes = Classes::new(shares::lines(program));
        let layers = program.lanes.iter().any(|lane| lane.limits.len() > 1);
        let (program, workers) = (program.clone(), AtomicU64::new(0));
        Ok(Self { program, layout, settings, limits, classes, layers, link: None, workers })
    }

    /// The shared state, with a link of this rate that all workers send to.
    #[must_use]
    pub fn with_link(self, rate: BitsPerSec) -> Self {
        Self { link: Some(LimitLine::new(rate.get().max(1))), ..self }
    }

    /// The rate of `limit`, or `None` for an unknown limit.
    pub fn rate_of(&self, limit: LimitId) -> Option<BitsPerSec> {
        self.limits.get(limit.index()).map(|line| BitsPerSec(line.rate()))
    }

    /// Changes the rate of `limit` for all workers, each at its next exchange.
    ///
    /// # Errors
    /// [`RateError::UnknownLimit`], [`RateError::ZeroRate`].
    pub fn set_rate(&self, limit: LimitId, rate: BitsPerSec) -> Result<(), RateError> {
        if rate == BitsPerSec::ZERO {
            return Err(RateError::ZeroRate { given: limit });
        }
        let count = self.limits.len();
        let line = self.limits.get(limit.index()).ok_or(RateError::UnknownLimit { given: limit, count })?;
        line.set_rate(rate.get());
        Ok(())
    }

    /// The settings.
    pub fn settings(&self) -> Settings {
        self.settings
    }
}

/// A worker's handle on a shared policy. It belongs to one scheduler, and to the thread that runs it.
///
/// A handle that is dropped, with its scheduler, costs the others nothing but the leases that it had: there is no list of workers.
#[derive(Debug)]
pub struct Worker {
    shared: Arc<Shared>,
    leases: Box<[Lease]>,
    demand: Box<[Demand]>,
    /// By limit: the bytes of it that a lane needs that has as many of another.
    needs: Box<[Bytes]>,
    shares: Shares,
    link: Option<Link>,
    /// Exchanges of limits since the last one of shares; [`FEW_WORKERS`] of them make the next one of shares too.
    since_shares: u64,
}

impl Worker {
    /// Lets `packets`, which must run the program of `shared`, schedule as one of its workers. Its limits hold everything until the
    /// first exchange.
    ///
    /// # Errors
    /// [`SharedError::OtherProgram`].
    pub fn join(
        shared: &Arc<Shared>,
        packets: &mut PacketScheduler,
        now: Instant,
    ) -> Result<Self, SharedError> {
        let mut this = Self::join_tree(shared, packets.tree_mut(), now)?;
        this.shares.begin(|lane| sent_of(packets, lane));
        Ok(this)
    }

    /// As [`Self::join`], for a tree whose packets are stored elsewhere and that has sent nothing yet.
    ///
    /// # Errors
    /// [`SharedError::OtherProgram`].
    pub fn join_tree(shared: &Arc<Shared>, tree: &mut PolicyTree, now: Instant) -> Result<Self, SharedError> {
        let (given, count) = (tree.limits(), shared.limits.len());
        if given != count {
            return Err(SharedError::OtherProgram { given, count });
        }
        let specs = shared.program.limits.iter().zip(&shared.limits).enumerate();
        let leases = specs
            .map(|(at, (spec, line))| Lease::new(LimitId::from_index(at), spec.burst, line, tree, now))
            .collect();
        tree.release_again();
        let shares = Shares::new(&shared.program, &shared.layout);
        let link = Link::new(shared, now);
        shared.workers.fetch_add(1, Ordering::Relaxed);
        let (demand, needs) = (vec![Demand::None; count].into(), vec![Bytes::ZERO; count].into());
        Ok(Self { shared: shared.clone(), leases, demand, needs, shares, link, since_shares: 0 })
    }

    /// Tells the others what `packets` sent, and learns what they did. To be called between bursts: whenever the time has come that
    /// the last call returned, or the scheduler has to wait longer than until then.
    pub fn exchange(&mut self, packets: &mut PacketScheduler, now: Instant) -> Instant {
        if self.tells_shares(packets.tree_mut()) {
            for (lane, total) in self.shares.totals.iter_mut().enumerate() {
                *total = sent_of(packets, LaneId::from_index(lane)).get();
            }
        }
        self.exchange_all(packets.tree_mut(), now)
    }

    /// As [`Self::exchange`], for a tree whose packets are stored elsewhere: `sent` is the bytes that a lane has sent here, as they
    /// were charged to shares, since this worker joined. No turn may be outstanding.
    pub fn exchange_tree(
        &mut self,
        tree: &mut PolicyTree,
        mut sent: impl FnMut(LaneId) -> Bytes,
        now: Instant,
    ) -> Instant {
        if self.tells_shares(tree) {
            for (lane, total) in self.shares.totals.iter_mut().enumerate() {
                *total = sent(LaneId::from_index(lane)).get();
            }
        }
        self.exchange_all(tree, now)
    }

    /// Whether this exchange is one of shares too: each is if there are many workers or a link for all, or if nothing is backlogged.
    /// What few workers send in some exchanges is little to each class, and most of an exchange's work is that of
    /// shares.
    fn tells_shares(&mut self, tree: &PolicyTree) -> bool {
        let workers = self.shared.workers.load(Ordering::Relaxed);
        let each = self.link.is_some() || tree.active_flows() == 0;
        self.since_shares += 1;
        if each || self.since_shares > FEW_WORKERS / workers.max(1) {
            self.since_shares = 0;
        }
        self.since_shares == 0
    }

    /// The exchange of shares, limits and the link, when the bytes sent are known.
    fn exchange_all(&mut self, tree: &mut PolicyTree, now: Instant) -> Instant {
        let Self { shared, shares, .. } = self;
        let workers = shared.workers.load(Ordering::Relaxed);
        if self.since_shares == 0 {
            shares.exchange(&shared.classes, shared.settings.segment, workers, tree);
        }
        let next = self.exchange_limits(tree, now);
        let Self { shared, link, .. } = self;
        let begins = link.as_mut().and_then(|link| link.exchange(shared, tree, now));
        begins.map_or(next, |begins| next.min(begins))
    }

    /// Whether the link that all share lets a packet begin now; true without one. If not, the packet waits for the next exchange,
    /// which may be done at once.
    #[inline]
    pub fn may_send(&mut self) -> bool {
        self.link.as_mut().is_none_or(Link::may_send)
    }

    /// Tells that `bytes` were sent on the link.
    #[inline]
    pub fn has_sent(&mut self, bytes: Bytes) {
        if let Some(link) = self.link.as_mut() {
            link.has_sent(bytes);
        }
    }

    fn exchange_limits(&mut self, tree: &mut PolicyTree, now: Instant) -> Instant {
        let Self { shared, leases, demand, .. } = self;
        let workers = shared.workers.load(Ordering::Relaxed).max(1);
        let mut next = now + shared.settings.period;
        if leases.is_empty() {
            return next;
        }
        demand.fill(Demand::None);
        tree.each_backlogged_lane(|limits| {
            limits.iter().for_each(|limit| demand[limit.index()] = Demand::Some);
        });
        tree.each_parked_lane(|limits| {
            // A lane that waits for a slot of one limit has no use for those of its others until then.
            let waits = limits.iter().any(|limit| leases[limit.index()].is_pending(now));
            for limit in limits {
                if !waits || leases[limit.index()].is_pending(now) {
                    demand[limit.index()] = Demand::Waiting;
                }
            }
        });
        let mut several = false;
        for ((lease, line), demand) in leases.iter_mut().zip(&shared.limits).zip(&**demand) {
            let (settings, most) = (&shared.settings, Bytes(u64::MAX));
            let with = Exchange { settings, line, demand: *demand, now, workers, most };
            if let Some(begins) = lease.exchange(with, tree) {
                next = next.min(begins);
            }
            several |= lease.is_new(now);
        }
        if several && shared.layers {
            self.complete(tree, now);
        }
        tree.release_again();
        next
    }

    /// Gives lanes that have a new lease of one limit as much of their others. With less of these a lane would leave the rest of it to
    /// lanes of lower priority.
    fn complete(&mut self, tree: &mut PolicyTree, now: Instant) {
        let Self { shared, leases, needs, .. } = self;
        let workers = shared.workers.load(Ordering::Relaxed).max(1);
        needs.fill(Bytes::ZERO);
        tree.each_backlogged_lane(|limits| {
            let new = limits.iter().map(|limit| leases[limit.index()].new_bytes(now));
            let new = new.max().unwrap_or(Bytes::ZERO);
            limits.iter().for_each(|limit| needs[limit.index()] = needs[limit.index()].max(new));
        });
        for ((lease, line), need) in leases.iter_mut().zip(&shared.limits).zip(&**needs) {
            if *need > Bytes::ZERO {
                let (settings, most) = (&shared.settings, Bytes(u64::MAX));
                let with = Exchange { settings, line, demand: Demand::Waiting, now, workers, most };
                lease.complete(with, *need, tree);
            }
        }
    }

    /// Gives back what this worker has. From then on its scheduler enforces every limit by itself.
    pub fn leave(mut self, packets: &mut PacketScheduler, now: Instant) {
        self.since_shares = FEW_WORKERS;
        self.exchange(packets, now);
        self.give_back(packets.tree_mut(), now);
    }

    /// As [`Self::leave`], for a tree whose packets are stored elsewhere. No turn may be outstanding.
    pub fn leave_tree(mut self, tree: &mut PolicyTree, sent: impl FnMut(LaneId) -> Bytes, now: Instant) {
        self.since_shares = FEW_WORKERS;
        self.exchange_tree(tree, sent, now);
        self.give_back(tree, now);
    }

    fn give_back(&mut self, tree: &mut PolicyTree, now: Instant) {
        for (lease, line) in self.leases.iter_mut().zip(&self.shared.limits) {
            let (settings, most) = (&self.shared.settings, Bytes(u64::MAX));
            let with = Exchange { settings, line, demand: Demand::None, now, workers: 1, most };
            lease.leave(with, tree);
        }
        if let Some(link) = self.link.as_mut() {
            link.leave(&self.shared, now);
        }
        tree.release_again();
    }

    /// Whether this worker has nothing of any limit. If it also has no packets, and has reported what it sent, it need not exchange
    /// until there are some.
    pub fn is_at_rest(&self) -> bool {
        self.leases.iter().all(Lease::is_at_rest) && self.link.as_ref().is_none_or(Link::is_at_rest)
    }

    /// The counters of this worker's leases of `limit`, or `None` for an unknown limit.
    pub fn counters(&self, limit: LimitId) -> Option<LeaseCounters> {
        self.leases.get(limit.index()).map(Lease::counters)
    }

    /// The bytes that were sent by the present lease of `limit`.
    pub fn spending(&self, packets: &PacketScheduler, limit: LimitId) -> Bytes {
        self.leases.get(limit.index()).map_or(Bytes::ZERO, |lease| lease.spending(packets.tree()))
    }

    /// The part that this worker has of the time of `limit` and has neither sent nor returned, in billionths of a bit.
    pub fn holds(&self, packets: &PacketScheduler, limit: LimitId) -> u128 {
        self.leases.get(limit.index()).map_or(0, |lease| lease.holds(packets.tree()))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.shared.workers.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The bytes that `lane` has sent.
fn sent_of(packets: &PacketScheduler, lane: LaneId) -> Bytes {
    packets.counters(lane).map_or(Bytes::ZERO, |counters| counters.dequeued.bytes)
}
