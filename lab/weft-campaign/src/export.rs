//! Results as a table: a row per run, with its parameters and figures.

use crate::figures::KIND;
use crate::key::ResultKey;
use crate::record::ResultRecord;
use crate::scalar::Scalar;
use crate::store::{Lookup, ResultStore, ResultStoreError};
use core::cmp::Ordering;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::io::{self, Write};
use thiserror::Error;
use weft_report::campaign::{CampaignResults, CampaignRun};
use weft_sim::MODEL_VERSION;
use weft_trace::table::{self, CellValue, ColumnKind, TableWriteError, TableWriter, TypedColumn};

/// The schema of the document.
const SCHEMA: &str = CampaignResults::SCHEMA;

/// The form of an export.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExportFormat {
    /// Comma-separated values (RFC 4180), with a line of names.
    Csv,
    /// A document of the schema `weft-campaign`.
    Json,
    /// Apache Parquet: figures as doubles, parameters as whole numbers, doubles or booleans if all of their values are, otherwise as
    /// texts, as in CSV.
    Parquet,
}

/// The reason that results cannot be exported.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CampaignExportError {
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] ResultStoreError),
    /// The table cannot be written.
    #[error(transparent)]
    Write(#[from] io::Error),
    /// The Parquet file cannot be written.
    #[error(transparent)]
    Table(#[from] TableWriteError),
}

/// The contents of an export.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Exported {
    /// Results in the table.
    pub rows: u64,
    /// Results of other versions of the model, which were left out.
    pub other_models: u64,
    /// Files that are no results.
    pub broken: u64,
}

/// A row of the table, until it is written.
struct Row {
    parameters: Map<String, Value>,
    seed: u64,
    key: ResultKey,
}

/// The rows in the order of the table, and the names of its columns.
#[derive(Default)]
struct Index {
    rows: Vec<Row>,
    parameters: BTreeSet<String>,
    figures: BTreeSet<String>,
    told: Exported,
}

/// Writes the results of this version of the model, ordered by parameters and seed. In memory are only the parameters of each.
///
/// # Errors
/// If the store cannot be read, or the table not written.
pub fn export(
    store: &ResultStore,
    format: ExportFormat,
    out: &mut (dyn Write + Send),
) -> Result<Exported, CampaignExportError> {
    let index = index(store)?;
    match format {
        ExportFormat::Csv => csv(store, &index, out)?,
        ExportFormat::Json => document(store, &index, out)?,
        ExportFormat::Parquet => parquet(store, &index, out)?,
    }
    out.flush()?;
    Ok(index.told)
}

/// Tells each result of this version of the model, in the order of the table.
///
/// # Errors
/// If the store cannot be read.
pub fn each(store: &ResultStore, tell: &mut dyn FnMut(&ResultRecord)) -> Result<Exported, ResultStoreError> {
    let index = index(store)?;
    for row in &index.rows {
        if let Some(record) = record(store, row)? {
            tell(&record);
        }
    }
    Ok(index.told)
}

fn index(store: &ResultStore) -> Result<Index, ResultStoreError> {
    let mut index = Index::default();
    for key in store.keys() {
        let key = key?;
        match store.look(&key)? {
            Lookup::Whole(ResultRecord { identity, .. }) if identity.kind != KIND => {}
            Lookup::Whole(ResultRecord { identity, .. }) if identity.model != MODEL_VERSION => {
                index.told.other_models += 1;
            }
            Lookup::Whole(ResultRecord { identity, figures }) => {
                index.parameters.extend(identity.parameters.keys().cloned());
                index.figures.extend(figures.into_keys());
                index.rows.push(Row { parameters: identity.parameters, seed: identity.seed, key });
            }
            Lookup::Broken(_) => index.told.broken += 1,
            Lookup::Missing => {}
        }
    }
    index.rows.sort_by(|a, b| order(&index.parameters, a, b));
    index.told.rows = index.rows.len() as u64;
    Ok(index)
}

fn order(parameters: &BTreeSet<String>, a: &Row, b: &Row) -> Ordering {
    let by_parameter = parameters.iter().map(|name| compare(a.parameters.get(name), b.parameters.get(name)));
    let first = by_parameter.into_iter().find(|order| order.is_ne());
    first.unwrap_or(Ordering::Equal).then(a.seed.cmp(&b.seed)).then_with(|| a.key.cmp(&b.key))
}

/// Compares numbers and quantities by value, other values as texts.
fn compare(a: Option<&Value>, b: Option<&Value>) -> Ordering {
    let scalar = |value: &Value| match value {
        Value::Number(number) => Scalar::Number(number.as_f64().unwrap_or_default()),
        Value::String(text) => Scalar::of_text(text),
        other => Scalar::Text(other.to_string()),
    };
    match (a, b) {
        (Some(a), Some(b)) => {
            let by_value = scalar(a).order(&scalar(b));
            by_value.unwrap_or_else(|| cell(Some(a)).cmp(&cell(Some(b))))
        }
        _ => a.is_some().cmp(&b.is_some()),
    }
}

