//! The tenants whose files are refused, so that a caller can do without these files alone.
//!
//! An error in a tenant's text is that tenant's. One in the text that names the tenant is the tenant's if it arose while its file was
//! read, compared with its quotas, or put in its place.

use super::{Pass, located};
use crate::diagnostic::SpannedDiagnostic;
use crate::files::AtFault;

/// The errors of tenants so far.
#[derive(Debug, Default)]
pub(super) struct Faults {
    /// The number of each tenant's text among the texts; `None` for a tenant without a file.
    texts: Vec<Option<usize>>,
    /// Errors outside a tenant's text that are the tenant's, by its number.
    blamed: Vec<(usize, SpannedDiagnostic)>,
}

impl Pass<'_> {
    /// Remembers the text of the tenant of this number.
    pub(super) fn tenant_reads(&mut self, number: usize, text: usize) {
        if self.faults.texts.len() <= number {
            self.faults.texts.resize(number + 1, None);
        }
        self.faults.texts[number] = Some(text);
    }

    /// The number of errors so far.
    pub(super) fn errors(&self) -> usize {
        self.diagnostics.iter().filter(|diagnostic| diagnostic.is_error()).count()
    }

    /// Blames the tenant of this number for the errors that came after the first `before` diagnostics and are neither in its text
    /// nor in those of tenants below it.
    pub(super) fn blame(&mut self, number: usize, before: usize) {
        let errors = self.diagnostics.iter().skip(before).filter(|diagnostic| diagnostic.is_error());
        let outside = errors.filter(|error| {
            let text = Some(self.texts.number_of(error.span()));
            let inside = self.faults.texts.iter().skip(number).any(|of| *of == text);
            !inside && !self.is_blamed(error)
        });
        let blamed: Vec<_> = outside.map(|error| (number, error.clone())).collect();
        self.faults.blamed.extend(blamed);
    }

    /// Whether a tenant is blamed for the error, wherever it is.
    fn is_blamed(&self, error: &SpannedDiagnostic) -> bool {
        self.faults.blamed.iter().any(|(_, blamed)| blamed.span() == error.span())
    }

    /// The tenants at fault, each with its first error.
    pub(super) fn at_fault(&self) -> AtFault {
        let mut found = AtFault::new();
        let mut add = |number: usize, error: &SpannedDiagnostic| {
            let Some(tenant) = self.tenants.get(number) else { return };
            if let Some(error) = located(vec![error.clone()], &self.texts).pop() {
                found.entry(tenant.name.clone()).or_insert(error);
            }
        };
        let errors = self.diagnostics.iter().filter(|diagnostic| diagnostic.is_error());
        for error in errors.filter(|error| !self.is_blamed(error)) {
            let text = Some(self.texts.number_of(error.span()));
            let own = self.faults.texts.iter().enumerate().filter(|(_, of)| **of == text);
            own.for_each(|(number, _)| add(number, error));
        }
        self.faults.blamed.iter().for_each(|(number, error)| add(*number, error));
        found
    }
}
