//! The change of a NIC's policy while it runs.
//!
//! 1. [`SoftwareNic::prepare_policy`] numbers the new policy after the one in force, plans the rings of every port and builds
//!    the engine's new tree. It changes nothing.
//! 2. [`SoftwareNic::change_policy`], in this order:
//!    1. The new match tables are written beside those in use, and the ports' tables of lanes get the entries of new lanes,
//!       to which no packet is led yet.
//!    2. The worker exchanges the program between two turns (`worker/ports.rs`). From then on the new lanes have rings, and
//!       packets in rings of lanes that are gone are their heirs'.
//!    3. The caller stores the new numbers for a successor of this process ([`SoftwareNic::change_policy_storing`]).
//!    4. The match tables are exchanged by one store. Each flow is classified again with its next packet; one that changes its
//!       ring waits for its packets in the old one.
//!
//! Several workers get their change at once, and the match tables are exchanged when the last of them has it. What they share of
//! the new policy is new, so while one has the new policy and another sends by the old one (at most until that looks for commands,
//! after 256 chunks) a limit may send by both.
//!
//! Before that, each is asked whether it would change. The answer depends on its ports, and none comes or goes in between, so either
//! all workers have the new policy or none has it. A worker that ended in between is the end of the NIC.
//!
//! A step that fails leaves the policy in force as it was: the ports get their former lanes back, and after the worker's exchange
//! nothing can fail (only the removal of the old tables can, which has no effect on packets).
//!
//! Numbers of classes and lanes that are gone are reserved (*resting*, `plan/vacant.rs`).

use super::{CgroupEntry, NicConfig, NicError, NicPlan, NicPort, SoftwareNic, workers};
use crate::counters::LagGauge;
use crate::doorbell::check;
use crate::link::{DeviceLink, LinkKind, LinkRate};
use crate::plan::RingPlan;
use crate::plan::change::{NewPolicy, PlanChange, RingUse};
use crate::sync::Ordering;
use crate::worker::{Classes, PolicyChange, PortChange, add_to_leaf};
use std::sync::Arc;
use weft_host::clock;
use weft_packet::Attribute;
use weft_policy::{CompiledPolicy, Renumbered};
use weft_sched::workers::Shared;
use weft_sched::{PolicyTree, Prepared};
use weft_units::{BitsPerSec, ClassId, Instant, LaneId, Nanos};

/// A change that is prepared for the policy in force at that time.
#[derive(Debug)]
pub struct PreparedPolicy {
    new: NewPolicy,
    ports: Vec<PlanChange>,
    base: RingPlan,
    /// The new tree of each worker.
    programs: Vec<Prepared>,
    /// The state of the new program that several workers share.
    shared: Option<Arc<Shared>>,
    config: NicConfig,
    /// The number of changes before it.
    generation: u64,
}

impl PreparedPolicy {
    /// The differences, warnings and heirs.
    pub fn renumbered(&self) -> &Renumbered {
        &self.new.renumbered
    }
}

/// The effect of a change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChangedPolicy {
    /// The time that the worker sent nothing.
    pub pause: Nanos,
}

