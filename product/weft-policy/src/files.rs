//! The files of tenants, as a compilation requests them. The compiler opens no file itself.

use crate::diagnostic::Diagnostic;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The text of a tenant's file.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct FileText {
    /// Its name in diagnostics.
    pub name: String,
    /// Its text.
    pub text: String,
}

/// The reason why there is no text.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FileError {
    /// There is no such file: the tenant's packets share one FIFO.
    #[error("there is no file {0}")]
    Missing(String),
    /// The file cannot be read, which refuses the policy.
    #[error("{0}")]
    Unreadable(String),
}

/// A tenant for whose file a compilation asks.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// The tenant's name in the operator's policy, such as `vm1` or `vm1.db`.
    pub tenant: &'a str,
    /// The path, as written.
    pub path: &'a str,
    /// The name of the file that names it.
    pub named_in: &'a str,
}

/// A source of tenants' files.
pub trait TenantFiles {
    /// The text of the file that is wanted.
    ///
    /// # Errors
    /// When the file does not exist.
    fn read(&self, wanted: Wanted<'_>) -> Result<FileText, FileError>;
}

/// A source where no tenant can have a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoFiles;

impl TenantFiles for NoFiles {
    fn read(&self, _: Wanted<'_>) -> Result<FileText, FileError> {
        Err(FileError::Unreadable("this command reads no files of tenants".to_owned()))
    }
}

/// Texts of tenants by the tenants' names, such as those that a policy was compiled with. A tenant without a text has no file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TenantTexts(pub BTreeMap<String, FileText>);

impl TenantFiles for TenantTexts {
    fn read(&self, wanted: Wanted<'_>) -> Result<FileText, FileError> {
        self.0.get(wanted.tenant).cloned().ok_or_else(|| FileError::Missing(wanted.path.to_owned()))
    }
}

/// Whether `tenant` is below the tenant `above`.
pub fn is_below(tenant: &str, above: &str) -> bool {
    tenant.strip_prefix(above).is_some_and(|rest| rest.starts_with('.'))
}

/// Whether a file, or its absence, was given to `tenant` or to a tenant above it.
pub fn is_given<T>(given: &BTreeMap<String, T>, tenant: &str) -> bool {
    given.contains_key(tenant) || tenant.match_indices('.').any(|(dot, _)| given.contains_key(&tenant[..dot]))
}

/// Files that were given while a policy is in force, before those that it comes with. Below a tenant that was given a file, or was
/// left without one, files are given too, or missing.
#[derive(Clone, Copy)]
pub struct GivenFirst<'a, T> {
    /// The files or their absence, by the tenants' names.
    pub given: &'a BTreeMap<String, T>,
    /// The file of what was given; `None` for a tenant that was left without one.
    pub file: fn(&T) -> Option<&FileText>,
    /// The files that the policy comes with.
    pub others: &'a dyn TenantFiles,
}

impl<T> TenantFiles for GivenFirst<'_, T> {
    fn read(&self, wanted: Wanted<'_>) -> Result<FileText, FileError> {
        let file = match self.given.get(wanted.tenant) {
            Some(given) => (self.file)(given),
            None if is_given(self.given, wanted.tenant) => None,
            None => return self.others.read(wanted),
        };
        file.cloned().ok_or_else(|| FileError::Missing(wanted.path.to_owned()))
    }
}

/// A tenant of a compiled policy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tenant {
    /// Its name in the operator's policy, such as `vm1` or `vm1.db`.
    pub name: String,
    /// The cgroup to which its packets are restricted, if they are.
    pub cgroup: Option<String>,
    /// Its file; `None` if it has none, so that its packets share one FIFO.
    pub file: Option<FileText>,
    /// Its quotas, each with the use of its file and what is below it.
    pub quotas: Vec<QuotaUse>,
}

/// The texts of tenants' files, from which a policy compiles again.
pub fn texts_of(tenants: &[Tenant]) -> TenantTexts {
    TenantTexts(tenants.iter().filter_map(|of| Some((of.name.clone(), of.file.clone()?))).collect())
}

/// A quota of a tenant, and its use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QuotaUse {
    /// The bounded thing.
    pub quota: Quota,
    /// The most that the tenant may use.
    pub most: u64,
    /// The use; 0 for a tenant without a file.
    pub used: u64,
}

/// The things that the operator may bound for a tenant.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Quota {
    /// Classes.
    Classes,
    /// Nodes of the tree.
    Nodes,
    /// Rate limits.
    Limits,
    /// Flows that can wait at once.
    Flows,
    /// Cgroups that no file above names.
    Cgroups,
    /// Names of ports that no file above names.
    Ports,
    /// Rows of the classification table, and rows of the destination table.
    Rows,
    /// Combinations of tests and masks of these rows.
    Masks,
    /// Entries of the match tables that these rows need.
    Entries,
    /// The time of a packet in the software NIC, in nanoseconds.
    Cost,
}

impl Quota {
    /// Those that are numbers.
    pub(crate) const COUNTS: [Self; 9] = [
        Self::Classes,
        Self::Nodes,
        Self::Limits,
        Self::Flows,
        Self::Cgroups,
        Self::Ports,
        Self::Rows,
        Self::Masks,
        Self::Entries,
    ];

    /// Its word in the language.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Classes => "classes",
            Self::Nodes => "nodes",
            Self::Limits => "limits",
            Self::Flows => "flows",
            Self::Cgroups => "cgroups",
            Self::Ports => "ports",
            Self::Rows => "rows",
            Self::Masks => "masks",
            Self::Entries => "entries",
            Self::Cost => "cost",
        }
    }
}

/// The tenants whose files are refused, each with its first error.
pub type AtFault = BTreeMap<String, Diagnostic>;

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> Option<FileText> {
        Some(FileText { name: "n".to_owned(), text: text.to_owned() })
    }

    #[test]
    fn nothing_below_a_given_file_comes_with_the_policy() {
        let given = [("a", file("1")), ("b", None), ("a.x.y", file("2"))];
        let given: BTreeMap<_, _> = given.into_iter().map(|(name, file)| (name.to_owned(), file)).collect();
        let names = ["a", "a.x", "a.x.y", "ab", "b", "b.x"];
        let all = names.map(|name| (name.to_owned(), file("the policy's").expect("a file")));
        let others = TenantTexts(all.into_iter().collect());
        let files = GivenFirst { given: &given, file: Option::as_ref, others: &others };
        let read = |tenant| {
            let read = files.read(Wanted { tenant, path: "p", named_in: "q" });
            read.map_or("missing".to_owned(), |file| file.text)
        };
        assert_eq!(names.map(read), ["1", "missing", "2", "the policy's", "missing", "missing"]);
    }
}
