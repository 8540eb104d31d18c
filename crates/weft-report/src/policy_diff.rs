//! The document of `weft policy diff --json`.

use serde::{Deserialize, Serialize};

use crate::record::{Document, Host};
use crate::table::{Cell, Column, Table};

/// The document of `weft policy diff`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PolicyDiffReport {
    /// `weft-policy-diff/1`.
    pub schema: String,
    /// The host of the comparison.
    pub host: Host,
    /// The differences; empty if the policies are equal.
    pub steps: Vec<PolicyStep>,
    /// Effects that the author may not have meant.
    pub warnings: Vec<PolicyWarning>,
}

/// A difference between two policies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PolicyStep {
    /// The kind of the difference; absent in a daemon's answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The difference in one line.
    pub text: String,
}

/// An effect that the author of a change may not have meant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PolicyWarning {
    /// The kind of the effect; absent in a daemon's answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The effect in one line.
    pub text: String,
    /// The remedy in one line, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
}

impl Document for PolicyDiffReport {
    const SCHEMA: &'static str = "weft-policy-diff/1";

    fn tables(&self) -> Vec<Table> {
        let mut steps = Table::new("Differences").columns(["kind", "difference"].map(Column::left));
        for step in &self.steps {
            steps.row([or_none(&step.kind), &step.text].map(Cell::plain));
        }
        let mut warnings = Table::new("Warnings").columns(["kind", "effect", "remedy"].map(Column::left));
        for warning in &self.warnings {
            warnings.row([or_none(&warning.kind), &warning.text, or_none(&warning.help)].map(Cell::plain));
        }
        vec![steps, warnings]
    }
}

fn or_none(text: &Option<String>) -> &str {
    text.as_deref().unwrap_or("-")
}
