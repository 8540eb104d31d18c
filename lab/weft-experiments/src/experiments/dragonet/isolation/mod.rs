//! Dragonet's isolation experiment (TRIOS'15, the talk's "Experiment #2"): memcached over UDP behind the receive side of the
//! software NIC, with clients of high priority (HP) and best-effort ones (BE).
//!
//! The talk's set-up: 2 HP and 18 BE clients of 16 flows each, 10 receive queues. After 10 s another HP client joins
//! for 50 s; after it has left, another BE client for 50 s. (The script in Dragonet's sources,
//! `bench/netperf-wrapper/data_collection.sh`, has them in the opposite order.) Each flow has one request
//! outstanding. A tenth of the requests are `set`, with keys of 64 bytes and values of 64 or 1024, as memaslap's in
//! that script and its `tests/memcached_rr.conf`.
//!
//! The capacity of a receive queue is a stated budget, the same in every mode: a test machine has few processors, and
//! the experiment is about queues. With the default, 1000 packets per second and queue, 320 flows in a closed loop
//! keep all queues busy: 32 flows share a queue, so each has about 31 requests per second and waits for 32 ms, while
//! the path itself takes well under a millisecond. Ten queues serve 10 000 requests per second, which took about a
//! quarter of two processors of a test machine. [`IsolationOutcome::nic_share`] and late answers show where a machine
//! is the limit.

mod client;
mod protocol;
mod record;
mod run;
mod server;
mod testbed;
#[cfg(test)]
mod tests;

pub use client::RequestCounts;
pub use record::{
    ClassRecord, ClientRecord, ConfigurationChange, FlowCounts, IsolationOutcome, PhaseRecord, RunPhase,
    TimelinePoint,
};
pub use run::run;
pub use server::require_server;

use core::num::NonZeroU32;
use std::sync::Arc;
use weft_host::OsError;
use weft_host::link::LinkError;
use weft_host::process::ProcessError;
use weft_nic::receive::{Budget, Imbalance, ReceiveError, Steer};
use weft_nic::testbed::TestbedError;
use weft_steer::search::PlanError;
use weft_steer::{Configuration, Flow};
use weft_units::Nanos;

/// A class of clients.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Class {
    /// HP: the class that the policy protects.
    HighPriority,
    /// BE: all other clients.
    BestEffort,
}

impl Class {
    /// Both classes.
    pub const ALL: [Self; 2] = [Self::HighPriority, Self::BestEffort];

    /// Returns the name of the class in policies and in [`Flow::class`].
    pub const fn name(self) -> &'static str {
        match self {
            Self::HighPriority => "hp",
            Self::BestEffort => "be",
        }
    }
}

/// Parameters of the experiment. The default is the talk's with 64-byte values.
#[derive(Clone, Copy, Debug)]
pub struct IsolationOptions {
    /// Receive queues.
    pub queues: u32,
    /// Packets that a queue's ring holds.
    pub ring_packets: u32,
    /// The service rate of a queue.
    pub budget: Budget,
    /// HP clients from the beginning.
    pub hp_clients: u32,
    /// BE clients from the beginning.
    pub be_clients: u32,
    /// Flows of each client, newcomers included.
    pub flows_per_client: u16,
    /// Bytes per value.
    pub value_bytes: usize,
    /// Percentage of requests that are `set`.
    pub set_percent: u32,
    /// Factor on the talk's times.
    pub scale: f64,
    /// Time after which a request is sent again.
    pub timeout: Nanos,
    /// Seed of the clients' random choices.
    pub seed: u64,
}

impl Default for IsolationOptions {
    fn default() -> Self {
        const fn some(value: u32) -> NonZeroU32 {
            match NonZeroU32::new(value) {
                Some(value) => value,
                None => NonZeroU32::MIN,
            }
        }
        Self {
            queues: 10,
            ring_packets: 512,
            budget: Budget { packets_per_s: some(1000), burst: some(4) },
            hp_clients: 2,
            be_clients: 18,
            flows_per_client: 16,
            value_bytes: 64,
            set_percent: 10,
            scale: 1.0,
            timeout: Nanos::from_millis(500),
            seed: 1,
        }
    }
}

