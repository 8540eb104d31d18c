//! Loads of a group's queues, with the least and the most loaded queue in constant time.

use weft_units::RxQueueId;

const NONE: u32 = u32::MAX;

/// Loads under two tournament trees: a change takes time logarithmic in the number of queues, and the winners are known at once.
/// Among equal loads the lower queue wins.
#[derive(Clone, Debug)]
pub(in crate::search) struct GroupLoads {
    queues: Vec<RxQueueId>,
    /// The index of each of the NIC's queues in `queues`.
    place: Vec<u32>,
    loads: Vec<u64>,
    /// Number of leaves of the trees, a power of two.
    leaves: usize,
    least: Vec<u32>,
    most: Vec<u32>,
}

impl GroupLoads {
    /// Creates loads of 0. `width` is the number of all of the NIC's queues.
    pub(in crate::search) fn new(queues: &[RxQueueId], width: usize) -> Self {
        let mut place = vec![NONE; width];
        for (index, queue) in queues.iter().enumerate() {
            place[queue.index()] = index as u32;
        }
        let leaves = queues.len().next_power_of_two();
        let mut group = Self {
            queues: queues.to_vec(),
            place,
            loads: vec![0; queues.len()],
            leaves,
            least: vec![NONE; 2 * leaves],
            most: vec![NONE; 2 * leaves],
        };
        for index in 0..queues.len() {
            group.least[leaves + index] = index as u32;
            group.most[leaves + index] = index as u32;
        }
        for node in (1..leaves).rev() {
            group.play(node);
        }
        group
    }

    fn play(&mut self, node: usize) {
        let load = |index: u32| self.loads[index as usize];
        let winner = |tree: &[u32], right_wins: &dyn Fn(u64, u64) -> bool| {
            let (left, right) = (tree[2 * node], tree[2 * node + 1]);
            if right != NONE && right_wins(load(left), load(right)) { right } else { left }
        };
        let least = winner(&self.least, &|left, right| right < left);
        let most = winner(&self.most, &|left, right| right > left);
        (self.least[node], self.most[node]) = (least, most);
    }

    fn changed(&mut self, index: usize) {
        let mut node = (self.leaves + index) / 2;
        while node > 0 {
            self.play(node);
            node /= 2;
        }
    }

    /// Whether a queue belongs to the group.
    pub(in crate::search) fn has(&self, queue: RxQueueId) -> bool {
        self.place.get(queue.index()).is_some_and(|place| *place != NONE)
    }

    /// Returns the load of a queue; `None` if it is outside of the group.
    pub(in crate::search) fn load(&self, queue: RxQueueId) -> Option<u64> {
        let place = *self.place.get(queue.index())?;
        self.loads.get(place as usize).copied()
    }

    /// Adds load to a queue, if it belongs to the group.
    pub(in crate::search) fn add(&mut self, queue: RxQueueId, load: u64) {
        if self.has(queue) {
            let index = self.place[queue.index()] as usize;
            self.loads[index] += load;
            self.changed(index);
        }
    }

    /// Removes load that was added.
    pub(in crate::search) fn take(&mut self, queue: RxQueueId, load: u64) {
        if self.has(queue) {
            let index = self.place[queue.index()] as usize;
            self.loads[index] -= load;
            self.changed(index);
        }
    }

    /// Returns the least loaded queue and its load.
    pub(in crate::search) fn least(&self) -> (RxQueueId, u64) {
        let index = self.least[1] as usize;
        (self.queues[index], self.loads[index])
    }

    /// Returns the most loaded queue and its load.
    pub(in crate::search) fn most(&self) -> (RxQueueId, u64) {
        let index = self.most[1] as usize;
        (self.queues[index], self.loads[index])
    }

    /// Returns the sum of the loads and the sum of their squares.
    pub(in crate::search) fn sums(&self) -> (f64, f64) {
        let loads = || self.loads.iter().map(|load| *load as f64);
        (loads().sum(), loads().map(|load| load * load).sum())
    }

    /// The group's queues.
    pub(in crate::search) fn queues(&self) -> &[RxQueueId] {
        &self.queues
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn winners_are_those_of_a_scan(
            count in 1usize..20,
            changes in proptest::collection::vec((0usize..24, 0u64..5), 1..60),
        ) {
            let queues: Vec<RxQueueId> = (0..count).map(|i| RxQueueId::from_index(2 * i + 1)).collect();
            let mut group = GroupLoads::new(&queues, 2 * count);
            let mut loads = vec![0; count];
            for (at, load) in changes {
                let (queue, index) = (RxQueueId::from_index(at), at.wrapping_sub(1) / 2);
                if at % 2 == 1 && index < count {
                    if load == 0 {
                        group.take(queue, loads[index]);
                        loads[index] = 0;
                    } else {
                        loads[index] += load;
                        group.add(queue, load);
                    }
                    prop_assert_eq!(group.load(queue), Some(loads[index]));
                } else {
                    group.add(queue, load);
                    prop_assert_eq!(group.load(queue), None, "not of the group");
                }
                let least = (0..count).min_by_key(|i| (loads[*i], *i)).expect("queues");
                let most = (0..count).min_by_key(|i| (u64::MAX - loads[*i], *i)).expect("queues");
                prop_assert_eq!(group.least(), (queues[least], loads[least]));
                prop_assert_eq!(group.most(), (queues[most], loads[most]));
            }
        }
    }
}
