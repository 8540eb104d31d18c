//! Tables, written row by row.

#[cfg(feature = "parquet")]
mod columns;
#[cfg(not(feature = "parquet"))]
#[path = "without_parquet.rs"]
mod columns;

use csv::ByteRecord;
use std::io::{self, Write};
use std::path::Path;
use thiserror::Error;

/// The type of a column's values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ColumnKind {
    /// Whole numbers from 0: an unsigned integer of 64 bits in Parquet.
    Whole,
    /// Other numbers: a double in Parquet.
    Real,
    /// `true` or `false`: a boolean in Parquet.
    Truth,
    /// A UTF-8 string.
    Text,
}

/// A column.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TypedColumn {
    /// Its name, which ends with the unit of its values where they have one.
    pub name: String,
    /// The type of its values.
    pub kind: ColumnKind,
    /// Whether a row may have no value: null in Parquet, an empty field in CSV.
    pub optional: bool,
}

impl TypedColumn {
    /// A column with a value in each row.
    pub fn new(name: &str, kind: ColumnKind) -> Self {
        Self { name: name.to_owned(), kind, optional: false }
    }

    /// A column in which rows may have no value.
    pub fn optional(name: &str, kind: ColumnKind) -> Self {
        Self { optional: true, ..Self::new(name, kind) }
    }
}

/// A value of a row.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum CellValue<'a> {
    /// No value.
    None,
    /// A value of a [`ColumnKind::Whole`] column.
    Whole(u64),
    /// A value of a [`ColumnKind::Real`] column.
    Real(f64),
    /// A value of a [`ColumnKind::Truth`] column.
    Truth(bool),
    /// A value of a [`ColumnKind::Text`] column.
    Text(&'a str),
}

impl CellValue<'_> {
    /// Whether a column may have the value.
    fn fits(&self, column: &TypedColumn) -> bool {
        match self {
            Self::None => column.optional,
            Self::Whole(_) => column.kind == ColumnKind::Whole,
            Self::Real(_) => column.kind == ColumnKind::Real,
            Self::Truth(_) => column.kind == ColumnKind::Truth,
            Self::Text(_) => column.kind == ColumnKind::Text,
        }
    }
}

impl From<u64> for CellValue<'_> {
    fn from(value: u64) -> Self {
        Self::Whole(value)
    }
}

impl From<Option<u64>> for CellValue<'_> {
    fn from(value: Option<u64>) -> Self {
        value.map_or(Self::None, Self::Whole)
    }
}

impl<'a> From<Option<&'a str>> for CellValue<'a> {
    fn from(value: Option<&'a str>) -> Self {
        value.map_or(Self::None, Self::Text)
    }
}

/// The form of a table's file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TableFormat {
    /// Comma-separated values (RFC 4180), with a line of names.
    Csv,
    /// Apache Parquet, compressed with Snappy.
    Parquet,
}

impl TableFormat {
    /// The form that a file's name selects: Parquet if it ends with `.parquet`, otherwise CSV.
    pub fn of_name(path: &Path) -> Self {
        let parquet = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("parquet"));
        if parquet { Self::Parquet } else { Self::Csv }
    }
}

/// The reason that a table cannot be written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TableWriteError {
    /// The sink returned an error.
    #[error(transparent)]
    Write(#[from] io::Error),
    /// The sink returned an error while it was written to as Parquet, or the values cannot be written as Parquet.
    #[error("{0}")]
    Parquet(Box<str>),
    /// Parquet is not built in.
    #[error("this build has no Parquet: it was made without the cargo feature `parquet`; write CSV instead")]
    NoParquet,
    /// A row does not have the table's columns.
    #[error("a row has {0} in place of the table's columns")]
    Row(Box<str>),
}

impl From<csv::Error> for TableWriteError {
    fn from(error: csv::Error) -> Self {
        Self::Write(error.into())
    }
}

/// A table being written.
#[derive(Debug)]
pub struct TableWriter<W: Write + Send> {
    columns: Vec<TypedColumn>,
    rows: u64,
    form: Form<W>,
}

#[derive(Debug)]
enum Form<W: Write + Send> {
    Csv { table: csv::Writer<W>, record: ByteRecord, field: Vec<u8> },
    Parquet(columns::Parquet<W>),
}

