//! Figure 1's policy as a prototype: a floor under the engine's cost.
//!
//! The lines that five levels of scheduling must touch, and little more: arrays of this one shape, the least of four tags without
//! a branch, strict levels as bitmaps, and flows in buckets of tags (find first set). It has no limits, bounds, drops,
//! counters, weights that change, flows that leave, or other policies, and its leaves round tags to [`GRANULE`] units, so two packets of a leaf
//! may depart in the wrong order by as much. Its loop is [`ClosedLoop`](super::ClosedLoop)'s, with the same flows, packets and bursts.

use super::{BURST, LENGTHS, Refill};
use weft_sched::prefetch;
use weft_units::testing::Rng;

/// Children of each node, and leaves of the policy.
const WAYS: usize = 4;
const LEAVES: usize = WAYS * WAYS * WAYS;
/// Units of a byte at weight 1: divisible by the weights 1 to 4.
const UNITS: u64 = 12;
/// Units of a bucket. The window of all buckets is larger than the cost of a full-size frame at weight 1.
const GRANULE: u64 = 8;
const BUCKETS: usize = 4096;
const WORDS: usize = BUCKETS / 64;
const NONE: u32 = u32::MAX;

/// Fair queueing of four children, by start tags.
#[derive(Clone, Debug)]
struct Fair {
    /// Tags of the children that have packets; [`u64::MAX`] for the others.
    tags: [u64; WAYS],
    /// The last tags of all children.
    kept: [u64; WAYS],
    virtual_time: u64,
}

impl Fair {
    fn new() -> Self {
        Self { tags: [u64::MAX; WAYS], kept: [0; WAYS], virtual_time: 0 }
    }

    /// The child with the least tag.
    #[inline]
    fn first(&self) -> usize {
        let [a, b, c, d] = self.tags;
        let (low, high) = (usize::from(b < a), 2 + usize::from(d < c));
        if self.tags[high] < self.tags[low] { high } else { low }
    }

    /// Charges `cost` to `child`, and leaves it out if it has no more packets.
    #[inline]
    fn charge(&mut self, child: usize, cost: u64, more: bool) {
        let tag = self.tags[child];
        self.virtual_time = tag;
        self.kept[child] = tag + cost;
        self.tags[child] = if more { tag + cost } else { u64::MAX };
    }

    #[inline]
    fn activate(&mut self, child: usize) {
        self.tags[child] = self.kept[child].max(self.virtual_time);
    }

    #[inline]
    fn is_idle(&self) -> bool {
        self.tags == [u64::MAX; WAYS]
    }
}

/// A flow: half of a cache line.
#[derive(Clone, Debug)]
#[repr(align(32))]
struct Flow {
    tag: u64,
    /// The first packet, of length 0 if none waits.
    len: u16,
    leaf: u16,
    /// Units of a byte at the flow's weight.
    units: u32,
    handle: u32,
    /// The next flow in the same bucket.
    next: u32,
    /// The packets behind the first.
    rest: (u32, u32),
}

/// A packet behind the first of its flow.
#[derive(Clone, Copy, Debug)]
struct Queued {
    len: u16,
    handle: u32,
    next: u32,
}

/// The flows of a leaf in buckets of tags, first in, first out in each.
#[derive(Clone, Debug)]
struct Leaf {
    virtual_time: u64,
    words: u64,
    bits: [u64; WORDS],
    buckets: Box<[(u32, u32)]>,
}

impl Leaf {
    fn new() -> Self {
        Self {
            virtual_time: 0,
            words: 0,
            bits: [0; WORDS],
            buckets: vec![(NONE, NONE); BUCKETS].into_boxed_slice(),
        }
    }

    #[inline]
    fn is_idle(&self) -> bool {
        self.words == 0
    }

