//! Files of traces and tables, whose names select their form.

use crate::failure::usage;
use anyhow::anyhow;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use weft_trace::table::TableFormat;

/// A buffered file.
pub type Sink = BufWriter<File>;

/// The form of a trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TraceForm {
    /// A table of events.
    Table(TableFormat),
    /// A Perfetto trace.
    Perfetto,
}

impl TraceForm {
    /// The form that a file's name selects: `.pftrace` or `.perfetto-trace`, `.parquet`, otherwise CSV.
    pub fn of_name(path: &Path) -> Self {
        let perfetto = |ending: &std::ffi::OsStr| {
            ["pftrace", "perfetto-trace"].iter().any(|one| ending.eq_ignore_ascii_case(one))
        };
        if path.extension().is_some_and(perfetto) {
            Self::Perfetto
        } else {
            Self::Table(TableFormat::of_name(path))
        }
    }
}

/// Makes a file; an existing one is emptied.
pub fn create(path: &Path) -> anyhow::Result<Sink> {
    let file = File::create(path).map_err(|error| anyhow!("cannot write to {}: {error}", path.display()))?;
    Ok(BufWriter::new(file))
}

/// Refuses a table of departures whose name is that of a trace.
pub fn check_departures(path: Option<&PathBuf>) -> anyhow::Result<()> {
    match path.filter(|path| TraceForm::of_name(path) == TraceForm::Perfetto) {
        Some(path) => Err(usage(format!(
            "--departures writes a table: give a name that ends with .parquet or .csv, or `--trace {}`",
            path.display()
        ))),
        None => Ok(()),
    }
}

/// Flushes a file; dropping it would discard the error.
pub fn close(sink: Sink, path: &Path) -> anyhow::Result<()> {
    let file = sink.into_inner().map_err(|error| failed(path, error.error()))?;
    drop(file);
    Ok(())
}

/// The error of a file.
pub fn failed(path: &Path, error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("cannot write to {}: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_forms() {
        let of = |name: &str| TraceForm::of_name(Path::new(name));
        assert_eq!([of("t.pftrace"), of("t.perfetto-trace"), of("T.PFTRACE")], [TraceForm::Perfetto; 3]);
        assert_eq!(of("t.parquet"), TraceForm::Table(TableFormat::Parquet));
        assert_eq!(
            [of("t.csv"), of("/dev/stdout"), of("events.txt")],
            [TraceForm::Table(TableFormat::Csv); 3]
        );
    }
}
