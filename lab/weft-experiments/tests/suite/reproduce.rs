//! Experiments: all files are consistent, and a small reproduction has the expected cells.

use weft_experiments::reproduce::{self, ReproduceError, ReproduceOptions};
use weft_report::judgement::Judgement;
use weft_report::reproduce::Claim;

fn options(ids: &[&str], seeds: u32, flows: Option<u32>) -> ReproduceOptions {
    let ids = ids.iter().map(|id| (*id).to_owned()).collect();
    ReproduceOptions {
        ids,
        seeds: Some(seeds),
        flows,
        seed: 1,
        transfer: Some("100KB".to_owned()),
        threads: 2,
        time_scale: None,
        measured: None,
        costs: None,
        cache: None,
    }
}

/// Plans every experiment, which reads all files, all scenarios and all metrics, and stops before the first run.
#[test]
fn every_experiment_s_files_fit_together() {
    let stopped = reproduce::run(&options(&[], 1, None), &|| true, |_, _| ());
    assert!(
        matches!(stopped, Err(ReproduceError::Stopped)),
        "{:?}",
        stopped.err().map(|error| error.to_string())
    );
    for id in reproduce::ids() {
        assert!(
            reproduce::title(id).is_some_and(|(title, source)| !title.is_empty() && !source.is_empty()),
            "{id}"
        );
    }
}

#[test]
fn an_unknown_experiment_is_named_with_those_that_there_are() {
    let error =
        reproduce::run(&options(&["titan-tr-table9"], 1, None), &|| false, |_, _| ()).expect_err("unknown");
    let text = error.to_string();
    assert!(text.contains("titan-tr-table9") && text.contains("titan-tr-table3"), "{text}");
}

#[test]
fn a_table_has_all_cells_with_what_was_published() {
    let mut told = Vec::new();
    let done = reproduce::run(&options(&["titan-tr-table3"], 2, Some(3)), &|| false, |done, of| {
        told.push((done, of))
    });
    let experiment = &done.expect("it runs")[0];
    assert_eq!(told.last(), Some(&(32, 32)), "sixteen rows, two seeds");
    assert_eq!(experiment.cells.len(), 16 * 5);
    assert!(
        experiment
            .cells
            .iter()
            .all(|cell| cell.published.is_some() && cell.simulated.is_some() && cell.band.is_some())
    );
    let cell = |row: &str, column: &str| {
        experiment.cells.iter().find(|cell| cell.row == row && cell.column == column).expect("it is there")
    };
    assert_eq!(cell("T1", "nfm_1ms").published, Some(0.0));
    // With a queue for each flow nothing is unfair, and the link is full.
    assert!(cell("T1", "nfm_1s").simulated.is_some_and(|nfm| nfm < 0.01));
    assert!(cell("C6", "throughput_gbps").simulated.is_some_and(|gbps| (gbps - 9.41).abs() < 0.05));
    assert!(experiment.tau.contains_key("latency") && experiment.scores.len() == 5);
}

#[test]
fn other_flow_counts_run_without_published_values() {
    let done =
        reproduce::run(&options(&["titan-tr-fig2"], 1, Some(20)), &|| false, |_, _| ()).expect("it runs");
    assert!(
        done[0]
            .cells
            .iter()
            .all(|cell| cell.flows == 20 && cell.published.is_none() && cell.simulated.is_some())
    );
    // The paper's statements are about other counts.
    assert!(done[0].claims.is_empty());
}

#[test]
fn a_shuffle_takes_its_size_from_the_option_and_completes() {
    let done = reproduce::run(&options(&["titan-tr-fig8"], 1, None), &|| false, |_, _| ()).expect("it runs");
    let experiment = &done[0];
    let time = experiment
        .cells
        .iter()
        .find(|cell| cell.column == "completion_p99_s")
        .and_then(|cell| cell.simulated);
    assert!(time.is_some_and(|time| time < 0.5), "{time:?}");
    // A distribution of 30 completion times for each of three configurations.
    assert_eq!(experiment.series.iter().map(|series| series.x.len()).collect::<Vec<_>>(), [30, 30, 30]);
    assert!(experiment.series.iter().all(|series| series.y.last() == Some(&1.0)));
}

#[test]
fn seeds_make_the_result() {
    let run = |seed| {
        let options = ReproduceOptions { seed, ..options(&["titan-atc17-memcached"], 2, None) };
        let mut done = reproduce::run(&options, &|| false, |_, _| ()).expect("it runs");
        done[0].wall_s = 0.0;
        done
    };
    assert_eq!(run(3), run(3));
    assert_ne!(run(3), run(4));
}

/// The simulator is deterministic, so a lower score is caused by a change. With UPDATE_SCORES set the file is written
/// anew.
#[test]
fn stored_scores_do_not_fall() {
    let (seeds, seed, ids) = reproduce::stored_settings().expect("the file");
    let options = ReproduceOptions {
        ids: ids.clone(),
        seeds: Some(seeds),
        seed,
        threads: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        ..ReproduceOptions::default()
    };
    let experiments = reproduce::run(&options, &|| false, |_, _| ()).expect("it runs");
    if std::env::var_os("UPDATE_SCORES").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/scores.toml");
        std::fs::write(path, reproduce::stored_text(&experiments, seeds, seed)).expect("written");
        return;
    }
    assert_eq!(experiments.len(), ids.len());
    for experiment in &experiments {
        let judged =
            experiment.claims.iter().filter(|claim| claim.statement.starts_with("No score is lower"));
        let judged: Vec<_> = judged.collect();
        assert_eq!(judged.len(), 1, "{}", experiment.id);
        assert!(judged[0].holds, "{}: {}", experiment.id, judged[0].simulated);
    }
}

/// Every claim of every simulated experiment, judged on a separate run: no null model passes, whether the claim
/// holds or not. Shuffles move less than the paper's, and each cell has one run, so whether a claim holds is not
/// evidence here.
#[test]
fn no_claim_passes_on_its_null_model() {
    let simulated = |id: &&str| reproduce::claims_of(id) > 0;
    let ids: Vec<&str> = reproduce::ids().iter().copied().filter(simulated).collect();
    assert!(ids.len() >= 20, "{ids:?}");
    let done = reproduce::run(&options(&ids, 1, None), &|| false, |_, _| ()).expect("it runs");
    let mut judged = 0;
    for experiment in &done {
        let stored = |claim: &&Claim| claim.statement.starts_with("No score is lower");
        let claims: Vec<&Claim> = experiment.claims.iter().filter(|claim| !stored(claim)).collect();
        assert_eq!(
            claims.len(),
            reproduce::claims_of(&experiment.id),
            "{}: one was not judged",
            experiment.id
        );
        for claim in claims {
            assert_eq!(claim.null_passes, Some(false), "{}: {claim:#?}", experiment.id);
            judged += 1;
        }
    }
    assert!(judged > 50, "{judged}");
}

/// The paper's statements hold where they always did.
#[test]
fn claims_hold() {
    let ids = ["loom-fig2", "loom-fig4", "titan-atc17-memcached"];
    let done =
        reproduce::run(&ReproduceOptions { transfer: None, ..options(&ids, 1, None) }, &|| false, |_, _| ());
    for experiment in done.expect("it runs") {
        assert!(experiment.claims.len() >= 2, "{}", experiment.id);
        for claim in &experiment.claims {
            assert_eq!(claim.judgement(), Judgement::Holds, "{}: {claim:#?}", experiment.id);
        }
    }
}
