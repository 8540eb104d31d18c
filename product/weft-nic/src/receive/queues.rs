//! The receive queues: bounded rings that are served within a budget.
//!
//! The module uses no devices and no clock: the caller passes frames and times, so tests run in virtual time.

use super::budget::{Budget, TokenBucket};
use super::counters::QueueCounters;
use std::collections::VecDeque;
use weft_units::Instant;

/// A frame in a ring, with the virtio-net header before it.
pub(super) type Frame = Vec<u8>;

/// The number of buffers kept for reuse over all queues: more than a burst of reads needs, so that a standing queue
/// causes no allocation.
const SPARE: usize = 256;
/// The largest buffer kept for reuse; super-packets are rare here and would hold memory.
const SPARE_BYTES: usize = 4096;

/// The result of offering a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Offered {
    /// The frame is in the ring.
    Held,
    /// The ring was full.
    Dropped,
}

#[derive(Debug)]
struct Queue {
    frames: VecDeque<Frame>,
    bucket: TokenBucket,
}

/// All receive queues of a NIC.
#[derive(Debug)]
pub(super) struct Queues {
    queues: Vec<Queue>,
    capacity: usize,
    spare: Vec<Frame>,
}

impl Queues {
    /// Creates `count` queues of `capacity` packets each.
    pub(super) fn new(count: u32, capacity: u32, budget: Budget, now: Instant) -> Self {
        let queue = |_| Queue { frames: VecDeque::new(), bucket: TokenBucket::new(budget, now) };
        Self { queues: (0..count).map(queue).collect(), capacity: capacity as usize, spare: Vec::new() }
    }

    /// Appends a frame to queue `index`, which must exist, or drops it when the ring is full.
    pub(super) fn offer(&mut self, index: usize, frame: &[u8], counters: &QueueCounters) -> Offered {
        let bytes = super::frame_bytes(frame);
        counters.arrived.add(1, bytes);
        let room = self.queues.get_mut(index).filter(|queue| queue.frames.len() < self.capacity);
        let Some(queue) = room else {
            counters.dropped.add(1, bytes);
            return Offered::Dropped;
        };
        let mut held = self.spare.pop().unwrap_or_default();
        held.clear();
        held.extend_from_slice(frame);
        queue.frames.push_back(held);
        counters.most_held.set(counters.most_held.get().max(queue.frames.len() as u64));
        Offered::Held
    }

    /// Passes the frames that may be served at `now` to `deliver`, burst by burst and queue by queue. `deliver` returns
    /// whether the host accepted the frame. Returns whether any was served.
    pub(super) fn serve(
        &mut self,
        now: Instant,
        counters: &[QueueCounters],
        mut deliver: impl FnMut(&[u8]) -> bool,
    ) -> bool {
        let mut any = false;
        for (queue, counters) in self.queues.iter_mut().zip(counters) {
            while !queue.frames.is_empty() && queue.bucket.take(now) {
                let Some(frame) = queue.frames.pop_front() else { break };
                let bytes = super::frame_bytes(&frame);
                any = true;
                if deliver(&frame) {
                    counters.delivered.add(1, bytes);
                } else {
                    counters.refused.add(1, bytes);
                }
                if self.spare.len() < SPARE && frame.capacity() <= SPARE_BYTES {
                    self.spare.push(frame);
                }
            }
        }
        any
    }

    /// The earliest time at which a frame may be served; `None` when no frame is held.
    pub(super) fn ready_at(&self) -> Option<Instant> {
        let waiting = self.queues.iter().filter(|queue| !queue.frames.is_empty());
        waiting.map(|queue| queue.bucket.ready_at()).min()
    }

