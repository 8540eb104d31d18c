//! The accounting of an idle device: packets counted in against packets counted out, by queue, and both against the
//! flow table.

use crate::layout::FlowRecord;
use crate::page::{Load, QueuePage};
use core::sync::atomic::{AtomicU64, Ordering};
use std::collections::BTreeMap;
use weft_units::Packets;

/// The balance of a device's counts.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Accounting {
    /// Departures that the kernel did not report to a tracing program because the same program was running on the core.
    /// They include packets of this host that belong to others. Unreported departures that the kernel does not count
    /// are added by [`Self::with_unreported`] ([`crate::tracing_check`]).
    pub missed: u64,
    /// The number of flows counted out late.
    pub repaired: u64,
    /// The number of flows that count as active.
    pub active: u64,
    /// The number of updates given up because other cores changed the word too often.
    pub given_up: u64,
    /// Errors that no missed departure explains. Valid only when no packet is outstanding.
    pub wrong: Vec<String>,
}

impl Accounting {
    /// Compares the page with the known flows. No packet may be outstanding.
    pub fn read(page: &QueuePage, flows: &[FlowRecord], queues: usize) -> Self {
        let get = |count: &AtomicU64| count.load(Ordering::SeqCst);
        let mut standing: BTreeMap<usize, (Load, u64)> = BTreeMap::new();
        for flow in flows.iter().filter(|flow| flow.is_active()) {
            let (load, segments) = standing.entry(flow.queue.index()).or_default();
            load.flows += 1;
            load.weight += u64::from(flow.weight);
            *segments += flow.segments.get();
        }
        let mut wrong = Vec::new();
        for (number, queue) in page.queues.iter().enumerate() {
            let (load, segments) = standing.get(&number).copied().unwrap_or_default();
            let counted = page.loads[number].get();
            if counted != load {
                wrong.push(format!(
                    "queue {number}: the count is {counted:?}, and the flows add up to {load:?}"
                ));
            }
            let came = get(&queue.packets);
            let gone = get(&queue.left_packets) + get(&queue.unseen_packets);
            if came != gone + segments {
                wrong.push(format!("queue {number}: {came} packets came, {gone} left, {segments} stand"));
            }
            let (bytes, left) =
                (get(&queue.bytes), get(&queue.left_bytes).wrapping_add(get(&queue.unseen_bytes)));
            if load.flows == 0 && bytes != left {
                wrong.push(format!("queue {number}: {bytes} bytes came, {left} left"));
            }
            if number >= queues && came > 0 {
                wrong.push(format!("queue {number} does not exist, and {came} packets were assigned to it"));
            }
        }
        Self { active: page.active(), wrong, ..Self::default() }
    }

    /// Adds events that the kernel neither reported to tracing programs nor counted.
    #[must_use]
    pub fn with_unreported(mut self, unreported: Packets) -> Self {
        self.missed += unreported.get();
        self
    }

    /// The reasons that the accounting does not balance; empty when it does. A flow that was counted out late, or
    /// still counts as active, implies a missed departure. Without missed departures no such flow exists.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = self.wrong.clone();
        let Self { missed, repaired, active, given_up, .. } = self;
        if active + repaired > *missed {
            faults.push(format!(
                "{active} flows are still active and {repaired} were counted out late, but {missed} departures were missed"
            ));
        }
        if *given_up > 0 {
            faults.push(format!("{given_up} words could not be changed"));
        }
        faults
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::FlowEntryId;
    use weft_units::{Bytes, TxQueueId};

    fn flow(queue: u32, segments: u64) -> FlowRecord {
        FlowRecord {
            id: FlowEntryId(1),
            segments: Packets(segments),
            queue: TxQueueId(queue),
            weight: 3,
            bytes: Bytes(0),
            local_port: 0,
            remote_port: 0,
        }
    }

    #[test]
    fn each_side_is_compared_with_the_other() {
        let page = QueuePage::default();
        assert_eq!(Accounting::read(&page, &[flow(1, 0)], 2).faults(), Vec::<String>::new());
        // A flow that is still active: the page and the table agree, and a departure was missed.
        page.loads[1].set(Load { flows: 1, weight: 3 });
        page.queues[1].packets.store(9, Ordering::Relaxed);
        page.queues[1].left_packets.store(7, Ordering::Relaxed);
        let accounting = Accounting::read(&page, &[flow(1, 2)], 2);
        assert_eq!(
            accounting.faults(),
            ["1 flows are still active and 0 were counted out late, but 0 departures were missed"]
        );
        assert_eq!(Accounting { missed: 1, ..accounting.clone() }.faults(), Vec::<String>::new());
        assert_eq!(accounting.clone().with_unreported(Packets(1)).faults(), Vec::<String>::new());
        assert_eq!(Accounting { missed: 1, repaired: 1, ..accounting }.faults().len(), 1);
        // A load without a flow is an error, whatever was missed.
        let accounting = Accounting { missed: 100, ..Accounting::read(&page, &[], 2) };
        assert_eq!(accounting.faults().len(), 2, "{accounting:?}");
        page.queues[0].bytes.store(5, Ordering::Relaxed);
        page.queues[5].packets.store(1, Ordering::Relaxed);
        let accounting = Accounting { missed: 100, ..Accounting::read(&page, &[flow(1, 2)], 2) };
        assert_eq!(accounting.faults().len(), 3, "{accounting:?}");
    }
}
