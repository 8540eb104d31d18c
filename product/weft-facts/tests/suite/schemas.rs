//! Documents match `docs/schemas` and survive writing and reading; the schemas refuse invalid ones.

use crate::fixture;
use crate::schema;
use serde_json::{Value, json};
use weft_facts::json::{from_json, to_json_pretty};
use weft_facts::record::Document;

/// The schema of `T`, which `docs/schemas` has. `UPDATE_EXPECT=1` writes it there.
fn schema_of<T: Document>() -> Value {
    let name = T::SCHEMA.split('/').next().expect("a name");
    let schema = weft_facts::schema::of::<T>();
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    let text = serde_json::to_string_pretty(&schema).expect("JSON") + "\n";
    let path = format!("{}/../../docs/schemas/{name}.schema.json", env!("CARGO_MANIFEST_DIR"));
    expect_test::expect_file![path].assert_eq(&text);
    schema
}

#[track_caller]
fn check<T: Document + PartialEq + std::fmt::Debug>(document: &T) {
    let schema = schema_of::<T>();
    let text = to_json_pretty(document).expect("a document is JSON");
    let value: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(schema::errors(&schema, &value), Vec::<String>::new(), "{}", T::SCHEMA);
    assert_eq!(&from_json::<T>(&text).expect("reads back"), document);
    assert!(text.ends_with("}\n"));
    assert!(!document.tables().is_empty() && document.tables().iter().all(|t| !t.render(false).is_empty()));

    for required in ["schema", "host"] {
        let mut broken = value.clone();
        broken.as_object_mut().expect("an object").remove(required);
        assert!(!schema::errors(&schema, &broken).is_empty(), "{}: {required} is not required", T::SCHEMA);
    }
    let mut broken = value;
    broken["no such field"] = json!(1);
    assert!(!schema::errors(&schema, &broken).is_empty(), "{}: unknown members pass", T::SCHEMA);
}

#[test]
fn documents_are_what_their_schemas_say() {
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
