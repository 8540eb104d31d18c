//! All levels in turn, repeated, and the document of them.

use std::collections::BTreeMap;

use weft_facts::record::{Document, Host};
use weft_host::kallsyms::KernelSymbols;
use weft_host::perf_event::{Clock, SampleRate, Sampler};
use weft_host::{clock, require_network_rights};
use weft_report::profile::{
    Category, Conditions, ConfigReport, FOREIGN_MAX, Flame, ProfileReport, Run, Side, largest,
};
use weft_report::rounds::Rounds;
use weft_units::Nanos;

use crate::advice;
use crate::attribution::{Attribution, Processes, Trace, TraceConditions, TrafficKind};
use crate::categories::Categories;
use crate::error::ProfileError;
use crate::level::Level;
use crate::pattern::{FlowCount, FlowLayout, Pattern};
use crate::setup::Setup;
use crate::traffic::TrafficLoad;
use crate::trial::{self, First, Instrument, unit};

/// The behaviour on a machine that others use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WhenBusy {
    /// No run.
    Refuse,
    /// Runs, whose figures carry a label.
    Label,
}

/// The options of a session.
#[derive(Clone, Debug)]
pub struct SessionOptions {
    /// The pattern.
    pub pattern: Pattern,
    /// The number of flows.
    pub flows: FlowCount,
    /// The flows' kind.
    pub load: TrafficLoad,
    /// The levels, in the order of the table.
    pub levels: Vec<Level>,
    /// Settings besides the level.
    pub setup: Setup,
    /// Repeats and times of each level, and how it is sampled.
    pub trials: TrialPlan,
}

/// The trials of a setting: how many, how long, and their samples.
#[derive(Clone, Debug)]
pub struct TrialPlan {
    /// Repeats of each setting; settings take turns.
    pub repeats: u32,
    /// Time measured without the instrument, and again with it.
    pub span: Nanos,
    /// Time for TCP to settle.
    pub warm_up: Nanos,
    /// The event that takes the samples; `None` for the best.
    pub clock: Option<Clock>,
    /// Samples per second and processor.
    pub rate: SampleRate,
    /// The processors to use.
    pub processors: Vec<u32>,
    /// The behaviour on a machine that others use.
    pub loaded: WhenBusy,
}

impl SessionOptions {
    /// The instrument of the trials.
    pub(crate) fn instrument<'a>(
        &'a self,
        categories: &'a Categories,
        stop: &'a dyn Fn() -> bool,
    ) -> Instrument<'a> {
        self.trials.instrument(categories, &self.setup, stop)
    }
}

impl TrialPlan {
    /// The instrument of trials with `setup`, without bytes per flow.
    pub fn instrument<'a>(
        &self,
        categories: &'a Categories,
        setup: &'a Setup,
        stop: &'a dyn Fn() -> bool,
    ) -> Instrument<'a> {
        Instrument {
            categories,
            clock: self.clock,
            rate: self.rate,
            warm_up: self.warm_up,
            span: self.span,
            setup,
            flows: false,
            stop,
        }
    }
}

/// A finished trial, for those who wait.
#[derive(Clone, Debug)]
pub struct TrialProgress {
    /// Trials done.
    pub done: u32,
    /// Trials in all.
    pub of: u32,
    /// The level's name.
    pub level: String,
    /// The figures.
    pub run: Run,
}

/// A session's result.
#[derive(Clone, Debug)]
pub struct SessionProfile {
    /// The document.
    pub report: ProfileReport,
    /// Stacks of each level and side, for flame graphs.
    pub flames: Vec<Flame>,
}

/// The time that a machine is watched before the runs.
const WATCH: Nanos = Nanos::from_millis(1000);

