//! The error of a kernel call.

use std::fmt;
use std::io;

/// A call that the kernel refused: the action and its object, the kernel's answer, and a remedy.
///
/// ```
/// let error = weft_host::OsError::new("create network namespace weft-1-1", rustix::io::Errno::PERM)
///     .remedy("run as root (CAP_SYS_ADMIN)");
/// assert_eq!(
///     error.to_string(),
///     "create network namespace weft-1-1: Operation not permitted; run as root (CAP_SYS_ADMIN)"
/// );
/// ```
#[derive(Debug)]
pub struct OsError {
    action: String,
    source: io::Error,
    detail: Option<String>,
    remedy: Option<String>,
}

impl OsError {
    /// `action` is the operation and its object: "set MTU of link veth0 to 9000".
    pub fn new(action: impl Into<String>, source: impl Into<io::Error>) -> Self {
        OsError { action: action.into(), source: source.into(), detail: None, remedy: None }
    }

    /// Adds a remedy for the user.
    #[must_use]
    pub fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    /// Adds "run as root" and the capability, if the kernel's answer was a missing right.
    #[must_use]
    pub fn needs(mut self, capability: &str) -> Self {
        if self.is_permission() {
            self.remedy = Some(format!("run as root ({capability})"));
        }
        self
    }

    /// Adds the kernel's explanation (netlink's extended acknowledgement).
    #[must_use]
    pub(crate) fn detail(mut self, detail: Option<String>) -> Self {
        self.detail = detail;
        self
    }

    /// Whether rights were missing (EPERM or EACCES).
    pub fn is_permission(&self) -> bool {
        self.source.kind() == io::ErrorKind::PermissionDenied
    }

    /// The kernel's error number, if there is one.
    pub fn errno(&self) -> Option<rustix::io::Errno> {
        rustix::io::Errno::from_io_error(&self.source)
    }

    /// The action that failed.
    pub fn action(&self) -> &str {
        &self.action
    }
}

impl fmt::Display for OsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.action, errno_text(&self.source))?;
        if let Some(detail) = &self.detail {
            write!(f, " ({detail})")?;
        }
        if let Some(remedy) = &self.remedy {
            write!(f, "; {remedy}")?;
        }
        Ok(())
    }
}

impl std::error::Error for OsError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

/// The text of an I/O error without the "(os error 1)" that the standard library appends.
pub(crate) fn errno_text(error: &io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error ") {
        Some(end) => text[..end].to_string(),
        None => text,
    }
}
