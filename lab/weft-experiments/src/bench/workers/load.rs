//! The policies that workers are measured with.

use core::sync::atomic::{AtomicU64, Ordering};
use weft_policy::CompiledPolicy;
use weft_report::bench::workers::WorkersPolicy;
use weft_sched::workers::{Settings, Shared, SharedError};
use weft_sched::{PacketScheduler, Program};
use weft_sim::engine_load::{BETWEEN_FRAMES, ClosedLoop, LinkLoop, Refill, WorkloadError, figure1_program};
use weft_units::{BitsPerSec, Bytes, Instant};

use super::WorkersBenchError;
use crate::bench::policy::{LINK, STEP, WARM_UP};

/// Packets between two exchanges: about 20 us at the speed of the engine.
pub(super) const BETWEEN: u64 = 160;

/// The policy and the packets of a measurement.
#[derive(Clone, Debug)]
pub enum WorkerLoad {
    /// Figure 1's policy without limits, with packets of several lengths.
    Figure1,
    /// A user-defined policy.
    Policy(Box<PolicyLoad>),
}

/// A user-defined policy, on its link.
#[derive(Clone, Debug)]
pub struct PolicyLoad {
    /// The name of its file.
    name: String,
    program: Program,
    link: BitsPerSec,
    /// The length of all packets.
    pub(super) len: Bytes,
}

impl WorkerLoad {
    /// `policy`, from a file of this name, with packets of `len`. Its limits bind as on its link.
    pub fn of_policy(name: &str, policy: &CompiledPolicy, len: Bytes) -> Self {
        let (program, link) = (policy.program.clone(), policy.link.unwrap_or(LINK));
        Self::Policy(Box::new(PolicyLoad { name: name.to_owned(), program, link, len }))
    }

    /// Refuses what several workers cannot run.
    pub(super) fn check(&self, flows: u32) -> Result<(), WorkersBenchError> {
        let Self::Policy(policy) = self else { return Ok(()) };
        let lanes = policy.lanes();
        if (flows as usize) < lanes {
            return Err(WorkersBenchError::FewFlows { flows, lanes });
        }
        match self.share(1) {
            Err(SharedError::Algorithm { name }) => Err(WorkersBenchError::Algorithm { name }),
            shared => Ok(shared.map(drop)?),
        }
    }

    /// The policy, as the document has it.
    pub(super) fn described(&self) -> Option<WorkersPolicy> {
        let Self::Policy(policy) = self else { return None };
        let limits = policy.program.limits.iter().filter(|limit| !limit.is_vacant()).count();
        Some(WorkersPolicy {
            file: policy.name.clone(),
            lanes: policy.lanes() as u64,
            limits: limits as u64,
            packet_bytes: policy.len.get(),
            link_bps: policy.link.get() as f64,
        })
    }

    /// The state that `workers` workers share. Between two exchanges a worker sends [`BETWEEN`] packets.
    pub(super) fn share(&self, workers: u32) -> Result<Shared, SharedError> {
        let Self::Policy(policy) = self else { return Shared::new(&figure1_program(), Settings::default()) };
        let frames = Bytes((policy.len + BETWEEN_FRAMES).get() * BETWEEN);
        let period = policy.part_of_link(workers).time_for(frames);
        Shared::new(&policy.program, Settings { segment: policy.len, period, slot: period + period })
    }

    /// An engine of one of `workers` workers that share the link, whose caches are warm.
    pub(super) fn engine(&self, flows: u32, seed: u64, workers: u32) -> Result<Engine, WorkloadError> {
        match self {
            Self::Figure1 => {
                let mut engine = ClosedLoop::new(&figure1_program(), flows, Refill::Shuffled, seed)?;
                engine.run(u64::from(flows));
                Ok(Engine::Figure1(Box::new(engine)))
            }
            Self::Policy(policy) => {
                let link = policy.part_of_link(workers);
                let mut engine = LinkLoop::new(&policy.program, flows, link, policy.len, seed)?;
                let mut left = (4 * u64::from(flows)).clamp(STEP, WARM_UP);
                while left > 0 && engine.run(STEP) > 0 {
                    left = left.saturating_sub(STEP);
                }
                Ok(Engine::Policy(Box::new(engine)))
            }
        }
    }
}

impl PolicyLoad {
    fn lanes(&self) -> usize {
        self.program.lanes.iter().filter(|lane| !lane.is_vacant()).count()
    }

    /// Workers that share a link have equal parts of it, so limits bind for all together as for one on the whole link.
    fn part_of_link(&self, workers: u32) -> BitsPerSec {
        BitsPerSec((self.link.get() / u64::from(workers.max(1))).max(1))
    }
}

/// An engine with packets that replace those that left.
pub(super) enum Engine {
    Figure1(Box<ClosedLoop>),
    Policy(Box<LinkLoop>),
}

impl Engine {
    pub(super) fn run(&mut self, packets: u64) -> u64 {
        match self {
            Self::Figure1(engine) => engine.run(packets),
            Self::Policy(engine) => engine.run(packets),
        }
    }

    /// Runs until the next exchange, which is at `due` in the time of the link where there are limits that bind.
    pub(super) fn run_to_exchange(&mut self, due: Instant) -> u64 {
        match self {
            Self::Figure1(engine) => engine.run(BETWEEN),
            Self::Policy(engine) => engine.run_before(due, BETWEEN),
        }
    }

    /// The time of all workers: that of the one furthest on, whose clock is the link's. The link of the others was idle meanwhile.
    pub(super) fn agree(&mut self, clock: &AtomicU64) -> Instant {
        if let Self::Policy(engine) = self {
            let now = engine.now().as_nanos();
            let latest = clock.fetch_max(now, Ordering::Relaxed);
            engine.idle_until(Instant::from_nanos(latest));
        }
        self.now()
    }

    pub(super) fn now(&self) -> Instant {
        match self {
            Self::Figure1(engine) => engine.now(),
            Self::Policy(engine) => engine.now(),
        }
    }

    pub(super) fn scheduler_mut(&mut self) -> &mut PacketScheduler {
        match self {
            Self::Figure1(engine) => engine.scheduler_mut(),
            Self::Policy(engine) => engine.scheduler_mut(),
        }
    }
}
