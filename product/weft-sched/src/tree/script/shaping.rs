//! The shaping queue below user-defined algorithms: lanes that a limit delays, and the times of references.

use weft_units::{Instant, LaneId};

use super::{SHAPED, Scripts, at_of};
use crate::script::node::Event;
use crate::script::timers::{Alarm, Owner};
use crate::tree::PolicyTree;

impl PolicyTree {
    /// Brings a scripted leaf and the nodes above up to date with a lane that was parked or released.
    pub(in crate::tree) fn shape_scripted(&mut self, id: u32) {
        let Some(mut scripts) = self.scripts.take() else { return };
        let lane = &self.lanes[id as usize];
        let at = lane.leaf;
        let leaf = &mut self.leaves[at as usize];
        match &mut leaf.script {
            Some(script) => {
                script.scheduler.set_parked(&mut scripts.flows, lane.slot as usize, lane.parked);
                self.offer_scripted(&mut scripts, at);
            }
            None => leaf.update_head(id, lane),
        }
        self.ascend(&mut scripts, at, &Event::Reordered, SHAPED);
        self.scripts = Some(scripts);
    }

    /// Whether the next turn at `now` is below an algorithm, after what is due.
    #[cold]
    pub(in crate::tree) fn is_next_scripted(&mut self, now: Instant) -> bool {
        self.peek_any(now).is_some_and(|lane| self.is_scripted(LaneId(lane)))
    }

    /// Handles what is due at `now`: times of algorithms, and lanes in the shaping queue, in the order of time.
    #[cold]
    pub(in crate::tree) fn release_scripted(&mut self, now: Instant) {
        self.observe(now);
        while let Some(alarm) = self.first_alarm(now) {
            let lane = self.shaping.peek().map(|first| (first.rank, first.tie));
            if lane.is_some_and(|lane| lane < alarm) {
                self.release_first();
            } else {
                self.release_alarm();
            }
        }
    }

    /// The first time of an algorithm's that is due at `now`, with its tie.
    fn first_alarm(&self, now: Instant) -> Option<(u64, u64)> {
        self.scripts
            .as_ref()
            .and_then(|scripts| scripts.timers.first())
            .filter(|(time, _)| *time <= now.as_nanos())
    }

    /// The first time at which a lane, a flow or a child may return from the shaping queue.
    pub(in crate::tree) fn first_release(&self) -> Option<Instant> {
        let lane = self.shaping.peek().map(|first| Instant::from_nanos(first.rank));
        let script = self.scripts.as_ref().and_then(|scripts| scripts.timers.first_from());
        [lane, script].into_iter().flatten().min()
    }

    /// Handles the first time of an algorithm's, which has come.
    pub(in crate::tree) fn release_alarm(&mut self) {
        let Some(mut scripts) = self.scripts.take() else { return };
        match scripts.timers.pop() {
            Some((Owner::Flow(flow), alarm)) => self.alarm_flow(&mut scripts, flow, alarm),
            Some((Owner::Child(child), alarm)) => {
                let (at, slot) = scripts.children[child as usize];
                if let Some(node) = scripts.node_mut(at) {
                    node.alarm(slot, alarm);
                    let offer = node.offer();
                    let parent = self.node_parents[at as usize];
                    self.ascend_from(&mut scripts, parent, offer, &Event::Reordered, SHAPED);
                }
            }
            None => {}
        }
        self.scripts = Some(scripts);
    }

    fn alarm_flow(&mut self, scripts: &mut Scripts, flow: u32, alarm: Alarm) {
        let lane = &self.lanes[self.flows[flow as usize].lane as usize];
        let at = lane.leaf;
        if let Some(script) = &mut self.leaves[at as usize].script {
            script.scheduler.alarm(&mut scripts.flows, &at_of(flow, lane), alarm);
            self.offer_scripted(scripts, at);
            self.ascend(scripts, at, &Event::Reordered, SHAPED);
        }
    }
}
