//! All levels in turn, repeated, and the document of them.

use std::collections::BTreeMap;

use weft_host::kallsyms::KernelSymbols;
use weft_host::perf_event::{Clock, SampleRate, Sampler};
use weft_host::{clock, require_network_rights};
use weft_report::profile::{
    Category, Conditions, ConfigReport, FOREIGN_MAX, Flame, ProfileReport, Run, Side, largest,
};
use weft_report::record::{Document, Host};
use weft_units::Nanos;

use crate::advice;
use crate::attribution::{Attribution, Processes, Setting, Trace, Traffic};
use crate::categories::Categories;
use crate::error::ProfileError;
use crate::level::Level;
use crate::pattern::{FlowCount, Layout, Pattern};
use crate::setup::Setup;
use crate::traffic::Load;
use crate::trial::{self, First, Instrument, unit};

/// The behaviour on a machine that others use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Loaded {
    /// No run.
    Refuse,
    /// Runs, whose figures carry a label.
    Label,
}

/// The options of a session.
#[derive(Clone, Debug)]
pub struct Options {
    /// The pattern.
    pub pattern: Pattern,
    /// The number of flows.
    pub flows: FlowCount,
    /// The flows' kind.
    pub load: Load,
    /// The levels, in the order of the table.
    pub levels: Vec<Level>,
    /// Settings besides the level.
    pub setup: Setup,
    /// Repeats of each level.
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
    pub loaded: Loaded,
}

/// A finished trial, for those who wait.
#[derive(Clone, Debug)]
pub struct Progress {
    /// Trials done.
    pub done: u32,
    /// Trials in all.
    pub of: u32,
    /// The level.
    pub level: Level,
    /// The figures.
    pub run: Run,
}

/// A session's result.
#[derive(Clone, Debug)]
pub struct Profile {
    /// The document.
    pub report: ProfileReport,
    /// Stacks of each level and side, for flame graphs.
    pub flames: Vec<Flame>,
}

/// The time for which a machine is watched before the runs.
const WATCH: Nanos = Nanos::from_millis(1000);

