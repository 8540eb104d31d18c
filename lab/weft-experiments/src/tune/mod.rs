//! `weft tune`: candidates for a host's settings, simulated on this host's scenario, and tried with real traffic.
//!
//! 1. `host` makes a scenario of the host's facts ([`weft_host::transmit`]), and reports what it assumes and what it needs.
//! 2. `candidates` lists other settings, with the commands that set them; `experiments/tune.toml` has what each changes.
//! 3. `simulated` runs the present setting and all candidates with the same seeds, and the best of them with further ones.
//! 4. `measured` tries the best of them between two namespaces, by the trials of `weft-profile`.
//!    `on_device` tries them at the host's own device, towards another host.
//! 5. The document ranks and judges ([`weft_report::tune`]).

mod candidates;
mod host;
mod measured;
mod on_device;
mod simulated;

use crate::catalogue::overlay::{KeyedValue, OverlayError};
use crate::predict::Machine;
use crate::reproduce::{ExperimentFileError, file};
use weft_facts::record::Host;
use weft_host::transmit::Facts;
use weft_profile::error::ProfileError;
use weft_profile::hosts::HostsError;
use weft_report::tune::{Candidate, TuneReport, Wish};
use weft_sim::run::RunError;
use weft_sim::scenario;
use weft_text::LocatedError;
use weft_units::BitsPerSec;

pub use candidates::QDISCS;
pub use measured::{TrialPeer, TryOptions};

/// The options of the advice.
#[derive(Clone, Debug)]
pub struct TuneOptions {
    /// The wish.
    pub wish: Wish,
    /// The rate of the link, in place of the driver's.
    pub rate: Option<BitsPerSec>,
    /// The number of bulk flows.
    pub flows: Option<u32>,
    /// Values of the scenario.
    pub sets: Vec<KeyedValue>,
    /// The costs of this machine's work.
    pub machine: Option<Machine>,
    /// Seeds of the ranking; as many more decide.
    pub seeds: u32,
    /// The first seed.
    pub seed: u64,
    /// Concurrent runs.
    pub threads: usize,
    /// Real traffic, if it is asked for.
    pub try_best: Option<TryOptions>,
}

/// A step that was done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TuneStep {
    /// Runs of the simulator, done and in all.
    Simulated {
        /// Done.
        done: u32,
        /// In all.
        of: u32,
    },
    /// Trials with real traffic, done and in all.
    Tried {
        /// Done.
        done: u32,
        /// In all.
        of: u32,
        /// The last one.
        what: String,
    },
}

/// Advice.
#[derive(Clone, Debug)]
pub struct Tuned {
    /// The document.
    pub report: TuneReport,
    /// The scenario of the present setting as a file's text; `None` if what decides is unknown.
    pub scenario: Option<String>,
}

/// The reason that there is no advice at all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TuneError {
    /// The file of the candidates is invalid.
    #[error(transparent)]
    File(#[from] ExperimentFileError),
    /// A value does not fit the scenario.
    #[error(transparent)]
    Setting(#[from] OverlayError),
    /// The scenario, or the file of costs, is invalid.
    #[error(transparent)]
    Scenario(#[from] LocatedError),
    /// A simulation failed.
    #[error("{candidate}: {error}")]
    Run {
        /// The candidate.
        candidate: String,
        /// The reason.
        error: RunError,
    },
    /// A trial failed.
    #[error("{candidate}, tried: {error}")]
    Tried {
        /// The candidate.
        candidate: String,
        /// The reason.
        error: Box<ProfileError>,
    },
    /// Trials with the other host failed.
    #[error(transparent)]
    Hosts(#[from] Box<HostsError>),
    /// The caller asked to stop.
    #[error("stopped")]
    Stopped,
}

/// Advises. `heard` receives each step.
///
/// # Errors
/// If a value of the user's does not fit, a run fails, or the caller asks to stop.
pub fn run(
    facts: &Facts,
    options: &TuneOptions,
    host: Host,
    stop: &(dyn Fn() -> bool + Sync),
    heard: &mut dyn FnMut(TuneStep),
) -> Result<Tuned, TuneError> {
    let parameters = file::parameters(candidates::PARAMETERS)?;
    let built = host::scenario(&parameters, facts, options)?;
    let mut report = TuneReport {
        host,
        seed: options.seed,
        wish: options.wish,
        device: facts.device.clone(),
        facts: host::in_words(facts),
        assumed: built.assumed.clone(),
        unknown: built.unknown.clone(),
        costs: costs(options),
        seeds: options.seeds,
        labels: labels(options),
        ..TuneReport::default()
    };
    if !report.unknown.is_empty() {
        return Ok(Tuned { report: report.finish(), scenario: None });
    }
    let cells = simulated::cells(&parameters, &built.document, facts, options)?;
    let text = cells.first().and_then(|cell| cell.scenario.as_ref()).map(scenario::write);
    let deciding = 2;
    let of = options.seeds * (simulated::runs(&cells) + deciding);
    let mut done = 0;
    let mut step = |runs: u32| {
        done += runs;
        heard(TuneStep::Simulated { done, of });
    };
    report.candidates = simulated::rank(&cells, options, stop, &mut step)?;
    let mut report = report.finish();
    simulated::decide(&cells, &mut report, options, stop, &mut step)?;
    report = report.finish();
    if let Some(try_best) = &options.try_best {
        match &try_best.peer {
            None => measured::fill(&mut report, facts, (options, try_best), stop, heard)?,
            Some(peer) => on_device::fill(&mut report, facts, (options, try_best, peer), stop, heard)?,
        }
        report = report.finish();
    }
    Ok(Tuned { report, scenario: text })
}

fn costs(options: &TuneOptions) -> String {
    match &options.machine {
        Some(machine) => machine.name.clone(),
        None => {
            "those of another machine (Xeon Gold 6128, SIGCOMM'21), since --machine gives none".to_owned()
        }
    }
}

/// The trust that the simulator's order of settings deserves (docs/simulator.md, "Out of sample").
fn labels(options: &TuneOptions) -> Vec<String> {
    let trust = match options.wish {
        Wish::Fairness => {
            "Kendall's tau is .65 to .74 for the order of settings in Titan's tables to which nothing was fitted"
        }
        Wish::Latency => {
            "Kendall's tau is .53 to .58 for the order of settings in Titan's tables: often the wrong order"
        }
        Wish::Throughput => {
            "in Titan's tables the link limits nearly all settings, so their order was not tested"
        }
        Wish::Processor => {
            "Kendall's tau is .24 to .30 for the order of settings in Titan's tables: mostly not the order"
        }
    };
    vec![format!("The simulator of {}: {trust} (docs/simulator.md); --try measures.", options.wish.name())]
}

/// A candidate of the document, without runs.
fn entry(plan: &candidates::Plan) -> Candidate {
    Candidate {
        name: plan.name.to_owned(),
        present: plan.name == candidates::PRESENT,
        change: plan.change.to_owned(),
        source: candidates::source(plan.name),
        commands: plan.commands.clone(),
        ..Candidate::default()
    }
}
