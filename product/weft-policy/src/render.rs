//! The multi-line form of a diagnostic, with an excerpt of the text.

use crate::code::Severity;
use crate::diagnostic::Diagnostic;
use weft_text::{Drawing, Excerpt, Level, Style};

/// Draws `diagnostic` with the line of `source` to which it points. `source` must be the text that was compiled.
pub fn render(diagnostic: &Diagnostic, source: &str, style: Style) -> String {
    let level = match diagnostic.severity {
        Severity::Error => Level::Error,
        Severity::Warning => Level::Warning,
        Severity::Note => Level::Note,
    };
    let drawing = Drawing {
        level,
        code: diagnostic.code.as_str(),
        what: &diagnostic.message,
        file: &diagnostic.file,
        excerpt: &Excerpt::new(source, diagnostic.span, diagnostic.start.line),
        notes: &diagnostic.notes,
        hint: &diagnostic.help,
        write: diagnostic.fix.as_ref().and_then(|fix| fix.write.as_deref()).unwrap_or_default(),
    };
    drawing.render(style)
}
