//! The daemon's knowledge of a policy's tenants beside the policy itself: the files that were attached while it ran, since when each
//! file is in force, and what was refused.
//!
//! A given file goes before the one that the operator's policy comes with, and so does its absence after a detach. Files below a tenant
//! that was given one are given too, or missing: the daemon opens no file whose path a tenant's user wrote.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};
use weft_facts::tenants::{StatusQuota, StatusRefusal, StatusTenant, TenantOrigin};
use weft_policy::{FileText, Tenant, TenantTexts};

use crate::policy::{RefusedTenants, ServicePolicy, hash};

/// A tenant's file, or its absence, that a user gave while the daemon ran.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct GivenFile {
    /// The user.
    pub uid: u32,
    /// The cgroup that gave the user the right; `None` for who may do everything.
    pub cgroup: Option<String>,
    /// The file; `None` after a detach.
    pub file: Option<FileText>,
}

/// The files that users gave, by the tenants' names.
pub type AllGiven = BTreeMap<String, GivenFile>;

/// A tenant as the daemon has it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
struct Known {
    /// The time from which its file, or its FIFO, is in force, in seconds since 1970.
    since_unix_s: u64,
    /// The SHA-256 of its file's text.
    hash: Option<String>,
    given: Option<GivenFile>,
    refusal: Option<StatusRefusal>,
}

/// The tenants whose refusals are over when a policy is in force.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RefusalScope<'a> {
    /// Those with the operator's files, which were all read.
    All,
    /// One.
    One(&'a str),
}

/// The tenants of an uplink's policy.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Tenants(BTreeMap<String, Known>);

/// The time in seconds since 1970.
fn unix_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

impl Tenants {
    /// The files that users gave.
    pub fn given(&self) -> AllGiven {
        let given = |(name, known): (&String, &Known)| Some((name.clone(), known.given.clone()?));
        self.0.iter().filter_map(given).collect()
    }

    /// Remembers that a file of `tenant` was refused.
    pub fn refuse(&mut self, tenant: &str, error: String) {
        if let Some(known) = self.0.get_mut(tenant) {
            known.refusal = Some(StatusRefusal { at_unix_s: unix_now(), error });
        }
    }

    /// Follows a policy that is in force now, with what users gave and what is refused. `before` are the texts that were in force.
    pub fn settle(
        &mut self,
        policy: &ServicePolicy,
        given: &AllGiven,
        refused: &RefusedTenants,
        (before, scope): (&TenantTexts, RefusalScope<'_>),
    ) {
        let mut former = core::mem::take(&mut self.0);
        for tenant in &policy.tenants {
            let was = former.remove(&tenant.name);
            let is_same = was.is_some() && before.0.get(&tenant.name) == tenant.file.as_ref();
            let mut known = was.filter(|_| is_same).unwrap_or_default();
            if !is_same {
                known.since_unix_s = unix_now();
                known.hash = tenant.file.as_ref().map(|file| hash(&file.text));
            }
            known.given = given.get(&tenant.name).cloned();
            let is_over = match scope {
                RefusalScope::All => known.given.is_none(),
                RefusalScope::One(name) => name == tenant.name,
            };
            if is_over {
                known.refusal = None;
            }
            self.0.insert(tenant.name.clone(), known);
        }
        for (tenant, error) in refused {
            self.refuse(tenant, error.clone());
        }
    }

    /// The state of a tenant.
    pub fn status(&self, tenant: &Tenant, uplink: Option<&String>) -> StatusTenant {
        let known = self.0.get(&tenant.name).cloned().unwrap_or_default();
        let origin = match known.given.as_ref().map(|given| given.file.is_some()) {
            None => TenantOrigin::Policy,
            Some(true) => TenantOrigin::Attached,
            Some(false) => TenantOrigin::Detached,
        };
        let quota = |of: &weft_policy::QuotaUse| StatusQuota {
            quota: of.quota.as_str().to_owned(),
            most: of.most,
            used: of.used,
        };
        StatusTenant {
            tenant: tenant.name.clone(),
            cgroup: tenant.cgroup.clone(),
            file: tenant.file.as_ref().map(|file| file.name.clone()),
            hash: known.hash,
            origin,
            owner_uid: known.given.map(|given| given.uid),
            since_unix_s: known.since_unix_s,
            quotas: tenant.quotas.iter().map(quota).collect(),
            refusal: known.refusal,
            uplink: uplink.cloned(),
        }
    }
}
