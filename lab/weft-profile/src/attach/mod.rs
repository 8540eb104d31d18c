//! Profiles of what runs on the host now: processor time of the network stack by task, direction and category, without traffic of
//! the profiler.
//!
//! 1. [`run`] attaches the probes and samples all processors for the span. The span is divided into windows, each with its samples and
//!    the bytes of the counted devices.
//! 2. `accounts` gives each sample an account, a process or a thread of weftline's data path, when it is read.
//! 3. [`crate::attribution::host`] gives kernel time in the network stack a direction and a category.
//! 4. `rows` makes the tasks of the table, and [`Attached::senders`] are the processes that the caller, which has the policy
//!    in force, uses to identify classes.
//!
//! Nothing of the host changes, so nothing is restored. A request to stop ends the span, and what was measured is the result.

mod accounts;
mod counters;
mod rows;

use core::time::Duration;
use weft_facts::record::{Document, Host};
use weft_host::cgroup::{CgroupError, Hierarchy};
use weft_host::kallsyms::{KernelSymbols, SymbolError};
use weft_host::link::{self, LinkError};
use weft_host::net_counters::NetCounters;
use weft_host::netns::NetNsError;
use weft_host::perf_event::{Clock, SampleError, SampleRate, Sampler};
use weft_host::tasks::Task;
use weft_host::{NetNs, clock};
use weft_report::profile::attached::{
    AttachedReport, Moved, Subject, SubjectKind, TaskTime, ToolCost, Window,
};
use weft_report::profile::{Conditions, Flame, Latency, SkbSizes, Utilisation};
use weft_units::{Instant, Nanos};

use crate::attribution::Trace;
use crate::attribution::host::{HostTime, Sampling};
use crate::categories::Categories;
use crate::probes::{COST_SPAN, ProbeError, ProbeScope, Probes};
use crate::session::sampling_labels;
use crate::trial::{LOOK, unit};
use accounts::Accounts;
use counters::{Devices, retransmitted};
pub use rows::By;

/// The most windows of a span, and the least length of one.
const WINDOWS: u64 = 10;
const WINDOW_LEAST: Nanos = Nanos::from_millis(100);

/// An error of an attached profile.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// Sampling failed.
    #[error(transparent)]
    Sample(#[from] SampleError),
    /// The kernel's symbols cannot be read.
    #[error(transparent)]
    Symbols(#[from] SymbolError),
    /// The devices cannot be read, or the named one does not exist.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// This namespace cannot be opened.
    #[error(transparent)]
    NetNs(#[from] NetNsError),
    /// There is no such cgroup.
    #[error(transparent)]
    Cgroup(#[from] CgroupError),
    /// There is no such process.
    #[error("there is no process {0}")]
    NoProcess(u32),
    /// The caller asked to stop before anything was measured.
    #[error("stopped before anything was measured")]
    Stopped,
}

/// The subject of a profile.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Of {
    /// Everything on the host.
    Host,
    /// A process with its threads.
    Process(u32),
    /// The processes of a cgroup and of those below it, by its path below the root of the hierarchy.
    Cgroup(String),
    /// The packets of a device of this namespace.
    Device(String),
}

/// The options of a profile.
#[derive(Clone, Debug)]
pub struct AttachOptions {
    /// The subject.
    pub of: Of,
    /// The measured time.
    pub span: Nanos,
    /// The event that takes the samples; `None` for the best.
    pub clock: Option<Clock>,
    /// Samples per second and processor.
    pub rate: SampleRate,
    /// The tasks of the table.
    pub by: By,
    /// The number of processes or cgroups in the table.
    pub top: usize,
}

/// A process with time in the network stack.
#[derive(Clone, PartialEq, Debug)]
pub struct SendingProcess {
    /// Its facts; `None` if it had ended when its first sample was read.
    pub task: Option<Task>,
    /// Its processor time.
    pub time: TaskTime,
}

/// A finished profile.
#[derive(Clone, Debug)]
pub struct Attached {
    /// The document, without policies.
    pub report: AttachedReport,
    /// Stacks of each direction, for flame graphs.
    pub flames: Vec<Flame>,
    /// All processes with time in the network stack, weftline's left out.
    pub senders: Vec<SendingProcess>,
}

/// The caller of a profile that runs.
#[derive(Clone, Copy)]
pub struct ProfileCaller<'a> {
    /// Called once, with the first sample: from then on a stop leaves a profile.
    pub measuring: &'a dyn Fn(),
    /// Whether to stop before the span is over.
    pub stop: &'a dyn Fn() -> bool,
}

impl std::fmt::Debug for ProfileCaller<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProfileCaller").finish_non_exhaustive()
    }
}