/// Runs a session. `heard` receives each trial.
///
/// # Errors
/// If rights are missing, the machine is loaded, a trial fails, or the caller asks to stop.
pub fn run(
    options: &SessionOptions,
    categories: &Categories,
    host: Host,
    stop: &dyn Fn() -> bool,
    mut heard: impl FnMut(&TrialProgress),
) -> Result<SessionProfile, ProfileError> {
    require_network_rights()?;
    let layout = FlowLayout::new(options.pattern, options.flows, &options.trials.processors);
    let instrument = options.instrument(categories, stop);
    let labels = vec![layout.shortage.clone(), watch(&instrument, options.trials.loaded)?];
    let mut all = Collected::default();
    Rounds::measure(options.trials.repeats, &options.levels, &|| false, |turn| {
        let first = (turn.round, First::of(turn.round));
        let trial = trial::run((*turn.variant, None), options.load, &layout, first, &instrument)?;
        let level = turn.variant.name();
        let (done, of, run) = (turn.done, turn.of, trial.run.clone());
        heard(&TrialProgress { done, of, level: level.to_owned(), run });
        all.add(level, trial);
        Ok::<_, ProfileError>(())
    })?;
    let labels = all.labels(options.trials.rate, labels);
    let levels: Vec<&str> = options.levels.iter().map(|level| level.name()).collect();
    Ok(all.conclude(options, (&layout, &levels), categories, host, labels))
}

/// The limits of samples that `clock` took at `rate`, where `wanted` was asked for.
pub(crate) fn sampling_labels(clock: Clock, rate: SampleRate, wanted: SampleRate) -> Vec<String> {
    let mut labels = Vec::new();
    if clock.has_skid() {
        labels
            .push("cpu-clock: time in sections with interrupts off shows where they come back on".to_owned());
    }
    if rate < wanted {
        let (taken, wanted) = (rate.hertz(), wanted.hertz());
        labels.push(format!(
            "{taken} samples a second instead of {wanted}: kernel.perf_event_max_sample_rate allows no more"
        ));
    }
    labels
}

/// The processors that this process may use.
///
/// # Errors
/// If the kernel refuses the query.
pub fn processors() -> Result<Vec<u32>, ProfileError> {
    Ok(weft_host::affinity::own()?)
}

/// Watches the machine before trials. Returns a label if others use it; empty if they do not.
///
/// # Errors
/// If they do and that is refused, samples cannot be taken, or the caller asks to stop.
pub fn watch(instrument: &Instrument<'_>, loaded: WhenBusy) -> Result<String, ProfileError> {
    loaded_label(loaded, others(instrument)?, "")
}

/// Watches the machine, and returns the share of it that others use.
pub(crate) fn others(instrument: &Instrument<'_>) -> Result<f64, ProfileError> {
    let mut sampler = Sampler::open(instrument.clock, instrument.rate)?;
    let mut trace = Trace::default();
    let end = clock::now() + WATCH;
    while clock::now() < end {
        if (instrument.stop)() {
            return Err(ProfileError::Stopped);
        }
        std::thread::sleep(core::time::Duration::from_millis(100));
        sampler.drain(|sample| trace.add(sample));
    }
    let setting = TraceConditions {
        processes: Processes::Known { sender: [].into(), receiver: [].into() },
        tool: std::process::id(),
        traffic: TrafficKind::Requests,
        clock: sampler.clock(),
        unit_s: unit(&sampler, &trace),
        sender_packets: 0.5,
    };
    let symbols = KernelSymbols::load()?;
    let seen = Attribution::of(&trace, |a| symbols.find(a), instrument.categories, &setting);
    // Interrupts, and softirqs of others' packets, have no side in this setting, but count as theirs.
    let others = seen.foreign_s + seen.interrupts_s + seen.sender.total_s() + seen.receiver.total_s();
    Ok(others / (WATCH.as_secs_f64() * sampler.processors().max(1) as f64))
}

/// A label if others use `share` of a machine, which is called `of` unless it is this one; empty if they do not.
pub(crate) fn loaded_label(loaded: WhenBusy, share: f64, of: &str) -> Result<String, ProfileError> {
    if share <= FOREIGN_MAX {
        return Ok(String::new());
    }
    let percent = share * 100.0;
    match loaded {
        WhenBusy::Refuse => {
            Err(ProfileError::Loaded { of: of.to_owned(), percent, most: FOREIGN_MAX * 100.0 })
        }
        WhenBusy::Label => Ok(format!(
            "LOADED: other processes had {percent:.1} % of the processors{of} before the runs; figures are not those of an idle \
             machine"
        )),
    }
}

