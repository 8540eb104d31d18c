//! Weighted sums of policies.

use super::{Cost, Layout, Measure, Policy, QueuesError, Tally};
use weft_units::RxQueueId;

/// The weighted sum of policies' costs. The first policy determines the measure of load.
#[derive(Debug)]
pub struct Combined {
    /// Weights and policies.
    pub parts: Vec<(f64, Box<dyn Policy>)>,
}

impl Policy for Combined {
    fn name(&self) -> String {
        let parts: Vec<String> =
            self.parts.iter().map(|(weight, part)| format!("{weight} * {}", part.name())).collect();
        parts.join(" + ")
    }

    fn classes(&self) -> Vec<&str> {
        self.parts.iter().flat_map(|(_, part)| part.classes()).collect()
    }

    fn cost(&self, tally: &Tally) -> Cost {
        self.parts.iter().map(|(weight, part)| part.cost(tally) * *weight).sum()
    }

    fn measure(&self) -> Measure {
        self.parts.first().map_or(Measure::Weight, |(_, part)| part.measure())
    }

    fn check(&self, queues: &[RxQueueId]) -> Result<(), QueuesError> {
        self.parts.iter().try_for_each(|(_, part)| part.check(queues))
    }

    /// The groups of the first part with several groups, and the preferred queues of the first part with any: a start for the
    /// search.
    fn layout(&self, tally: &Tally) -> Option<Layout> {
        let mut layouts: Vec<Layout> = self.parts.iter().filter_map(|(_, part)| part.layout(tally)).collect();
        let preferred_queues = layouts
            .iter_mut()
            .map(|layout| core::mem::take(&mut layout.preferred_queues))
            .find(|preferred_queues| !preferred_queues.is_empty());
        let best = layouts.iter().position(|layout| layout.groups.len() > 1).unwrap_or(0);
        let groups = layouts.into_iter().nth(best)?;
        Some(Layout { preferred_queues: preferred_queues.unwrap_or_default(), ..groups })
    }

    fn layout_key(&self, tally: &Tally) -> u64 {
        let mix = |sum: u64, key: u64| sum.wrapping_mul(1_000_003).wrapping_add(key);
        self.parts.iter().map(|(_, part)| part.layout_key(tally)).fold(0, mix)
    }

    fn layout_is_all(&self) -> bool {
        self.parts.len() == 1 && self.parts.iter().all(|(_, part)| part.layout_is_all())
    }
}
