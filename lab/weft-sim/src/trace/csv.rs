//! Traces as CSV (RFC 4180): a line per event.

use super::{Observer, PacketEvent};
use csv::{ByteRecord, Error, Writer};
use std::io::Write;

/// The columns, in order: time since the start in nanoseconds, index of the host, kind of event, index of the flow, index of its
/// group, queue (empty for none), number of the packet in its flow, length in bytes, and 1 if it is marked, otherwise 0.
/// [`PacketEvent`] describes the fields.
pub const COLUMNS: [&str; 9] =
    ["at_ns", "host", "event", "flow", "group", "queue", "number", "len_bytes", "marked"];

/// Writes a table of events, with the names of the [`COLUMNS`] in its first line.
#[derive(Debug)]
pub struct CsvTrace<W: Write> {
    table: Writer<W>,
    record: ByteRecord,
    field: Vec<u8>,
    /// The first error; nothing is written after it.
    failed: Option<Error>,
}

impl<W: Write> CsvTrace<W> {
    /// Creates a table with its header line. Writes are buffered.
    pub fn new(sink: W) -> Self {
        let mut table = Writer::from_writer(sink);
        let failed = table.write_record(COLUMNS).err();
        Self { table, record: ByteRecord::new(), field: Vec::new(), failed }
    }

    /// Writes the buffered lines and returns the sink.
    ///
    /// # Errors
    /// The first error of any write.
    pub fn finish(self) -> Result<W, Error> {
        match self.failed {
            Some(error) => Err(error),
            None => self.table.into_inner().map_err(|error| Error::from(error.into_error())),
        }
    }

    fn number(&mut self, value: u64) -> std::io::Result<()> {
        self.field.clear();
        write!(self.field, "{value}")?;
        self.record.push_field(&self.field);
        Ok(())
    }

    fn write(&mut self, event: &PacketEvent) -> Result<(), Error> {
        self.record.clear();
        self.number(event.at.0)?;
        self.number(event.host.0.into())?;
        self.record.push_field(event.kind.name().as_bytes());
        self.number(event.flow.0.into())?;
        self.number(event.group.map_or(u32::MAX, |group| group.0).into())?;
        match event.queue {
            Some(queue) => self.number(queue.0.into())?,
            None => self.record.push_field(b""),
        }
        self.number(event.number)?;
        self.number(event.len.0)?;
        self.record.push_field(if event.marked { b"1" } else { b"0" });
        self.table.write_byte_record(&self.record)
    }
}

impl<W: Write> Observer for CsvTrace<W> {
    fn packet(&mut self, event: &PacketEvent) {
        if self.failed.is_none() {
            self.failed = self.write(event).err();
        }
    }
}
