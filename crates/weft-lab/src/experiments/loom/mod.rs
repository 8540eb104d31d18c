//! The demo: Loom's isolation experiment (Figures 9 and 10), and its Figure 11, on real packets.
//!
//! Real applications in cgroups of their own send through a software NIC between network namespaces of this run; the NIC
//! runs as SQ, MQ, QPF and Loom in turn, and the same policy file is what Loom enforces in all of them.

mod core_waits;
mod qdisc;
mod run;
mod scenario;
pub mod simulated;
mod summary;

mod traffic;
mod trial;

pub use run::{Outcome, Window};
pub use scenario::{Bulk, FIGURE_9_FLOWS, FIGURE_11_FLOWS, Scenario};
pub use summary::report;

pub use traffic::Request;
pub use trial::trial;

use core::num::NonZeroU32;
pub(crate) use run::Bench;
pub(crate) use trial::{Carried, carry};
use weft_host::cgroup::CgroupError;
use weft_host::htb::HtbError;
use weft_host::process::ProcessError;
use weft_host::{Hierarchy, RunId};
use weft_nic::nic::NicError;
use weft_nic::plan::Mode;
use weft_nic::sampler::Sample;
use weft_nic::testbed::{Testbed, TestbedError};
use weft_nic::worker::SegmentsPerTurn;
use weft_policy::CompiledPolicy;
use weft_report::demo::RateTrial;
use weft_units::{BitsPerSec, Nanos};

/// How the demo is to run.
#[derive(Clone, Debug)]
pub struct DemoOptions {
    /// What sends when.
    pub scenario: Scenario,
    /// The modes, in order.
    pub modes: Vec<Mode>,
    /// The link's rate; `None` lets a [`trial`] choose one below what the machine carries.
    pub rate: Option<BitsPerSec>,
    /// TCP congestion control of the bulk flows, by its name in the kernel.
    pub congestion: String,
    /// How super-packets are cut.
    pub segments_per_turn: SegmentsPerTurn,
    /// Whether SQ has the policy as a qdisc in front of its queue, as in the paper, where the kernel can.
    pub sq_qdisc: bool,
    /// Requests a second of the latency tenant.
    pub requests_per_s: u32,
    /// Bytes of a request.
    pub request_bytes: u32,
    /// How far the link's clock may lag behind the wall clock.
    pub catch_up: Nanos,
}

impl DemoOptions {
    /// Figure 2: the software NIC with a link, threads with numbers of flows, and nothing but them.
    pub fn figure2(threads: &[(&'static str, u32)], link: BitsPerSec, duration: Nanos) -> Self {
        Self {
            scenario: Scenario::figure2(threads, duration),
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

/// What goes on, for whoever watches.
#[derive(Debug)]
pub enum DemoEvent<'a> {
    /// The machine is being measured, to choose the link's rate.
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
        /// How many there are.
        count: usize,
    },
    /// A window of 50 ms.
    Live(Live<'a>),
    /// A mode has ended.
    ModeEnds(&'a Outcome),
}

/// A window of 50 ms as it happens.
#[derive(Clone, Copy, Debug)]
pub struct Live<'a> {
    /// The mode.
    pub mode: Mode,
    /// Start of the window since the beginning of the run.
    pub at: Nanos,
    /// What left, by class.
    pub sample: &'a Sample,
}

/// Why the demo could not run.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// The namespaces.
    #[error(transparent)]
    Testbed(#[from] TestbedError),
    /// The NIC.
    #[error(transparent)]
    Nic(#[from] NicError),
    /// A cgroup.
    #[error(transparent)]
    Cgroup(#[from] CgroupError),
    /// An application could not be started.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// An application failed.
    #[error("{program} failed: {said}")]
    Application {
        /// Which one.
        program: &'static str,
        /// What it said.
        said: String,
    },
    /// The policy lacks a class that the scenario sends in.
    #[error("the policy has no class `{name}`, which the demo sends in; policies/tenants.weft has them all")]
    NoClass {
        /// The class.
        name: String,
    },
    /// The qdisc of SQ.
    #[error(transparent)]
    Qdisc(#[from] HtbError),
    /// A scratch folder could not be made.
    #[error("make a folder for the applications' logs: {0}")]
    Folder(std::io::Error),
    /// The NIC's worker ended before the run did.
    #[error("the software NIC ended before the run did; its devices were taken away")]
    NicEnded,
    /// The user asked to stop.
    #[error("interrupted")]
    Interrupted,
}

/// Makes the testbed and the cgroups `names`, and hands them to `f`; all of it goes when `f` returns.
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

/// Runs the demo. `stop` is asked often; when it says so, everything is taken down and [`DemoError::Interrupted`] comes back.
///
/// # Errors
/// See [`DemoError`].
pub fn run(
    policy: &CompiledPolicy,
    options: &DemoOptions,
    stop: &dyn Fn() -> bool,
    on_event: &mut dyn FnMut(DemoEvent<'_>),
) -> Result<Vec<Outcome>, DemoError> {
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

/// The kernel's defaults are for long fat paths: with them a flow on this path of microseconds sends 64 KB packets whatever
/// its rate, and hundreds of flows hold megabytes in the NIC.
fn prepare_sender(testbed: &Testbed) {
    // A kernel without it (before 5.19) sizes packets by the flow's rate alone, which is what this asks for.
    let _ = weft_host::sysctl::set(&testbed.sender, "net.ipv4.tcp_tso_rtt_log", "0");
}

/// How super-packets are cut, in words.
pub(crate) fn segments_per_turn_in_words(segments_per_turn: SegmentsPerTurn) -> String {
    match segments_per_turn {
        SegmentsPerTurn::AtMost(n) if n.get() == 1 => "one MTU-size segment in turn".to_owned(),
        SegmentsPerTurn::AtMost(n) => format!("{n} segments in turn"),
        SegmentsPerTurn::Whole => "super-packets whole".to_owned(),
    }
}
