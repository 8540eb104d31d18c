//! Tenants in calls and replies: their files, and their state.

use crate::error::Diagnostic;
use serde::{Deserialize, Serialize};
pub use weft_facts::tenants::{StatusTenant, TenantOrigin};

/// The text of a tenant's file.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TenantText {
    /// The tenant's name in the operator's policy, such as `vm1` or `vm1.db`.
    pub tenant: String,
    /// The file's name in diagnostics.
    pub name: String,
    /// Its text.
    pub text: String,
}

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

/// A tenant of the policy in force.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ConfigTenant {
    /// The tenant's name.
    pub tenant: String,
    /// The name of its file; `None` if it has none, so that its packets share one FIFO.
    #[serde(default)]
    pub file: Option<String>,
    /// The SHA-256 of the file's text, in hexadecimal digits.
    #[serde(default)]
    pub hash: Option<String>,
    /// The origin of the file, or of its absence.
    #[serde(default)]
    pub origin: TenantOrigin,
    /// The user who attached or detached the file.
    #[serde(default)]
    pub owner_uid: Option<u32>,
    /// The text of a file that was attached, if there is room for it in the answer.
    #[serde(default)]
    pub text: Option<String>,
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
    pub diagnostics: Vec<Diagnostic>,
}

/// The reply of `ListTenants`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ListTenantsReply {
    /// The generation in force.
    pub generation: u64,
    /// The tenants.
    pub tenants: Vec<StatusTenant>,
}
