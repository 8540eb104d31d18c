//! The document of `weft config`: the policy that a running daemon enforces.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::record::{Document, Host};
use crate::table::{Cell, Column, Table};
use crate::tenants::TenantOrigin;

/// The document of `weft config`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConfigReport {
    /// `weft-config/1`.
    pub schema: String,
    /// The host of the daemon.
    pub host: Host,
    /// The policy.
    #[serde(flatten)]
    pub config: ServiceConfig,
}

/// The policy that a daemon enforces.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ServiceConfig {
    /// The number of the policy in force.
    pub generation: u64,
    /// The SHA-256 of the policy's text, in hexadecimal digits.
    pub policy_hash: String,
    /// The name of the policy.
    pub policy: String,
    /// The text.
    pub text: String,
    /// The name of the configured policy.
    pub default_policy: String,
    /// Whether the configured policy is in force.
    pub is_default: bool,
    /// The tenants.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tenants: Vec<ConfigTenant>,
    /// The uplink, if the configuration names its uplinks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uplink: Option<String>,
}

/// A tenant of the policy in force.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConfigTenant {
    /// The tenant's name.
    pub tenant: String,
    /// The name of its file; null if it has none, so that its packets share one FIFO.
    pub file: Option<String>,
    /// The SHA-256 of the file's text, in hexadecimal digits.
    pub hash: Option<String>,
    /// The origin of the file, or of its absence.
    #[serde(default)]
    pub origin: TenantOrigin,
    /// The user who attached or detached the file; null if nobody did.
    #[serde(default)]
    pub owner_uid: Option<u32>,
    /// The text of a file that was attached; null if it was not, or if the answer has no room for it.
    #[serde(default)]
    pub text: Option<String>,
}

impl ServiceConfig {
    /// The text with its name, hash and generation as comments. It can be loaded again.
    pub fn loadable(&self) -> String {
        let line = |text: &str| text.replace(|c: char| c.is_control() && c != '\t', " ");
        let state = match self.is_default {
            true => "the configured policy".to_owned(),
            false => format!("`weft policy restore` returns to {}", line(&self.default_policy)),
        };
        let of = self.uplink.as_ref().map_or_else(String::new, |name| format!(", uplink {}", line(name)));
        let end = if self.text.is_empty() || self.text.ends_with('\n') { "" } else { "\n" };
        let tenant = |of: &ConfigTenant| {
            let user = of.owner_uid.map_or_else(String::new, |uid| format!(" by user {uid}"));
            let origin = match of.origin {
                TenantOrigin::Policy => String::new(),
                origin => format!("; {}{user}", origin.as_str()),
            };
            let text = of.text.iter().flat_map(|text| text.lines());
            let text: String = text.map(|text| format!("#   {}\n", line(text))).collect();
            match (&of.file, &of.hash) {
                (Some(file), Some(hash)) => {
                    format!("# tenant {}: {}, sha256 {hash}{origin}\n{text}", line(&of.tenant), line(file))
                }
                _ => format!("# tenant {}: no file, one FIFO{origin}\n", line(&of.tenant)),
            }
        };
        let tenants: String = self.tenants.iter().map(tenant).collect();
        format!(
            "# {}{of}\n# sha256 {}\n# generation {}; {state}\n{tenants}{}{end}",
            line(&self.policy),
            self.policy_hash,
            self.generation,
            self.text
        )
    }
}

impl Document for ConfigReport {
    const SCHEMA: &'static str = "weft-config/1";

    fn tables(&self) -> Vec<Table> {
        let mut table = Table::new("Policy in force").columns([Column::left("fact"), Column::left("value")]);
        table.row([Cell::plain("name"), self.config.policy.as_str().into()]);
        table.row([Cell::plain("generation"), self.config.generation.to_string().into()]);
        table.row([Cell::plain("sha256"), self.config.policy_hash.as_str().into()]);
        table.row([Cell::plain("configured"), self.config.default_policy.as_str().into()]);
        vec![table]
    }
}