/// Samples what runs until the span is over or the caller stops it.
///
/// # Errors
/// If rights are missing, the subject does not exist, or sampling fails.
pub fn run(
    options: &AttachOptions,
    categories: &Categories,
    host: Host,
    caller: ProfileCaller<'_>,
) -> Result<Attached, AttachError> {
    let namespace = NetNs::current()?;
    let scope = scope(&options.of, &namespace)?;
    let probes = Probes::attach(scope);
    // After the probes were attached, so that their own functions have names.
    let symbols = KernelSymbols::load()?;
    let mut samples = Measuring::begin(options, namespace)?;
    let before = NetCounters::of_host();
    samples.windows(options.span, caller)?;
    let retransmitted = retransmitted(&before, &NetCounters::of_host());
    let probed = probes.and_then(|probes| Probed::read(&probes, caller.stop));
    Ok(samples.conclude(options, categories, &symbols, (host, retransmitted, probed)))
}

/// Checks that the subject exists, and returns the packets that count.
fn scope<'a>(of: &Of, namespace: &'a NetNs) -> Result<ProbeScope<'a>, AttachError> {
    match of {
        Of::Host => Ok(ProbeScope::Host),
        Of::Process(pid) if Task::of(*pid).is_none() => Err(AttachError::NoProcess(*pid)),
        Of::Process(_) => Ok(ProbeScope::Host),
        Of::Cgroup(path) => {
            Hierarchy::detect()?.open(path.trim_start_matches('/'))?;
            Ok(ProbeScope::Host)
        }
        Of::Device(name) => Ok(ProbeScope::Device { namespace, index: link::index(namespace, name)? }),
    }
}

/// The results of the probes.
struct Probed {
    sizes: SkbSizes,
    latency: Option<Latency>,
    /// Processors that the programs used.
    cores: Option<f64>,
}

impl Probed {
    fn read(probes: &Probes, stop: &dyn Fn() -> bool) -> Result<Self, ProbeError> {
        let (sizes, latency) = (probes.sizes()?, probes.latency()?);
        // A kernel may have no statistics of programs, and a user who stops waits for nothing.
        let cores = if stop() { None } else { cost(probes).ok() };
        Ok(Self { sizes, latency, cores })
    }
}

fn cost(probes: &Probes) -> Result<f64, ProbeError> {
    let counted = probes.count()?;
    std::thread::sleep(Duration::from(COST_SPAN));
    probes.cores(&counted)
}

/// A part of the span.
struct Part {
    trace: Trace,
    span_s: f64,
    moved: Moved,
}

/// Running samples.
struct Measuring {
    namespace: NetNs,
    sampler: Sampler,
    accounts: Accounts,
    only: Option<String>,
    devices: [Devices; 2],
    parts: Vec<Part>,
}

impl Measuring {
    fn begin(options: &AttachOptions, namespace: NetNs) -> Result<Self, AttachError> {
        let only = match &options.of {
            Of::Device(name) => Some(name.clone()),
            _ => None,
        };
        let mut sampler = Sampler::open(options.clock, options.rate)?;
        let devices = Devices::read(&namespace, only.as_deref())?;
        // Samples of the start are of the profiler.
        sampler.drain(|_| ());
        let accounts = Accounts::new(std::process::id());
        Ok(Self {
            namespace,
            sampler,
            accounts,
            only,
            devices: [devices.clone(), devices],
            parts: Vec::new(),
        })
    }

    /// Measures all windows, or those until the caller asks to stop.
    fn windows(&mut self, span: Nanos, caller: ProfileCaller<'_>) -> Result<(), AttachError> {
        let windows = (span.get() / WINDOW_LEAST.get()).clamp(1, WINDOWS);
        let begin = clock::now();
        let mut since = begin;
        for window in 1..=windows {
            let until = begin + Nanos(span.get() * window / windows);
            since = self.window(since, until, caller)?;
            if (caller.stop)() {
                break;
            }
        }
        if self.is_empty() && (caller.stop)() { Err(AttachError::Stopped) } else { Ok(()) }
    }

    /// Whether no sample was taken in the windows that have ended.
    fn is_empty(&self) -> bool {
        self.parts.iter().all(|part| part.trace.samples() == 0)
    }

