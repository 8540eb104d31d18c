//! Errors as the CNI specification defines them: a code, a message, details.

use serde::Serialize;
use std::fmt::Display;
use weft_text::printable;

/// The codes of the specification (section "Error"), and one of this plugin, whose codes begin at 100.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum ErrorCode {
    /// The plugin does not support the configuration's version.
    IncompatibleVersion = 1,
    /// A field of the network configuration is not supported.
    UnsupportedField = 2,
    /// The container is unknown or does not exist.
    UnknownContainer = 3,
    /// An environment variable is missing or invalid.
    InvalidEnvironment = 4,
    /// A read or write failed.
    Io = 5,
    /// A text could not be decoded.
    Decoding = 6,
    /// The network configuration is invalid.
    InvalidConfig = 7,
    /// The runtime should try again later.
    TryAgain = 11,
    /// The plugin cannot serve ADD requests.
    NotAvailable = 50,
    /// The plugin cannot serve ADD requests, and containers of the network may have limited connectivity.
    NotAvailableLimited = 51,
    /// An operation on the container or the daemon failed.
    Failed = 100,
}

/// An error of the plugin.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{message}{}", if self.details.is_empty() { String::new() } else { format!(": {details}") })]
pub struct CniError {
    /// The code.
    pub code: u32,
    /// The message, in one line.
    pub message: String,
    /// Details, in one line; may be empty.
    pub details: String,
}

/// The error as the runtime reads it.
#[derive(Serialize)]
struct Wire<'a> {
    #[serde(rename = "cniVersion")]
    version: &'a str,
    code: u32,
    msg: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    details: &'a str,
}

impl CniError {
    /// An error with a message of one line.
    pub fn new(code: ErrorCode, message: impl Display) -> Self {
        Self { code: code as u32, message: printable(&message.to_string()), details: String::new() }
    }

    /// Adds details, such as the error of a lower layer.
    #[must_use]
    pub fn details(mut self, details: impl Display) -> Self {
        self.details = printable(&details.to_string());
        self
    }

    /// The error for a configuration that cannot be read from standard input.
    pub fn unreadable(error: &std::io::Error) -> Self {
        Self::new(ErrorCode::Io, "cannot read the network configuration").details(error)
    }

    /// An operation that failed, with the reason.
    pub fn failed(action: impl Display, reason: impl Display) -> Self {
        Self::new(ErrorCode::Failed, action).details(reason)
    }

    /// The error as JSON, in a line, for a configuration of version `version`.
    pub fn to_json(&self, version: &str) -> String {
        let wire = Wire { version, code: self.code, msg: &self.message, details: &self.details };
        serde_json::to_string(&wire).unwrap_or_else(|_| "{\"code\":6,\"msg\":\"encoding failed\"}".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_the_specifications_object_in_a_line() {
        let error = CniError::new(ErrorCode::InvalidConfig, "no\nkey").details("line 1");
        assert_eq!(
            error.to_json("1.1.0"),
            r#"{"cniVersion":"1.1.0","code":7,"msg":"no\\u{a}key","details":"line 1"}"#
        );
        assert!(!CniError::new(ErrorCode::Io, "x").to_json("0.4.0").contains("details"));
    }
}