/// Runs a session. `heard` is told of each trial.
///
/// # Errors
/// If rights are missing, the machine is loaded, a trial fails, or the caller asks to stop.
pub fn run(
    options: &Options,
    categories: &Categories,
    host: Host,
    stop: &dyn Fn() -> bool,
    mut heard: impl FnMut(&Progress),
) -> Result<Profile, ProfileError> {
    require_network_rights()?;
    let layout = Layout::new(options.pattern, options.flows, &options.processors);
    let instrument = Instrument {
        categories,
        clock: options.clock,
        rate: options.rate,
        warm_up: options.warm_up,
        span: options.span,
        setup: &options.setup,
        stop,
    };
    let mut labels = vec![layout.shortage.clone()];
    labels.push(preflight(options, &instrument)?);
    let mut all = Collected::default();
    let of = options.repeats * options.levels.len() as u32;
    for repeat in 1..=options.repeats {
        for level in rotated(&options.levels, repeat) {
            let first = if repeat.is_multiple_of(2) { First::Sampled } else { First::Bare };
            let trial = trial::run(level, options.load, &layout, (repeat, first), &instrument)?;
            all.done += 1;
            heard(&Progress { done: all.done, of, level, run: trial.run.clone() });
            all.add(level, trial);
        }
    }
    labels.push(all.no_probes.clone().map_or_else(String::new, |why| format!("no sizes and latency: {why}")));
    if let (Some(clock), Some(rate)) = (all.clock, all.rate) {
        labels.extend(sampling_labels(clock, rate, options.rate));
    }
    labels.retain(|label| !label.is_empty());
    Ok(all.conclude(options, &layout, categories, host, labels))
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

/// The levels in the order of repeat `repeat`, from 1: each is first in turn.
fn rotated(levels: &[Level], repeat: u32) -> Vec<Level> {
    let mut order = levels.to_vec();
    order.rotate_left((repeat as usize).wrapping_sub(1) % levels.len().max(1));
    order
}

/// Watches the machine, and returns a label if others use it.
fn preflight(options: &Options, instrument: &Instrument<'_>) -> Result<String, ProfileError> {
    let mut sampler = Sampler::open(options.clock, options.rate)?;
    let mut trace = Trace::default();
    let end = clock::now() + WATCH;
    while clock::now() < end {
        if (instrument.stop)() {
            return Err(ProfileError::Stopped);
        }
        std::thread::sleep(core::time::Duration::from_millis(100));
        sampler.drain(|sample| trace.add(sample));
    }
    let setting = Setting {
        processes: Processes::Known { sender: [].into(), receiver: [].into() },
        tool: std::process::id(),
        traffic: Traffic::Requests,
        clock: sampler.clock(),
        unit_s: unit(&sampler, &trace),
        sender_packets: 0.5,
    };
    let symbols = KernelSymbols::load()?;
    let seen = Attribution::of(&trace, |a| symbols.find(a), instrument.categories, &setting);
    // Softirqs of others' packets have no side of ours, but count as theirs.
    let others = seen.foreign_s + seen.sender.total_s() + seen.receiver.total_s();
    let share = others / (WATCH.as_secs_f64() * sampler.processors().max(1) as f64);
    if share <= FOREIGN_MAX {
        return Ok(String::new());
    }
    match options.loaded {
        Loaded::Refuse => Err(ProfileError::Loaded { percent: share * 100.0, most: FOREIGN_MAX * 100.0 }),
        Loaded::Label => Ok(format!(
            "LOADED: other processes had {:.1} % of the processors before the runs; figures are not those of an idle machine",
            share * 100.0
        )),
    }
}

/// Stacks by side, category and functions.
type Stacks = BTreeMap<(Side, Category, Vec<String>), f64>;

/// Trials so far.
#[derive(Default)]
struct Collected {
    done: u32,
    runs: BTreeMap<Level, Vec<Run>>,
    stacks: BTreeMap<Level, Stacks>,
    missing: BTreeMap<String, f64>,
    clock: Option<Clock>,
    /// The lowest rate of a trial.
    rate: Option<SampleRate>,
    no_probes: Option<String>,
}

impl Collected {
    fn add(&mut self, level: Level, trial: trial::Trial) {
        self.runs.entry(level).or_default().push(trial.run);
        let stacks = self.stacks.entry(level).or_default();
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

    fn conclude(
        mut self,
        options: &Options,
        layout: &Layout,
        categories: &Categories,
        host: Host,
        labels: Vec<String>,
    ) -> Profile {
        let cores = [layout.senders.len() as u32, layout.receivers.len() as u32];
        let flows = layout.flows.len() as u32;
        let config = |level: &Level| {
            let runs = self.runs.remove(level).unwrap_or_default();
            ConfigReport::conclude(level.name(), flows, cores, runs)
        };
        let configs: Vec<ConfigReport> = options.levels.iter().map(config).collect();
        let flames = self.stacks.into_iter().flat_map(|(level, stacks)| flames(level, &stacks)).collect();
        let report = ProfileReport {
            schema: ProfileReport::SCHEMA.to_owned(),
            host,
            pattern: options.pattern.name().to_owned(),
            rpc_bytes: match options.load {
                Load::Bulk => None,
                Load::Requests(bytes) => Some(bytes.get()),
            },
            conditions: Conditions {
                clock: self.clock.map_or("none", Clock::name).to_owned(),
                sample_hz: self.rate.unwrap_or(options.rate).hertz(),
                categories: categories.version().to_owned(),
            },
            repeats: options.repeats,
            advice: configs.iter().flat_map(advice::of).collect(),
            configs,
            missing: largest(self.missing),
            labels,
        };
        Profile { report, flames }
    }
}

fn flames(level: Level, stacks: &Stacks) -> Vec<Flame> {
    let of = |side: Side| {
        let own = stacks.iter().filter(|((s, ..), _)| *s == side);
        let stacks = own.map(|((_, category, frames), seconds)| (*category, frames.clone(), *seconds));
        Flame { level: level.name().to_owned(), part: side.name(), stacks: stacks.collect() }
    };
    Side::ALL.map(of).into_iter().filter(|flame| !flame.stacks.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_level_is_first_in_turn() {
        let first: Vec<Level> = (1..=4).map(|repeat| rotated(&Level::STUDY, repeat)[0]).collect();
        assert_eq!(first, Level::STUDY);
        assert_eq!(rotated(&Level::STUDY, 5), Level::STUDY);
    }
}