/// A plan in force: the configuration, and its compiled form.
#[derive(Clone)]
pub struct PlanInForce {
    /// The configuration.
    pub configuration: Configuration,
    /// The compiled form, by the NIC's model.
    pub steer: Arc<Steer>,
}

impl core::fmt::Debug for PlanInForce {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("PlanInForce").field("configuration", &self.configuration).finish_non_exhaustive()
    }
}

/// Plans again when flows are added (the first slice) and removed (the second).
pub type Replan<'a> = dyn FnMut(&[Flow], &[Flow]) -> Result<PlanInForce, PlanError> + 'a;

/// An event of a running experiment, for its observer.
#[derive(Clone, Copy, Debug)]
pub enum IsolationEvent {
    /// The server answers, and the clients start.
    Started,
    /// A client has joined or left.
    Changed {
        /// The client's class.
        class: Class,
        /// Whether it has joined.
        joined: bool,
        /// Time since the beginning of the run.
        at: Nanos,
    },
    /// The clients' figures of a window.
    Live {
        /// Start of the window, relative to the beginning of the run.
        at: Nanos,
        /// Length of the whole run.
        of: Nanos,
        /// Requests per second of the HP clients and of the BE clients.
        requests_per_s: [f64; 2],
        /// Mean latency of the HP clients and of the BE clients, in seconds.
        latency_s: [Option<f64>; 2],
    },
    /// The clients have ended; accounting is complete.
    Ended,
}

/// The reason that the experiment could not run.
#[derive(Debug, thiserror::Error)]
pub enum IsolationError {
    /// An option is invalid.
    #[error("isolation experiment: {0}")]
    Options(String),
    /// The server could not be started, or is not installed.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// The server does not answer, or has ended.
    #[error("memcached {0}")]
    Server(String),
    /// A step on the namespaces failed.
    #[error(transparent)]
    Testbed(#[from] TestbedError),
    /// A step on a link failed.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// A step on the NIC failed.
    #[error(transparent)]
    Nic(#[from] ReceiveError),
    /// The NIC's receive thread ended before the run did.
    #[error("the software NIC ended before the run did; its devices were removed")]
    NicEnded,
    /// A system call of the clients failed.
    #[error(transparent)]
    Os(#[from] OsError),
    /// The planner failed.
    #[error("the plan for a change of flows failed: {0}")]
    Plan(#[from] PlanError),
    /// The NIC's accounting does not balance.
    #[error(transparent)]
    Imbalance(#[from] Imbalance),
    /// A client thread panicked.
    #[error("a client's thread panicked")]
    ClientPanicked,
    /// The user asked to stop.
    #[error("interrupted")]
    Interrupted,
}

impl IsolationOptions {
    /// Checks the options against the experiment's limits.
    ///
    /// # Errors
    /// Fails with the name of the option.
    pub fn check(&self) -> Result<(), IsolationError> {
        let refuse = |what: String| Err(IsolationError::Options(what));
        if !(self.scale.is_finite() && self.scale > 0.0 && self.scale <= 1000.0) {
            return refuse(format!("the time scale is {}, but must be above 0 and at most 1000", self.scale));
        }
        if self.value_bytes > protocol::LARGEST_VALUE {
            let most = protocol::LARGEST_VALUE;
            return refuse(format!(
                "values of {} bytes: at most {most} fit into a datagram",
                self.value_bytes
            ));
        }
        let clients = self.hp_clients.max(self.be_clients);
        if clients >= testbed::MOST_CLIENTS || self.hp_clients == 0 || self.be_clients == 0 {
            let most = testbed::MOST_CLIENTS - 1;
            return refuse(format!("each class has 1 to {most} clients, not {clients} or none"));
        }
        if self.flows_per_client == 0 || self.flows_per_client > 1000 {
            return refuse(format!("a client has 1 to 1000 flows, not {}", self.flows_per_client));
        }
        if self.set_percent > 100 {
            return refuse(format!("{} of 100 requests cannot be `set`", self.set_percent));
        }
        if self.timeout < Nanos::from_millis(1) {
            return refuse("a time-out below 1 ms is not supported".to_owned());
        }
        Ok(())
    }

    /// Returns a time of the talk, in seconds, on this run's scale.
    fn scaled(&self, seconds: f64) -> Nanos {
        Nanos((seconds * self.scale * 1e9) as u64)
    }
}