    /// Counts the frames left in the rings at the end; to be called once.
    pub(super) fn count_left(&self, counters: &[QueueCounters]) {
        for (queue, counters) in self.queues.iter().zip(counters) {
            let bytes = queue.frames.iter().map(|frame| super::frame_bytes(frame)).sum();
            counters.left.add(queue.frames.len() as u64, bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::counters::QueueCounters;
    use super::*;
    use core::num::NonZeroU32;
    use proptest::prelude::*;
    use weft_units::{Nanos, Packets};

    fn budget(rate: u32, burst: u32) -> Budget {
        let some = |n| NonZeroU32::new(n).expect("not zero");
        Budget { packets_per_s: some(rate), burst: some(burst) }
    }

    fn counters(count: usize) -> Vec<QueueCounters> {
        (0..count).map(|_| QueueCounters::default()).collect()
    }

    /// An operation on the queues.
    #[derive(Clone, Debug)]
    enum Step {
        Offer(usize),
        Wait(u64),
        Serve { host_takes: bool },
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        proptest::collection::vec(
            prop_oneof![
                6 => (0usize..3).prop_map(Step::Offer),
                1 => (0u64..5_000_000).prop_map(Step::Wait),
                1 => proptest::bool::weighted(0.9).prop_map(|host_takes| Step::Serve { host_takes }),
            ],
            1..300,
        )
    }

    proptest! {
        /// Each packet is delivered once, refused, dropped or held, in the order of its queue, and the counters agree.
        #[test]
        fn every_packet_is_somewhere(steps in steps(), capacity in 1u32..20, rate in 1u32..10_000, burst in 1u32..10) {
            let mut queues = Queues::new(3, capacity, budget(rate, burst), Instant::ZERO);
            let counters = counters(3);
            let (mut now, mut number) = (Instant::ZERO, 0u64);
            let mut waiting: [VecDeque<u64>; 3] = Default::default();
            for step in steps {
                match step {
                    Step::Offer(queue) => {
                        let mut frame = vec![0; super::super::VNET];
                        frame.extend_from_slice(&number.to_be_bytes());
                        let full = waiting[queue].len() == capacity as usize;
                        let offered = queues.offer(queue, &frame, &counters[queue]);
                        prop_assert_eq!(offered == Offered::Dropped, full);
                        if !full {
                            waiting[queue].push_back(number);
                        }
                        number += 1;
                    }
                    Step::Wait(gap) => now += Nanos(gap),
                    Step::Serve { host_takes } => {
                        let mut left = Vec::new();
                        queues.serve(now, &counters, |frame| {
                            let number = frame[super::super::VNET..].try_into().map(u64::from_be_bytes);
                            left.push(number.expect("8 bytes"));
                            host_takes
                        });
                        for number in left {
                            let queue = waiting.iter().position(|queue| queue.front() == Some(&number));
                            prop_assert!(queue.is_some(), "packet {} left out of order or twice", number);
                            waiting[queue.expect("checked")].pop_front();
                        }
                    }
                }
                for (queue, counters) in counters.iter().enumerate() {
                    let totals = counters.totals();
                    prop_assert_eq!(totals.held(), Packets(waiting[queue].len() as u64));
                }
            }
            queues.count_left(&counters);
            for counters in &counters {
                let totals = counters.totals();
                prop_assert_eq!(totals.held(), totals.left.packets);
                let gone = (totals.served() + totals.dropped) + totals.left;
                prop_assert_eq!(totals.arrived, gone, "bytes too");
            }
        }
    }

    #[test]
    fn a_queue_in_need_does_not_take_from_another() {
        let mut queues = Queues::new(2, 1000, budget(1000, 1), Instant::ZERO);
        let counters = counters(2);
        let frame = [0; super::super::VNET + 60];
        for _ in 0..1000 {
            queues.offer(0, &frame, &counters[0]);
        }
        for _ in 0..20 {
            queues.offer(1, &frame, &counters[1]);
        }
        let mut now = Instant::ZERO;
        while now <= Instant::from_millis(50) {
            queues.serve(now, &counters, |_| true);
            now = queues.ready_at().expect("much is held");
        }
        assert_eq!(counters[0].totals().delivered.packets, Packets(51));
        assert_eq!(counters[1].totals().delivered.packets, Packets(20));
    }
}