impl<W: Write + Send> TableWriter<W> {
    /// Starts a table. `schema` names its columns' meaning and version, such as `weft-departures/1`; Parquet files have it among
    /// their metadata, under `schema`.
    ///
    /// # Errors
    /// The sink cannot be written, or Parquet is not built in.
    pub fn new(
        sink: W,
        format: TableFormat,
        schema: &str,
        columns: Vec<TypedColumn>,
    ) -> Result<Self, TableWriteError> {
        let form = match format {
            TableFormat::Parquet => Form::Parquet(columns::Parquet::new(sink, schema, &columns)?),
            TableFormat::Csv => {
                let mut table = csv::Writer::from_writer(sink);
                table.write_record(columns.iter().map(|column| &column.name))?;
                Form::Csv { table, record: ByteRecord::new(), field: Vec::new() }
            }
        };
        Ok(Self { columns, rows: 0, form })
    }

    /// Writes a row, whose cells are in the order of the columns.
    ///
    /// # Errors
    /// The sink cannot be written, or a cell does not fit its column.
    pub fn row(&mut self, cells: &[CellValue<'_>]) -> Result<(), TableWriteError> {
        if cells.len() != self.columns.len() {
            return Err(TableWriteError::Row(format!("{} cells", cells.len()).into()));
        }
        if let Some((cell, column)) =
            cells.iter().zip(&self.columns).find(|(cell, column)| !cell.fits(column))
        {
            return Err(TableWriteError::Row(format!("{cell:?} as {}", column.name).into()));
        }
        self.rows += 1;
        match &mut self.form {
            Form::Parquet(parquet) => parquet.row(cells),
            Form::Csv { table, record, field } => {
                record.clear();
                for cell in cells {
                    field.clear();
                    match cell {
                        CellValue::None => {}
                        CellValue::Whole(value) => write!(field, "{value}")?,
                        CellValue::Real(value) => write!(field, "{value}")?,
                        CellValue::Truth(value) => write!(field, "{value}")?,
                        CellValue::Text(text) => field.extend_from_slice(text.as_bytes()),
                    }
                    record.push_field(field);
                }
                Ok(table.write_byte_record(record)?)
            }
        }
    }

    /// The rows written so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Writes the rest, and returns the sink.
    ///
    /// # Errors
    /// The sink cannot be written.
    pub fn finish(self) -> Result<W, TableWriteError> {
        match self.form {
            Form::Csv { table, .. } => {
                table.into_inner().map_err(|error| TableWriteError::Write(error.into_error()))
            }
            Form::Parquet(parquet) => parquet.finish(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns() -> Vec<TypedColumn> {
        vec![
            TypedColumn::new("at_ns", ColumnKind::Whole),
            TypedColumn::optional("share", ColumnKind::Real),
            TypedColumn::optional("class", ColumnKind::Text),
            TypedColumn::new("last", ColumnKind::Truth),
        ]
    }

    #[test]
    fn csv_has_names_quotes_and_empty_fields() {
        let mut table = TableWriter::new(Vec::new(), TableFormat::Csv, "test/1", columns()).expect("memory");
        let rows = [
            [
                CellValue::Whole(u64::MAX),
                CellValue::Real(0.25),
                CellValue::Text("a,\"b\""),
                CellValue::Truth(true),
            ],
            [CellValue::Whole(0), CellValue::None, CellValue::None, CellValue::Truth(false)],
        ];
        rows.iter().for_each(|row| table.row(row).expect("memory"));
        assert_eq!(table.rows(), 2);
        let text = String::from_utf8(table.finish().expect("memory")).expect("UTF-8");
        let expected = "at_ns,share,class,last\n18446744073709551615,0.25,\"a,\"\"b\"\"\",true\n0,,,false\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn cells_of_other_columns_are_refused() {
        let mut table = TableWriter::new(Vec::new(), TableFormat::Csv, "test/1", columns()).expect("memory");
        let refused = |error: TableWriteError| error.to_string();
        let short = table.row(&[CellValue::Whole(1)]).expect_err("short");
        assert_eq!(refused(short), "a row has 1 cells in place of the table's columns");
        let none = table
            .row(&[CellValue::None, CellValue::None, CellValue::None, CellValue::Truth(true)])
            .expect_err("null");
        assert_eq!(refused(none), "a row has None as at_ns in place of the table's columns");
    }

    #[test]
    fn a_name_tells_the_form() {
        let of = |name: &str| TableFormat::of_name(Path::new(name));
        assert_eq!([of("a.parquet"), of("a.PARQUET")], [TableFormat::Parquet; 2]);
        assert_eq!([of("a.csv"), of("parquet"), of("/dev/stdout")], [TableFormat::Csv; 3]);
    }
}
