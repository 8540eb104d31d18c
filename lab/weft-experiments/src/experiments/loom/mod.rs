//! The demo: Loom's isolation experiment (Figures 9 and 10) and its Figure 11, on real packets.
//!
//! 1. Rate. The user gives the link's rate, or [`trial`] measures the scenario's heaviest load on a link that never
//!    limits and takes the largest choice that is at most a third of it, so that the link and not the processors is
//!    the bottleneck.
//! 2. Bench. `with_bench` makes a cgroup per sender, the namespaces and a log folder. It owns them for all modes and
//!    removes them on every way out, since each is a value whose drop removes it.
//! 3. Modes. SQ, MQ, QPF and Loom run one after the other (`run`), each on a separate NIC. Scenario, applications,
//!    policy file and rate are the same in all; only the NIC differs, so that a difference between modes is the NIC's
//!    doing.
//! 4. A run starts NIC and applications, follows the scenario's time line, and collects the NIC's windows of 10 ms.
//!    It reads the worker's processor time and the waits for a core at both ends. Then the applications end first and
//!    the NIC drains, so that its final accounting is complete.
//! 5. Report. `summary` computes all figures from the outcomes; it runs nothing.
//!
//! `run` owns what lives for one run: the applications, the windows, and the two readings. The NIC outlives them.
//! Nothing here schedules a packet; this module only observes.
//!
//! An application or NIC that ends early fails the run, because its figures would be those of another load. Link time
//! lost by the worker, untracked packets, strays and lost packets do not fail it: each has a counter in the NIC's
//! totals, and the report shows it. `stop` is polled every 10 ms and leads to [`DemoError::Interrupted`].

mod core_waits;
mod qdisc;
mod run;
mod scenario;
pub mod simulated;
mod summary;

mod traffic;
mod trial;

pub use run::{LinkWindow, ModeOutcome};
pub use scenario::{Bulk, FIGURE_9_FLOWS, FIGURE_11_FLOWS, LoomScenario};
pub use summary::report;

pub use traffic::TimedRequest;
pub use trial::trial;

use core::num::NonZeroU32;
pub(crate) use run::Bench;
pub(crate) use trial::{Carried, carry};
use weft_host::cgroup::CgroupError;
use weft_host::process::ProcessError;
use weft_host::tc::TcError;
use weft_host::{Hierarchy, RunId};
use weft_nic::nic::NicError;
use weft_nic::plan::Mode;
use weft_nic::sampler::Sample;
use weft_nic::testbed::{Testbed, TestbedError};
use weft_nic::worker::SegmentsPerTurn;
use weft_policy::CompiledPolicy;
use weft_profile::error::ProfileError;
use weft_report::demo::RateTrial;
use weft_units::{BitsPerSec, Nanos};

/// Parameters of the demo.
#[derive(Clone, Debug)]
pub struct DemoOptions {
    /// Senders and their start and stop times.
    pub scenario: LoomScenario,
    /// The modes, in the order in which they run.
    pub modes: Vec<Mode>,
    /// The link's rate; `None` lets a [`trial`] choose one below the machine's capacity.
    pub rate: Option<BitsPerSec>,
    /// TCP congestion control of the bulk flows, by its kernel name.
    pub congestion: String,
    /// Segments of a super-packet sent per turn.
    pub segments_per_turn: SegmentsPerTurn,
    /// Whether SQ has the policy as a qdisc in front of its queue, as in the paper, where the kernel supports it.
    pub sq_qdisc: bool,
    /// Requests per second of the latency tenant.
    pub requests_per_s: u32,
    /// Bytes per request.
    pub request_bytes: u32,
    /// The most that the link's clock may lag behind the wall clock.
    pub catch_up: Nanos,
}

