//! A policy in force and its changes in the middle of a run, compiled as the daemon compiles them.
//!
//! 1. `begin` compiles the first policy. An error in it or in a tenant's file refuses it.
//! 2. `prepare` compiles a change: another policy, or a tenant's file in place of the one that it has. A tenant's file that is refused
//!    leaves the tenant with its last good one; another error refuses the change, and nothing changes.
//! 3. `commit` takes a change over, with the ids of the policy before.
//!
//! What was given to tenants goes before the files that a later policy comes with. Nothing here uses time or a scenario.

use crate::nic::scheduler::PolicyExchangeError;
use crate::run_error::RunError;
use std::collections::BTreeMap;
use thiserror::Error;
use weft_policy::{
    AtFault, Compilation, CompileOptions, CompiledPolicy, Diagnostic, Fallback, FileText, GivenFirst,
    Renumbered, Source, Tenant, TenantFiles, TenantTexts, TooManyRefused, compile_with,
    compile_with_fallback, is_below, is_given, renumber, texts_of,
};
use weft_sched::ProgramError;

/// Files given to tenants, by the tenants' names; `None` for a tenant whose file was taken away.
type Given = BTreeMap<String, Option<FileText>>;

/// A change of a policy.
#[derive(Clone, Debug)]
pub(crate) enum Change<'a> {
    /// Another policy.
    Policy(Source<'a>),
    /// A tenant's file in place of the one that it has, or none.
    Tenant {
        /// The tenant's name.
        tenant: &'a str,
        /// The file.
        file: Option<FileText>,
    },
}