    #[inline]
    fn push(&mut self, flows: &mut [Flow], at: u32) {
        let flow = &mut flows[at as usize];
        flow.next = NONE;
        let bucket = (flow.tag / GRANULE) as usize % BUCKETS;
        let (first, last) = self.buckets[bucket];
        if first == NONE {
            self.buckets[bucket] = (at, at);
            self.bits[bucket / 64] |= 1 << (bucket % 64);
            self.words |= 1 << (bucket / 64);
        } else {
            flows[last as usize].next = at;
            self.buckets[bucket].1 = at;
        }
    }

    /// The first bucket that is not empty, from the virtual time on; the leaf has flows.
    #[inline]
    fn first(&self) -> usize {
        let begin = (self.virtual_time / GRANULE) as usize % BUCKETS;
        let (word, bit) = (begin / 64, begin % 64);
        let here = self.bits[word] >> bit << bit;
        if here != 0 {
            return word * 64 + here.trailing_zeros() as usize;
        }
        let turned = self.words.rotate_right(word as u32 + 1);
        let word = (word + 1 + turned.trailing_zeros() as usize) % WORDS;
        word * 64 + self.bits[word].trailing_zeros() as usize
    }

    /// Removes the first flow.
    #[inline]
    fn pop(&mut self, flows: &[Flow]) -> u32 {
        let bucket = self.first();
        let (at, last) = self.buckets[bucket];
        if at == last {
            self.buckets[bucket] = (NONE, NONE);
            let word = &mut self.bits[bucket / 64];
            *word &= !(1 << (bucket % 64));
            if *word == 0 {
                self.words &= !(1 << (bucket / 64));
            }
        } else {
            self.buckets[bucket].0 = flows[at as usize].next;
        }
        at
    }
}

/// The prototype in a closed loop: as many packets wait as there are flows, and none is dropped.
#[derive(Clone, Debug)]
pub struct PrototypeLoop {
    tenants: Fair,
    /// The classes of each tenant that have packets, the first before the others.
    classes: [u8; WAYS],
    apps: Vec<Fair>,
    leaves: Vec<Leaf>,
    flows: Vec<Flow>,
    queued: Vec<Queued>,
    free: u32,
    order: Vec<u32>,
    position: usize,
    refill: Refill,
    rng: Rng,
    burst: [(u32, u32, u16); BURST],
}

impl PrototypeLoop {
    /// Builds a loop over `flows` flows, assigned to the 64 leaves in turn with weights 1 to 4, with one waiting packet each.
    pub fn new(flows: u32, refill: Refill, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let flow = |at: u32, weight: u32| Flow {
            tag: 0,
            len: 0,
            leaf: (at as usize % LEAVES) as u16,
            units: UNITS as u32 / weight,
            handle: 0,
            next: NONE,
            rest: (NONE, NONE),
        };
        let flows: Vec<Flow> = (0..flows).map(|at| flow(at, 1 + rng.below(4))).collect();
        let mut order: Vec<u32> = (0..flows.len() as u32).collect();
        for at in (1..order.len()).rev() {
            order.swap(at, rng.below(at as u32 + 1) as usize);
        }
        let mut this = Self {
            tenants: Fair::new(),
            classes: [0; WAYS],
            apps: vec![Fair::new(); WAYS * WAYS],
            leaves: vec![Leaf::new(); LEAVES],
            queued: Vec::with_capacity(flows.len()),
            free: NONE,
            flows,
            order,
            position: 0,
            refill,
            rng,
            burst: [(0, 0, 0); BURST],
        };
        for at in 0..this.order.len() {
            let len = this.length();
            this.enqueue(this.order[at], at as u32, len);
        }
        this
    }

    #[inline]
    fn length(&mut self) -> u16 {
        LENGTHS[self.rng.below(4) as usize] as u16
    }

    /// Dequeues at least `packets` packets, rounded up to whole bursts, and enqueues one for each. Returns the number dequeued.
    pub fn run(&mut self, packets: u64) -> u64 {
        let mut done = 0;
        while done < packets {
            let count = self.dequeue_burst();
            if count == 0 {
                break;
            }
            self.replace(count);
            done += count as u64;
        }
        done
    }

