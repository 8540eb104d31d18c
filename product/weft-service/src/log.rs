//! Log lines on standard error.
//!
//! In a unit of systemd each line begins with its priority as sd-daemon(3) defines it, `<4>`; the journal removes it.
//! Elsewhere a line begins with a word.

use std::io::Write;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

/// The priority of a line, by syslog(3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogPriority {
    /// Something failed.
    Error = 3,
    /// Something is wrong and work continues.
    Warning = 4,
    /// Something changed.
    Notice = 5,
}

/// The form of the lines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogForm {
    /// With a number for the journal.
    Journal,
    /// With a word for people.
    Words,
}

/// The destination of log lines.
#[derive(Debug)]
pub struct Log {
    form: LogForm,
    /// The lines, if a test keeps them.
    kept: Option<Arc<Mutex<Vec<String>>>>,
    /// The beginning of each line.
    subject: String,
}

impl Log {
    /// Lines on standard error, in the journal's form if that is where they go.
    pub fn standard_error() -> Self {
        let form =
            if std::env::var_os("JOURNAL_STREAM").is_some() { LogForm::Journal } else { LogForm::Words };
        Self { form, kept: None, subject: String::new() }
    }

    /// Lines that are kept, for tests.
    pub fn kept() -> Self {
        Self { form: LogForm::Words, kept: Some(Arc::default()), subject: String::new() }
    }

    /// The same destination for lines about `subject`, which begin with it.
    pub fn about(&self, subject: &str) -> Rc<Self> {
        Rc::new(Self { form: self.form, kept: self.kept.clone(), subject: format!("{subject}: ") })
    }

    /// Writes a line. A line that cannot be written is lost: there is no other place for it.
    pub fn line(&self, priority: LogPriority, text: &str) {
        let text = format(self.form, priority, &(self.subject.clone() + text));
        match &self.kept {
            Some(lines) => lines.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(text),
            None => {
                let _ = writeln!(std::io::stderr().lock(), "{text}");
            }
        }
    }

    /// Writes an error.
    pub fn error(&self, text: &str) {
        self.line(LogPriority::Error, text);
    }

    /// Writes a warning.
    pub fn warning(&self, text: &str) {
        self.line(LogPriority::Warning, text);
    }

    /// Writes a change.
    pub fn notice(&self, text: &str) {
        self.line(LogPriority::Notice, text);
    }

    /// The kept lines.
    pub fn lines(&self) -> Vec<String> {
        let kept = self.kept.as_ref();
        kept.map(|l| l.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()).unwrap_or_default()
    }
}

/// `text` as one line: nothing in it can begin another line or control a terminal.
fn format(form: LogForm, priority: LogPriority, text: &str) -> String {
    let text = weft_text::printable(text);
    let word = match priority {
        LogPriority::Error => "error: ",
        LogPriority::Warning => "warning: ",
        LogPriority::Notice => "",
    };
    match form {
        LogForm::Journal => format!("<{}>{text}", priority as u8),
        LogForm::Words => format!("{word}{text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_their_priority_and_stay_one() {
        assert_eq!(format(LogForm::Journal, LogPriority::Warning, "a\nb"), "<4>a\\u{a}b");
        assert_eq!(format(LogForm::Words, LogPriority::Error, "a"), "error: a");
        assert_eq!(format(LogForm::Words, LogPriority::Notice, "a"), "a");
    }
}
