//! A thousand workers fill one store in memory. `cargo run --release --package weft-campaign --example fleet` does it with ten million
//! results.

#[path = "../../examples/fleet/model.rs"]
#[allow(dead_code, reason = "the example prints all counts")]
mod model;

use model::{Counts, Fleet, Plan};

fn counts(plan: Plan) -> Counts {
    let folder = tempfile::tempdir().expect("folder");
    Fleet::new(plan, folder.path()).and_then(Fleet::run).expect("a campaign")
}

#[test]
fn a_thousand_workers_that_die_leave_a_whole_store() {
    let counts = counts(Plan { workers: 1_000, results: 50_000, kills: 500, twins: 0, seed: 1 });
    assert_eq!((counts.results, counts.missing, counts.leftovers), (50_000, 0, 0), "{counts:?}");
    assert_eq!((counts.killed, counts.twins), (500, 0));
    // A death loses what its worker has not written, which is made again; nothing else is.
    assert!(counts.lost > 0 && counts.lost <= 4 * counts.killed && counts.found > 0, "{counts:?}");
    assert_eq!((counts.twice, counts.same_run_max), (0, 1));
    // 50,000 results in 65,536 folders.
    assert!(counts.files_max < 20, "{counts:?}");
}

#[test]
fn workers_that_are_wrongly_taken_for_dead_cost_their_runs_only() {
    let counts = counts(Plan { workers: 100, results: 20_000, kills: 100, twins: 2, seed: 2 });
    assert_eq!((counts.results, counts.missing), (20_000, 0), "{counts:?}");
    assert!(counts.twins > 0 && counts.killed > 0 && counts.same_run_max > 1, "{counts:?}");
    assert!(counts.twice <= counts.twins * (20_000 / 100), "{counts:?}");
    // A worker that dies may leave files of results which its twin has made, and no worker makes again.
    assert!(counts.leftovers <= 4 * counts.killed, "{counts:?}");
}

#[test]
fn without_deaths_no_run_is_made_twice() {
    let counts = counts(Plan { workers: 100, results: 5_000, kills: 0, twins: 0, seed: 3 });
    assert_eq!((counts.results, counts.missing), (5_000, 0));
    assert_eq!((counts.lost, counts.twice, counts.found, counts.same_run_max), (0, 0, 0, 1), "{counts:?}");
}