impl SoftwareNic {
    /// Prepares a change to `policy` on a link of `rate`. Changes nothing.
    ///
    /// # Errors
    /// When the policy does not fit the ports, or the NIC has no policy.
    pub fn prepare_policy(
        &self,
        policy: &CompiledPolicy,
        (rate, link): (BitsPerSec, LinkKind),
    ) -> Result<PreparedPolicy, NicError> {
        check(policy)?;
        let old = self.plan.rings();
        if old.rings.iter().any(|ring| ring.class.is_none()) {
            return Err(NicError::NoPolicy);
        }
        if core::mem::discriminant(&link) != core::mem::discriminant(&self.plan.config().link) {
            return Err(NicError::OtherLink);
        }
        let now = clock::now();
        let resting = self.vacancies.resting(now, |class| self.has_retired_packets(class));
        let new = old.renumber(policy, &resting)?;
        let mut ports = Vec::with_capacity(self.ports.len());
        for port in &self.ports {
            ports.push(port.plan.change(&new, &port.uses, |ring| is_empty(port, ring), now)?);
        }
        // The rings of the plan itself are those of the next port, which is planned anew.
        let base = old.with_policy(&new);
        let flows = super::ports::NIC_RINGS;
        let config = NicConfig { rate, link, ..self.plan.config().clone() };
        let shared = match self.plan.workers().get() {
            1 => None,
            _ => {
                workers::check_policy(&base, link)?;
                Some(workers::share(&new.whole.program, rate, self.longest_chunk)?)
            }
        };
        let prepare = |_| {
            PolicyTree::prepare(&new.whole.program, &new.renumbered.heirs, flows)
                .map_err(|error| NicError::Engine(error.to_string()))
        };
        let programs = (0..self.plan.workers().get()).map(prepare).collect::<Result<_, _>>()?;
        Ok(PreparedPolicy { new, ports, base, programs, shared, config, generation: self.generation })
    }

    /// Puts a prepared policy in force. `cgroups` are its cgroups, resolved.
    ///
    /// # Errors
    /// As [`change_policy_storing`](Self::change_policy_storing).
    pub fn change_policy(
        &mut self,
        prepared: PreparedPolicy,
        cgroups: &[Option<CgroupEntry>],
    ) -> Result<ChangedPolicy, NicError> {
        self.change_policy_storing(prepared, cgroups, |_| ())
    }

    /// As [`change_policy`](Self::change_policy), and calls `store` when the worker has the new numbers and no packet is
    /// classified by them. A successor of a process that is killed from then on must have them.
    ///
    /// # Errors
    /// When the policy, or the ports, have changed since it was prepared, or the kernel refuses the tables; the former policy is
    /// then in force.
    pub fn change_policy_storing(
        &mut self,
        prepared: PreparedPolicy,
        cgroups: &[Option<CgroupEntry>],
        store: impl FnOnce(&Self),
    ) -> Result<ChangedPolicy, NicError> {
        if prepared.generation != self.generation || prepared.ports.len() != self.ports.len() {
            return Err(NicError::Stale);
        }
        let PreparedPolicy { new, ports, base, programs, shared, config, .. } = prepared;
        let maps = Arc::clone(&self.maps);
        maps.note_socket_owners(&base);
        let tables = maps.prepare_tables(&base, cgroups)?;
        let of_worker = |(worker, program)| {
            let change = self.worker_change(&base, (&ports, worker), program, &config);
            PolicyChange { shared: shared.clone(), ..change }
        };
        let of_workers = programs.into_iter().enumerate().map(of_worker).collect();
        let exchanged = self.set_lanes(&ports).and_then(|()| self.threads.change(of_workers));
        if exchanged.is_err() {
            self.restore_lanes();
        }
        let pause = exchanged?;
        self.vacate(&new, clock::now());
        for (port, change) in self.ports.iter_mut().zip(ports) {
            port.plan = change.plan;
            port.uses = change.uses;
            port.doorbells.guard().set_infrastructure(port.plan.infrastructure);
        }
        self.generation += 1;
        self.plan =
            NicPlan::changed(NicConfig { cgroups: cgroups.to_vec(), ..config }, base, self.plan.workers());
        self.divide_infrastructure();
        store(self);
        // Only the removal of the former tables can fail, and only memory is lost then.
        let _ = tables.commit();
        maps.offer_messages(self.plan.rings());
        maps.forget_socket_owners(self.plan.rings());
        Ok(ChangedPolicy { pause })
    }

    fn set_lanes(&self, changes: &[PlanChange]) -> Result<(), NicError> {
        let mut ports = self.ports.iter().zip(changes);
        Ok(ports.try_for_each(|(port, change)| port.doorbells.set_lanes(&change.plan.lanes))?)
    }

    /// Gives the ports the lanes of the policy in force. The kernel, which took them before, has no reason to refuse them now:
    /// an element of an array has its memory.
    fn restore_lanes(&self) {
        for port in &self.ports {
            let _ = port.doorbells.set_lanes(&port.plan.lanes);
        }
    }

