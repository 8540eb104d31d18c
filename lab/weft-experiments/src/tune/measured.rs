//! The present setting and the best candidates on real TCP between two namespaces of the run, by the trials of `weft-profile`.
//!
//! The testbed is a veth pair. For fairness and latency a token bucket replaces the link, and packets wait behind it; for the other
//! wishes the processors limit. Each setting belongs to the sender's namespace and ends with it, so nothing of the host changes. The
//! simulator runs the same testbed with the same setting beside it.

use super::simulated::{self, figures};
use super::{TuneError, TuneOptions, TuneStep, candidates, host};
use crate::catalogue::overlay;
use crate::predict::testbed;
use crate::reproduce::file;
use toml::{Table, Value};
use weft_facts::stats;
use weft_host::transmit::Facts;
use weft_profile::categories::Categories;
use weft_profile::error::ProfileError;
use weft_profile::hosts::HostPort;
use weft_profile::level::Level;
use weft_profile::pattern::{FlowCount, FlowLayout, Pattern};
use weft_profile::session::{self, TrialPlan};
use weft_profile::setup::{LinkQdisc, RatedLink, Setup};
use weft_profile::traffic::TrafficLoad;
use weft_profile::trial::{self, First, Instrument, TrialResult};
use weft_report::rounds::Rounds;
use weft_report::tune::{Figures, Tried, TuneReport, Wish};
use weft_sim::run::simulate;
use weft_units::{BitsPerSec, Bytes};

/// The other host of trials.
#[derive(Clone, Debug)]
pub struct TrialPeer {
    /// Its place.
    pub to: HostPort,
    /// The arguments of the process that restores the device if this one is killed (`Device::guard` of `weft-profile`).
    pub guard: &'static [&'static str],
}

/// Options of the trials.
#[derive(Clone, Debug)]
pub struct TryOptions {
    /// Candidates to try, the best first.
    pub most: u32,
    /// Their trials.
    pub trials: TrialPlan,
    /// The table of categories.
    pub categories: Categories,
    /// The other host, if the host's own device is tried; `None` for namespaces.
    pub peer: Option<TrialPeer>,
}

/// A setting in the testbed.
#[derive(Clone, Debug)]
struct Trying {
    name: String,
    setup: Setup,
}

/// Tries the present setting and the best candidates, and enters their runs.
pub(super) fn fill(
    report: &mut TuneReport,
    facts: &Facts,
    (options, try_best): (&TuneOptions, &TryOptions),
    stop: &(dyn Fn() -> bool + Sync),
    heard: &mut dyn FnMut(TuneStep),
) -> Result<(), TuneError> {
    let limited = matches!(options.wish, Wish::Fairness | Wish::Latency);
    let flows = host::flows_of(facts, options);
    let layout = FlowLayout::new(Pattern::OneToOne, FlowCount::Each(flows), &try_best.trials.processors);
    let present = Setup {
        link: limited.then_some(RatedLink { rate: testbed::LINK, qdisc: LinkQdisc::Fifo }),
        limit_output: facts.small_queue,
        segment: facts.segments.map(|segments| segments.size),
    };
    let mut trying = vec![Trying { name: candidates::PRESENT.to_owned(), setup: present.clone() }];
    for one in report.candidates.iter_mut().filter(|one| !one.present && !one.ranking.is_empty()) {
        let is_full = trying.len() > try_best.most as usize;
        let why = match change(&one.name, &present) {
            Err(why) => why.to_owned(),
            Ok(_) if is_full => format!("only the best {} are tried", try_best.most),
            Ok(setup) => {
                trying.push(Trying { name: one.name.clone(), setup });
                continue;
            }
        };
        one.tried = Some(Tried { not_tried: Some(why), ..Tried::default() });
    }
    let how = if limited { "over 1 Gb/s" } else { "as fast as the processors go" };
    report.tried_at = Some(format!("{flows} flows between two namespaces {how}"));
    report.labels.push(format!("The trials' testbed is not {}, whose queues it has not.", facts.device));
    if !layout.shortage.is_empty() {
        report.labels.push(layout.shortage.clone());
    }
    let mut runs = vec![Tried::default(); trying.len()];
    for (one, tried) in trying.iter().zip(&mut runs) {
        tried.simulated = simulate_testbed(one, &layout, (options, limited), stop)?;
    }
    let label = measure(&trying, &mut runs, (try_best, &layout), stop, heard)?;
    report.labels.extend(Some(label).filter(|label| !label.is_empty()));
    for (one, tried) in trying.into_iter().zip(runs) {
        if let Some(candidate) = report.candidates.iter_mut().find(|candidate| candidate.name == one.name) {
            candidate.tried = Some(tried);
        }
    }
    Ok(())
}

