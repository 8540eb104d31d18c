//! A diagnostic of the policy compiler, as documents and replies have it.

use core::fmt;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A place in a text.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct TextPosition {
    /// The line, from 1.
    pub line: u64,
    /// The column in characters, from 1.
    pub column: u64,
}

/// A diagnostic of the policy compiler.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct PolicyDiagnostic {
    /// The policy's name, as the caller gave it.
    pub file: String,
    /// The line, from 1.
    pub line: u64,
    /// The column in characters, from 1.
    pub column: u64,
    /// The position after the last character; absent in a daemon's answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<TextPosition>,
    /// `error`, `warning` or `note`.
    #[schemars(extend("enum" = ["error", "warning", "note"]))]
    pub severity: String,
    /// The stable code.
    pub code: String,
    /// The message, in one line.
    pub message: String,
    /// The remedy, in one line.
    #[serde(default)]
    pub help: String,
    /// Additional facts, one line each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The remedy as an edit of the text, where the compiler can find what was meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fix: Option<PolicyFix>,
}

/// An edit that removes the cause of a diagnostic.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct PolicyFix {
    /// The position of the first character that it replaces.
    pub start: TextPosition,
    /// The position after the last one.
    pub end: TextPosition,
    /// The new text; empty for a deletion.
    pub text: String,
    /// The corrected lines; null if they are long, or if the edit removes them.
    pub write: Option<String>,
}

impl TextPosition {
    /// The offset in bytes in `text`; its end for a position behind it.
    fn offset(self, text: &str) -> usize {
        let skip = usize::try_from(self.line.saturating_sub(1)).unwrap_or(usize::MAX);
        let Some(begin) = (match skip {
            0 => Some(0),
            skip => text.match_indices('\n').nth(skip - 1).map(|(at, _)| at + 1),
        }) else {
            return text.len();
        };
        let column = usize::try_from(self.column.saturating_sub(1)).unwrap_or(usize::MAX);
        let rest = text.get(begin..).unwrap_or_default();
        begin + rest.char_indices().nth(column).map_or(rest.len(), |(at, _)| at)
    }
}

impl PolicyFix {
    /// The text after the edit. `text` must be the one that was compiled.
    pub fn apply(&self, text: &str) -> String {
        let (start, end) = (self.start.offset(text), self.end.offset(text));
        let part = |range: Option<&str>| range.unwrap_or_default().to_owned();
        part(text.get(..start)) + &self.text + &part(text.get(end..))
    }
}

impl fmt::Display for PolicyDiagnostic {
    /// `FILE:LINE:COLUMN: error[CODE]: text`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, column, severity, code, message, .. } = self;
        write!(f, "{file}:{line}:{column}: {severity}[{code}]: {message}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edit_is_by_lines_and_characters() {
        let fix = |start: (u64, u64), end: (u64, u64)| PolicyFix {
            start: TextPosition { line: start.0, column: start.1 },
            end: TextPosition { line: end.0, column: end.1 },
            text: "x".to_owned(),
            write: None,
        };
        assert_eq!(fix((1, 2), (1, 3)).apply("äbc\nd"), "äxc\nd");
        assert_eq!(fix((2, 1), (2, 2)).apply("äbc\nd"), "äbc\nx");
        assert_eq!(fix((9, 9), (9, 9)).apply("ab"), "abx", "behind the text");
    }
}
