//! Equal loads: the first policy of Dragonet's slides.

use super::{Cost, Layout, Measure, Policy, Tally};

/// Equal loads on all queues: the cost is the variance of load per queue (TRIOS'15, "Specifying policies with cost functions").
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Balance {
    /// The measure of load.
    pub measure: Measure,
}

impl Policy for Balance {
    fn name(&self) -> String {
        match self.measure {
            Measure::Weight => "balance".to_owned(),
            Measure::Rate => "balance by rate".to_owned(),
        }
    }

    fn cost(&self, tally: &Tally) -> Cost {
        Layout::single(tally.queues()).cost(tally)
    }

    fn measure(&self) -> Measure {
        self.measure
    }

    fn layout(&self, tally: &Tally) -> Option<Layout> {
        Some(Layout::single(tally.queues()))
    }
}