/// The testbed's setting with a candidate's change, or the reason that it has none.
fn change(name: &str, present: &Setup) -> Result<Setup, &'static str> {
    const NO_QUEUES: &str =
        "a veth serves no queues in turn; `weft reproduce titan --measured` runs it on the software NIC";
    const NO_LINK: &str = "nothing waits in the testbed of this wish";
    let qdisc = |qdisc| {
        let link = present.link.ok_or(NO_LINK)?;
        Ok(Setup { link: Some(RatedLink { qdisc, ..link }), ..present.clone() })
    };
    let limit = |bytes| Ok(Setup { limit_output: Some(Bytes(bytes)), ..present.clone() });
    let segment = |bytes| Ok(Setup { segment: Some(Bytes(bytes)), ..present.clone() });
    match name {
        "pfifo_fast" => qdisc(LinkQdisc::Fifo),
        "fq_codel" => qdisc(LinkQdisc::FqCodel),
        "sfq" => qdisc(LinkQdisc::Sfq),
        "tsq-256k" => limit(256 << 10),
        "tsq-128k" => limit(128 << 10),
        "segment-32k" => segment(32 << 10),
        "segment-16k" => segment(16 << 10),
        "no-tso" => Err("the trials turn GSO off with TSO, which is another setting"),
        "bql-256k" | "bql-64k" | "interrupts-50us" | "sfq-bql-interrupts" => {
            Err("a veth has neither byte queue limits nor interrupts")
        }
        _ => Err(NO_QUEUES),
    }
}

