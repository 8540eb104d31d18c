//! A policy's text, its hash, and what it compiles to.

use core::fmt::Write;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use weft_facts::diagnostic::PolicyDiagnostic;
use weft_facts::ports::LimitedPort;
use weft_facts::tenants::TenantText;
use weft_policy::syntax::TEXT_MAX;
use weft_policy::{
    Compilation, CompileOptions, CompiledPolicy, Fallback, FileText, Source, Steps, Tenant, TenantFiles,
    TenantTexts, TooManyRefused, compile_with_fallback, texts_of,
};
use weft_run::session::AuthoredPolicy;
use weft_run::tenant_files::Beside;
use weft_titan::host_users::host_users;
use weft_units::BitsPerSec;

/// A policy that compiles.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServicePolicy {
    /// Its name in diagnostics.
    pub name: String,
    /// Its text.
    pub text: String,
    /// The SHA-256 of the text, in hexadecimal digits.
    pub hash: String,
    /// The compiled form, with the limits of ports.
    pub compiled: CompiledPolicy,
    /// The tenants, with the texts of their files.
    pub tenants: Vec<Tenant>,
    /// The limits of ports beside those of the text.
    pub port_limits: Vec<LimitedPort>,
    /// The link's rate that replaces the one that the text states.
    pub rate: Option<BitsPerSec>,
    /// The steps of its compilation.
    pub steps: Steps,
    /// Warnings and notes of the compiler.
    pub diagnostics: Vec<PolicyDiagnostic>,
}

/// The values from outside that a policy is compiled with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outside {
    /// The link's rate, in place of the one that the text states.
    pub rate: Option<BitsPerSec>,
    /// Limits of ports beside those of the text.
    pub port_limits: Vec<LimitedPort>,
    /// The most steps of the compilation.
    pub steps: Steps,
}

/// Errors of a policy.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PolicyError {
    /// The file could not be read.
    #[error("cannot read the policy {file}: {reason}")]
    Read {
        /// The file.
        file: String,
        /// The reason.
        reason: String,
    },
    /// The policy does not compile. One line for each error.
    #[error("{}", lines(.0))]
    Refused(Vec<PolicyDiagnostic>),
    /// Too many files of tenants are refused one after the other.
    #[error("{file}: {reason}")]
    Tenants {
        /// The policy.
        file: String,
        /// The reason.
        reason: TooManyRefused,
    },
}

/// The tenants that do without their files, each with the error in a line.
pub type RefusedTenants = BTreeMap<String, String>;

fn lines(diagnostics: &[PolicyDiagnostic]) -> String {
    diagnostics.iter().map(PolicyDiagnostic::to_string).collect::<Vec<_>>().join("\n")
}

impl ServicePolicy {
    /// Compiles a policy whose tenants have no files. `rate` replaces the link's rate that the policy states.
    ///
    /// # Errors
    /// When it does not compile.
    pub fn new(name: &str, text: String, rate: Option<BitsPerSec>) -> Result<Self, PolicyError> {
        Self::limited(name, text, &TenantTexts::default(), rate, Vec::new())
    }

    /// Compiles a policy with the files of its tenants and with limits of ports, which hold beside those of the text.
    ///
    /// # Errors
    /// When it does not compile.
    pub fn limited(
        name: &str,
        text: String,
        files: &dyn TenantFiles,
        rate: Option<BitsPerSec>,
        port_limits: Vec<LimitedPort>,
    ) -> Result<Self, PolicyError> {
        let outside = Outside { rate, port_limits, steps: Steps::WHOLE };
        Self::compiled(name, text, files, outside)
    }

    /// Compiles a policy as [`limited`](Self::limited), within the steps of `outside`.
    ///
    /// # Errors
    /// When it does not compile.
    pub fn compiled(
        name: &str,
        text: String,
        files: &dyn TenantFiles,
        outside: Outside,
    ) -> Result<Self, PolicyError> {
        let fallback = Fallback { yields: &|_| false, good: &TenantTexts::default() };
        Self::falling_back(name, text, files, outside, fallback).map(|(policy, _)| policy)
    }

    /// Compiles a policy as [`limited`](Self::limited). Where files of tenants are refused that `fallback` can do without, it does
    /// without them, and they are returned.
    ///
    /// # Errors
    /// When it does not compile, whatever those files say.
    pub fn falling_back(
        name: &str,
        text: String,
        files: &dyn TenantFiles,
        outside: Outside,
        fallback: Fallback<'_>,
    ) -> Result<(Self, RefusedTenants), PolicyError> {
        let users = host_users();
        let Outside { rate, port_limits, steps } = outside;
        let options = CompileOptions { link: rate, port_limits, users, steps, ..CompileOptions::default() };
        let compiled = compile_with_fallback(Source { name, text: &text }, files, &options, fallback);
        let (compilation, refused) =
            compiled.map_err(|reason| PolicyError::Tenants { file: name.to_owned(), reason })?;
        let Compilation { policy, diagnostics, tenants, steps, .. } = compilation;
        let diagnostics = diagnostics.iter().map(diagnostic).collect();
        let Some(compiled) = policy else { return Err(PolicyError::Refused(diagnostics)) };
        let (name, hash, port_limits) = (name.to_owned(), hash(&text), options.port_limits);
        let policy = Self { name, hash, text, compiled, tenants, port_limits, rate, steps, diagnostics };
        let refused = refused.into_iter().map(|(tenant, error)| (tenant, error.one_line())).collect();
        Ok((policy, refused))
    }

