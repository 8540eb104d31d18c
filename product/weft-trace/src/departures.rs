//! The table of departures: a row for each packet, or chunk of one, that a NIC has put on its wire.
//!
//! The simulator and the software NIC have the same columns. What one of them does not have is empty there.

use crate::table::{CellValue, ColumnKind, TableFormat, TableWriteError, TableWriter, TypedColumn};
use std::io::Write;
use weft_units::{Bytes, FlowKey, Nanos, TxQueueId};

/// The name and version of the columns. A column that is removed or changes its meaning makes a new version; a new one does not.
pub const SCHEMA: &str = "weft-departures/1";

/// A departure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TraceDeparture<'a> {
    /// The index of the host: of the simulator's sending hosts; 0 for a software NIC.
    pub host: u32,
    /// The transmit queue, or the ring where there are no hardware queues.
    pub queue: TxQueueId,
    /// The policy's class, or the simulator's group of flows.
    pub class: Option<&'a str>,
    /// The index of the flow, by first departure in the software NIC and by scenario in the simulator.
    pub flow: u64,
    /// The five-tuple of an IP packet.
    pub key: Option<FlowKey>,
    /// The number of the packet in its flow, from 0.
    pub number: Option<u64>,
    /// The time at which it came: of a software NIC the worker's read of its doorbell, in the simulator the creation of its skb.
    pub arrival: Option<Nanos>,
    /// The time of its first bit on the wire.
    pub start: Nanos,
    /// The time of its last bit on the wire.
    pub end: Nanos,
    /// The number of frames.
    pub packets: u64,
    /// Bytes on the wire, with preamble, check sequence and gap.
    pub wire: Bytes,
    /// Whether it is the last part of its skb.
    pub last: bool,
}

/// The columns.
pub fn columns() -> Vec<TypedColumn> {
    vec![
        TypedColumn::new("host", ColumnKind::Whole),
        TypedColumn::new("queue", ColumnKind::Whole),
        TypedColumn::optional("class", ColumnKind::Text),
        TypedColumn::new("flow", ColumnKind::Whole),
        TypedColumn::optional("source", ColumnKind::Text),
        TypedColumn::optional("destination", ColumnKind::Text),
        TypedColumn::optional("source_port", ColumnKind::Whole),
        TypedColumn::optional("destination_port", ColumnKind::Whole),
        TypedColumn::optional("protocol", ColumnKind::Whole),
        TypedColumn::optional("number", ColumnKind::Whole),
        TypedColumn::optional("arrival_ns", ColumnKind::Whole),
        TypedColumn::new("start_ns", ColumnKind::Whole),
        TypedColumn::new("end_ns", ColumnKind::Whole),
        TypedColumn::new("packets", ColumnKind::Whole),
        TypedColumn::new("wire_bytes", ColumnKind::Whole),
        TypedColumn::new("last", ColumnKind::Truth),
    ]
}

/// A table of departures being written.
#[derive(Debug)]
pub struct DepartureTable<W: Write + Send> {
    table: TableWriter<W>,
    /// The addresses of the last row as texts, since neighbours often have the same.
    key: Option<FlowKey>,
    addresses: [String; 2],
}

impl<W: Write + Send> DepartureTable<W> {
    /// Starts a table.
    ///
    /// # Errors
    /// The sink cannot be written, or the form is not built in.
    pub fn new(sink: W, format: TableFormat) -> Result<Self, TableWriteError> {
        let table = TableWriter::new(sink, format, SCHEMA, columns())?;
        Ok(Self { table, key: None, addresses: [String::new(), String::new()] })
    }

    /// Writes a departure.
    ///
    /// # Errors
    /// The sink cannot be written.
    pub fn write(&mut self, departure: &TraceDeparture<'_>) -> Result<(), TableWriteError> {
        if self.key != departure.key {
            self.key = departure.key;
            self.addresses =
                departure.key.map_or_else(Default::default, |key| [key.src, key.dst].map(|a| a.to_string()));
        }
        let address = |index: usize| self.key.map(|_| self.addresses[index].as_str());
        let of_key = |number: fn(&FlowKey) -> u64| CellValue::from(self.key.as_ref().map(number));
        self.table.row(&[
            CellValue::Whole(departure.host.into()),
            CellValue::Whole(departure.queue.0.into()),
            departure.class.into(),
            CellValue::Whole(departure.flow),
            address(0).into(),
            address(1).into(),
            of_key(|key| key.sport.into()),
            of_key(|key| key.dport.into()),
            of_key(|key| key.protocol.0.into()),
            departure.number.into(),
            departure.arrival.map(|at| at.0).into(),
            CellValue::Whole(departure.start.0),
            CellValue::Whole(departure.end.0),
            CellValue::Whole(departure.packets),
            CellValue::Whole(departure.wire.0),
            CellValue::Truth(departure.last),
        ])
    }

    /// The departures written so far.
    pub fn rows(&self) -> u64 {
        self.table.rows()
    }

    /// Writes the rest, and returns the sink.
    ///
    /// # Errors
    /// The sink cannot be written.
    pub fn finish(self) -> Result<W, TableWriteError> {
        self.table.finish()
    }
}