/// Returns the result of a row; `None` if it has gone meanwhile.
fn record(store: &ResultStore, row: &Row) -> Result<Option<ResultRecord>, ResultStoreError> {
    Ok(match store.look(&row.key)? {
        Lookup::Whole(record) => Some(record),
        _ => None,
    })
}

fn csv(store: &ResultStore, index: &Index, out: &mut (dyn Write + Send)) -> Result<(), CampaignExportError> {
    let fixed = ["seed", "model"].map(str::to_owned);
    let names: Vec<String> =
        index.parameters.iter().chain(&fixed).chain(&index.figures).map(|name| quoted(name)).collect();
    writeln!(out, "{}", names.join(","))?;
    for row in &index.rows {
        let Some(record) = record(store, row)? else { continue };
        let mut cells: Vec<String> =
            index.parameters.iter().map(|name| quoted(&cell(row.parameters.get(name)))).collect();
        cells.push(row.seed.to_string());
        cells.push(record.identity.model.to_string());
        let figure = |name: &String| record.figures.get(name).copied().flatten();
        cells.extend(
            index.figures.iter().map(|name| figure(name).map_or_else(String::new, |f| f.to_string())),
        );
        writeln!(out, "{}", cells.join(","))?;
    }
    Ok(())
}

fn parquet(
    store: &ResultStore,
    index: &Index,
    out: &mut (dyn Write + Send),
) -> Result<(), CampaignExportError> {
    let kinds: Vec<ColumnKind> = index.parameters.iter().map(|name| kind(index, name)).collect();
    let parameters =
        index.parameters.iter().zip(&kinds).map(|(name, kind)| TypedColumn::optional(name, *kind));
    let fixed = ["seed", "model"].map(|name| TypedColumn::new(name, ColumnKind::Whole));
    let figures = index.figures.iter().map(|name| TypedColumn::optional(name, ColumnKind::Real));
    let columns = parameters.chain(fixed).chain(figures).collect();
    let mut table = TableWriter::new(out, table::TableFormat::Parquet, SCHEMA, columns)?;
    for row in &index.rows {
        let Some(record) = record(store, row)? else { continue };
        let texts: Vec<String> = index.parameters.iter().map(|name| cell(row.parameters.get(name))).collect();
        let values = index.parameters.iter().map(|name| row.parameters.get(name));
        let parameters =
            values.zip(&kinds).zip(&texts).map(|((value, kind), text)| typed(value, *kind, text));
        let mut cells: Vec<CellValue<'_>> = parameters.collect();
        cells.push(CellValue::Whole(row.seed));
        cells.push(CellValue::Whole(u64::from(record.identity.model)));
        let figure = |name: &String| record.figures.get(name).copied().flatten();
        cells.extend(index.figures.iter().map(|name| figure(name).map_or(CellValue::None, CellValue::Real)));
        table.row(&cells)?;
    }
    table.finish()?;
    Ok(())
}

/// Returns a value as a cell of a column of this type; `text` is its text.
fn typed<'a>(value: Option<&Value>, kind: ColumnKind, text: &'a str) -> CellValue<'a> {
    let of = |value: &Value| match kind {
        ColumnKind::Whole => value.as_u64().map(CellValue::Whole),
        ColumnKind::Real => value.as_f64().map(CellValue::Real),
        ColumnKind::Truth => value.as_bool().map(CellValue::Truth),
        ColumnKind::Text => Some(CellValue::Text(text)),
    };
    value.and_then(of).unwrap_or(CellValue::None)
}

/// Returns the type of a parameter's column: the narrowest that has all of its values.
fn kind(index: &Index, name: &str) -> ColumnKind {
    let all = |is: fn(&Value) -> bool| index.rows.iter().filter_map(|row| row.parameters.get(name)).all(is);
    if all(Value::is_u64) {
        ColumnKind::Whole
    } else if all(Value::is_number) {
        ColumnKind::Real
    } else if all(Value::is_boolean) {
        ColumnKind::Truth
    } else {
        ColumnKind::Text
    }
}

/// Returns a value as the text of a cell.
fn cell(value: Option<&Value>) -> String {
    match value {
        None => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

/// Quotes a cell where CSV needs it.
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

fn document(
    store: &ResultStore,
    index: &Index,
    out: &mut (dyn Write + Send),
) -> Result<(), CampaignExportError> {
    write!(out, "{{\"schema\":{},\"model\":{MODEL_VERSION},\"runs\":[", json!(SCHEMA))?;
    let mut separator = "\n";
    for row in &index.rows {
        let Some(record) = record(store, row)? else { continue };
        let run = CampaignRun { parameters: row.parameters.clone(), seed: row.seed, figures: record.figures };
        write!(out, "{separator}{}", json!(run))?;
        separator = ",\n";
    }
    writeln!(out, "\n]}}")?;
    Ok(())
}
