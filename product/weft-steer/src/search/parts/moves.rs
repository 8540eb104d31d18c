//! Events, the flows moved by each, and the limits on moves.

use super::ids::QueueChange;

/// Whether to continue assigning rules after many failures.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::search) enum Persistence {
    /// Continue with every flow.
    EveryFlow,
    /// Stop after a number of failures.
    FewFailures,
}

/// The limits of an event.
#[derive(Clone, Copy, Debug)]
pub(in crate::search) struct Budget {
    /// The maximum number of earlier events' flows that this event may move.
    pub(in crate::search) flows: u32,
    /// The maximum number of balancing steps.
    pub(in crate::search) steps: u32,
    /// The persistence of the search for rules.
    pub(in crate::search) persistence: Persistence,
}

impl Budget {
    /// The absence of limits.
    pub(in crate::search) const ALL: Self =
        Self { flows: u32::MAX, steps: u32::MAX, persistence: Persistence::EveryFlow };

    /// Whether any number of flows may be moved.
    pub(in crate::search) const fn moves_any(&self) -> bool {
        self.flows == u32::MAX
    }
}

/// The current event, and the number of flows that it has moved.
#[derive(Clone, Debug, Default)]
pub(in crate::search) struct Moves {
    event: u64,
    moved: u32,
}

impl Moves {
    /// Begins the next event.
    pub(in crate::search) const fn begin(&mut self) {
        self.event += 1;
        self.moved = 0;
    }

    /// The event's number.
    pub(in crate::search) const fn event(&self) -> u64 {
        self.event
    }

    /// The number of moves of earlier events' flows; a flow moved twice counts twice.
    pub(in crate::search) const fn moved(&self) -> u32 {
        self.moved
    }

    /// Whether a flow existed before this event.
    pub(in crate::search) const fn was_there(&self, added_in: u64) -> bool {
        added_in < self.event
    }

    /// Counts a flow's change of queue.
    pub(in crate::search) fn count(&mut self, added_in: u64, change: QueueChange) {
        self.moved += u32::from(self.was_there(added_in) && change == QueueChange::Other);
    }

    /// Whether the limit of moves is reached.
    pub(in crate::search) const fn used_up(&self, budget: &Budget) -> bool {
        self.moved >= budget.flows
    }

    /// Whether a flow may be moved: a new one always, an older one within the budget.
    pub(in crate::search) const fn allow(&self, added_in: u64, budget: &Budget) -> bool {
        !self.was_there(added_in) || !self.used_up(budget)
    }

    /// Whether `flows` more flows of earlier events may be moved.
    pub(in crate::search) const fn allow_more(&self, flows: u32, budget: &Budget) -> bool {
        self.moved.saturating_add(flows) <= budget.flows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_flows_of_earlier_events_count_and_only_when_their_queue_changes() {
        let mut moves = Moves::default();
        let budget = Budget { flows: 1, ..Budget::ALL };
        moves.count(0, QueueChange::Other);
        assert_eq!(moves.moved(), 0, "new in this event");
        moves.begin();
        moves.count(0, QueueChange::Same);
        assert!(moves.allow(0, &budget) && moves.allow_more(1, &budget) && !moves.allow_more(2, &budget));
        moves.count(0, QueueChange::Other);
        assert_eq!((moves.event(), moves.moved()), (1, 1));
        assert!(moves.used_up(&budget) && !moves.allow(0, &budget) && moves.allow(1, &budget));
        assert!(!moves.used_up(&Budget::ALL) && moves.allow_more(u32::MAX, &Budget::ALL));
        moves.begin();
        assert_eq!(moves.moved(), 0);
    }
}
