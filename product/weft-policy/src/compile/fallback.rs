//! Compilation without the files of tenants that are refused: a tenant keeps its last good file, or is one FIFO, and the others continue.

use super::correct::Work;
use super::{Compilation, CompileOptions, Source, compile_within};
use crate::files::{AtFault, FileError, FileText, TenantFiles, TenantTexts, Wanted};
use std::collections::BTreeMap;
use thiserror::Error;

/// The most compilations in which files of tenants are refused. One finds all files that are wrong by themselves, so there are more
/// only where tenants together use up what all share, such as cgroups.
const ROUNDS_MAX: usize = 32;

/// The replacements for files of tenants that are refused.
#[derive(Clone, Copy)]
pub struct Fallback<'a> {
    /// Whether the policy can do without the file of a tenant.
    pub yields: &'a dyn Fn(&str) -> bool,
    /// The files in their place. A tenant without one, or whose file of these is refused as well, has none.
    pub good: &'a TenantTexts,
}

/// Too many files of tenants are refused one after the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("the files of more than {ROUNDS_MAX} tenants are beyond what all tenants share")]
pub struct TooManyRefused;

/// Compiles a policy as [`compile_with`](super::compile_with). Where files of tenants are refused that `fallback` can do without, it does without them, and
/// they are returned, each with its first error. The compilation has errors if the policy is refused whatever those files say.
///
/// # Errors
/// When too many files are refused one after the other.
pub fn compile_with_fallback(
    source: Source<'_>,
    files: &dyn TenantFiles,
    options: &CompileOptions,
    fallback: Fallback<'_>,
) -> Result<(Compilation, AtFault), TooManyRefused> {
    let mut instead = Instead { files, texts: BTreeMap::new() };
    let mut refused = AtFault::new();
    let mut work = Work::default();
    for _ in 0..ROUNDS_MAX {
        let compilation = compile_within(source, &instead, options, &mut work);
        let at_fault = &compilation.at_fault;
        let can_step = compilation.policy.is_none() && !at_fault.is_empty();
        if !can_step || !at_fault.keys().all(|of| (fallback.yields)(of) && instead.step(of, fallback.good)) {
            return Ok((compilation, refused));
        }
        for (tenant, error) in compilation.at_fault {
            refused.entry(tenant).or_insert(error);
        }
    }
    Err(TooManyRefused)
}

/// Files, with others in the place of some.
struct Instead<'a> {
    files: &'a dyn TenantFiles,
    texts: BTreeMap<String, Option<FileText>>,
}

impl Instead<'_> {
    /// Takes the next file of `tenant`. Returns whether there was one to do without.
    fn step(&mut self, tenant: &str, good: &TenantTexts) -> bool {
        let next = match self.texts.get(tenant) {
            None => good.0.get(tenant).cloned(),
            Some(Some(_)) => None,
            Some(None) => return false,
        };
        self.texts.insert(tenant.to_owned(), next);
        true
    }
}

impl TenantFiles for Instead<'_> {
    fn read(&self, wanted: Wanted<'_>) -> Result<FileText, FileError> {
        match self.texts.get(wanted.tenant) {
            Some(file) => file.clone().ok_or_else(|| FileError::Missing(wanted.path.to_owned())),
            None => self.files.read(wanted),
        }
    }
}
