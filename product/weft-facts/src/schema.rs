//! The JSON Schema (draft 2020-12) of a document, made from its type: descriptions are the documentation of the fields.
//!
//! A document has no members but those of its type. A member that may be absent is absent and not null, and one that is always there
//! may be null: a reader needs one test for each, not two.

use crate::record::Document;
use schemars::generate::SchemaSettings;
use schemars::transform::{Transform, transform_subschemas};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::marker::PhantomData;

/// Returns the schema of a document.
pub fn of<T: Document>() -> Value {
    named::<T>(T::SCHEMA)
}

/// Returns the schema of `T`, a document whose `schema` member is `title`.
pub fn named<T: JsonSchema>(title: &str) -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize().with_transform(Plain);
    let mut root = settings.into_generator().into_root_schema_for::<T>().to_value();
    root["title"] = json!(title);
    root["$id"] = json!(format!("urn:weftline:schema:{}", title.replace('/', ":")));
    root["properties"]["schema"] =
        json!({ "const": title, "description": "Name and version of this schema." });
    root
}

/// Stands for a map whose keys are the names of an enumeration: in the schema, an object with a member for each, which may be absent.
#[derive(Debug)]
pub struct ByName<K, V>(PhantomData<(K, V)>);

impl<K: JsonSchema, V: JsonSchema> JsonSchema for ByName<K, V> {
    fn schema_name() -> Cow<'static, str> {
        let value = match V::schema_name().as_ref() {
            "double" => String::new(),
            "Nullable_double" => "Known".to_owned(),
            name => name.to_owned(),
        };
        format!("{value}By{}", K::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let value = generator.subschema_for::<V>();
        let of = |(name, description): (String, Option<String>)| {
            let mut member = value.clone();
            if let Some(text) = description {
                member.insert("description".to_owned(), Value::String(text));
            }
            (name, member.to_value())
        };
        let members: Map<String, Value> =
            names(&K::json_schema(generator).to_value()).into_iter().map(of).collect();
        json_schema!({ "type": "object", "properties": members, "additionalProperties": false })
    }
}

/// The names that an enumeration has in documents, each with its description.
fn names(schema: &Value) -> Vec<(String, Option<String>)> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let plain = schema.get("enum").and_then(Value::as_array).into_iter().flatten();
    let described = schema.get("oneOf").and_then(Value::as_array).into_iter().flatten();
    let described = described.flat_map(|one| {
        let several = one.get("enum").and_then(Value::as_array).into_iter().flatten();
        several.chain(one.get("const")).map(|name| (text(name), one.get("description").and_then(text)))
    });
    plain.map(|name| (text(name), None)).chain(described).filter_map(|(name, of)| Some((name?, of))).collect()
}

/// Closes objects to unknown members, takes null from members that may be absent, writes an enumeration as a list of its names, and
/// leaves out what only Rust needs.
#[derive(Clone, Copy, Debug)]
struct Plain;

impl Transform for Plain {
    fn transform(&mut self, schema: &mut Schema) {
        // The width of an integer, and what a reader of this crate takes for a member that is absent.
        for key in ["format", "maximum", "default"] {
            schema.remove(key);
        }
        if let Some(object) = schema.as_object_mut() {
            enumerate(object);
            number_keys(object);
            close(object);
        }
        transform_subschemas(self, schema);
    }
}

/// Writes a choice of constants as a list, with their descriptions behind that of the whole.
fn enumerate(object: &mut Map<String, Value>) {
    let names = names(&Value::Object(object.clone()));
    if !object.contains_key("oneOf") || names.is_empty() {
        return;
    }
    object.remove("oneOf");
    let described = names.iter().filter_map(|(name, of)| Some(format!("`{name}`: {}", of.as_ref()?)));
    let whole = object.get("description").and_then(Value::as_str).map(str::to_owned);
    let text: Vec<String> = whole.into_iter().chain(described).collect();
    if !text.is_empty() {
        object.insert("description".to_owned(), json!(text.join(" ")));
    }
    object.insert("type".to_owned(), json!("string"));
    object.insert("enum".to_owned(), names.into_iter().map(|(name, _)| name).collect());
}

/// Writes the values of a map whose keys are numbers as those of one with any keys, as JSON has no other.
fn number_keys(object: &mut Map<String, Value>) {
    if let Some(Value::Object(patterns)) = object.remove("patternProperties")
        && let Some(value) = patterns.into_iter().next().map(|(_, value)| value)
    {
        object.insert("additionalProperties".to_owned(), value);
    }
}

/// Closes a struct. An object that says already what else it may have is a map, whose values are as they are.
fn close(object: &mut Map<String, Value>) {
    if object.contains_key("additionalProperties") {
        return;
    }
    let required: Vec<Value> = object.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    let Some(properties) = object.get_mut("properties").and_then(Value::as_object_mut) else { return };
    for (name, property) in properties.iter_mut() {
        if !required.iter().any(|of| of == name) {
            not_null(property);
        }
    }
    object.insert("additionalProperties".to_owned(), Value::Bool(false));
}

/// Takes null from the values that `property` allows.
fn not_null(property: &mut Value) {
    if let Some(types) = property.get_mut("type").and_then(Value::as_array_mut) {
        types.retain(|of| of != "null");
        if let [only] = types.as_slice() {
            property["type"] = only.clone();
        }
    }
    if let Some(values) = property.get_mut("enum").and_then(Value::as_array_mut) {
        values.retain(|of| !of.is_null());
    }
    let Some(choices) = property.get_mut("anyOf").and_then(Value::as_array_mut) else { return };
    choices.retain(|of| of.get("type").is_none_or(|of| of != "null"));
    if let [Value::Object(only)] = choices.as_slice() {
        let only = only.clone();
        if let Some(property) = property.as_object_mut() {
            property.remove("anyOf");
            property.extend(only);
        }
    }
}
