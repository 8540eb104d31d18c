//! Departures: a row per packet that left a sending host, with the columns of the software NIC's.

use super::{Ends, Observer, PacketEvent, PacketEventKind};
use crate::address;
use std::io::Write;
use weft_packet::ethernet;
use weft_trace::departures::{DepartureTable, TraceDeparture};
use weft_trace::table::{TableFormat, TableWriteError};
use weft_units::{FlowKey, Protocol};

/// A group of flows, as a trace names it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// The ends of its flows.
    pub ends: Ends,
}

/// Writes a table of departures.
#[derive(Debug)]
pub struct DepartureTrace<W: Write + Send> {
    table: DepartureTable<W>,
    groups: Vec<Group>,
    /// The first error; nothing is written after it.
    failed: Option<TableWriteError>,
}

impl<W: Write + Send> DepartureTrace<W> {
    /// Starts a table of the departures of these groups, and of acknowledgements and probes, which belong to none.
    ///
    /// # Errors
    /// The sink cannot be written, or the form is not built in.
    pub fn new(sink: W, format: TableFormat, groups: Vec<Group>) -> Result<Self, TableWriteError> {
        Ok(Self { table: DepartureTable::new(sink, format)?, groups, failed: None })
    }

    /// Writes the rest; returns the sink and the number of departures.
    ///
    /// # Errors
    /// The first error of any write.
    pub fn finish(self) -> Result<(W, u64), TableWriteError> {
        let rows = self.table.rows();
        match self.failed {
            Some(error) => Err(error),
            None => Ok((self.table.finish()?, rows)),
        }
    }
}

impl<W: Write + Send> Observer for DepartureTrace<W> {
    fn packet(&mut self, event: &PacketEvent) {
        let (PacketEventKind::Sent, Some(queue), None) = (event.kind, event.queue, &self.failed) else {
            return;
        };
        let group = event.group.and_then(|group| self.groups.get(group.index()));
        let departure = TraceDeparture {
            host: event.host.0,
            queue,
            class: group.map(|group| group.name.as_str()),
            flow: event.flow.0.into(),
            key: group.and_then(|group| key(event, &group.ends)),
            number: Some(event.number),
            arrival: Some(event.created),
            start: event.begin,
            end: event.at,
            packets: 1,
            wire: ethernet::wire_of(event.len),
            last: event.last,
        };
        self.failed = self.table.write(&departure).err();
    }
}

/// Returns the five-tuple that a capture shows; `None` for hosts beyond the addresses for documentation.
fn key(event: &PacketEvent, ends: &Ends) -> Option<FlowKey> {
    let (sport, dport) = address::ports(event.flow);
    let (src, dst) = (address::of_host(ends.from)?.into(), address::of_host(ends.to)?.into());
    let forward = FlowKey { src, dst, sport, dport, protocol: Protocol::TCP };
    let reverse = FlowKey { src: dst, dst: src, sport: dport, dport: sport, ..forward };
    Some(if event.host == ends.from { forward } else { reverse })
}