/// Stacks by side, category and functions.
type Stacks = BTreeMap<(Side, Category, Vec<String>), f64>;

/// Trials so far, by the names of their levels.
#[derive(Default)]
pub(crate) struct Collected {
    runs: BTreeMap<String, Vec<Run>>,
    stacks: BTreeMap<String, Stacks>,
    missing: BTreeMap<String, f64>,
    clock: Option<Clock>,
    /// The lowest rate of a trial.
    rate: Option<SampleRate>,
    no_probes: Option<String>,
}

impl Collected {
    pub(crate) fn add(&mut self, level: &str, trial: trial::TrialResult) {
        self.runs.entry(level.to_owned()).or_default().push(trial.run);
        let stacks = self.stacks.entry(level.to_owned()).or_default();
        for (stack, seconds) in trial.attribution.stacks {
            *stacks.entry(stack).or_default() += seconds;
        }
        for (name, seconds) in trial.attribution.missing {
            *self.missing.entry(name).or_default() += seconds;
        }
        self.clock = Some(trial.clock);
        self.rate = Some(self.rate.map_or(trial.rate, |rate| rate.min(trial.rate)));
        self.no_probes = self.no_probes.take().or(trial.no_probes);
    }

    /// Adds the limits of all trials' samples to `labels`, and leaves out empty ones.
    pub(crate) fn labels(&self, wanted: SampleRate, mut labels: Vec<String>) -> Vec<String> {
        labels.extend(self.no_probes.as_ref().map(|why| format!("no sizes and latency: {why}")));
        if let (Some(clock), Some(rate)) = (self.clock, self.rate) {
            labels.extend(sampling_labels(clock, rate, wanted));
        }
        labels.retain(|label| !label.is_empty());
        labels
    }

    /// The document and the stacks. `levels` are in the order of the table.
    pub(crate) fn conclude(
        mut self,
        options: &SessionOptions,
        (layout, levels): (&FlowLayout, &[&str]),
        categories: &Categories,
        host: Host,
        labels: Vec<String>,
    ) -> SessionProfile {
        let cores = [layout.senders.len() as u32, layout.receivers.len() as u32];
        let flows = layout.flows.len() as u32;
        let config = |level: &&str| {
            let runs = self.runs.remove(*level).unwrap_or_default();
            ConfigReport::conclude(level, flows, cores, runs)
        };
        let configs: Vec<ConfigReport> = levels.iter().map(config).collect();
        let of_level = |level: &&str| self.stacks.get(*level).map(|stacks| flames(level, stacks));
        let flames = levels.iter().filter_map(of_level).flatten().collect();
        let report = ProfileReport {
            schema: ProfileReport::SCHEMA.to_owned(),
            host,
            pattern: options.pattern.name().to_owned(),
            rpc_bytes: match options.load {
                TrafficLoad::Bulk => None,
                TrafficLoad::Requests(bytes) => Some(bytes.get()),
            },
            conditions: Conditions {
                clock: self.clock.map_or("none", Clock::name).to_owned(),
                sample_hz: self.rate.unwrap_or(options.trials.rate).hertz(),
                categories: categories.version().to_owned(),
            },
            repeats: options.trials.repeats,
            advice: configs.iter().flat_map(advice::of).collect(),
            configs,
            missing: largest(self.missing),
            labels,
            ..ProfileReport::default()
        };
        SessionProfile { report, flames }
    }
}

fn flames(level: &str, stacks: &Stacks) -> Vec<Flame> {
    let of = |side: Side| {
        let own = stacks.iter().filter(|((s, ..), _)| *s == side);
        let stacks = own.map(|((_, category, frames), seconds)| (*category, frames.clone(), *seconds));
        Flame { level: level.to_owned(), part: side.name(), stacks: stacks.collect() }
    };
    Side::ALL.map(of).into_iter().filter(|flame| !flame.stacks.is_empty()).collect()
}
