//! The figures of a run that a campaign keeps.

use crate::record::NamedFigures;
use weft_facts::stats;
use weft_sim::outcome::{FlowOutcome, Latencies, RunOutcome};
use weft_sim::scenario::Scenario;
use weft_units::Nanos;

/// The kind of these figures in a result's identity; a change of a figure's meaning is another kind.
pub const KIND: &str = "figures/1";

/// Returns the figures of a run (docs/campaigns.md lists them). Names end with the probe, the group of flows, the class or the host that they are about.
pub fn figures(scenario: &Scenario, outcome: &RunOutcome) -> NamedFigures {
    let mut all = NamedFigures::new();
    let seconds = outcome.measured.as_secs_f64();
    let mut put = |name: String, value: Option<f64>| {
        all.insert(name, value.filter(|value| value.is_finite()));
    };
    put("throughput_bps".to_owned(), Some(outcome.throughput().0 as f64));
    put("measured_s".to_owned(), Some(seconds));
    for fairness in &outcome.fairness {
        let interval = fairness.interval.to_string().replace(' ', "");
        put(format!("nfm_mean.{interval}"), fairness.mean);
        put(format!("nfm_max.{interval}"), fairness.max);
    }
    for (probe, latencies) in scenario.probes.iter().zip(&outcome.probes) {
        distribution("probe", &probe.name, &seconds_of([latencies]), &mut put);
    }
    for (index, group) in scenario.flows.iter().enumerate() {
        let flows: Vec<&FlowOutcome> =
            outcome.flows.iter().filter(|flow| flow.group as usize == index).collect();
        let name = &group.name;
        let bits = |bytes: u64| bytes as f64 * 8.0 / seconds;
        put(format!("received_bps.{name}"), Some(bits(flows.iter().map(|flow| flow.received.0).sum())));
        let retransmitted: u64 = flows.iter().map(|flow| flow.retransmitted).sum();
        put(format!("retransmitted.{name}"), Some(retransmitted as f64));
        let completions: Vec<f64> =
            flows.iter().filter_map(|flow| flow.completion).map(Nanos::as_secs_f64).collect();
        if !completions.is_empty() {
            put(format!("completed.{name}"), Some(completions.len() as f64));
            distribution("completion", name, &completions, &mut put);
        }
        let requests = seconds_of(flows.iter().map(|flow| &flow.requests));
        if !requests.is_empty() {
            distribution("request", name, &requests, &mut put);
        }
    }
    for host in 0..outcome.cpu.len() {
        put(format!("busy.{host}"), Some(outcome.busy(host)));
    }
    for (class, backlog) in scenario.classes.iter().zip(&outcome.counters.backlog_bytes) {
        put(format!("backlog_bytes.{class}"), Some(backlog.0 as f64));
    }
    let counters = &outcome.counters;
    let dropped: u64 = outcome.balances.iter().map(|stage| stage.balance.dropped().packets.0).sum();
    for (name, count) in [
        ("events", outcome.events),
        ("packets", counters.packets),
        ("dropped_packets", dropped),
        ("doorbells", counters.doorbells),
        ("interrupts", counters.interrupts),
        ("reordered_packets", counters.reordered),
        ("retransmission_timeouts", counters.retransmission_timeouts),
    ] {
        put(name.to_owned(), Some(count as f64));
    }
    all
}

fn seconds_of<'a>(all: impl IntoIterator<Item = &'a Latencies>) -> Vec<f64> {
    all.into_iter().flat_map(|latencies| &latencies.samples).map(|sample| sample.as_secs_f64()).collect()
}

/// Puts the mean, percentiles and the maximum of samples in seconds.
fn distribution(what: &str, of: &str, samples: &[f64], put: &mut impl FnMut(String, Option<f64>)) {
    let ascending = stats::sorted(samples);
    put(format!("{what}_mean_s.{of}"), stats::mean(samples));
    for p in [50.0, 90.0, 99.0] {
        put(format!("{what}_p{p}_s.{of}"), stats::percentile_sorted(&ascending, p));
    }
    put(format!("{what}_max_s.{of}"), ascending.last().copied());
}
