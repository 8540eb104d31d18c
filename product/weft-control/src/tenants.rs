//! Tenants in calls and replies: their files, and their state.

use serde::{Deserialize, Serialize};
pub use weft_facts::config::ConfigTenant;
use weft_facts::diagnostic::PolicyDiagnostic;
pub use weft_facts::tenants::{StatusTenant, TenantOrigin, TenantText};

/// The parameters of `AttachTenant` and `ReplaceTenant`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct TenantFile {
    /// The tenant's name in the operator's policy, such as `vm1` or `vm1.db`.
    pub tenant: String,
    /// The file's name in diagnostics. The daemon opens no file of this name.
    pub name: String,
    /// Its text.
    pub text: String,
    /// The generation that must be in force, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<u64>,
    /// The uplink; `None` for the default one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uplink: Option<String>,
}

/// The parameters of `DetachTenant`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct TenantName {
    /// The tenant's name in the operator's policy.
    pub tenant: String,
    /// The generation that must be in force, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<u64>,
    /// The uplink; `None` for the default one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uplink: Option<String>,
}

/// The reply of `AttachTenant`, `ReplaceTenant` and `DetachTenant`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct TenantReply {
    /// The generation in force, after the change.
    pub generation: u64,
    /// The SHA-256 of the operator's policy.
    pub policy_hash: String,
    /// The tenant, after the change.
    pub tenant: StatusTenant,
    /// The changes, one line each; empty if nothing changes.
    pub steps: Vec<String>,
    /// Warnings about the change, one line each.
    pub warnings: Vec<String>,
    /// The messages of the compiler that the change adds, warnings and notes.
    #[serde(default)]
    pub diagnostics: Vec<PolicyDiagnostic>,
}

/// The reply of `ListTenants`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ListTenantsReply {
    /// The generation in force.
    pub generation: u64,
    /// The tenants.
    pub tenants: Vec<StatusTenant>,
}
