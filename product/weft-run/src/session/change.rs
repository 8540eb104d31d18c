//! The change of a session's policy while it runs: prepared without any effect, then put in force in one step.
//!
//! [`Session::prepare_policy`] says what would change and whether the ports have room for it. [`Session::change_policy`]
//! resolves the new policy's cgroups, exchanges program and match tables (`weft_nic::nic`, `change.rs`), and lets the thread
//! that follows cgroups follow the new ones. If the exchange is refused, the former policy stays in force.
//!
//! Classes keep their counts while policies change. A class that is gone keeps its place until a new class takes it; that
//! starts from zero.

use super::{AuthoredPolicy, Session, SessionError};
use crate::cgroups::{self, Follower};
use weft_host::OsError;
use weft_host::cgroup::CgroupError;
use weft_nic::link::LinkKind;
use weft_nic::nic::{ClassTotals, PreparedPolicy, Totals};
use weft_nic::sojourn::Sojourns;
use weft_policy::{CompiledPolicy, Renumbered};
use weft_units::{BitsPerSec, Nanos};

/// A policy that is prepared and has no effect yet.
#[derive(Debug)]
pub struct PreparedChange {
    nic: PreparedPolicy,
    source: Option<AuthoredPolicy>,
}

impl PreparedChange {
    /// The change with the text of its policy, which a session needs that outlives its process.
    #[must_use]
    pub fn with_source(self, source: AuthoredPolicy) -> Self {
        Self { source: Some(source), ..self }
    }

    /// The differences from the policy in force, and warnings.
    pub fn renumbered(&self) -> &Renumbered {
        self.nic.renumbered()
    }
}

/// The classes of a session by their numbers, with the counts that they started from.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    /// The names; empty for a number that no class has.
    pub(super) current: Vec<String>,
    /// The last name of each number.
    pub(super) last: Vec<String>,
    /// The counts of each number when its class began.
    pub(super) base: Vec<Base>,
}

/// The counts of a number when its class began.
#[derive(Clone, Debug, Default)]
pub(super) struct Base {
    pub(super) counts: ClassTotals,
    pub(super) sojourns: Sojourns,
}

impl Names {
    pub(super) fn of(policy: &CompiledPolicy) -> Self {
        let current: Vec<String> = policy.classes.iter().map(|class| class.name.clone()).collect();
        let base = vec![Base::default(); current.len()];
        Self { last: current.clone(), current, base }
    }

    /// Takes the names of a changed policy. `totals` are the counts so far.
    fn change(&mut self, policy: &CompiledPolicy, totals: &Totals) {
        self.current = policy.classes.iter().map(|class| class.name.clone()).collect();
        self.last.resize(self.current.len().max(self.last.len()), String::new());
        self.base.resize(self.last.len(), Base::default());
        for (at, name) in self.current.iter().enumerate().filter(|(_, name)| !name.is_empty()) {
            if self.last[at] != *name {
                self.last[at].clone_from(name);
                self.base[at] = Base {
                    counts: totals.classes.get(at).cloned().unwrap_or_default(),
                    sojourns: totals.sojourns.get(at).cloned().unwrap_or_default(),
                };
            }
        }
    }
}

impl Session {
    /// Prepares a change to `policy`, with the rate and the treatment of its link. Changes nothing.
    ///
    /// # Errors
    /// When the policy does not fit the ports.
    pub fn prepare_policy(
        &self,
        policy: &CompiledPolicy,
        link: (BitsPerSec, LinkKind),
    ) -> Result<PreparedChange, SessionError> {
        let nic = self.nic.prepare_policy(policy, link)?;
        Ok(PreparedChange { nic, source: None })
    }

    /// Sets the wait of flows that change their class for packets that they have left.
    pub fn set_drain(&self, limit: Nanos) {
        self.nic.set_drain(limit);
    }

    /// Puts a prepared policy in force. Returns the time that the worker sent nothing.
    ///
    /// # Errors
    /// When the policy or the ports have changed since, or the kernel refuses; the former policy is then in force.
    pub fn change_policy(&mut self, change: PreparedChange) -> Result<Nanos, SessionError> {
        let PreparedChange { nic: change, source } = change;
        let policy = change.renumbered().policy.clone();
        let watch = cgroups::watch(&policy);
        // Before the tables change: the follower would write the former policy's cgroups into them.
        let former = self.nic.plan().whole().clone();
        self.cgroups = None;
        let changed = self.exchange(change, &cgroups::entries(&watch), source);
        let watch = if changed.is_ok() { watch } else { cgroups::watch(&former) };
        let follower = Follower::start(watch, self.nic.cgroups());
        self.cgroups = follower.ok();
        let pause = changed?;
        let totals = self.nic.totals()?;
        self.names.change(&policy, &totals);
        match self.cgroups {
            Some(_) => Ok(pause),
            None => {
                let error = std::io::Error::other("no thread");
                Err(CgroupError::from(OsError::new("start the thread that follows cgroups", error)).into())
            }
        }
    }
}
