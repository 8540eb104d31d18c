//! Events as a table: a row per event, with the columns of [`super::csv`].

use super::{Observer, PacketEvent, csv};
use std::io::Write;
use weft_trace::table::{Cell, Column, Format, Kind, Table, TableError};

/// The name and version of the columns.
pub const SCHEMA: &str = "weft-events/1";

/// Writes a table of events as Parquet; [`CsvTrace`](super::CsvTrace) writes the same as CSV.
#[derive(Debug)]
pub struct EventTable<W: Write + Send> {
    table: Table<W>,
    /// The first error; nothing is written after it.
    failed: Option<TableError>,
}

impl<W: Write + Send> EventTable<W> {
    /// Starts a table.
    ///
    /// # Errors
    /// The sink cannot be written, or Parquet is not built in.
    pub fn new(sink: W) -> Result<Self, TableError> {
        let column = |name: &&str| match *name {
            "event" => Column::new(name, Kind::Text),
            "group" | "queue" => Column::optional(name, Kind::Whole),
            "marked" => Column::new(name, Kind::Truth),
            _ => Column::new(name, Kind::Whole),
        };
        let columns = csv::COLUMNS.iter().map(column).collect();
        Ok(Self { table: Table::new(sink, Format::Parquet, SCHEMA, columns)?, failed: None })
    }

    /// Writes the rest, and returns the sink.
    ///
    /// # Errors
    /// The first error of any write.
    pub fn finish(self) -> Result<W, TableError> {
        self.failed.map_or_else(|| self.table.finish(), Err)
    }
}

impl<W: Write + Send> Observer for EventTable<W> {
    fn packet(&mut self, event: &PacketEvent) {
        if self.failed.is_none() {
            let row = [
                Cell::Whole(event.at.0),
                Cell::Whole(event.host.0.into()),
                Cell::Text(event.kind.name()),
                Cell::Whole(event.flow.0.into()),
                event.group.map(|group| u64::from(group.0)).into(),
                event.queue.map(|queue| u64::from(queue.0)).into(),
                Cell::Whole(event.number),
                Cell::Whole(event.len.0),
                Cell::Truth(event.marked),
            ];
            self.failed = self.table.row(&row).err();
        }
    }
}