    #[inline]
    fn dequeue_burst(&mut self) -> usize {
        for at in 0..BURST {
            let Some(departed) = self.dequeue() else { return at };
            self.burst[at] = departed;
        }
        BURST
    }

    #[inline]
    fn replace(&mut self, count: usize) {
        for at in 0..count {
            if self.refill == Refill::Shuffled {
                self.position = if self.position + 1 >= self.order.len() { 0 } else { self.position + 1 };
                self.burst[at].0 = self.order[self.position];
            }
            self.burst[at].2 = self.length();
            prefetch(&self.flows, self.burst[at].0 as usize);
        }
        for at in 0..count {
            let (flow, handle, len) = self.burst[at];
            self.enqueue(flow, handle, len);
        }
    }

    #[inline]
    fn enqueue(&mut self, at: u32, handle: u32, len: u16) {
        let flow = &mut self.flows[at as usize];
        if flow.len != 0 {
            return self.queue(at, handle, len);
        }
        let leaf = usize::from(flow.leaf);
        let (class, tenant) = (leaf / WAYS, leaf / WAYS / WAYS);
        flow.tag = flow.tag.max(self.leaves[leaf].virtual_time);
        (flow.len, flow.handle) = (len, handle);
        let was_idle = self.leaves[leaf].is_idle();
        self.leaves[leaf].push(&mut self.flows, at);
        if was_idle {
            self.apps[class].activate(leaf % WAYS);
            let active = &mut self.classes[tenant];
            if *active == 0 {
                self.tenants.activate(tenant);
            }
            *active |= 1 << (class % WAYS);
        }
    }

    /// Puts a packet behind the others of its flow.
    fn queue(&mut self, at: u32, handle: u32, len: u16) {
        let packet = Queued { len, handle, next: NONE };
        let place = self.free;
        let place = if place == NONE {
            self.queued.push(packet);
            self.queued.len() as u32 - 1
        } else {
            self.free = self.queued[place as usize].next;
            self.queued[place as usize] = packet;
            place
        };
        let rest = &mut self.flows[at as usize].rest;
        match rest.0 {
            NONE => *rest = (place, place),
            _ => {
                self.queued[rest.1 as usize].next = place;
                rest.1 = place;
            }
        }
    }

