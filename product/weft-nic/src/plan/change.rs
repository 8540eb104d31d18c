//! The plan of a port's rings under a changed policy: what stays keeps its rings, and what is new gets spare ones.
//!
//! 1. A lane of both policies keeps its range of rings. Its bounds may change.
//! 2. A lane that is gone, or that packets of this port no longer reach, has an heir. If the heir is new here and of the same
//!    class, such as the lane of a limit that was added, it takes the range as it is, with the packets in it. Otherwise the
//!    rings *retire*: they go to the heir, which sends the packets left in them, and keep their class for the counters.
//! 3. Another new lane gets a range of spare rings. A retired ring is spare again when it is empty and [`REST`] has passed, so
//!    that no program run that had the old tables still posts to it.
//!
//! A flow changes its ring with its next packet, behind the packets that it has left in the old one (`held_back` in
//! bpf/moves.h). Rings of the policy's lanes are never taken away, so no packet of an unchanged class waits.

use super::{
    PlanError, RetiredRings, RingPlan, RingSpec, algorithms, infrastructure, loom_demand, packet_bound,
};
use crate::layout::{CLASSES, LANES, LaneEntry, Reads, Spread};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use weft_policy::{CompiledPolicy, Numbers, Renumbered, Resting, renumber_around, successor_at};
use weft_sched::LaneSpec;
use weft_units::{ClassId, Instant, LaneId, Nanos};

/// The time that a retired ring is not used again.
pub(crate) const REST: Nanos = Nanos::from_secs(1);
/// The most spare rings for a new fair lane: the others are for further changes.
const FAIR_SPARE: usize = 16;

/// The use of a ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RingUse {
    /// It belongs to a lane.
    Lane,
    /// It belongs to none and is empty.
    Spare,
    /// Its lane is gone, at this time.
    Retired(Instant),
}

/// A changed plan.
#[derive(Clone, Debug)]
pub(crate) struct PlanChange {
    /// The new plan.
    pub(crate) plan: RingPlan,
    /// The use of each ring.
    pub(crate) uses: Vec<RingUse>,
    /// The rings whose lane changes, with their new specs.
    pub(crate) rings: Vec<(usize, RingSpec)>,
}

/// The policy of a change with the numbers of the policy in force, and what the change means.
#[derive(Clone, Debug)]
pub(crate) struct NewPolicy {
    pub(crate) renumbered: Renumbered,
    pub(crate) whole: Arc<CompiledPolicy>,
    pub(crate) infrastructure: Option<LaneId>,
}

impl RingPlan {
    /// The use of each ring of a new port.
    pub(crate) fn uses(&self) -> Vec<RingUse> {
        let mut uses = vec![RingUse::Spare; self.rings.len()];
        for lane in &self.lanes {
            let first = usize::from(lane.first_ring);
            uses[first..first + usize::from(lane.rings)].fill(RingUse::Lane);
        }
        uses
    }

    /// Gives `policy` the numbers of the policy in force, and no resting number to anything new.
    ///
    /// # Errors
    /// When the tables have too few numbers.
    pub(crate) fn renumber(
        &self,
        policy: &CompiledPolicy,
        resting: &Resting,
    ) -> Result<NewPolicy, PlanError> {
        let (new, added) = infrastructure::add(policy);
        algorithms::check(&new.program)?;
        let renumbered = renumber_around(&self.whole, new, resting);
        let whole = Arc::new(renumbered.policy.clone());
        let numbers =
            [("classes", whole.classes.len(), CLASSES), ("lanes", whole.program.lanes.len(), LANES)];
        if let Some((what, given, most)) = numbers.into_iter().find(|(_, given, most)| given > most) {
            return Err(PlanError::Numbers { what, given, most });
        }
        let infrastructure = added.and_then(|_| infrastructure::lane(&whole));
        Ok(NewPolicy { renumbered, whole, infrastructure })
    }

    /// The same rings with `policy`, whose things have these numbers.
    pub(crate) fn numbered(&self, policy: &CompiledPolicy, numbers: &Numbers) -> Self {
        let (new, added) = infrastructure::add(policy);
        let whole = Arc::new(numbers.give(new));
        let infrastructure = added.and_then(|_| infrastructure::lane(&whole));
        self.of_whole(&whole, infrastructure)
    }

    /// The same rings with the policy of a change, for the plans of later ports.
    pub(crate) fn with_policy(&self, new: &NewPolicy) -> Self {
        self.of_whole(&new.whole, new.infrastructure)
    }

    fn of_whole(&self, whole: &Arc<CompiledPolicy>, infrastructure: Option<LaneId>) -> Self {
        Self {
            policy: Arc::clone(whole),
            whole: Arc::clone(whole),
            program: Arc::new(whole.program.clone()),
            infrastructure,
            ..self.clone()
        }
    }

