//! The policy of a session as text, for a successor of the process.

use super::PortLimit;
use serde::{Deserialize, Serialize};

/// A policy as its author wrote it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PolicySource {
    /// Its name in diagnostics.
    pub name: String,
    /// Its text.
    pub text: String,
    /// The link's rate that replaces the policy's, in bits per second.
    pub rate_bps: Option<u64>,
    /// The limits of ports beside those of the text.
    #[serde(default)]
    pub port_limits: Vec<SourceLimit>,
    /// The files of its tenants.
    #[serde(default)]
    pub tenants: Vec<SourceTenant>,
}

/// The text of a tenant's file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SourceTenant {
    /// The tenant.
    pub tenant: String,
    /// The file's name in diagnostics.
    pub name: String,
    /// Its text.
    pub text: String,
}

/// A limit of what a port sends, which is not part of a policy's text.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SourceLimit {
    /// The port.
    pub port: String,
    /// The limit.
    pub limit: PortLimit,
}