    /// The flow, the handle and the length of the next packet.
    #[inline]
    fn dequeue(&mut self) -> Option<(u32, u32, u16)> {
        let tenant = self.tenants.first();
        let active = self.classes[tenant];
        if active == 0 {
            return None;
        }
        let class = tenant * WAYS + active.trailing_zeros() as usize;
        let app = self.apps[class].first();
        let leaf = &mut self.leaves[class * WAYS + app];
        let at = leaf.pop(&self.flows);
        let flow = &mut self.flows[at as usize];
        let departed = (at, flow.handle, flow.len);
        leaf.virtual_time = flow.tag;
        flow.tag += u64::from(flow.len) * u64::from(flow.units);
        flow.len = 0;
        if flow.rest.0 != NONE {
            let place = flow.rest.0;
            let packet = self.queued[place as usize];
            (flow.len, flow.handle, flow.rest.0) = (packet.len, packet.handle, packet.next);
            self.queued[place as usize].next = self.free;
            self.free = place;
            leaf.push(&mut self.flows, at);
        }
        let cost = u64::from(departed.2) * UNITS;
        let more = !leaf.is_idle();
        self.apps[class].charge(app, cost / (app as u64 + 1), more);
        if !more && self.apps[class].is_idle() {
            self.classes[tenant] &= !(1 << (class % WAYS));
        }
        self.tenants.charge(tenant, cost / (tenant as u64 + 1), self.classes[tenant] != 0);
        Some(departed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_units::Bytes;

    /// The bytes that wait.
    fn backlog(this: &PrototypeLoop) -> Bytes {
        let first: u64 = this.flows.iter().map(|flow| u64::from(flow.len)).sum();
        let mut rest = 0;
        for flow in &this.flows {
            let mut place = flow.rest.0;
            while place != NONE {
                rest += u64::from(this.queued[place as usize].len);
                place = this.queued[place as usize].next;
            }
        }
        Bytes(first + rest)
    }

    /// The bytes by flow of `packets` packets, each of which goes back to its flow.
    fn sent(this: &mut PrototypeLoop, packets: usize) -> Vec<u64> {
        let mut sent = vec![0; this.flows.len()];
        for _ in 0..packets {
            let (flow, handle, len) = this.dequeue().expect("a packet");
            sent[flow as usize] += u64::from(len);
            let len = this.length();
            this.enqueue(flow, handle, len);
        }
        sent
    }

    #[test]
    fn shares_are_those_of_figure_1() {
        let mut this = PrototypeLoop::new(1024, Refill::Same, 7);
        let sent = sent(&mut this, 400_000);
        let all: u64 = sent.iter().sum();
        let of = |keep: &dyn Fn(usize) -> bool| -> f64 {
            let kept = sent.iter().enumerate().filter(|(at, _)| keep(at % LEAVES));
            kept.map(|(_, bytes)| *bytes).sum::<u64>() as f64 / all as f64
        };
        for tenant in 0..WAYS {
            let share = of(&|leaf| leaf / 16 == tenant);
            assert!((share - (tenant as f64 + 1.0) / 10.0).abs() < 0.001, "tenant {tenant}: {share}");
            // The first class goes before the others.
            assert_eq!(of(&|leaf| leaf / 16 == tenant && leaf / 4 % 4 != 0), 0.0);
        }
        for app in 0..WAYS {
            let share = of(&|leaf| leaf % 4 == app);
            assert!((share - (app as f64 + 1.0) / 10.0).abs() < 0.001, "app {app}: {share}");
        }
        let leaf: Vec<usize> = (0..1024).filter(|at| at % LEAVES == 51).collect();
        let weight = |at: &usize| UNITS as f64 / f64::from(this.flows[*at].units);
        let (bytes, weights) =
            (leaf.iter().map(|at| sent[*at]).sum::<u64>() as f64, leaf.iter().map(weight).sum::<f64>());
        for at in &leaf {
            let due = bytes * weight(at) / weights;
            assert!((sent[*at] as f64 - due).abs() < 2.0 * 1518.0, "flow {at}: {} of {due}", sent[*at]);
        }
    }

    #[test]
    fn a_class_without_packets_leaves_its_turns_to_the_next() {
        let mut this = PrototypeLoop::new(128, Refill::Same, 3);
        let mut classes = Vec::new();
        while let Some((flow, _, _)) = this.dequeue() {
            classes.push((flow as usize % LEAVES / 16, flow as usize / 4 % 4));
        }
        assert_eq!((classes.len(), backlog(&this)), (128, Bytes(0)));
        for tenant in 0..WAYS {
            let of: Vec<usize> = classes.iter().filter(|(t, _)| *t == tenant).map(|(_, c)| *c).collect();
            assert!(of.is_sorted() && of.len() == 32, "{of:?}");
        }
    }

    #[test]
    fn every_packet_departs_once_and_in_its_flow_s_order() {
        let mut this = PrototypeLoop::new(50, Refill::Shuffled, 9);
        while this.dequeue().is_some() {}
        let mut due = vec![std::collections::VecDeque::new(); 50];
        let mut rng = Rng::new(5);
        let (mut arrived, mut departed) = (0_u64, 0_u64);
        for handle in 0..40_000 {
            let (flow, len) = (rng.below(50), 64 + rng.below(1455) as u16);
            this.enqueue(flow, handle, len);
            due[flow as usize].push_back((handle, len));
            arrived += u64::from(len);
            // Sometimes all depart, so that flows and classes become idle.
            let most = if rng.below(100) == 0 { u32::MAX } else { rng.below(3) };
            for _ in 0..most {
                let Some((flow, handle, len)) = this.dequeue() else { break };
                assert_eq!(due[flow as usize].pop_front(), Some((handle, len)));
                departed += u64::from(len);
            }
            assert_eq!(backlog(&this), Bytes(arrived - departed));
        }
    }
}