    /// Measures a window; returns its end.
    fn window(
        &mut self,
        since: Instant,
        until: Instant,
        caller: ProfileCaller<'_>,
    ) -> Result<Instant, AttachError> {
        let (mut trace, mut nothing) = (Trace::default(), self.is_empty());
        let (sampler, accounts) = (&mut self.sampler, &mut self.accounts);
        while clock::now() < until && !(caller.stop)() {
            std::thread::sleep(Duration::from(until.saturating_since(clock::now())).min(LOOK));
            sampler.drain(|sample| trace.add_to(accounts.of(sample), sample));
            if nothing && trace.samples() > 0 {
                nothing = false;
                (caller.measuring)();
            }
        }
        let now = Devices::read(&self.namespace, self.only.as_deref())?;
        let [_, last] = &mut self.devices;
        let moved = now.counted_since(last);
        *last = now;
        let end = clock::now();
        self.parts.push(Part { trace, span_s: end.saturating_since(since).as_secs_f64(), moved });
        Ok(end)
    }

    /// The time of the whole span, and its windows with the subject's.
    fn attribute(
        &self,
        options: &AttachOptions,
        categories: &Categories,
        symbols: &KernelSymbols,
    ) -> (HostTime, Vec<Window>) {
        let sampler = &self.sampler;
        let wanted = rows::wanted(&options.of, &self.accounts);
        let (mut all, mut windows) = (HostTime::default(), Vec::new());
        for part in &self.parts {
            let sampling =
                Sampling { table: categories, clock: sampler.clock(), unit_s: unit(sampler, &part.trace) };
            let mut time = HostTime::default();
            time.add(&part.trace, |address| symbols.find(address), sampling, &wanted);
            windows.push(Window { span_s: part.span_s, moved: part.moved, network_s: time.network(&wanted) });
            all.merge(time);
        }
        (all, windows)
    }

    fn conclude(
        self,
        options: &AttachOptions,
        categories: &Categories,
        symbols: &KernelSymbols,
        (host, retransmitted, probed): (Host, u64, Result<Probed, ProbeError>),
    ) -> Attached {
        let (all, windows) = self.attribute(options, categories, symbols);
        let sampler = &self.sampler;
        let span_s = self.parts.iter().map(|part| part.span_s).sum::<f64>().max(f64::MIN_POSITIVE);
        let processors = sampler.processors() as u32;
        let share = |seconds: f64| seconds / (span_s * f64::from(processors.max(1)));
        let [first, last] = &self.devices;
        let mut report = AttachedReport {
            schema: AttachedReport::SCHEMA.to_owned(),
            host,
            subject: subject(&options.of),
            conditions: Conditions {
                clock: sampler.clock().name().to_owned(),
                sample_hz: sampler.rate().hertz(),
                categories: categories.version().to_owned(),
            },
            span_s,
            processors,
            utilisation: Utilisation {
                user: all.user_s / span_s,
                system: all.system_s / span_s,
                softirq: all.softirq_s / span_s,
            },
            rows: rows::of(&all, &self.accounts, options),
            devices: last.since(first),
            retransmitted,
            lost_samples: sampler.losses().lost,
            tool: ToolCost { processor: share(rows::tool_s(&all, &self.accounts)), probes: None },
            windows,
            labels: sampling_labels(sampler.clock(), sampler.rate(), options.rate),
            ..AttachedReport::default()
        };
        report.conclude();
        report.keep(options.top);
        report.labels.extend(rows::labels(&options.of));
        add_probed(&mut report, probed);
        let (flames, senders) = (rows::flames(&all), rows::senders(&all, &self.accounts));
        report.set_missing(all.missing);
        Attached { report, flames, senders }
    }
}

fn add_probed(report: &mut AttachedReport, probed: Result<Probed, ProbeError>) {
    match probed {
        Ok(Probed { sizes, latency, cores }) => {
            (report.skb_bytes, report.latency_s) = (Some(sizes), latency);
            report.tool.probes = cores.map(|cores| cores / f64::from(report.processors.max(1)));
        }
        Err(why) => report.labels.push(format!("no sizes and latency: {why}")),
    }
}

fn subject(of: &Of) -> Subject {
    let (kind, name) = match of {
        Of::Host => (SubjectKind::Host, String::new()),
        Of::Process(pid) => (SubjectKind::Process, pid.to_string()),
        Of::Cgroup(path) => (SubjectKind::Cgroup, path.clone()),
        Of::Device(name) => (SubjectKind::Device, name.clone()),
    };
    Subject { kind, name }
}