    /// The policy as its author wrote it, for a successor of this process.
    pub fn authored(&self) -> AuthoredPolicy {
        let text =
            |(tenant, file): (String, FileText)| TenantText { tenant, name: file.name, text: file.text };
        AuthoredPolicy {
            name: self.name.clone(),
            text: self.text.clone(),
            rate_bps: self.rate.map(BitsPerSec::get),
            port_limits: self.port_limits.clone(),
            tenants: self.tenant_texts().0.into_iter().map(text).collect(),
        }
    }

    /// Compiles a policy as its author wrote it.
    ///
    /// # Errors
    /// When it does not compile.
    pub fn of_authored(source: &AuthoredPolicy) -> Result<Self, PolicyError> {
        let file =
            |of: &TenantText| (of.tenant.clone(), FileText { name: of.name.clone(), text: of.text.clone() });
        let files = TenantTexts(source.tenants.iter().map(file).collect());
        let rate = source.rate_bps.map(BitsPerSec);
        Self::limited(&source.name, source.text.clone(), &files, rate, source.port_limits.clone())
    }

    /// The texts of its tenants' files, for another compilation.
    pub fn tenant_texts(&self) -> TenantTexts {
        texts_of(&self.tenants)
    }

    /// The same text with other limits of ports.
    ///
    /// # Errors
    /// When it does not compile with them.
    pub fn with_port_limits(self, port_limits: Vec<LimitedPort>) -> Result<Self, PolicyError> {
        if port_limits == self.port_limits {
            return Ok(self);
        }
        let files = self.tenant_texts();
        Self::limited(&self.name, self.text, &files, self.rate, port_limits)
    }

    /// Reads and compiles the policy at `path`, with the files of its tenants beside it.
    ///
    /// # Errors
    /// When the file cannot be read, or does not compile.
    pub fn read(path: &Path, rate: Option<BitsPerSec>) -> Result<Self, PolicyError> {
        let file = path.display().to_string();
        Self::limited(&file, read(path)?, &Beside, rate, Vec::new())
    }

    /// Reads and compiles the policy at `path` as [`read`](Self::read). A tenant's file that is refused is replaced by the one of
    /// `good`, or missing, and returned.
    ///
    /// # Errors
    /// When the file cannot be read, or does not compile.
    pub fn read_around(
        path: &Path,
        rate: Option<BitsPerSec>,
        good: &TenantTexts,
    ) -> Result<(Self, RefusedTenants), PolicyError> {
        let file = path.display().to_string();
        let fallback = Fallback { yields: &|_| true, good };
        let outside = Outside { rate, port_limits: Vec::new(), steps: Steps::WHOLE };
        Self::falling_back(&file, read(path)?, &Beside, outside, fallback)
    }
}

/// The text of the file at `path`.
fn read(path: &Path) -> Result<String, PolicyError> {
    let failed = |reason: String| PolicyError::Read { file: path.display().to_string(), reason };
    let mut bytes = Vec::new();
    let read = std::fs::File::open(path).and_then(|f| f.take(TEXT_MAX as u64 + 1).read_to_end(&mut bytes));
    read.map_err(|e| failed(e.to_string()))?;
    String::from_utf8(bytes)
        .map_err(|e| failed(format!("it is not UTF-8 text; see byte {}", e.utf8_error().valid_up_to())))
}

/// A diagnostic in an answer: its line, without what only an editor needs.
fn diagnostic(found: &weft_policy::Diagnostic) -> PolicyDiagnostic {
    PolicyDiagnostic { end: None, notes: Vec::new(), fix: None, ..found.stated() }
}

/// The SHA-256 of a text, as `sha256sum` prints it.
pub fn hash(text: &str) -> String {
    let mut digits = String::new();
    for byte in Sha256::digest(text.as_bytes()) {
        let _ = write!(digits, "{byte:02x}");
    }
    digits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_that_of_sha256sum() {
        // `printf abc | sha256sum`; FIPS 180-2, appendix B.1.
        assert_eq!(hash("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }

    #[test]
    fn a_refused_policy_says_where() {
        let error =
            ServicePolicy::new("p.weft", "root = nothing\n".to_owned(), None).unwrap_err().to_string();
        assert!(error.starts_with("p.weft:1:8: error[") && !error.contains('\n'), "{error}");
        let error = ServicePolicy::read(Path::new("/no/such"), None).unwrap_err().to_string();
        assert!(error.contains("/no/such: No such file"), "{error}");
    }
}