impl DemoOptions {
    /// Returns the options for Figure 2: the software NIC with a link, and threads with the given numbers of flows.
    pub fn figure2(threads: &[(&'static str, u32)], link: BitsPerSec, duration: Nanos) -> Self {
        Self {
            scenario: LoomScenario::figure2(threads, duration),
            modes: vec![Mode::Loom],
            rate: Some(link),
            congestion: "cubic".to_owned(),
            segments_per_turn: SegmentsPerTurn::AtMost(NonZeroU32::MIN),
            sq_qdisc: false,
            requests_per_s: 0,
            request_bytes: 0,
            catch_up: Nanos::from_millis(50),
        }
    }
}

/// An event of a running demo, for its observer.
#[derive(Debug)]
pub enum DemoEvent<'a> {
    /// The trial that chooses the link's rate has begun.
    Calibrating,
    /// The link's rate is known.
    Rate {
        /// The link's rate.
        rate: BitsPerSec,
        /// The trial that chose it; `None` when the user gave the rate.
        trial: Option<&'a RateTrial>,
    },
    /// A mode begins: number `index` of `count`.
    ModeStarts {
        /// The mode.
        mode: Mode,
        /// Its number, from 0.
        index: usize,
        /// The number of modes.
        count: usize,
    },
    /// A window of 50 ms has passed.
    Live(Live<'a>),
    /// A mode has ended.
    ModeEnds(&'a ModeOutcome),
}

/// A window of 50 ms, as it happens.
#[derive(Clone, Copy, Debug)]
pub struct Live<'a> {
    /// The mode.
    pub mode: Mode,
    /// Start of the window, relative to the beginning of the run.
    pub at: Nanos,
    /// Bytes sent and waiting, by class.
    pub sample: &'a Sample,
}

/// The reason that the demo could not run.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// A step on the namespaces failed.
    #[error(transparent)]
    Testbed(#[from] TestbedError),
    /// A step on the NIC failed.
    #[error(transparent)]
    Nic(#[from] NicError),
    /// A step on a cgroup failed.
    #[error(transparent)]
    Cgroup(#[from] CgroupError),
    /// An application could not be started.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// An application failed.
    #[error("{program} failed: {said}")]
    Application {
        /// The program.
        program: &'static str,
        /// The program's message.
        said: String,
    },
    /// The policy lacks a class of the scenario.
    #[error("the policy has no class `{name}`, which the demo sends in; policies/tenants.weft has them all")]
    NoClass {
        /// The class.
        name: String,
    },
    /// The qdisc of SQ could not be installed.
    #[error(transparent)]
    Qdisc(#[from] TcError),
    /// A temporary folder could not be made.
    #[error("make a folder for the applications' logs: {0}")]
    Folder(std::io::Error),
    /// The NIC's worker ended before the run did.
    #[error("the software NIC ended before the run did; its devices were removed")]
    NicEnded,
    /// The server of requests does not listen.
    #[error(transparent)]
    Server(ProfileError),
    /// The user asked to stop.
    #[error("interrupted")]
    Interrupted,
}

impl From<ProfileError> for DemoError {
    fn from(error: ProfileError) -> Self {
        match error {
            ProfileError::Stopped => Self::Interrupted,
            error => Self::Server(error),
        }
    }
}

/// Makes the testbed and the cgroups `names`, and calls `f` with them. All of it is removed when `f` returns.
pub(crate) fn with_bench<R>(
    policy: &CompiledPolicy,
    names: &[&'static str],
    stop: &dyn Fn() -> bool,
    f: impl FnOnce(&Bench<'_>) -> Result<R, DemoError>,
) -> Result<R, DemoError> {
    let hierarchy = Hierarchy::detect()?;
    let base = hierarchy.create(&RunId::current().name("demo"))?;
    let mut cgroups = Vec::new();
    for &name in names {
        cgroups.push((name, base.child(name)?));
    }
    let folder = tempfile::tempdir().map_err(DemoError::Folder)?;
    let testbed = Testbed::create("")?;
    prepare_sender(&testbed);
    f(&Bench {
        policy,
        testbed: &testbed,
        hierarchy: &hierarchy,
        base: &base,
        cgroups: &cgroups,
        folder: folder.path(),
        stop,
    })
}

/// Runs the demo. When `stop` returns true, everything is removed and [`DemoError::Interrupted`] is returned.
///
/// # Errors
/// See [`DemoError`].
pub fn run(
    policy: &CompiledPolicy,
    options: &DemoOptions,
    stop: &dyn Fn() -> bool,
    on_event: &mut dyn FnMut(DemoEvent<'_>),
) -> Result<Vec<ModeOutcome>, DemoError> {
    let rate = match options.rate {
        Some(rate) => {
            on_event(DemoEvent::Rate { rate, trial: None });
            rate
        }
        None => {
            let trial = trial(policy, options, stop, on_event)?;
            let rate = BitsPerSec(trial.rate_bps());
            on_event(DemoEvent::Rate { rate, trial: Some(&trial) });
            rate
        }
    };
    with_bench(policy, &options.scenario.names(), stop, |bench| {
        let mut outcomes = Vec::new();
        for (index, &mode) in options.modes.iter().enumerate() {
            on_event(DemoEvent::ModeStarts { mode, index, count: options.modes.len() });
            let outcome = bench.run(&options.scenario, mode, rate, options, on_event)?;
            on_event(DemoEvent::ModeEnds(&outcome));
            outcomes.push(outcome);
        }
        Ok(outcomes)
    })
}

/// Sets the sender's TCP for a path of microseconds. With the kernel's defaults, which suit long paths, a flow sends
/// packets of 64 KB at any rate, and hundreds of flows hold megabytes in the NIC.
fn prepare_sender(testbed: &Testbed) {
    // Kernels before 5.19 lack the setting and size packets by the flow's rate alone, which is the desired behaviour.
    let _ = weft_host::sysctl::set(&testbed.sender, "net.ipv4.tcp_tso_rtt_log", "0");
}

/// Describes the segments per turn in words.
pub(crate) fn segments_per_turn_in_words(segments_per_turn: SegmentsPerTurn) -> String {
    match segments_per_turn {
        SegmentsPerTurn::AtMost(n) if n.get() == 1 => "one MTU-size segment in turn".to_owned(),
        SegmentsPerTurn::AtMost(n) => format!("{n} segments in turn"),
        SegmentsPerTurn::Whole => "super-packets whole".to_owned(),
    }
}