/// The reason why a change is refused.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub(crate) enum Refusal {
    /// It does not compile; the first error.
    #[error("{0}")]
    Wrong(String),
    /// The tenant does not exist.
    #[error("the policy has no tenant {tenant}; it has: {}", .known.join(", "))]
    NoSuchTenant {
        /// The tenant that was given.
        tenant: String,
        /// The tenants of the policy.
        known: Vec<String>,
    },
    /// There is nothing to take away.
    #[error("tenant {tenant} has no file that could be taken away")]
    NoFile {
        /// The tenant.
        tenant: String,
    },
    /// Too many files are refused.
    #[error(transparent)]
    TooMany(#[from] TooManyRefused),
    /// The scenario lacks the text of a file.
    #[error("there is no file {path}")]
    Missing {
        /// The file.
        path: String,
    },
    /// Nothing is to change.
    #[error("the change has neither a policy nor a tenant")]
    Nothing,
    /// The streams cannot be classified.
    #[error(transparent)]
    Place(#[from] RunError),
    /// The engine refuses the program.
    #[error("the engine refuses the policy: {0}")]
    Program(#[from] ProgramError),
    /// The engine refuses the exchange.
    #[error("the engine refuses the change: {0}")]
    Exchange(#[from] PolicyExchangeError),
}

/// A policy in force.
#[derive(Debug)]
pub(crate) struct InForce {
    name: String,
    text: String,
    options: CompileOptions,
    compiled: CompiledPolicy,
    tenants: Vec<Tenant>,
    given: Given,
}

/// A change that compiles.
#[derive(Debug)]
pub(crate) struct Next {
    /// The new policy with the numbers of the one in force, and the differences.
    pub(crate) change: Renumbered,
    /// The tenants that do without their files, each with the first error.
    pub(crate) without: AtFault,
    name: String,
    text: String,
    tenants: Vec<Tenant>,
    given: Given,
}

impl InForce {
    /// Compiles the first policy. Returns all diagnostics, and no policy if one of them is an error.
    pub(crate) fn begin(
        source: Source<'_>,
        files: &dyn TenantFiles,
        options: CompileOptions,
    ) -> (Option<Self>, Vec<Diagnostic>) {
        let Compilation { policy, diagnostics, tenants, .. } = compile_with(source, files, &options);
        let (name, text) = (source.name.to_owned(), source.text.to_owned());
        let begun =
            policy.map(|compiled| Self { name, text, options, compiled, tenants, given: Given::new() });
        (begun, diagnostics)
    }

    /// The compiled policy.
    pub(crate) const fn compiled(&self) -> &CompiledPolicy {
        &self.compiled
    }

    /// Compiles a change. `files` are those that a new policy names.
    pub(crate) fn prepare(&self, change: Change<'_>, files: &dyn TenantFiles) -> Result<Next, Refusal> {
        match change {
            Change::Policy(source) => self.replace(source, files),
            Change::Tenant { tenant, file } => self.give(tenant, file),
        }
    }

    /// Puts a change in force that [`prepare`](Self::prepare) returned last.
    pub(crate) fn commit(&mut self, next: Next) {
        let Next { change, without: _, name, text, tenants, given } = next;
        let (options, compiled) = (core::mem::take(&mut self.options), change.policy);
        *self = Self { name, text, options, compiled, tenants, given };
    }

    fn replace(&self, source: Source<'_>, files: &dyn TenantFiles) -> Result<Next, Refusal> {
        let good = texts_of(&self.tenants);
        let fallback = Fallback { yields: &|_| true, good: &good };
        let (alone, without) = compile_with_fallback(source, files, &self.options, fallback)?;
        let (texts, mut given) = (texts_of(&alone.tenants), self.given.clone());
        // A tenant whose file was taken away has one again if the new policy comes with one.
        given.retain(|name, file| file.is_some() || !texts.0.contains_key(name));
        if given.is_empty() || alone.has_errors() {
            return self.next(source, alone, without, given);
        }
        let with = self.with_given(source, &given, &texts, &|tenant| is_given(&given, tenant));
        let (whole, refused) = with?;
        self.next(source, whole, without.into_iter().chain(refused).collect(), given)
    }

    fn give(&self, tenant: &str, file: Option<FileText>) -> Result<Next, Refusal> {
        let Some(known) = self.tenants.iter().find(|known| known.name == tenant) else {
            let known = self.tenants.iter().map(|tenant| tenant.name.clone()).collect();
            return Err(Refusal::NoSuchTenant { tenant: tenant.to_owned(), known });
        };
        if file.is_none() && known.file.is_none() {
            return Err(Refusal::NoFile { tenant: tenant.to_owned() });
        }
        let (source, texts) = (Source { name: &self.name, text: &self.text }, texts_of(&self.tenants));
        let mut given = self.given.clone();
        given.insert(tenant.to_owned(), file);
        // Files of others that did not fit are not tried again here: they would refuse this one.
        let (mut given, rest): (Given, Given) = given.into_iter().partition(|(name, file)| {
            name == tenant || is_below(name, tenant) || texts.0.get(name) == file.as_ref()
        });
        let (whole, without) = self.with_given(source, &given, &texts, &|name| is_below(name, tenant))?;
        given.extend(rest);
        self.next(source, whole, without, given)
    }

    fn with_given(
        &self,
        source: Source<'_>,
        given: &Given,
        texts: &TenantTexts,
        yields: &dyn Fn(&str) -> bool,
    ) -> Result<(Compilation, AtFault), TooManyRefused> {
        let files = GivenFirst { given, file: Option::as_ref, others: texts };
        compile_with_fallback(
            source,
            &files,
            &self.options,
            Fallback { yields, good: &TenantTexts::default() },
        )
    }

    /// The change to what was compiled.
    fn next(
        &self,
        source: Source<'_>,
        compilation: Compilation,
        without: AtFault,
        mut given: Given,
    ) -> Result<Next, Refusal> {
        let Compilation { policy, diagnostics, tenants, .. } = compilation;
        let Some(policy) = policy else {
            let first = diagnostics.iter().find(|diagnostic| diagnostic.is_error());
            return Err(Refusal::Wrong(first.map_or_else(String::new, Diagnostic::one_line)));
        };
        given.retain(|name, _| tenants.iter().any(|tenant| tenant.name == *name));
        let change = renumber(&self.compiled, policy);
        let (name, text) = (source.name.to_owned(), source.text.to_owned());
        Ok(Next { change, without, name, text, tenants, given })
    }
}
