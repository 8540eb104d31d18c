//! The traces, tables and captures of a run of `weft sim`.

use std::path::{Path, PathBuf};
use weft_cli::output;
use weft_cli::trace_files::{Sink, TraceForm, close, create, failed};
use weft_sim::ids::HostId;
use weft_sim::scenario::Scenario;
use weft_sim::trace::departures::Group;
use weft_sim::trace::{
    CapturePoint, CsvTrace, DepartureTrace, Ends, EventTable, Observer, PacketEvent, PcapTrace, PerfettoTrace,
};
use weft_trace::table::TableFormat;

/// Bytes of each packet in a capture: all headers.
const SNAPLEN: u16 = 128;

/// The files that were asked for.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    /// Traces of events, whose names select their forms.
    pub(super) events: Vec<PathBuf>,
    /// A table of departures.
    pub(super) departures: Option<PathBuf>,
    /// A capture.
    pub(super) packets: Option<PathBuf>,
}

impl Wanted {
    /// Whether any file was asked for.
    pub(super) fn any(&self) -> bool {
        !self.events.is_empty() || self.departures.is_some() || self.packets.is_some()
    }
}

/// A trace of events.
enum Events {
    Csv(Box<CsvTrace<Sink>>),
    Parquet(Box<EventTable<Sink>>),
    Perfetto(Box<PerfettoTrace<Sink>>),
}

impl Events {
    fn new(path: &Path, groups: &[Group]) -> anyhow::Result<Self> {
        let sink = create(path)?;
        Ok(match TraceForm::of_name(path) {
            TraceForm::Table(TableFormat::Csv) => Self::Csv(Box::new(CsvTrace::new(sink))),
            TraceForm::Table(TableFormat::Parquet) => {
                Self::Parquet(Box::new(EventTable::new(sink).map_err(|error| failed(path, error))?))
            }
            TraceForm::Perfetto => {
                let names = groups.iter().map(|group| group.name.clone()).collect();
                Self::Perfetto(Box::new(PerfettoTrace::new(sink, names)))
            }
        })
    }

    fn packet(&mut self, event: &PacketEvent) {
        match self {
            Self::Csv(trace) => trace.packet(event),
            Self::Parquet(trace) => trace.packet(event),
            Self::Perfetto(trace) => trace.packet(event),
        }
    }

    fn finish(self, path: &Path) -> anyhow::Result<Sink> {
        match self {
            Self::Csv(trace) => trace.finish().map_err(|error| failed(path, error)),
            Self::Parquet(trace) => trace.finish().map_err(|error| failed(path, error)),
            Self::Perfetto(trace) => trace.finish().map_err(|error| failed(path, error)),
        }
    }
}

/// The files of a run.
pub(super) struct Traces {
    events: Vec<(PathBuf, Events)>,
    departures: Option<(PathBuf, DepartureTrace<Sink>)>,
    packets: Option<(PathBuf, PcapTrace<Sink>)>,
}

impl Traces {
    /// Opens the files that are wanted; `None` without any.
    pub(super) fn open(wanted: &Wanted, scenario: &Scenario) -> anyhow::Result<Option<Self>> {
        let groups: Vec<Group> = scenario
            .flows
            .iter()
            .map(|group| Group {
                name: group.name.clone(),
                ends: Ends {
                    from: HostId(group.from),
                    to: HostId(group.to),
                    mss: scenario.hosts[group.from as usize].stack.mtu.0.saturating_sub(40).min(65_000)
                        as u32,
                },
            })
            .collect();
        let events = |path: &PathBuf| Ok((path.clone(), Events::new(path, &groups)?));
        let events = wanted.events.iter().map(events).collect::<anyhow::Result<_>>()?;
        let departures = |path: &PathBuf| {
            let table = DepartureTrace::new(create(path)?, TableFormat::of_name(path), groups.clone());
            anyhow::Ok((path.clone(), table.map_err(|error| failed(path, error))?))
        };
        let departures = wanted.departures.as_ref().map(departures).transpose()?;
        let capture = |path: &PathBuf| {
            let ends = groups.iter().map(|group| group.ends).collect();
            anyhow::Ok((path.clone(), PcapTrace::new(create(path)?, ends, CapturePoint::Senders, SNAPLEN)?))
        };
        let packets = wanted.packets.as_ref().map(capture).transpose()?;
        Ok(wanted.any().then_some(Self { events, departures, packets }))
    }

    /// Writes the rest of the files.
    pub(super) fn finish(self, seed: u64) -> anyhow::Result<()> {
        for (path, events) in self.events {
            close(events.finish(&path)?, &path)?;
            output::note(&format!("events of seed {seed}: {}", path.display()));
        }
        if let Some((path, departures)) = self.departures {
            let (sink, rows) = departures.finish().map_err(|error| failed(&path, error))?;
            close(sink, &path)?;
            output::note(&format!("{rows} departures of seed {seed}: {}", path.display()));
        }
        if let Some((path, packets)) = self.packets {
            close(packets.finish().map_err(|error| failed(&path, error))?, &path)?;
            output::note(&format!("packets of seed {seed}: {}", path.display()));
        }
        Ok(())
    }
}

impl Observer for Traces {
    fn packet(&mut self, event: &PacketEvent) {
        for (_, events) in &mut self.events {
            events.packet(event);
        }
        if let Some((_, departures)) = &mut self.departures {
            departures.packet(event);
        }
        // Acknowledgements and probes belong to no group of flows, so a capture of the flows' data omits them.
        if let Some((_, packets)) = self.packets.as_mut().filter(|_| event.group.is_some()) {
            packets.packet(event);
        }
    }
}
