//! The policy of a session as text, for a successor of the process.

use serde::{Deserialize, Serialize};
use weft_facts::ports::LimitedPort;
use weft_facts::tenants::TenantText;

/// A policy as its author wrote it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AuthoredPolicy {
    /// Its name in diagnostics.
    pub name: String,
    /// Its text.
    pub text: String,
    /// The link's rate that replaces the policy's, in bits per second.
    pub rate_bps: Option<u64>,
    /// The limits of ports beside those of the text.
    #[serde(default)]
    pub port_limits: Vec<LimitedPort>,
    /// The files of its tenants.
    #[serde(default)]
    pub tenants: Vec<TenantText>,
}
