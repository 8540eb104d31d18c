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
pub enum Kind {
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
pub struct Column {
    /// Its name, which ends with the unit of its values where they have one.
    pub name: String,
    /// The type of its values.
    pub kind: Kind,
    /// Whether a row may have no value: null in Parquet, an empty field in CSV.
    pub optional: bool,
}

impl Column {
    /// A column with a value in each row.
    pub fn new(name: &str, kind: Kind) -> Self {
        Self { name: name.to_owned(), kind, optional: false }
    }

    /// A column in which rows may have no value.
    pub fn optional(name: &str, kind: Kind) -> Self {
        Self { optional: true, ..Self::new(name, kind) }
    }
}

/// A value of a row.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Cell<'a> {
    /// No value.
    None,
    /// A value of a [`Kind::Whole`] column.
    Whole(u64),
    /// A value of a [`Kind::Real`] column.
    Real(f64),
    /// A value of a [`Kind::Truth`] column.
    Truth(bool),
    /// A value of a [`Kind::Text`] column.
    Text(&'a str),
}

impl Cell<'_> {
    /// Whether a column may have the value.
    fn fits(&self, column: &Column) -> bool {
        match self {
            Self::None => column.optional,
            Self::Whole(_) => column.kind == Kind::Whole,
            Self::Real(_) => column.kind == Kind::Real,
            Self::Truth(_) => column.kind == Kind::Truth,
            Self::Text(_) => column.kind == Kind::Text,
        }
    }
}

impl From<u64> for Cell<'_> {
    fn from(value: u64) -> Self {
        Self::Whole(value)
    }
}

impl From<Option<u64>> for Cell<'_> {
    fn from(value: Option<u64>) -> Self {
        value.map_or(Self::None, Self::Whole)
    }
}

impl<'a> From<Option<&'a str>> for Cell<'a> {
    fn from(value: Option<&'a str>) -> Self {
        value.map_or(Self::None, Self::Text)
    }
}

/// The form of a table's file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// Comma-separated values (RFC 4180), with a line of names.
    Csv,
    /// Apache Parquet, compressed with Snappy.
    Parquet,
}

impl Format {
    /// The form that a file's name selects: Parquet if it ends with `.parquet`, otherwise CSV.
    pub fn of_name(path: &Path) -> Self {
        let parquet = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("parquet"));
        if parquet { Self::Parquet } else { Self::Csv }
    }
}

/// The reason that a table cannot be written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TableError {
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

impl From<csv::Error> for TableError {
    fn from(error: csv::Error) -> Self {
        Self::Write(error.into())
    }
}

/// A table being written.
#[derive(Debug)]
pub struct Table<W: Write + Send> {
    columns: Vec<Column>,
    rows: u64,
    form: Form<W>,
}

#[derive(Debug)]
enum Form<W: Write + Send> {
    Csv { table: csv::Writer<W>, record: ByteRecord, field: Vec<u8> },
    Parquet(columns::Parquet<W>),
}

impl<W: Write + Send> Table<W> {
    /// Starts a table. `schema` names its columns' meaning and version, such as `weft-departures/1`; Parquet files have it among
    /// their metadata, under `schema`.
    ///
    /// # Errors
    /// The sink cannot be written, or Parquet is not built in.
    pub fn new(sink: W, format: Format, schema: &str, columns: Vec<Column>) -> Result<Self, TableError> {
        let form = match format {
            Format::Parquet => Form::Parquet(columns::Parquet::new(sink, schema, &columns)?),
            Format::Csv => {
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
    pub fn row(&mut self, cells: &[Cell<'_>]) -> Result<(), TableError> {
        if cells.len() != self.columns.len() {
            return Err(TableError::Row(format!("{} cells", cells.len()).into()));
        }
        if let Some((cell, column)) =
            cells.iter().zip(&self.columns).find(|(cell, column)| !cell.fits(column))
        {
            return Err(TableError::Row(format!("{cell:?} as {}", column.name).into()));
        }
        self.rows += 1;
        match &mut self.form {
            Form::Parquet(parquet) => parquet.row(cells),
            Form::Csv { table, record, field } => {
                record.clear();
                for cell in cells {
                    field.clear();
                    match cell {
                        Cell::None => {}
                        Cell::Whole(value) => write!(field, "{value}")?,
                        Cell::Real(value) => write!(field, "{value}")?,
                        Cell::Truth(value) => write!(field, "{value}")?,
                        Cell::Text(text) => field.extend_from_slice(text.as_bytes()),
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
    pub fn finish(self) -> Result<W, TableError> {
        match self.form {
            Form::Csv { table, .. } => {
                table.into_inner().map_err(|error| TableError::Write(error.into_error()))
            }
            Form::Parquet(parquet) => parquet.finish(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns() -> Vec<Column> {
        vec![
            Column::new("at_ns", Kind::Whole),
            Column::optional("share", Kind::Real),
            Column::optional("class", Kind::Text),
            Column::new("last", Kind::Truth),
        ]
    }

    #[test]
    fn csv_has_names_quotes_and_empty_fields() {
        let mut table = Table::new(Vec::new(), Format::Csv, "test/1", columns()).expect("memory");
        let rows = [
            [Cell::Whole(u64::MAX), Cell::Real(0.25), Cell::Text("a,\"b\""), Cell::Truth(true)],
            [Cell::Whole(0), Cell::None, Cell::None, Cell::Truth(false)],
        ];
        rows.iter().for_each(|row| table.row(row).expect("memory"));
        assert_eq!(table.rows(), 2);
        let text = String::from_utf8(table.finish().expect("memory")).expect("UTF-8");
        let expected = "at_ns,share,class,last\n18446744073709551615,0.25,\"a,\"\"b\"\"\",true\n0,,,false\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn cells_of_other_columns_are_refused() {
        let mut table = Table::new(Vec::new(), Format::Csv, "test/1", columns()).expect("memory");
        let refused = |error: TableError| error.to_string();
        let short = table.row(&[Cell::Whole(1)]).expect_err("short");
        assert_eq!(refused(short), "a row has 1 cells in place of the table's columns");
        let none = table.row(&[Cell::None, Cell::None, Cell::None, Cell::Truth(true)]).expect_err("null");
        assert_eq!(refused(none), "a row has None as at_ns in place of the table's columns");
    }

    #[test]
    fn a_name_tells_the_form() {
        let of = |name: &str| Format::of_name(Path::new(name));
        assert_eq!([of("a.parquet"), of("a.PARQUET")], [Format::Parquet; 2]);
        assert_eq!([of("a.csv"), of("parquet"), of("/dev/stdout")], [Format::Csv; 3]);
    }
}
