//! The plan of a NIC: a policy and a configuration, with the rings derived from both.

use super::workers::{self, WorkersError};
use super::{NicConfig, NicError};
use crate::doorbell::check;
use crate::layout::LaneEntry;
use crate::plan::{PlanError, PortShare, RingPlan};
use core::num::NonZeroUsize;
use weft_policy::CompiledPolicy;
use weft_units::BitsPerSec;

/// A policy and a configuration, with the rings derived from both. None of them can be replaced, so a NIC never starts
/// with the rings of another policy.
#[derive(Clone, Debug)]
pub struct NicPlan {
    config: NicConfig,
    rings: RingPlan,
    workers: NonZeroUsize,
}

impl NicPlan {
    /// Plans the rings of a port for `policy` and `config`.
    ///
    /// # Errors
    /// When the policy exceeds the port, or the rate is zero.
    pub fn new(policy: &CompiledPolicy, config: NicConfig) -> Result<Self, NicError> {
        check(policy)?;
        if config.rate == BitsPerSec::ZERO {
            return Err(NicError::ZeroRate);
        }
        let rings = RingPlan::new(policy, config.mode, config.rings, &config.flows)?;
        Ok(Self { config, rings, workers: NonZeroUsize::MIN })
    }

    /// The plan of a NIC with `workers` workers, each of which serves some of the ports.
    ///
    /// # Errors
    /// When that many workers cannot share the policy or the link.
    pub fn with_workers(self, workers: NonZeroUsize) -> Result<Self, WorkersError> {
        workers::check(workers, &self.config, &self.rings)?;
        Ok(Self { workers, ..self })
    }

    /// The number of workers.
    pub const fn workers(&self) -> NonZeroUsize {
        self.workers
    }

    /// The plan of a NIC whose policy has changed.
    pub(super) fn changed(config: NicConfig, rings: RingPlan, workers: NonZeroUsize) -> Self {
        Self { config, rings, workers }
    }

    /// The plan with the policy's cgroups, resolved.
    #[must_use]
    pub fn with_cgroups(mut self, cgroups: Vec<Option<crate::doorbell::CgroupEntry>>) -> Self {
        self.config.cgroups = cgroups;
        self
    }

    /// The policy.
    pub fn policy(&self) -> &CompiledPolicy {
        self.rings.policy()
    }

    /// The policy with infrastructure, where the NIC adds it.
    pub fn whole(&self) -> &CompiledPolicy {
        self.rings.whole()
    }

    /// The configuration.
    pub const fn config(&self) -> &NicConfig {
        &self.config
    }

    /// The rings.
    pub const fn rings(&self) -> &RingPlan {
        &self.rings
    }

    /// The number of rings that the port must have.
    pub fn ring_count(&self) -> u32 {
        u32::try_from(self.rings.rings.len()).unwrap_or(u32::MAX)
    }

    /// The lanes as the eBPF program reads them, for settings that do not follow from the policy: a lane's class in a
    /// qdisc, and its flow bound.
    pub fn lanes_mut(&mut self) -> &mut [LaneEntry] {
        &mut self.rings.lanes
    }

    /// Plans the rings of the port `name`, with its share of resources.
    ///
    /// # Errors
    /// When the policy has more lanes for the port than the port has rings.
    pub fn for_port(&self, name: &str, share: PortShare) -> Result<RingPlan, PlanError> {
        self.rings.of_port(name, self.config.mode, share, &self.config.flows)
    }
}
