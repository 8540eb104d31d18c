//! Profiles as files, of either kind.

use anyhow::Context;
use std::path::Path;
use weft_facts::json::from_json;
use weft_facts::record::Document;
use weft_report::profile::ProfileReport;
use weft_report::profile::attached::AttachedReport;

/// A profile of either kind.
pub(super) enum Profile {
    /// Of trials.
    Trials(Box<ProfileReport>),
    /// Of what ran.
    Attached(Box<AttachedReport>),
}

impl Profile {
    /// Reads a profile.
    pub(super) fn read(path: &Path) -> anyhow::Result<Self> {
        let text = text(path)?;
        let head: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
        let malformed = || format!("{} is no profile", path.display());
        if head.get("schema").and_then(serde_json::Value::as_str) == Some(AttachedReport::SCHEMA) {
            return Ok(Self::Attached(Box::new(from_json(&text).with_context(malformed)?)));
        }
        Ok(Self::Trials(Box::new(from_json(&text).with_context(malformed)?)))
    }
}

fn text(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Reads a profile of trials.
pub(super) fn read(path: &Path) -> anyhow::Result<ProfileReport> {
    from_json(&text(path)?).with_context(|| format!("{} is no profile", path.display()))
}
