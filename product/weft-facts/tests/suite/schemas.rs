//! Documents match `docs/schemas` and survive writing and reading; the schemas refuse invalid ones.

use crate::document::check;
use crate::fixture;
use weft_facts::record::Document;

#[test]
fn documents_are_what_their_schemas_say() {
    check(&fixture::apply_report());
    check(&fixture::replay_report());
    check(&fixture::policy_check_report());
    check(&fixture::policy_cost_report());
    check(&fixture::policy_explain_report());
    check(&fixture::policy_diff_report());
    check(&fixture::policy_test_report());
    check(&fixture::doctor_report());
    check(&fixture::run_report());
    check(&fixture::steer::models());
    check(&fixture::steer::plan());
    check(&fixture::steer::verify());
    check(&fixture::steer::import());
    check(&fixture::steer::probe());
    check(&fixture::titan::status());
    check(&fixture::service::status());
    check(&fixture::service::config());
    check(&fixture::service::tenants());
}

/// Counters above zero are noted with their names, by class, by port and in all.
#[test]
fn rare_events_are_noted_below_the_tables() {
    let text = |tables: Vec<weft_facts::table::Table>| -> String {
        tables.iter().map(|table| table.render(false)).collect()
    };
    let run = text(fixture::run_report().tables());
    for note in ["vm1: late_claims 40", "vm2: late_claims 1", "counted: cut_packets 5"] {
        assert!(run.contains(note), "{note}: {run}");
    }
    let status = text(fixture::service::status().tables());
    for note in
        ["class web: late_claims 4", "port weft0: unknown_makers 2", "counted in all: unknown_makers 2"]
    {
        assert!(status.contains(note), "{note}: {status}");
    }
    assert!(!run.contains("strays") && !status.contains("strays"), "{run}{status}");
}
