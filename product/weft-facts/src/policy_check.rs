//! The document of `weft policy check --json`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::diagnostic::PolicyDiagnostic;
use crate::record::{Document, Host};
use crate::table::{Cell, Column, Table};

/// The document of `weft policy check`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PolicyCheckReport {
    /// `weft-policy-check/1`.
    pub schema: String,
    /// The host of the check.
    pub host: Host,
    /// The diagnostics in the order of the files; empty if there are none.
    pub diagnostics: Vec<PolicyDiagnostic>,
    /// Whether each place runs each policy that has no error; with `--for`, only those places.
    pub places: Vec<PlaceAnswer>,
    /// The promises of the policies, and the places that keep them.
    pub promises: Vec<PlacePromise>,
}

/// The answer of a place about a policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlaceAnswer {
    /// The policy.
    pub file: String,
    /// The place: `port`, `daemon`, `sim`, `replay`, `kernel` or `tc`.
    pub place: String,
    /// Whether it can run the policy.
    pub runs: bool,
    /// The reason why not.
    pub reason: Option<String>,
    /// The remedy.
    pub instead: Option<String>,
}

/// A statement of a policy, and the extent to which a place keeps it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlacePromise {
    /// The policy.
    pub file: String,
    /// The place.
    pub place: String,
    /// The statement.
    pub promise: String,
    /// `yes`, `within` or `no`.
    #[schemars(extend("enum" = ["yes", "within", "no"]))]
    pub kept: String,
    /// The bound, the condition or the reason.
    pub within: Option<String>,
    /// The remedy.
    pub instead: Option<String>,
}

impl Document for PolicyCheckReport {
    const SCHEMA: &'static str = "weft-policy-check/1";

    fn tables(&self) -> Vec<Table> {
        let names = ["severity", "code", "file", "line", "column", "message"];
        let mut table = Table::new("Diagnostics").columns(names.map(Column::left));
        for PolicyDiagnostic { file, line, column, severity, code, message, .. } in &self.diagnostics {
            let (line, column) = (line.to_string(), column.to_string());
            table.row([severity, code, file, &line, &column, message].map(Cell::plain));
        }
        vec![table]
    }
}