/// The same testbed in the simulator.
fn simulate_testbed(
    one: &Trying,
    layout: &FlowLayout,
    (options, limited): (&TuneOptions, bool),
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Vec<Figures>, TuneError> {
    const COSTS: &str = "../costs/xeon-gold-6128.toml";
    let machine = options.machine.as_ref();
    let costs = machine.map_or(COSTS, |machine| &machine.name);
    let mut document = testbed::document(layout, costs, limited)?;
    for (key, size) in [
        ("host.stack.small_queue", one.setup.limit_output),
        // A segment without TSO's limit would be refused: it is at least a packet.
        ("host.stack.gso", one.setup.segment.map(|size| size.max(Bytes(1500)))),
    ] {
        if let Some(size) = size {
            overlay::apply(&mut document, key, host::bytes(size))?;
        }
    }
    overlay::apply(&mut document, "probes", probes())?;
    if let Some(duration) = document.get("duration").cloned() {
        overlay::apply(&mut document, "fairness_intervals", Value::Array(vec![duration]))?;
    }
    let is_qdisc = one.setup.link.is_some_and(|link| link.qdisc != LinkQdisc::Fifo);
    if is_qdisc {
        document = file::parameters(candidates::PARAMETERS)?.over(document, None, &one.name)?;
    }
    let scenario = simulated::read(&document, &one.name, machine)?;
    let mut all = Vec::new();
    for seed in (options.seed..).take(options.seeds.max(1) as usize) {
        if stop() {
            return Err(TuneError::Stopped);
        }
        let run = |error| TuneError::Run { candidate: one.name.clone(), error };
        let outcome = simulate(&scenario, seed).map_err(run)?;
        let shared = testbed::figures(&outcome, layout);
        let of_run = figures(&scenario, &outcome);
        let ns_per_byte = of_run.ns_per_byte.map(|_| shared.sender_ns_per_byte);
        all.push(Figures { bps: shared.bps, ns_per_byte, ..of_run });
    }
    Ok(all)
}

/// A ping as the trials have it.
fn probes() -> Value {
    let text = |text: &str| Value::String(text.to_owned());
    let probe = [("size", text("1KiB")), ("interval", text("10ms"))];
    let probe: Table = probe.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    Value::Array(vec![Value::Table(probe)])
}

/// Measures all settings in turns. Returns a label if others use the machine.
fn measure(
    trying: &[Trying],
    runs: &mut [Tried],
    (options, layout): (&TryOptions, &FlowLayout),
    stop: &(dyn Fn() -> bool + Sync),
    heard: &mut dyn FnMut(TuneStep),
) -> Result<String, TuneError> {
    let stop = || stop();
    let trials = &options.trials;
    let instrument =
        |setup| Instrument { flows: true, ..trials.instrument(&options.categories, setup, &stop) };
    let failed = |candidate: &str, error: ProfileError| match error {
        ProfileError::Stopped => TuneError::Stopped,
        error => TuneError::Tried { candidate: candidate.to_owned(), error: Box::new(error) },
    };
    let none = Setup::default();
    let label =
        session::watch(&instrument(&none), trials.loaded).map_err(|error| failed("the machine", error))?;
    let places: Vec<usize> = (0..trying.len()).collect();
    Rounds::measure(trials.repeats, &places, &|| false, |turn| {
        let (one, tried) = (&trying[*turn.variant], &mut runs[*turn.variant]);
        if tried.not_tried.is_some() {
            return Ok(());
        }
        let order = (turn.round, First::of(turn.round));
        let level = (Level::TsoGro, None);
        let what = match trial::run(level, TrafficLoad::Bulk, layout, order, &instrument(&one.setup)) {
            Ok(trial) => {
                let seen = of_trial(&trial);
                tried.measured.push(seen);
                format!("{}, {}", one.name, BitsPerSec(seen.bps.max(0.0) as u64))
            }
            Err(error) if Setup::lacks(&error) => {
                tried.not_tried = Some(error.to_string());
                format!("{}, not possible here", one.name)
            }
            Err(error) => return Err(failed(&one.name, error)),
        };
        heard(TuneStep::Tried { done: turn.done, of: turn.of, what });
        Ok(())
    })?;
    Ok(label)
}

pub(super) fn of_trial(trial: &TrialResult) -> Figures {
    let run = &trial.run;
    let flows = trial.flows.clone().unwrap_or_default();
    let bps = BitsPerSec(run.bare_bps.max(0.0) as u64);
    Figures {
        nfm: stats::nfm(&flows.received, bps, flows.span),
        latency_s: flows.round_trips.p90(),
        bps: run.bare_bps,
        ns_per_byte: (run.work.bytes > 0).then(|| run.sender.total_s() * 1e9 / run.work.bytes as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_candidate_changes_what_it_says_and_nothing_else() {
        let link = Some(RatedLink { rate: testbed::LINK, qdisc: LinkQdisc::Fifo });
        let present = Setup { link, limit_output: Some(Bytes(1 << 20)), segment: Some(Bytes(65_536)) };
        let changed = change("tsq-256k", &present).expect("possible");
        assert_eq!(changed, Setup { limit_output: Some(Bytes(262_144)), ..present.clone() });
        let fair = change("fq_codel", &present).expect("possible");
        assert_eq!(fair.link.map(|link| link.qdisc), Some(LinkQdisc::FqCodel));
        assert!(change("fq_codel", &Setup { link: None, ..present.clone() }).is_err());
        for name in ["dqa", "xps", "bql-64k", "one-queue", "no-tso"] {
            assert!(change(name, &present).is_err(), "{name}");
        }
    }
}
