//! Controlled delay: the decision to drop the head of a queue (RFC 8289).

use crate::segment::Segment;
use weft_units::{Bytes, Nanos};

/// The permitted delay of a standing queue (RFC 8289, section 4.4; `codel_params_init`).
pub(super) const TARGET: Nanos = Nanos::from_millis(5);

/// The time that the delay must exceed it before a drop (RFC 8289, section 4.3; `codel_params_init`).
pub(super) const INTERVAL: Nanos = Nanos::from_millis(100);

/// The backlog up to which a queue is never dropped from (`codel_params::mtu`: `psched_mtu` of an Ethernet device).
const MTU: Bytes = Bytes(1514);

/// A segment taken from the head of a queue.
pub(super) struct Head {
    /// The segment.
    pub(super) segment: Segment,
    /// Time of its enqueueing.
    pub(super) at: Nanos,
    /// Bytes held without it. In the kernel's `fq_codel`, those of all queues together.
    pub(super) rest: Bytes,
}

/// The state of one queue (`codel_vars`). The control law computes the square root itself; the kernel approximates its reciprocal
/// in 16 bits by Newton steps.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Codel {
    /// Drops in this dropping state, and at its start.
    count: u32,
    last_count: u32,
    dropping: bool,
    /// Time at which the delay will have exceeded the target for an interval.
    first_above: Option<Nanos>,
    /// Time of the next drop.
    drop_next: Nanos,
}

impl Codel {
    /// `t + interval / sqrt(count)` (RFC 8289, section 5.4).
    fn control_law(&self, from: Nanos) -> Nanos {
        let step = INTERVAL.get() as f64 / f64::from(self.count.max(1)).sqrt();
        from + Nanos(step as u64)
    }

    /// Raises the drop rate after drops for lack of space (`fq_codel_drop`).
    pub(super) fn dropped_for_room(&mut self, segments: u32) {
        self.count = self.count.saturating_add(segments);
    }

    /// `codel_should_drop`.
    fn should_drop(&mut self, head: Option<&Head>, now: Nanos) -> bool {
        let Some(head) = head.filter(|head| now.saturating_sub(head.at) >= TARGET && head.rest > MTU) else {
            self.first_above = None;
            return false;
        };
        debug_assert!(head.at <= now, "time never goes back");
        match self.first_above {
            None => {
                self.first_above = Some(now + INTERVAL);
                false
            }
            Some(time) => now > time,
        }
    }

    /// Returns the next segment of a queue; `pop` removes its head (`codel_dequeue`).
    pub(super) fn dequeue(
        &mut self,
        now: Nanos,
        mut pop: impl FnMut() -> Option<Head>,
        dropped: &mut Vec<Segment>,
    ) -> Option<Segment> {
        let mut head = pop();
        let drop = self.should_drop(head.as_ref(), now);
        if head.is_none() || (self.dropping && !drop) {
            self.dropping = false;
        } else if self.dropping {
            // A long queue may need a drop rate at which several drops are due.
            while self.dropping && now >= self.drop_next {
                self.count = self.count.saturating_add(1);
                dropped.extend(head.map(|head| head.segment));
                head = pop();
                if self.should_drop(head.as_ref(), now) {
                    self.drop_next = self.control_law(self.drop_next);
                } else {
                    self.dropping = false;
                }
            }
        } else if drop {
            dropped.extend(head.map(|head| head.segment));
            head = pop();
            self.should_drop(head.as_ref(), now);
            self.dropping = true;
            // Soon after the last dropping state, its drop rate is a good start.
            let delta = self.count.wrapping_sub(self.last_count);
            let recent = now.saturating_sub(self.drop_next) < Nanos(16 * INTERVAL.get());
            self.count = if delta > 1 && recent { delta } else { 1 };
            self.last_count = self.count;
            self.drop_next = self.control_law(now);
        }
        head.map(|head| head.segment)
    }
}
