//! The departures of a session as files: a table ([`weft_trace::departures`]) and a Perfetto trace.
//!
//! The tracks of the trace, below that of the NIC:
//!
//! | track | a span is |
//! |---|---|
//! | queue, waiting | a packet from the worker's look at its doorbell to the first bit of its first chunk |
//! | queue, backlog | (a counter) the bytes that wait there or are on the wire |
//! | wire | a chunk, from its first to its last bit |
//!
//! All spans of a packet are in one flow. Times are those of the kernel's monotonic clock. A link's clock may be up to the catch-up
//! behind the wall clock, which gives arrivals; a packet that left before it came by these clocks has waited for no time.
//!
//! In memory are a row group of the table, the flows' keys, and for the trace the arrivals and departures of `ORDER`.

use core::fmt::Write as _;
use std::collections::BTreeMap;
use std::io::{self, Write};
use thiserror::Error;
use weft_nic::departures::{Departure, DepartureLog};
use weft_policy::INFRASTRUCTURE;
use weft_trace::departures::{DepartureTable, TraceDeparture as Row};
use weft_trace::gauge::TraceGauge;
use weft_trace::lanes::Lanes;
use weft_trace::perfetto::{ArrowNumber, Note, Perfetto, TraceEvent, TrackId, TrackPlace};
use weft_trace::table::TableWriteError;
use weft_units::{FlowKey, LoggedFlowId, Nanos, TxQueueId};

/// The time that the arrivals of a queue's packets may be out of order by: rings that share it, marks of arrivals.
const ORDER: Nanos = Nanos::from_millis(50);

/// The reason that departures cannot be written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DepartureError {
    /// The table cannot be written.
    #[error(transparent)]
    Table(#[from] TableWriteError),
    /// The trace cannot be written.
    #[error(transparent)]
    Trace(#[from] io::Error),
}

/// A writer of a session's departures.
#[derive(Debug)]
pub struct DepartureWriter<T: Write + Send, P: Write> {
    flows: Vec<Option<FlowKey>>,
    table: Option<DepartureTable<T>>,
    trace: Option<NicTrace<P>>,
    departures: u64,
}

impl<T: Write + Send, P: Write> DepartureWriter<T, P> {
    /// Writes to a table and to a trace.
    pub fn new(table: Option<DepartureTable<T>>, trace: Option<NicTrace<P>>) -> Self {
        Self { flows: Vec::new(), table, trace, departures: 0 }
    }

    /// Writes what a session logged since the last time, with the names of its classes.
    ///
    /// # Errors
    /// The table cannot be written. An error of the trace is kept until the end.
    pub fn write(&mut self, log: &DepartureLog, classes: &[String]) -> Result<(), DepartureError> {
        self.flows.extend_from_slice(&log.flows);
        self.departures += log.departures.len() as u64;
        for departure in &log.departures {
            let key = self.flows.get(departure.flow.index()).copied().flatten();
            let class = classes.get(departure.class.index()).map_or(INFRASTRUCTURE, String::as_str);
            if let Some(table) = &mut self.table {
                table.write(&row(departure, class, key))?;
            }
            if let Some(trace) = &mut self.trace {
                trace.write(departure, class, key);
            }
        }
        Ok(())
    }

    /// The departures written so far.
    pub fn departures(&self) -> u64 {
        self.departures
    }

    /// Writes the rest, and returns the sinks.
    ///
    /// # Errors
    /// The first error of the table, or of the trace.
    pub fn finish(self) -> Result<(Option<T>, Option<P>), DepartureError> {
        let table = self.table.map(DepartureTable::finish).transpose()?;
        Ok((table, self.trace.map(NicTrace::finish).transpose()?))
    }
}

fn row<'a>(departure: &Departure, class: &'a str, key: Option<FlowKey>) -> Row<'a> {
    Row {
        host: 0,
        queue: departure.queue,
        class: Some(class),
        flow: departure.flow.0.into(),
        key,
        number: None,
        arrival: departure.arrival().map(|at| at.since_epoch()),
        start: departure.start.since_epoch(),
        end: departure.end.since_epoch(),
        packets: departure.segments.into(),
        wire: departure.wire(),
        last: departure.last,
    }
}

