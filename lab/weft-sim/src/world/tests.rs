//! Checks that the balances reveal an unreported loss of a stage.

use super::World;
use crate::ids::HostId;
use crate::qdisc::Qdisc;
use crate::scenario::{FlowGroup, Scenario};
use crate::segment::{Backlog, Dequeued, Segment};
use crate::trace::NoObserver;
use weft_units::Nanos;

/// A FIFO that loses every tenth segment without counting it.
#[derive(Default)]
struct Leaky {
    queue: std::collections::VecDeque<Segment>,
    counted: Backlog,
    came: u32,
}

impl Qdisc for Leaky {
    fn enqueue(&mut self, segment: Segment, _: Nanos, _: &mut Vec<Segment>) {
        self.counted.add(&segment);
        self.came += 1;
        if !self.came.is_multiple_of(10) {
            self.queue.push_back(segment);
        }
    }

    fn dequeue(&mut self, _: Nanos, _: &mut Vec<Segment>) -> Dequeued {
        let Some(segment) = self.queue.pop_front() else { return Dequeued::Empty };
        self.counted.take(&segment);
        Dequeued::Segment(segment)
    }

    fn backlog(&self) -> Backlog {
        self.counted
    }

    fn walk(&self, visit: &mut dyn FnMut(&Segment)) {
        self.queue.iter().for_each(visit);
    }
}

#[test]
fn the_balances_find_segments_that_a_qdisc_lost_unseen() {
    let scenario = Scenario {
        warm_up: Nanos::from_millis(1),
        duration: Nanos::from_millis(20),
        flows: vec![FlowGroup { count: 4, ..FlowGroup::default() }],
        ..Scenario::default()
    };
    for leaks in [false, true] {
        let mut world = World::build(&scenario, 1, NoObserver).unwrap_or_else(|error| panic!("{error}"));
        if leaks {
            world.hosts[HostId(0)].qdiscs.replace_qdiscs(|| Box::new(Leaky::default()));
        }
        let (outcome, _) = world.run();
        let qdiscs = outcome.balances.iter().find(|stage| stage.name == "host 0 qdiscs").expect("a stage");
        assert!(qdiscs.balance.in_bytes > 100_000, "{qdiscs:?}");
        assert_eq!(qdiscs.balance.is_balanced(), !leaks, "{qdiscs:?}");
    }
}
