//! The planned flows: packets, load, class and preferred queue of each.

use super::header_index::HeaderIndex;
use super::ids::{EntryId, Slot};
use crate::policy::Item;
use crate::search::types::SteeredFlowId;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use weft_packet::HeaderMatch;
use weft_units::RxQueueId;

/// The planner's view of a flow.
#[derive(Clone, Debug)]
pub(in crate::search) struct FlowRecord {
    /// Its number outside of the planner.
    pub(in crate::search) id: SteeredFlowId,
    /// Its packets.
    pub(in crate::search) headers: HeaderMatch,
    /// Its class, load and processor.
    pub(in crate::search) item: Item,
    /// Its class's group in the layout.
    pub(in crate::search) group: usize,
    /// Its processor's queue in the layout.
    pub(in crate::search) preferred_queue: Option<RxQueueId>,
    /// Whether its packets are one five-tuple.
    pub(in crate::search) exact: bool,
    /// Whether some table could hold its rule.
    pub(in crate::search) pinnable: bool,
    /// Its steering entry in the absence of rules.
    pub(in crate::search) base: EntryId,
    /// The event that added it.
    pub(in crate::search) added_in: u64,
}

/// All flows, by slot.
#[derive(Clone, Debug, Default)]
pub(in crate::search) struct FlowTable {
    records: Vec<Option<FlowRecord>>,
    free: Vec<Slot>,
    /// Number of flows with each header match.
    same: HashMap<HeaderMatch, u32, FixedState>,
    /// Flows by their packets; built on first use.
    by_headers: Option<HeaderIndex>,
}

impl FlowTable {
    /// Makes room for so many more flows.
    pub(in crate::search) fn reserve(&mut self, flows: usize) {
        self.records.reserve(flows);
        self.same.reserve(flows);
    }

    /// Adds a flow; its slot.
    pub(in crate::search) fn insert(&mut self, record: FlowRecord) -> Slot {
        let headers = record.headers;
        let slot = match self.free.pop() {
            Some(slot) => {
                self.records[slot.index()] = Some(record);
                slot
            }
            None => {
                self.records.push(Some(record));
                Slot::from_index(self.records.len() - 1)
            }
        };
        if let Some(flows) = &mut self.by_headers {
            flows.add(headers, slot.0);
        }
        *self.same.entry(headers).or_default() += 1;
        slot
    }

    /// Removes a flow.
    pub(in crate::search) fn remove(&mut self, slot: Slot) {
        let Some(record) = self.records.get_mut(slot.index()).and_then(Option::take) else { return };
        if let Some(flows) = &mut self.by_headers {
            flows.remove(record.headers, slot.0);
        }
        if let Some(same) = self.same.get_mut(&record.headers) {
            *same -= 1;
            if *same == 0 {
                self.same.remove(&record.headers);
            }
        }
        self.free.push(slot);
    }

    /// Returns the flow in a slot.
    pub(in crate::search) fn get(&self, slot: Slot) -> &FlowRecord {
        self.records[slot.index()].as_ref().expect("slots in lists hold flows: they leave the lists first")
    }

    /// The occupied slots, ascending.
    pub(in crate::search) fn slots(&self) -> impl Iterator<Item = Slot> + '_ {
        let used = self.records.iter().enumerate().filter(|(_, record)| record.is_some());
        used.map(|(index, _)| Slot::from_index(index))
    }

    /// The number of flows.
    pub(in crate::search) const fn len(&self) -> usize {
        self.records.len() - self.free.len()
    }

    /// The number of flows with exactly these packets.
    pub(in crate::search) fn count_of(&self, headers: &HeaderMatch) -> u32 {
        self.same.get(headers).copied().unwrap_or(0)
    }

    /// Returns the flows that share packets with a header match, ascending.
    pub(in crate::search) fn meeting(&mut self, headers: &HeaderMatch) -> Vec<Slot> {
        let records = &self.records;
        let flows = self.by_headers.get_or_insert_with(|| {
            let mut flows = HeaderIndex::default();
            for (index, record) in records.iter().enumerate() {
                if let Some(record) = record {
                    flows.add(record.headers, index as u32);
                }
            }
            flows
        });
        flows.meeting(headers).into_iter().map(Slot).collect()
    }

    /// Sets a flow's group and preferred queue after a change of the layout.
    pub(in crate::search) fn prefer(&mut self, slot: Slot, group: usize, preferred_queue: Option<RxQueueId>) {
        if let Some(record) = self.records.get_mut(slot.index()).and_then(Option::as_mut) {
            (record.group, record.preferred_queue) = (group, preferred_queue);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::ClassId;
    use weft_packet::Field;

    fn record(number: u32, port: u16) -> FlowRecord {
        FlowRecord {
            id: SteeredFlowId(number),
            headers: HeaderMatch::ALL.exact(Field::DstPort, port.into()),
            item: Item { class: ClassId(0), load: 1, core: None },
            group: 0,
            preferred_queue: None,
            exact: false,
            pinnable: true,
            base: EntryId::DEFAULT,
            added_in: 0,
        }
    }

    #[test]
    fn slots_are_used_again_and_header_matches_are_counted() {
        let mut flows = FlowTable::default();
        let slots: Vec<Slot> = (0..3).map(|i| flows.insert(record(i, 53))).collect();
        let of_port = record(0, 53).headers;
        assert_eq!((flows.len(), flows.count_of(&of_port)), (3, 3));
        flows.remove(slots[1]);
        flows.remove(slots[1]);
        assert_eq!((flows.len(), flows.count_of(&of_port)), (2, 2));
        assert_eq!(flows.slots().collect::<Vec<_>>(), [slots[0], slots[2]]);
        let new = flows.insert(record(9, 80));
        assert_eq!((new, flows.get(new).id), (slots[1], SteeredFlowId(9)));
        flows.remove(slots[0]);
        flows.remove(slots[2]);
        assert_eq!((flows.len(), flows.count_of(&of_port)), (1, 0));
    }

    #[test]
    fn flows_are_found_by_their_packets_before_and_after_the_first_question() {
        let mut flows = FlowTable::default();
        let early = flows.insert(record(0, 53));
        let even = HeaderMatch::ALL.with(Field::DstPort, 0, 1);
        assert_eq!(flows.meeting(&even), []);
        assert_eq!(flows.meeting(&HeaderMatch::ALL), [early]);
        let later = flows.insert(record(1, 80));
        assert_eq!(flows.meeting(&even), [later]);
        assert_eq!(flows.meeting(&HeaderMatch::ALL), [early, later]);
        flows.remove(early);
        assert_eq!(flows.meeting(&HeaderMatch::ALL), [later]);
    }

    #[test]
    fn a_layout_changes_what_is_preferred_and_no_more() {
        let mut flows = FlowTable::default();
        let slot = flows.insert(record(0, 53));
        flows.prefer(slot, 2, Some(RxQueueId(3)));
        let now = flows.get(slot);
        assert_eq!((now.group, now.preferred_queue, now.id), (2, Some(RxQueueId(3)), SteeredFlowId(0)));
    }
}