    /// Plans the rings under `new` at `now`. `uses` are the uses so far, and `is_empty` says whether a ring is empty.
    ///
    /// # Errors
    /// When a new lane finds no spare ring.
    pub(crate) fn change(
        &self,
        new: &NewPolicy,
        uses: &[RingUse],
        is_empty: impl Fn(usize) -> bool,
        now: Instant,
    ) -> Result<PlanChange, PlanError> {
        let mut uses = uses.to_vec();
        for (ring, use_of) in uses.iter_mut().enumerate() {
            if matches!(*use_of, RingUse::Retired(since) if now.saturating_since(since) > REST && is_empty(ring))
            {
                *use_of = RingUse::Spare;
            }
        }
        let mut change = PlanChange { plan: self.with_policy(new), uses, rings: Vec::new() };
        let lost = self.lost(&change.plan);
        let handed = change.hand_over_or_retire(self, &lost, now, &new.renumbered.heirs);
        if let Err(error) = change.keep_and_add(self, new, &handed) {
            return Err(error.with_retired(retired(&change.uses, is_empty, now)));
        }
        Ok(change)
    }

    /// The lanes that packets of this port reached and do not reach under `new`.
    fn lost(&self, new: &Self) -> Vec<LaneId> {
        let (before, after) = (self.lanes_here(), new.lanes_here());
        let lost = |at: &usize| before[*at] && after.get(*at) != Some(&true);
        (0..before.len()).filter(lost).map(LaneId::from_index).collect()
    }
}

impl PlanChange {
    /// Gives the rings of the lanes that are `lost` here, or gone, to their heirs. Returns the entries that heirs take whole.
    fn hand_over_or_retire(
        &mut self,
        old: &RingPlan,
        lost: &[LaneId],
        now: Instant,
        heirs: &[(LaneId, LaneId)],
    ) -> BTreeMap<LaneId, LaneEntry> {
        let (before, after) = (old.lanes_here(), self.plan.lanes_here());
        let mut handed = BTreeMap::new();
        let lanes: BTreeMap<LaneId, Option<LaneId>> = lost
            .iter()
            .map(|lane| (*lane, None))
            .chain(heirs.iter().map(|(gone, heir)| (*gone, Some(*heir))))
            .collect();
        for (gone, heir) in lanes {
            let port = self.plan.port.as_deref();
            let heir = heir.unwrap_or_else(|| successor_at(&old.whole, &self.plan.whole, gone, port));
            let is_new = after.get(heir.index()) == Some(&true) && before.get(heir.index()) != Some(&true);
            let class = self.plan.whole.program.lanes.get(heir.index()).map(|lane| lane.class);
            let entry = old.lanes.get(gone.index()).copied().filter(|entry| entry.rings > 0);
            let whole = entry.filter(|entry| {
                let same = class == Some(ClassId::from_index(usize::from(entry.class)));
                is_new
                    && same
                    && entry.flow_bound > 0
                    && !handed.contains_key(&heir)
                    && self.is_range_of(old, entry, gone)
            });
            let range = whole.map_or(0..0, |entry| range(&entry));
            // Also the rings that the lane had inherited.
            for (ring, spec) in old.rings.iter().enumerate().filter(|(_, spec)| spec.lane == gone) {
                if self.uses[ring] == RingUse::Lane && !range.contains(&ring) {
                    self.uses[ring] = RingUse::Retired(now);
                }
                self.set(ring, RingSpec { lane: heir, ..*spec });
            }
            handed.extend(whole.map(|entry| (heir, entry)));
        }
        handed
    }

    /// Whether all rings of `entry` belong to `lane`.
    fn is_range_of(&self, old: &RingPlan, entry: &LaneEntry, lane: LaneId) -> bool {
        range(entry).all(|ring| {
            self.uses.get(ring) == Some(&RingUse::Lane)
                && old.rings.get(ring).is_some_and(|of| of.lane == lane)
        })
    }

    fn set(&mut self, ring: usize, spec: RingSpec) {
        self.plan.rings[ring] = spec;
        self.rings.push((ring, spec));
    }

