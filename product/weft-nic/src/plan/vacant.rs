//! Numbers of classes and lanes that are gone: reserved (*resting*), so that no packet is counted for another class.
//!
//! A number becomes vacant with the policy that does not have its class or lane. Packets of it may still be in retired
//! rings, and programs that read the former tables may still post some. Nothing new gets the number until [`REST`] has
//! passed and the retired rings of its class are empty.

use super::change::REST;
use weft_policy::{CompiledPolicy, Resting};
use weft_units::{ClassId, Instant, LaneId};

/// A number that became vacant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Vacated {
    at: Instant,
    class: ClassId,
    /// The lane; `None` for the class itself.
    lane: Option<LaneId>,
}

/// The resting numbers.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Vacancies(Vec<Vacated>);

impl Vacancies {
    /// Records the numbers of `old` that `new` leaves vacant.
    pub(crate) fn record(&mut self, old: &CompiledPolicy, new: &CompiledPolicy, at: Instant) {
        for (number, lane) in old.program.lanes.iter().enumerate().filter(|(_, lane)| !lane.is_vacant()) {
            if new.program.lanes.get(number).is_none_or(|lane| lane.is_vacant()) {
                let lane_id = Some(LaneId::from_index(number));
                self.0.push(Vacated { at, class: lane.class, lane: lane_id });
            }
        }
        for (number, _) in old.classes.iter().enumerate().filter(|(_, class)| !class.is_vacant()) {
            if new.classes.get(number).is_none_or(|class| class.is_vacant()) {
                self.0.push(Vacated { at, class: ClassId::from_index(number), lane: None });
            }
        }
    }

    /// Reserves every number that `policy` leaves vacant, from `at` on, after a take-over: packets of what had it may be
    /// left.
    pub(crate) fn record_all(&mut self, policy: &CompiledPolicy, at: Instant) {
        for (number, lane) in policy.program.lanes.iter().enumerate().filter(|(_, lane)| lane.is_vacant()) {
            self.0.push(Vacated { at, class: lane.class, lane: Some(LaneId::from_index(number)) });
        }
        for (number, _) in policy.classes.iter().enumerate().filter(|(_, class)| class.is_vacant()) {
            self.0.push(Vacated { at, class: ClassId::from_index(number), lane: None });
        }
    }

    /// Forgets the numbers that are no longer resting at `now`. `has_packets` says whether a retired ring of a class has
    /// packets.
    pub(crate) fn release(&mut self, now: Instant, has_packets: impl Fn(ClassId) -> bool) {
        self.0.retain(|vacated| vacated.rests(now, &has_packets));
    }

    /// The resting numbers at `now`.
    pub(crate) fn resting(&self, now: Instant, has_packets: impl Fn(ClassId) -> bool) -> Resting {
        let mut resting = Resting::default();
        for vacated in self.0.iter().filter(|vacated| vacated.rests(now, &has_packets)) {
            match vacated.lane {
                Some(lane) => _ = resting.lanes.insert(lane),
                None => _ = resting.classes.insert(vacated.class),
            }
        }
        resting
    }
}

impl Vacated {
    fn rests(&self, now: Instant, has_packets: impl Fn(ClassId) -> bool) -> bool {
        now.saturating_since(self.at) <= REST || has_packets(self.class)
    }
}