    /// The reason that applications cannot report their messages, although an algorithm of the policy would read the reports.
    pub fn messages_missing(&self) -> Option<String> {
        self.maps.messages_missing()
    }

    /// The reason that no class gets packets by the process that made their socket, although the policy tests it.
    pub fn socket_owners_missing(&self) -> Option<String> {
        self.maps.socket_owners_missing().filter(|_| self.plan.policy().tests(Attribute::Process))
    }

    /// Sets the wait of flows that change their class for packets that they have left. Holds from now on, also for
    /// those that wait (`worker/rings.rs`).
    pub fn set_drain(&self, limit: Nanos) {
        self.counters.0.iter().for_each(|counters| counters.drain_limit.set(limit.get()));
    }

    /// The number of changes so far.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    fn worker_change(
        &self,
        base: &RingPlan,
        (ports, worker): (&[PlanChange], usize),
        program: Prepared,
        config: &NicConfig,
    ) -> PolicyChange {
        let former = self.plan.config();
        let several = self.plan.workers().get() > 1;
        let link = match (config.link, former.link) {
            // The link is a limit of the policy.
            _ if several => None,
            (LinkKind::Device(new), LinkKind::Device(old))
                if (new.rate, config.rate) != (old.rate, former.rate) =>
            {
                Some((config.rate, new.rate, config.catch_up))
            }
            (LinkKind::Emulated, _) if config.rate != former.rate => {
                Some((config.rate, LinkRate::Given, config.catch_up))
            }
            _ => None,
        };
        let rate = match config.link {
            LinkKind::Device(DeviceLink { rate: LinkRate::Observed, .. }) => self.observed_rate(),
            _ => Some(config.rate),
        };
        let leaf_of = |lane: LaneId| base.program.lanes.get(lane.index()).map_or(0, |lane| lane.leaf.index());
        let at_port = |(port, change): (&NicPort, &PlanChange)| {
            let mut leaves = Vec::new();
            for (ring, spec) in change.plan.rings.iter().enumerate() {
                add_to_leaf(&mut leaves, leaf_of(spec.lane), ring);
            }
            PortChange { port: port.number, rings: change.rings.clone(), leaves }
        };
        let at_ports = self.ports.iter().zip(ports).filter(|(port, _)| port.worker == worker);
        PolicyChange {
            program: Some(program),
            shared: None,
            classes: (!several && matches!(config.link, LinkKind::Device(_)))
                .then(|| Classes::new(&workers::limited(base, config.rate), rate)),
            ports: at_ports.map(at_port).collect(),
            link,
            outcome: Ok(Nanos::ZERO),
        }
    }

    /// Records the numbers that `new` leaves vacant, and starts the lags of its leaves anew.
    fn vacate(&mut self, new: &NewPolicy, now: Instant) {
        let mut vacancies = core::mem::take(&mut self.vacancies);
        vacancies.record(self.plan.rings().whole(), &new.whole, now);
        vacancies.release(now, |class| self.has_retired_packets(class));
        self.vacancies = vacancies;
        self.counters().lags.iter().for_each(LagGauge::restart);
    }

    /// Whether a retired ring of `class` has packets.
    fn has_retired_packets(&self, class: ClassId) -> bool {
        self.ports.iter().any(|port| {
            let rings = port.plan.rings.iter().zip(&port.uses).enumerate();
            let retired = rings
                .filter(|(_, (spec, of))| spec.class == Some(class) && matches!(of, RingUse::Retired(_)));
            retired.into_iter().any(|(ring, _)| !is_empty(port, ring))
        })
    }
}

/// Whether every packet posted to `ring` is done.
fn is_empty(port: &NicPort, ring: usize) -> bool {
    let bell = &port.doorbells().rings[ring];
    bell.done.load(Ordering::Acquire) >= bell.packets.load(Ordering::Acquire)
}

#[cfg(test)]
mod tests;
