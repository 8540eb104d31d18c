//! From outcomes to the document of `weft sim`.

use crate::host_facts;
use std::collections::BTreeMap;
use weft_report::record::{Conservation, Document, Ledger, Station};
use weft_report::sim::{SimFairness, SimFlow, SimLatency, SimReport, SimSpread};
use weft_sim::cost::Category;
use weft_sim::outcome::{Latencies, Outcome};
use weft_sim::scenario::Scenario;
use weft_units::Nanos;

/// A run and its seed.
#[derive(Debug)]
pub struct Run {
    /// The seed.
    pub seed: u64,
    /// What came out.
    pub outcome: Outcome,
}

/// The document of a scenario's runs; none without a run. `wall_s` is how long they took together.
pub fn report(scenario: &Scenario, runs: &[Run], wall_s: f64) -> Option<SimReport> {
    let first = runs.first()?;
    let outcome = &first.outcome;
    let sim_s = outcome.measured.as_secs_f64();
    let groups =
        |group: u32| scenario.flows.get(group as usize).map_or_else(String::new, |group| group.name.clone());
    let flows = outcome.flows.iter().map(|flow| SimFlow {
        group: groups(flow.group),
        bytes: flow.bytes.0,
        bps: flow.bytes.0 as f64 * 8.0 / sim_s.max(1e-9),
        received_bytes: flow.received.0,
        completion_s: flow.completion.map(Nanos::as_secs_f64),
        retransmitted: flow.retransmitted,
    });
    let cpu = outcome.cpu.iter().map(|host| host.iter().map(by_category).collect());
    Some(SimReport {
        schema: SimReport::SCHEMA.to_owned(),
        host: host_facts::detect(),
        seed: first.seed,
        seeds: runs.len() as u32,
        scenario: scenario.name.clone(),
        events: runs.iter().map(|run| run.outcome.events).sum(),
        wall_s,
        sim_s,
        throughput_bps: outcome.throughput().0 as f64,
        flows: flows.collect(),
        nfm: nfm(outcome),
        latency_s: latencies(scenario, outcome),
        cpu: cpu.collect(),
        spread: spread(runs),
        conservation: conservation(outcome),
        counters: counters(outcome),
    })
}

fn by_category(core: &[f64; 8]) -> BTreeMap<String, f64> {
    Category::ALL
        .iter()
        .zip(core)
        .map(|(category, nanos)| (category.name().to_owned(), nanos * 1e-9))
        .collect()
}

fn nfm(outcome: &Outcome) -> BTreeMap<String, SimFairness> {
    let fairness = outcome.fairness.iter().map(|fairness| {
        let value = SimFairness { mean: fairness.mean, max: fairness.max, windows: fairness.windows };
        (fairness.interval.to_string().replace(' ', ""), value)
    });
    fairness.collect()
}

fn latencies(scenario: &Scenario, outcome: &Outcome) -> BTreeMap<String, SimLatency> {
    let seconds =
        |all: &Latencies| all.samples.iter().map(|sample| sample.as_secs_f64()).collect::<Vec<f64>>();
    let mut named: Vec<(String, Vec<f64>)> = scenario
        .probes
        .iter()
        .zip(&outcome.probes)
        .map(|(probe, latencies)| (probe.name.clone(), seconds(latencies)))
        .collect();
    for (index, group) in scenario.flows.iter().enumerate() {
        let here = outcome.flows.iter().filter(|flow| flow.group as usize == index);
        named.push((
            format!("{} requests", group.name),
            here.flat_map(|flow| seconds(&flow.requests)).collect(),
        ));
    }
    named.into_iter().filter_map(|(name, samples)| Some((name, SimLatency::of(&samples)?))).collect()
}

/// Mean and range over the seeds of what is one number per run.
fn spread(runs: &[Run]) -> BTreeMap<String, SimSpread> {
    let mut values: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for run in runs {
        values.entry("throughput_bps".to_owned()).or_default().push(run.outcome.throughput().0 as f64);
        for (interval, fairness) in nfm(&run.outcome) {
            values.entry(format!("nfm {interval}")).or_default().extend(fairness.mean);
        }
        for host in 0..run.outcome.cpu.len() {
            values.entry(format!("busy processors, host {host}")).or_default().push(run.outcome.busy(host));
        }
    }
    values.into_iter().filter_map(|(name, values)| Some((name, SimSpread::of(&values)?))).collect()
}

/// The books of a run, as reports have them.
pub fn conservation(outcome: &Outcome) -> Conservation {
    let ledger = |station: &weft_sim::outcome::Station| Ledger {
        in_packets: station.entered.packets.0,
        in_bytes: station.entered.bytes.0,
        out_packets: station.left.packets.0,
        out_bytes: station.left.bytes.0,
        dropped_packets: station.dropped.packets.0,
        dropped_bytes: station.dropped.bytes.0,
        held_packets: station.held.packets.0,
        held_bytes: station.held.bytes.0,
    };
    let network = outcome.books.iter().find(|station| station.name == "network").map(ledger);
    let stations =
        outcome.books.iter().map(|station| Station { name: station.name.clone(), ledger: ledger(station) });
    Conservation {
        total: network.unwrap_or_default(),
        stations: stations.collect(),
        ..Conservation::default()
    }
}

fn counters(outcome: &Outcome) -> BTreeMap<String, u64> {
    let counters = &outcome.counters;
    let named = [
        ("segments", counters.segments),
        ("packets", counters.packets),
        ("doorbells", counters.doorbells),
        ("doorbells_unbatched", counters.doorbells_unbatched),
        ("weight_updates", counters.weight_updates),
        ("interrupts", counters.interrupts),
        ("resegmented", counters.resegmented),
        ("acknowledgements", counters.acknowledgements),
        ("socket_drops", counters.socket_drops),
        ("reordered", counters.reordered),
    ];
    named.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
