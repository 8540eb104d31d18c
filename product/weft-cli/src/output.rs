//! Output: text to standard output, messages to standard error, documents to files.

use anyhow::{Context, anyhow};
use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Seek, Write};
use std::path::{Path, PathBuf};
use weft_facts::json::to_json_pretty;
use weft_facts::record::Document;
use weft_facts::table::{Table, render_all};
use weft_policy::Style;

/// Writes `text` to standard output. A closed pipe is returned as an error of that kind, on which the program ends
/// silently.
pub fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Writes a line to standard error. A closed pipe is ignored.
pub fn message(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// Writes a note to standard error.
pub fn note(text: &str) {
    message(&format!("note: {text}"));
}

/// Writes a warning to standard error.
pub fn warn(text: &str) {
    message(&format!("warning: {text}"));
}

/// Whether the user has disabled colours by `NO_COLOR` (any value but the empty one).
fn no_color() -> bool {
    std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
}

/// Whether text on standard output may have colours.
pub fn stdout_color() -> bool {
    io::stdout().is_terminal() && !no_color()
}

/// Whether text on standard error may have colours.
pub fn stderr_color() -> bool {
    io::stderr().is_terminal() && !no_color()
}

/// The style of text on standard output.
pub fn stdout_style() -> Style {
    if stdout_color() { Style::Colored } else { Style::Plain }
}

/// The style of text on standard error.
pub fn stderr_style() -> Style {
    if stderr_color() { Style::Colored } else { Style::Plain }
}

/// Prints tables to standard output, or to standard error when a document goes to standard output.
pub fn tables(tables: &[Table], document: &OutputTarget) -> io::Result<()> {
    if document.is_stdout() {
        message(render_all(tables, stderr_color()).trim_end());
        return Ok(());
    }
    print(&render_all(tables, stdout_color()))
}

/// The destination of a document. It is opened before the work begins, so that a wrong path costs no run; an existing
/// file keeps its content until the document is written.
#[derive(Debug)]
pub enum OutputTarget {
    /// No document.
    None,
    /// Standard output.
    Stdout,
    /// A file.
    File {
        /// Its path.
        path: PathBuf,
        /// The open file.
        file: File,
        /// Whether the file is new, and is removed if nothing is written.
        ours: bool,
    },
}

impl OutputTarget {
    /// Opens the file at `path`; `-` is standard output.
    pub fn open(path: Option<&Path>) -> anyhow::Result<Self> {
        let Some(path) = path else { return Ok(Self::None) };
        if path == Path::new("-") {
            return Ok(Self::Stdout);
        }
        let ours = !path.exists();
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(path);
        let file = file.map_err(|e| anyhow!("cannot write to {}: {e}", path.display()))?;
        Ok(Self::File { path: path.to_owned(), file, ours })
    }

    /// Whether the destination is standard output.
    pub fn is_stdout(&self) -> bool {
        matches!(self, Self::Stdout)
    }

    /// Writes `document` as JSON.
    pub fn write_json<D: Document>(self, document: &D) -> anyhow::Result<Option<PathBuf>> {
        if matches!(self, Self::None) {
            return Ok(None);
        }
        let text = to_json_pretty(document).context("the report could not be written as JSON")?;
        self.write(&text)
    }

    /// Writes `text`, and returns the path of the file, if any.
    pub fn write(mut self, text: &str) -> anyhow::Result<Option<PathBuf>> {
        match &mut self {
            Self::None => Ok(None),
            Self::Stdout => {
                print(text)?;
                Ok(None)
            }
            Self::File { path, file, ours } => {
                let write = |file: &mut File| {
                    // Special files (/dev/null, a pipe) have no length.
                    if file.metadata()?.is_file() {
                        file.set_len(0)?;
                        file.rewind()?;
                    }
                    file.write_all(text.as_bytes())?;
                    file.flush()
                };
                write(file).map_err(|e| anyhow!("cannot write to {}: {e}", path.display()))?;
                *ours = false;
                Ok(Some(path.clone()))
            }
        }
    }
}

impl Drop for OutputTarget {
    fn drop(&mut self) {
        if let Self::File { path, ours: true, .. } = self {
            let _ = std::fs::remove_file(path);
        }
    }
}