/// The tracks of a queue.
#[derive(Debug)]
struct QueueTracks {
    waiting: Lanes,
    backlog: TraceGauge,
}

/// A Perfetto trace of a NIC's departures.
#[derive(Debug)]
pub struct NicTrace<W: Write> {
    trace: Perfetto<W>,
    nic: TrackId,
    wire: Lanes,
    queues: BTreeMap<TxQueueId, QueueTracks>,
    /// Packets of which a part has left.
    in_part: BTreeMap<(TxQueueId, LoggedFlowId), ArrowNumber>,
    flows: u64,
    name: String,
}

impl<W: Write> NicTrace<W> {
    /// Starts a trace of the NIC of this name.
    pub fn new(sink: W, name: &str) -> Self {
        let mut trace = Perfetto::new(sink);
        let nic = trace.track(&TrackPlace { parent: None, rank: 0, name });
        // Behind the queues, of which there are some thousands at most.
        let wire = Lanes::new(&TrackPlace { parent: Some(nic), rank: 100_000, name: "wire" });
        let (queues, in_part) = (BTreeMap::new(), BTreeMap::new());
        Self { trace, nic, wire, queues, in_part, flows: 0, name: String::new() }
    }

    fn write(&mut self, departure: &Departure, class: &str, key: Option<FlowKey>) {
        if self.trace.has_failed() {
            return;
        }
        let packet = (departure.queue, departure.flow);
        let known = self.in_part.get(&packet).copied().filter(|_| !departure.first);
        let flow = known.unwrap_or_else(|| {
            self.flows += 1;
            ArrowNumber(self.flows)
        });
        if departure.last {
            self.in_part.remove(&packet);
        } else {
            self.in_part.insert(packet, flow);
        }
        name_of(&mut self.name, class, key);
        let (start, end) = (departure.start.since_epoch(), departure.end.since_epoch());
        let arrival = departure.arrival().map_or(start, |at| at.since_epoch().min(start));
        let wire = departure.wire().0;
        let notes = [
            ("class", Note::Text(class)),
            ("flow", Note::Number(departure.flow.0.into())),
            ("queue", Note::Number(departure.queue.0.into())),
            ("frames", Note::Number(departure.segments.into())),
            ("wire bytes", Note::Number(wire)),
        ];
        let span = TraceEvent { name: &self.name, flow: Some(flow), notes: &notes };
        let (trace, nic) = (&mut self.trace, self.nic);
        let queue = self
            .queues
            .entry(departure.queue)
            .or_insert_with(|| QueueTracks::new(trace, nic, departure.queue));
        if departure.first {
            queue.waiting.span(trace, (arrival, start), &TraceEvent { notes: &notes[..3], ..span });
        }
        self.wire.span(trace, (start, end), &span);
        queue.backlog.add(arrival, wire as i64);
        queue.backlog.add(end, -(wire as i64));
        queue.backlog.settle(trace, arrival.saturating_sub(ORDER));
    }

    fn finish(mut self) -> io::Result<W> {
        for queue in self.queues.values_mut() {
            queue.backlog.finish(&mut self.trace);
        }
        self.trace.finish()
    }
}

impl QueueTracks {
    fn new<W: Write>(trace: &mut Perfetto<W>, nic: TrackId, queue: TxQueueId) -> Self {
        let name = format!("queue {queue}");
        let parent = Some(trace.track(&TrackPlace { parent: Some(nic), rank: queue.0, name: &name }));
        let backlog = trace.bytes_counter(&TrackPlace { parent, rank: 0, name: "backlog" });
        let waiting = Lanes::new(&TrackPlace { parent, rank: 1, name: "waiting" });
        Self { waiting, backlog: TraceGauge::new(backlog) }
    }
}

/// Writes the name of a flow's spans: its class, and where it goes.
fn name_of(name: &mut String, class: &str, key: Option<FlowKey>) {
    name.clear();
    name.push_str(class);
    if let Some(FlowKey { src, dst, sport, dport, .. }) = key {
        let _ = write!(
            name,
            " {} -> {}",
            core::net::SocketAddr::new(src, sport),
            core::net::SocketAddr::new(dst, dport)
        );
    }
}
