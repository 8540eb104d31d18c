//! Three strict bands of FIFOs under one limit (`pfifo_fast`, the kernel's default).

use super::Qdisc;
use crate::segment::{Backlog, Dequeued, Segment};
use std::collections::VecDeque;
use weft_units::Nanos;

/// Limit in segments of all bands together: `tx_queue_len` of an Ethernet device (`DEFAULT_TX_QUEUE_LEN`).
pub const DEFAULT_LIMIT: u32 = 1000;

/// Number of bands (`PFIFO_FAST_BANDS`).
const BANDS: usize = 3;

/// Three bands with a common limit, as in `pfifo_fast_enqueue` before Linux 4.16. Later kernels give each band an array of
/// `tx_queue_len`.
#[derive(Clone, Debug)]
pub struct PfifoFast {
    bands: [VecDeque<Segment>; BANDS],
    limit: u32,
    backlog: Backlog,
}

impl PfifoFast {
    /// Creates one that holds at most `limit` segments.
    pub fn new(limit: u32) -> Self {
        Self { bands: Default::default(), limit, backlog: Backlog::default() }
    }
}

impl Qdisc for PfifoFast {
    fn enqueue(&mut self, segment: Segment, _: Nanos, dropped: &mut Vec<Segment>) {
        if self.backlog.segments >= self.limit {
            dropped.push(segment);
            return;
        }
        self.backlog.add(&segment);
        self.bands[usize::from(segment.band).min(BANDS - 1)].push_back(segment);
    }

    fn dequeue(&mut self, _: Nanos, _: &mut Vec<Segment>) -> Dequeued {
        let Some(segment) = self.bands.iter_mut().find_map(VecDeque::pop_front) else {
            return Dequeued::Empty;
        };
        self.backlog.take(&segment);
        Dequeued::Segment(segment)
    }

    fn is_forgetful(&self) -> bool {
        self.limit > 0
    }

    fn backlog(&self) -> Backlog {
        self.backlog
    }

    fn walk(&self, visit: &mut dyn FnMut(&Segment)) {
        self.bands.iter().flatten().for_each(visit);
    }
}
