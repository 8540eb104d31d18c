//! Corrections that hold: one is kept if the corrected text compiles, or has fewer errors.
//!
//! The passes propose an edit where they see what was meant, but each sees a part of the text. So the corrected text is compiled
//! before its correction is shown, as long as there is work left for it; the corrections behind it are not shown.

use super::Source;
use crate::budget::Steps;
use crate::code::Code;
use crate::diagnostic::Diagnostic;
use crate::files::{FileError, FileText, TenantFiles, Wanted};
use weft_text::printable;

/// The work that is left for corrected texts. It does not depend on the machine, so that the same text always has the same corrections.
pub(super) struct Work {
    /// Bytes of the texts, each counted once for each correction.
    bytes: usize,
    pub(super) steps: Steps,
}

impl Default for Work {
    /// Some hundredths of a second for the texts, and as much for the tables.
    fn default() -> Self {
        Self { bytes: 1 << 19, steps: Steps::SMALL }
    }
}

impl Work {
    /// Counts the compilation of a text of so many bytes. Returns whether there was enough left.
    fn spend(&mut self, bytes: usize) -> bool {
        let left = self.bytes.checked_sub(bytes);
        self.bytes = left.unwrap_or(0);
        left.is_some()
    }
}

/// A compilation of corrected texts: its diagnostics, and the steps that it took.
pub(super) type Again<'a> = &'a dyn Fn(Source<'_>, &dyn TenantFiles, Steps) -> (Vec<Diagnostic>, Steps);

/// Removes the corrections that do not hold. `texts` are those of tenants' files; `again` compiles as the caller has compiled.
pub(super) fn keep(
    diagnostics: &mut [Diagnostic],
    source: Source<'_>,
    texts: &[&FileText],
    files: &dyn TenantFiles,
    work: &mut Work,
    again: Again<'_>,
) {
    let errors = errors(diagnostics);
    let whole = source.text.len() + texts.iter().map(|of| of.text.len()).sum::<usize>();
    for at in 0..diagnostics.len() {
        let found = &diagnostics[at];
        let Some(fix) = &found.fix else { continue };
        let tenant = texts.iter().find(|of| printable(&of.name) == found.file);
        let own = printable(source.name) == found.file;
        let text = if own { Some(source.text) } else { tenant.map(|of| &*of.text) };
        let Some(new) = text.map(|text| fix.apply(text)).filter(|_| work.spend(whole)) else {
            diagnostics[at].fix = None;
            continue;
        };
        let (after, steps) = match own {
            true => again(Source { name: source.name, text: &new }, files, work.steps),
            false => again(source, &Corrected { files, file: &found.file, text: &new }, work.steps),
        };
        work.steps = Steps(work.steps.0.saturating_sub(steps.0));
        let left = self::errors(&after);
        let holds = match found.is_error() {
            true => left < errors,
            false => left <= errors && alike(&after, found.code) < alike(diagnostics, found.code),
        };
        if !holds {
            diagnostics[at].fix = None;
        }
    }
}

fn errors(diagnostics: &[Diagnostic]) -> usize {
    diagnostics.iter().filter(|found| found.is_error()).count()
}

fn alike(diagnostics: &[Diagnostic], code: Code) -> usize {
    diagnostics.iter().filter(|found| found.code == code).count()
}

/// The files of tenants, one of them corrected.
struct Corrected<'a> {
    files: &'a dyn TenantFiles,
    /// The name of the corrected file in diagnostics.
    file: &'a str,
    text: &'a str,
}

impl TenantFiles for Corrected<'_> {
    fn read(&self, wanted: Wanted<'_>) -> Result<FileText, FileError> {
        let mut file = self.files.read(wanted)?;
        if printable(&file.name) == self.file {
            self.text.clone_into(&mut file.text);
        }
        Ok(file)
    }
}
