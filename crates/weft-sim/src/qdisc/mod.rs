//! Queueing disciplines, one per transmit queue, as the kernel's `net/sched` has them.
//!
//! A new one is a file with one type that implements [`Qdisc`], and a line in [`build`].

use crate::segment::{Backlog, Dequeued, Segment};
use weft_units::Nanos;

/// A queueing discipline between the stack and a NIC queue's ring.
pub trait Qdisc: Send {
    /// Takes a segment. What is dropped for want of room, this segment or another, is pushed to `dropped`.
    fn enqueue(&mut self, segment: Segment, now: Nanos, dropped: &mut Vec<Segment>);

    /// The segment that leaves next. What is dropped on the way (CoDel) is pushed to `dropped`.
    fn dequeue(&mut self, now: Nanos, dropped: &mut Vec<Segment>) -> Dequeued;

    /// What is held.
    fn backlog(&self) -> Backlog;
}
