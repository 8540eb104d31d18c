//! Verdicts on real packets, stricter than `--strict`: a claim that fails or that cannot be shown fails the test. The
//! links are so slow that a machine in other use can still fill them.

use std::collections::BTreeSet;
use weft_experiments::experiments::titan::measured::experiment::{
    MeasureSettings, Results, RowKey, fill, measure,
};
use weft_experiments::experiments::titan::measured::nic;
use weft_experiments::experiments::titan::measured::settings::RunSettings;
use weft_experiments::reproduce::{self, MeasuringOptions, ReproduceOptions};
use weft_report::judgement::Judgement;
use weft_report::reproduce::{Claim, Experiment, TableCell};
use weft_units::{BitsPerSec, Nanos};

/// Whether this machine lets the tests make namespaces, and has the senders.
fn ready(test: &str) -> bool {
    weft_host::testing::privileged(test) && weft_host::testing::has_program(test, "iperf3")
}

/// Fails for claims that fail or cannot be shown.
#[track_caller]
fn assert_shown(claims: &[&Claim], number: usize) {
    println!("{claims:#?}");
    assert_eq!(claims.len(), number);
    let others: Vec<_> = claims
        .iter()
        .filter(|claim| claim.judgement() != Judgement::Holds)
        .map(|claim| claim.judgement())
        .collect();
    assert!(others.is_empty(), "{others:#?}");
}

/// Titan's pair: 12 flows over 8 queues by hash, and with all of Titan.
fn pair(rate: BitsPerSec) -> (Results, RunSettings) {
    let second = Nanos::from_secs(1);
    let settings = RunSettings {
        rate,
        warm_up: second + second,
        duration: second + second + second,
        ..RunSettings::default()
    };
    let how = MeasureSettings { settings: settings.clone(), runs: 2, seed: 1, open: nic::open };
    let keys: BTreeSet<RowKey> = ["C6", "T3"].map(|row| (row.to_owned(), 12)).into();
    let results = measure(&how, &keys, &|| false, &mut |_| ()).unwrap_or_else(|failed| panic!("{failed}"));
    assert_eq!(results.failures, Vec::<String>::new());
    (results, settings)
}

/// Titan's experiment in small: over a second its flows share the link, and the hash's do not (tables 3 and 5 of the
/// report).
#[test]
fn titan_is_fairer_than_the_hash_on_real_packets() {
    let name = "titan_is_fairer_than_the_hash_on_real_packets";
    if !ready(name) {
        return;
    }
    let _alone = weft_host::testing::alone();
    let rate = BitsPerSec(100_000_000);
    let (results, settings) = pair(rate);
    let payload = rate.get() as f64 * 1448.0 / 1538.0;
    let slowest =
        results.runs.values().flatten().map(|run| run.throughput.get() as f64 / payload).fold(1.0, f64::min);
    println!("slowest run: {slowest:.3} of the link");
    assert!(slowest > 0.9, "on a link that idles there is nothing to share: {slowest:.3} of it was used");
    let mut table = Experiment::new("pair", "C6 and T3", "");
    for row in ["C6", "T3"] {
        let (row, column) = (row.to_owned(), "nfm_1s".to_owned());
        table.cells.push(TableCell { row, column, flows: 12, floor: 0.1, ..TableCell::default() });
    }
    let filled = fill(table, &results, &settings);
    let claims: Vec<&Claim> = filled.claims.iter().collect();
    // A tenth of the hash's, and small.
    assert_shown(&claims, 2);
}

/// Loom's Figure 2 on real packets: a limit at each queue lets too much pass, its part at each queue too little, and
/// the policy's limit over all queues holds.
#[test]
fn a_limit_over_all_queues_holds_where_limits_per_queue_do_not() {
    let name = "a_limit_over_all_queues_holds_where_limits_per_queue_do_not";
    if !ready(name) {
        return;
    }
    let _alone = weft_host::testing::alone();
    let settings = RunSettings { duration: Nanos::from_secs(3), ..RunSettings::default() };
    let measure = MeasureSettings { settings, runs: 1, seed: 1, open: nic::open };
    let options = ReproduceOptions {
        ids: vec!["loom-fig2".to_owned()],
        seeds: Some(1),
        seed: 1,
        threads: 1,
        measured: Some(MeasuringOptions { measure, simulate: false }),
        ..ReproduceOptions::default()
    };
    let experiments =
        reproduce::run(&options, &|| false, |_, _| ()).unwrap_or_else(|error| panic!("{error}"));
    let claims: Vec<&Claim> = experiments[0].claims.iter().collect();
    assert_shown(&claims, 3);
}
