//! The document of `weft policy diff --json`.

use core::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::record::{Document, Host};
use crate::table::{Cell, Column, Table};

/// The document of `weft policy diff`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PolicyDiffReport {
    /// `weft-policy-diff/1`.
    pub schema: String,
    /// The host of the comparison.
    pub host: Host,
    /// The things that both policies have, which keep their state; absent in a daemon's answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<PolicyKept>,
    /// The differences in the order in which they take place; empty if the policies are equal.
    pub steps: Vec<PolicyStep>,
    /// Effects that the author may not have meant.
    pub warnings: Vec<PolicyWarning>,
}

/// The numbers of things that both policies have, with all of their state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PolicyKept {
    /// Classes.
    pub classes: usize,
    /// Inner nodes.
    pub nodes: usize,
    /// Rate limits.
    pub limits: usize,
}

impl fmt::Display for PolicyKept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counted = |count: usize, one: &str, more: &str| match count {
            1 => format!("1 {one}"),
            _ => format!("{count} {more}"),
        };
        let classes = counted(self.classes, "class", "classes");
        let nodes = counted(self.nodes, "node", "nodes");
        write!(f, "{classes}, {nodes}, {}", counted(self.limits, "limit", "limits"))
    }
}

/// A difference between two policies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PolicyStep {
    /// The kind of the difference; absent in a daemon's answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The phase of the change in which it takes place; absent in a daemon's answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["added", "adjusted", "drained", "moved", "reclassified", "removed", "reranked"]))]
    pub phase: Option<String>,
    /// The difference in one line.
    pub text: String,
}

/// An effect that the author of a change may not have meant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
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
        let columns = ["phase", "kind", "difference"].map(Column::left);
        let mut steps = Table::new("Differences").columns(columns);
        for step in &self.steps {
            steps.row([or_none(&step.phase), or_none(&step.kind), &step.text].map(Cell::plain));
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
