//! The present setting and the candidates in the simulator.

use super::candidates::{PRESENT, Plan, plans};
use super::{TuneError, TuneOptions, entry};
use crate::catalogue::files::beside_scenarios;
use crate::catalogue::overlay;
use crate::predict::Machine;
use crate::reproduce::file::Parameters;
use crate::simulate::sweep;
use toml::Table;
use weft_facts::stats;
use weft_host::transmit::Facts;
use weft_report::tune::{Candidate, Figures, TuneReport};
use weft_sim::outcome::RunOutcome;
use weft_sim::run::simulate;
use weft_sim::scenario::{self, Scenario};
use weft_text::LocatedError;

/// The percentile of round trips (Titan TR, section 3).
const PERCENTILE: f64 = 90.0;

/// A setting and its scenario, if the simulator has it.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    pub(super) plan: Plan,
    pub(super) scenario: Option<Scenario>,
    pub(super) why_not: Option<String>,
}

/// The present setting, then all candidates.
pub(super) fn cells(
    parameters: &Parameters,
    document: &Table,
    facts: &Facts,
    options: &TuneOptions,
) -> Result<Vec<Cell>, TuneError> {
    let nothing =
        Plan { name: PRESENT, change: "nothing", commands: Vec::new(), values: Vec::new(), why_not: None };
    let machine = options.machine.as_ref();
    let present = scenario(parameters, document.clone(), &nothing, machine)?;
    let mut cells = vec![Cell { plan: nothing, scenario: Some(present.clone()), why_not: None }];
    for plan in plans(facts) {
        let why_not = plan.why_not.clone();
        let made = match why_not {
            Some(why) => Err(why),
            None => match scenario(parameters, document.clone(), &plan, machine) {
                Ok(made) if same(&made, &present) => Err("it is the present setting".to_owned()),
                Ok(made) => Ok(made),
                // What the user set may not go together with it.
                Err(TuneError::Scenario(error)) => Err(error.to_string()),
                Err(error) => return Err(error),
            },
        };
        let (scenario, why_not) = match made {
            Ok(scenario) => (Some(scenario), None),
            Err(why) => (None, Some(why)),
        };
        cells.push(Cell { plan, scenario, why_not });
    }
    Ok(cells)
}

/// Whether two scenarios run the same.
fn same(a: &Scenario, b: &Scenario) -> bool {
    Scenario { name: String::new(), ..a.clone() } == Scenario { name: String::new(), ..b.clone() }
}

/// The scenario of a setting: the document with the setting's configuration and its own values.
pub(super) fn scenario(
    parameters: &Parameters,
    document: Table,
    plan: &Plan,
    machine: Option<&Machine>,
) -> Result<Scenario, TuneError> {
    let mut document = parameters.over(document, None, plan.name)?;
    for (key, value) in &plan.values {
        overlay::apply(&mut document, key, value.clone())?;
    }
    Ok(read(&document, plan.name, machine)?)
}

/// Reads a document with the costs of the machine.
pub(super) fn read(
    document: &Table,
    name: &str,
    machine: Option<&Machine>,
) -> Result<Scenario, LocatedError> {
    let mut files = |path: &str| match machine.filter(|machine| machine.name == path) {
        Some(machine) => Ok(machine.costs.clone()),
        None => beside_scenarios(path),
    };
    scenario::read(&document.to_string(), &format!("the scenario of {name}"), &mut files)
}

/// Settings that are run.
pub(super) fn runs(cells: &[Cell]) -> u32 {
    u32::try_from(cells.iter().filter(|cell| cell.scenario.is_some()).count()).unwrap_or(u32::MAX)
}

/// The entries of the document, with the runs of the ranking.
pub(super) fn rank(
    cells: &[Cell],
    options: &TuneOptions,
    stop: &(dyn Fn() -> bool + Sync),
    step: &mut dyn FnMut(u32),
) -> Result<Vec<Candidate>, TuneError> {
    let with: Vec<(&str, &Scenario)> =
        cells.iter().filter_map(|cell| Some((cell.plan.name, cell.scenario.as_ref()?))).collect();
    let mut figures = several(&with, options.seed, options, stop, step)?.into_iter();
    let one = |cell: &Cell| {
        let ranking = if cell.scenario.is_some() { figures.next().unwrap_or_default() } else { Vec::new() };
        Candidate { not_simulated: cell.why_not.clone(), ranking, ..entry(&cell.plan) }
    };
    Ok(cells.iter().map(one).collect())
}

/// Runs the present setting and the best candidate with further seeds.
pub(super) fn decide(
    cells: &[Cell],
    report: &mut TuneReport,
    options: &TuneOptions,
    stop: &(dyn Fn() -> bool + Sync),
    step: &mut dyn FnMut(u32),
) -> Result<(), TuneError> {
    let Some(best) = report.best().map(|best| best.name.clone()) else { return Ok(()) };
    let wanted = |cell: &&Cell| cell.plan.name == PRESENT || cell.plan.name == best;
    let with: Vec<(&str, &Scenario)> = cells
        .iter()
        .filter(wanted)
        .filter_map(|cell| Some((cell.plan.name, cell.scenario.as_ref()?)))
        .collect();
    let first = options.seed.saturating_add(options.seeds.into());
    let figures = several(&with, first, options, stop, step)?;
    for ((name, _), runs) in with.iter().zip(figures) {
        if let Some(one) = report.candidates.iter_mut().find(|one| one.name == *name) {
            one.deciding = runs;
        }
    }
    Ok(())
}

/// Runs scenarios with the same seeds; returns the figures by scenario.
pub(super) fn several(
    scenarios: &[(&str, &Scenario)],
    first: u64,
    options: &TuneOptions,
    stop: &(dyn Fn() -> bool + Sync),
    step: &mut dyn FnMut(u32),
) -> Result<Vec<Vec<Figures>>, TuneError> {
    let seeds = options.seeds.max(1) as usize;
    // Seeds are the outer loop, so that the time left is known early.
    let one = |job: usize| {
        let (name, scenario) = scenarios[job % scenarios.len()];
        let seed = first.saturating_add((job / scenarios.len()) as u64);
        let run = |error| TuneError::Run { candidate: name.to_owned(), error };
        simulate(scenario, seed).map(|outcome| figures(scenario, &outcome)).map_err(run)
    };
    let results = sweep(scenarios.len() * seeds, options.threads, stop, one, |_| step(1));
    let mut all = vec![Vec::new(); scenarios.len()];
    for (job, result) in results.into_iter().enumerate() {
        all[job % scenarios.len()].push(result.ok_or(TuneError::Stopped)??);
    }
    Ok(all)
}

/// The figures of a run.
pub(super) fn figures(scenario: &Scenario, outcome: &RunOutcome) -> Figures {
    let received: f64 = outcome.flows.iter().map(|flow| flow.received.get() as f64).sum();
    let trips: Vec<f64> =
        outcome.probes.iter().flat_map(|probe| &probe.samples).map(|trip| trip.as_secs_f64()).collect();
    let work: f64 = outcome.work(0).iter().sum();
    let costly = scenario.costs != weft_sim::cost::Costs::FREE && received > 0.0;
    Figures {
        nfm: outcome.fairness.last().and_then(|fairness| fairness.mean),
        latency_s: stats::percentile(&trips, PERCENTILE),
        bps: received * 8.0 / outcome.measured.as_secs_f64().max(1e-9),
        ns_per_byte: costly.then(|| work / received),
    }
}
