//! A document against its schema, for the tests of all crates that have documents.

use crate::schema;
use serde_json::{Value, json};
use weft_facts::json::{from_json, to_json_pretty};
use weft_facts::record::Document;

/// The schema of `T`, which `docs/schemas` has. `UPDATE_EXPECT=1` writes it there.
pub(crate) fn schema_of<T: Document>() -> Value {
    named::<T>(T::SCHEMA)
}

/// The schema of `T`, a document that `title` names.
pub(crate) fn named<T: schemars::JsonSchema>(title: &str) -> Value {
    let name = title.split('/').next().expect("a name");
    let schema = weft_facts::schema::named::<T>(title);
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    let text = serde_json::to_string_pretty(&schema).expect("JSON") + "\n";
    let path = format!("{}/../../docs/schemas/{name}.schema.json", env!("CARGO_MANIFEST_DIR"));
    expect_test::expect_file![path].assert_eq(&text);
    schema
}

/// Asserts that a document is what its schema says, that its schema refuses what it does not have, and that it reads back.
#[track_caller]
pub(crate) fn check<T: Document + PartialEq + std::fmt::Debug>(document: &T) {
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
