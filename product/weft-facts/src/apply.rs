//! The document of `weft apply --json`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::policy_check::PlacePromise;
use crate::record::{Document, Host};
use crate::table::{Cell, Column, Table};

/// The document of `weft apply`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ApplyReport {
    /// `weft-apply/1`.
    pub schema: String,
    /// The host.
    pub host: Host,
    /// The interface.
    pub device: String,
    /// Its namespace; null for that of the command.
    pub netns: Option<String>,
    /// The policy.
    pub policy: String,
    /// The effect of the command.
    pub action: ApplyAction,
    /// The number of the policy at the device, 1 for the first; null where nothing was changed.
    pub generation: Option<u64>,
    /// The statements of the policy, each with what the kernel keeps of it.
    pub promises: Vec<PlacePromise>,
    /// The objects that would be made, with `--dry-run`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objects: Option<String>,
}

/// The effect of `weft apply`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ApplyAction {
    /// The policy was checked, and nothing changed.
    Checked,
    /// The objects were listed, and nothing changed.
    Planned,
    /// The policy is in force, where none was.
    Applied,
    /// The policy is in force in place of a former one.
    Changed,
}

impl ApplyAction {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Checked => "checked",
            Self::Planned => "planned",
            Self::Applied => "applied",
            Self::Changed => "changed",
        }
    }
}

impl Document for ApplyReport {
    const SCHEMA: &'static str = "weft-apply/1";

    fn tables(&self) -> Vec<Table> {
        let title = format!("What the kernel keeps of {}", self.policy);
        let names = ["statement", "kept", "within", "instead"];
        let mut table = Table::new(title).columns(names.map(Column::left));
        for PlacePromise { promise, kept, within, instead, .. } in &self.promises {
            let or_none = |text: &Option<String>| text.clone().unwrap_or_default();
            table.row([promise, kept, &or_none(within), &or_none(instead)].map(Cell::plain));
        }
        vec![table]
    }
}
