//! A checker for the part of JSON Schema (draft 2020-12) that `docs/schemas` uses. An unknown keyword is an error, so that every
//! part of a schema is checked.

use serde_json::{Map, Value};

/// Keywords without an effect on validity.
const SILENT: [&str; 5] = ["$schema", "$id", "$defs", "title", "description"];

/// The violations of `schema` in `value`, each with its place; empty if it is valid.
pub(crate) fn errors(schema: &Value, value: &Value) -> Vec<String> {
    let mut errors = Vec::new();
    check(schema, schema, value, "$", &mut errors);
    errors
}

fn check(root: &Value, schema: &Value, value: &Value, at: &str, errors: &mut Vec<String>) {
    if let Some(allowed) = schema.as_bool() {
        if !allowed {
            errors.push(format!("{at}: not allowed"));
        }
        return;
    }
    let keywords = schema.as_object().unwrap_or_else(|| panic!("{at}: a schema is an object: {schema}"));
    for (keyword, rule) in keywords {
        let holds = match keyword.as_str() {
            k if SILENT.contains(&k) => true,
            "type" => has_type(value, rule),
            "const" => value == rule,
            "enum" => rule.as_array().expect("enum is a list").contains(value),
            "anyOf" => {
                let choices = rule.as_array().expect("anyOf is a list");
                let fits = |choice: &&Value| {
                    let mut errors = Vec::new();
                    check(root, choice, value, at, &mut errors);
                    errors.is_empty()
                };
                choices.iter().any(|choice| fits(&choice))
            }
            "minItems" => value.as_array().is_none_or(|v| v.len() as u64 >= rule.as_u64().expect("a number")),
            "maxItems" => value.as_array().is_none_or(|v| v.len() as u64 <= rule.as_u64().expect("a number")),
            "minimum" => value.as_f64().is_none_or(|v| v >= rule.as_f64().expect("a number")),
            "exclusiveMinimum" => value.as_f64().is_none_or(|v| v > rule.as_f64().expect("a number")),
            "required" => {
                let names = rule.as_array().expect("required is a list").iter().filter_map(Value::as_str);
                value.as_object().is_none_or(|o| names.into_iter().all(|n| o.contains_key(n)))
            }
            "$ref" => {
                let pointer = rule.as_str().and_then(|r| r.strip_prefix('#')).expect("a local reference");
                check(root, root.pointer(pointer).expect("the reference's target"), value, at, errors);
                true
            }
            "items" => {
                for (i, item) in value.as_array().into_iter().flatten().enumerate() {
                    check(root, rule, item, &format!("{at}[{i}]"), errors);
                }
                true
            }
            "properties" => {
                for (name, rule) in rule.as_object().expect("properties is a map") {
                    if let Some(member) = value.get(name) {
                        check(root, rule, member, &format!("{at}.{name}"), errors);
                    }
                }
                true
            }
            "additionalProperties" => {
                additional(root, keywords, rule, value, at, errors);
                true
            }
            other => panic!("{at}: the checker does not know the keyword {other}"),
        };
        if !holds {
            errors.push(format!("{at}: {keyword} {rule} does not hold for {value:.80}"));
        }
    }
}

/// Checks the members that are not in `properties`.
fn additional(
    root: &Value,
    keywords: &Map<String, Value>,
    rule: &Value,
    value: &Value,
    at: &str,
    errors: &mut Vec<String>,
) {
    let named = keywords.get("properties").and_then(Value::as_object);
    for (name, member) in value.as_object().into_iter().flatten() {
        if !named.is_some_and(|n| n.contains_key(name)) {
            check(root, rule, member, &format!("{at}.{name}"), errors);
        }
    }
}

/// Whether `value` has one of the types in `rule`.
fn has_type(value: &Value, rule: &Value) -> bool {
    let is = |name: &Value| match name.as_str().expect("a type's name") {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "number" => value.is_number(),
        "integer" => value.as_f64().is_some_and(|v| v.fract() == 0.0),
        other => panic!("no such type: {other}"),
    };
    rule.as_array().map_or_else(|| is(rule), |names| names.iter().any(is))
}
