//! Tables as Parquet: the columns of a row group are gathered in memory, and written together.

use super::{CellValue, ColumnKind, TableWriteError, TypedColumn};
use parquet::basic::{Compression, Encoding, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::{ColumnPath, Type};
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;

/// The rows of a row group: a few megabytes for ten columns, and the unit in which readers skip.
const ROW_GROUP: usize = 65_536;

impl From<ParquetError> for TableWriteError {
    fn from(error: ParquetError) -> Self {
        Self::Parquet(error.to_string().into())
    }
}

/// The values of a column in the open row group.
#[derive(Debug)]
enum Values {
    /// Parquet has signed integers, and says beside them that they are unsigned.
    Whole(Vec<i64>),
    Real(Vec<f64>),
    Truth(Vec<bool>),
    Text(Vec<ByteArray>),
}

/// A column's part of the open row group.
#[derive(Debug)]
struct Part {
    values: Values,
    /// For each row whether it has a value; for columns in which rows may have none.
    present: Option<Vec<i16>>,
}

impl Part {
    fn new(column: &TypedColumn) -> Self {
        let values = match column.kind {
            ColumnKind::Whole => Values::Whole(Vec::new()),
            ColumnKind::Real => Values::Real(Vec::new()),
            ColumnKind::Truth => Values::Truth(Vec::new()),
            ColumnKind::Text => Values::Text(Vec::new()),
        };
        Self { values, present: column.optional.then(Vec::new) }
    }

    fn push(&mut self, cell: &CellValue<'_>, texts: &mut BTreeMap<Box<str>, ByteArray>) {
        if let Some(present) = &mut self.present {
            present.push(i16::from(*cell != CellValue::None));
        }
        match (&mut self.values, cell) {
            (Values::Whole(values), CellValue::Whole(value)) => values.push(*value as i64),
            (Values::Real(values), CellValue::Real(value)) => values.push(*value),
            (Values::Truth(values), CellValue::Truth(value)) => values.push(*value),
            (Values::Text(values), CellValue::Text(text)) => values.push(shared(texts, text)),
            // `Table::row` lets no other cell pass.
            _ => {}
        }
    }

    /// Writes and empties the part.
    fn write(&mut self, mut column: SerializedColumnWriter<'_>) -> Result<(), ParquetError> {
        let present = self.present.as_deref();
        match &mut self.values {
            Values::Whole(values) => {
                column.typed::<Int64Type>().write_batch(values, present, None)?;
                values.clear();
            }
            Values::Real(values) => {
                column.typed::<DoubleType>().write_batch(values, present, None)?;
                values.clear();
            }
            Values::Truth(values) => {
                column.typed::<BoolType>().write_batch(values, present, None)?;
                values.clear();
            }
            Values::Text(values) => {
                column.typed::<ByteArrayType>().write_batch(values, present, None)?;
                values.clear();
            }
        }
        if let Some(present) = &mut self.present {
            present.clear();
        }
        column.close()
    }
}

/// Returns the text, whose memory equal texts of a row group share.
fn shared(texts: &mut BTreeMap<Box<str>, ByteArray>, text: &str) -> ByteArray {
    if let Some(known) = texts.get(text) {
        return known.clone();
    }
    let array = ByteArray::from(text.as_bytes().to_vec());
    texts.insert(text.into(), array.clone());
    array
}

/// A Parquet file being written.
#[derive(Debug)]
pub(super) struct Parquet<W: Write + Send> {
    file: SerializedFileWriter<W>,
    parts: Vec<Part>,
    rows: usize,
    texts: BTreeMap<Box<str>, ByteArray>,
}

impl<W: Write + Send> Parquet<W> {
    pub(super) fn new(sink: W, schema: &str, columns: &[TypedColumn]) -> Result<Self, TableWriteError> {
        let fields = columns.iter().map(|column| field(column).map(Arc::new)).collect::<Result<_, _>>()?;
        let root = Type::group_type_builder("schema").with_fields(fields).build()?;
        let mut properties = WriterProperties::builder()
            .set_created_by(concat!("weftline ", env!("CARGO_PKG_VERSION")).to_owned())
            .set_key_value_metadata(Some(vec![KeyValue::new("schema".to_owned(), schema.to_owned())]))
            .set_compression(Compression::SNAPPY)
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_max_row_group_row_count(None);
        // Numbers that rise, as times do, take a byte or two by their differences.
        for column in columns.iter().filter(|column| column.kind == ColumnKind::Whole) {
            let path = ColumnPath::new(vec![column.name.clone()]);
            properties = properties
                .set_column_dictionary_enabled(path.clone(), false)
                .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
        }
        let file = SerializedFileWriter::new(sink, Arc::new(root), Arc::new(properties.build()))?;
        let parts = columns.iter().map(Part::new).collect();
        Ok(Self { file, parts, rows: 0, texts: BTreeMap::new() })
    }

    pub(super) fn row(&mut self, cells: &[CellValue<'_>]) -> Result<(), TableWriteError> {
        for (part, cell) in self.parts.iter_mut().zip(cells) {
            part.push(cell, &mut self.texts);
        }
        self.rows += 1;
        if self.rows == ROW_GROUP { self.write_group() } else { Ok(()) }
    }

    fn write_group(&mut self) -> Result<(), TableWriteError> {
        let mut group = self.file.next_row_group()?;
        for part in &mut self.parts {
            let Some(column) = group.next_column()? else { break };
            part.write(column)?;
        }
        group.close()?;
        self.rows = 0;
        self.texts.clear();
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<W, TableWriteError> {
        if self.rows > 0 {
            self.write_group()?;
        }
        Ok(self.file.into_inner()?)
    }
}

fn field(column: &TypedColumn) -> Result<Type, ParquetError> {
    let (physical, logical) = match column.kind {
        ColumnKind::Whole => (Physical::INT64, Some(LogicalType::integer(64, false))),
        ColumnKind::Real => (Physical::DOUBLE, None),
        ColumnKind::Truth => (Physical::BOOLEAN, None),
        ColumnKind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
    };
    let repetition = if column.optional { Repetition::OPTIONAL } else { Repetition::REQUIRED };
    let field = Type::primitive_type_builder(&column.name, physical);
    field.with_repetition(repetition).with_logical_type(logical).build()
}
