//! The departures of `weft run` as files, written while it runs.

use std::path::{Path, PathBuf};
use weft_cli::failure::usage;
use weft_cli::output;
use weft_cli::trace_files::{Sink, TraceForm, check_departures, close, create, failed};
use weft_nic::departures::DepartureLog;
use weft_run::departures::{DepartureError, DepartureWriter, NicTrace};
use weft_trace::departures::DepartureTable;
use weft_trace::table::TableFormat;

/// The files that were asked for.
pub(super) struct Log {
    table: Option<PathBuf>,
    trace: Option<PathBuf>,
    /// The writer; `None` if no file was asked for, or after an error.
    writer: Option<DepartureWriter<Sink, Sink>>,
    /// The first error; nothing is written after it, and packets continue.
    error: Option<DepartureError>,
}

impl Log {
    /// Opens the files.
    pub(super) fn open(table: Option<&Path>, trace: Option<&Path>, uplink: &str) -> anyhow::Result<Self> {
        let (table, trace) = (table.map(Path::to_owned), trace.map(Path::to_owned));
        check_departures(table.as_ref())?;
        if let Some(path) = trace.as_ref().filter(|path| TraceForm::of_name(path) != TraceForm::Perfetto) {
            return Err(usage(format!(
                "--trace writes a Perfetto trace: give a name that ends with .pftrace; a table is `--departures {}`",
                path.display()
            )));
        }
        let rows = table.as_ref().map(|path| {
            DepartureTable::new(create(path)?, TableFormat::of_name(path))
                .map_err(|error| failed(path, error))
        });
        let name = format!("software NIC on {uplink}");
        let spans = trace.as_ref().map(|path| anyhow::Ok(NicTrace::new(create(path)?, &name)));
        let writer = (table.is_some() || trace.is_some())
            .then(|| anyhow::Ok(DepartureWriter::new(rows.transpose()?, spans.transpose()?)))
            .transpose()?;
        Ok(Self { table, trace, writer, error: None })
    }

    /// Writes departures. After an error, which is reported at once, nothing more is written.
    pub(super) fn write(&mut self, log: &DepartureLog, classes: &[String]) {
        let Some(writer) = &mut self.writer else { return };
        if let Err(error) = writer.write(log, classes) {
            output::warn(&format!("departures are not written any more: {error}"));
            self.writer = None;
            self.error = Some(error);
        }
    }

    /// Writes the last departures, and closes the files.
    pub(super) fn finish(mut self, rest: &DepartureLog, classes: &[String]) -> anyhow::Result<()> {
        self.write(rest, classes);
        let path = self.table.as_deref().or(self.trace.as_deref()).unwrap_or(Path::new(""));
        if let Some(error) = self.error {
            return Err(failed(path, error));
        }
        let Some(writer) = self.writer else { return Ok(()) };
        let departures = writer.departures();
        let (table, trace) = writer.finish().map_err(|error| failed(path, error))?;
        for (sink, path) in [(table, &self.table), (trace, &self.trace)] {
            if let (Some(sink), Some(path)) = (sink, path) {
                close(sink, path)?;
                output::message(&format!("{departures} departures: {}", path.display()));
            }
        }
        Ok(())
    }
}