    /// Gives each lane of the port its entry: the old one, one of `handed`, or a new one with spare rings.
    fn keep_and_add(
        &mut self,
        old: &RingPlan,
        new: &NewPolicy,
        handed: &BTreeMap<LaneId, LaneEntry>,
    ) -> Result<(), PlanError> {
        let lanes = &new.whole.program.lanes;
        let (before, here) = (old.lanes_here(), self.plan.lanes_here());
        let stays = |at: usize| before.get(at) == Some(&true);
        let taken = |at: usize| handed.get(&LaneId::from_index(at));
        let added = (0..lanes.len()).filter(|at| here[*at] && !stays(*at) && taken(*at).is_none()).count();
        let mut entries = Vec::with_capacity(lanes.len());
        let mut left = added;
        for (at, lane) in lanes.iter().enumerate() {
            let before = old.lanes.get(at).copied();
            let mut entry = match before {
                _ if !here[at] => self.gone(before),
                Some(entry) if stays(at) => LaneEntry { packet_bound: packet_bound(lane), ..entry },
                _ if let Some(entry) = taken(at) => LaneEntry { packet_bound: packet_bound(lane), ..*entry },
                _ => {
                    left -= 1;
                    self.add(old, new, (LaneId::from_index(at), lane), left)?
                }
            };
            let infrastructure = |of: Option<LaneId>| of == Some(LaneId::from_index(at));
            if infrastructure(new.infrastructure) {
                entry = infrastructure::untracked(entry);
            } else if infrastructure(old.infrastructure) && here[at] {
                // The policy has a class for it now, whose flows are tracked.
                let flow_bound = flow_bound(old, new);
                entry = LaneEntry { spread: Spread::RoundRobin, flow_bound, ..entry };
            }
            entries.push(entry);
        }
        algorithms::enter(&new.whole.program, &mut entries);
        self.plan.lanes = entries;
        Ok(())
    }

    /// The entry of a lane that is gone: as it was while its rings are retired or its class's, since its flows stay in it
    /// until their next packet and are counted in its class; no rings afterwards.
    fn gone(&self, before: Option<LaneEntry>) -> LaneEntry {
        let remains = |entry: &LaneEntry| {
            let class = Some(ClassId::from_index(usize::from(entry.class)));
            range(entry).all(|ring| match self.uses.get(ring) {
                Some(RingUse::Retired(_)) => true,
                Some(RingUse::Lane) => self.plan.rings.get(ring).is_some_and(|spec| spec.class == class),
                _ => false,
            })
        };
        before.filter(remains).unwrap_or_else(LaneEntry::vacant)
    }

    /// The entry of a new lane, with spare rings. `left` is the number of new lanes after it.
    fn add(
        &mut self,
        old: &RingPlan,
        new: &NewPolicy,
        (id, lane): (LaneId, &LaneSpec),
        left: usize,
    ) -> Result<LaneEntry, PlanError> {
        let spare = self.uses.iter().filter(|of| **of == RingUse::Spare).count();
        // Half of the spare rings remain for further changes.
        let share = spare.div_ceil(2 * (left + 1));
        let wanted = loom_demand(&new.whole, lane).min(FAIR_SPARE).min(share).max(1);
        let name = || new.whole.classes.get(lane.class.index()).map_or("", |class| &class.name).to_owned();
        let (first, count) = self
            .spare_range(wanted)
            .ok_or_else(|| PlanError::NoSpareRing { class: name(), retired: RetiredRings::default() })?;
        for ring in first..first + count {
            self.uses[ring] = RingUse::Lane;
            self.set(ring, RingSpec { lane: id, class: Some(lane.class) });
        }
        Ok(LaneEntry {
            class: lane.class.0 as u16,
            first_ring: first as u16,
            rings: count as u16,
            spread: Spread::RoundRobin,
            reads: Reads::NOTHING,
            flow_bound: flow_bound(old, new),
            qdisc_class: 0,
            packet_bound: packet_bound(lane),
            ring_bound: old.lanes.iter().map(|lane| lane.ring_bound).max().unwrap_or_default(),
        })
    }

    /// The longest range of spare rings of at most `wanted`.
    fn spare_range(&self, wanted: usize) -> Option<(usize, usize)> {
        let (mut best, mut run) = ((0, 0), 0);
        for (ring, of) in self.uses.iter().enumerate() {
            run = if *of == RingUse::Spare { run + 1 } else { 0 };
            if run.min(wanted) > best.1 {
                best = (ring + 1 - run, run.min(wanted));
            }
        }
        (best.1 > 0).then_some(best)
    }
}

/// The retired rings of `uses`, at `now`.
fn retired(uses: &[RingUse], is_empty: impl Fn(usize) -> bool, now: Instant) -> RetiredRings {
    let mut found = RetiredRings::default();
    for (ring, of) in uses.iter().enumerate() {
        match of {
            RingUse::Retired(since) if is_empty(ring) => {
                let left = REST.saturating_sub(now.saturating_since(*since));
                found.next = if found.empty == 0 { left } else { found.next.min(left) };
                found.empty += 1;
            }
            RingUse::Retired(_) => found.busy += 1,
            _ => {}
        }
    }
    found
}

/// The rings of an entry.
fn range(entry: &LaneEntry) -> Range<usize> {
    let first = usize::from(entry.first_ring);
    first..first + usize::from(entry.rings)
}

/// The flow bound of a new lane: an even part of the port's table.
fn flow_bound(old: &RingPlan, new: &NewPolicy) -> u32 {
    let here = super::lanes_here(&new.whole, old.port.as_deref());
    old.flow_table / (here.iter().filter(|here| **here).count().max(1) as u32)
}

#[cfg(test)]
mod tests;
