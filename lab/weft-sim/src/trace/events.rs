//! Events as a table: a row per event, with the columns of [`super::csv`].

use super::{Observer, PacketEvent, csv};
use std::io::Write;
use weft_trace::table::{CellValue, ColumnKind, TableFormat, TableWriteError, TableWriter, TypedColumn};

/// The name and version of the columns.
pub const SCHEMA: &str = "weft-events/1";

/// Writes a table of events as Parquet; [`CsvTrace`](super::CsvTrace) writes the same as CSV.
#[derive(Debug)]
pub struct EventTable<W: Write + Send> {
    table: TableWriter<W>,
    /// The first error; nothing is written after it.
    failed: Option<TableWriteError>,
}

impl<W: Write + Send> EventTable<W> {
    /// Starts a table.
    ///
    /// # Errors
    /// The sink cannot be written, or Parquet is not built in.
    pub fn new(sink: W) -> Result<Self, TableWriteError> {
        let column = |name: &&str| match *name {
            "event" => TypedColumn::new(name, ColumnKind::Text),
            "group" | "queue" => TypedColumn::optional(name, ColumnKind::Whole),
            "marked" => TypedColumn::new(name, ColumnKind::Truth),
            _ => TypedColumn::new(name, ColumnKind::Whole),
        };
        let columns = csv::COLUMNS.iter().map(column).collect();
        Ok(Self { table: TableWriter::new(sink, TableFormat::Parquet, SCHEMA, columns)?, failed: None })
    }

    /// Writes the rest, and returns the sink.
    ///
    /// # Errors
    /// The first error of any write.
    pub fn finish(self) -> Result<W, TableWriteError> {
        self.failed.map_or_else(|| self.table.finish(), Err)
    }
}

impl<W: Write + Send> Observer for EventTable<W> {
    fn packet(&mut self, event: &PacketEvent) {
        if self.failed.is_none() {
            let row = [
                CellValue::Whole(event.at.0),
                CellValue::Whole(event.host.0.into()),
                CellValue::Text(event.kind.name()),
                CellValue::Whole(event.flow.0.into()),
                event.group.map(|group| u64::from(group.0)).into(),
                event.queue.map(|queue| u64::from(queue.0)).into(),
                CellValue::Whole(event.number),
                CellValue::Whole(event.len.0),
                CellValue::Truth(event.marked),
            ];
            self.failed = self.table.row(&row).err();
        }
    }
}
