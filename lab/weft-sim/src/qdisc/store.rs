//! Segments of many FIFOs in one slab, so that FIFOs do not allocate after the slab has its size.

use crate::segment::{Backlog, Segment};
use weft_units::{Bytes, Nanos};

/// The absence of a node.
const NONE: u32 = u32::MAX;

impl Backlog {
    /// Counts an added segment.
    pub(crate) fn add(&mut self, segment: &Segment) {
        self.segments += 1;
        self.bytes += Bytes(segment.len.into());
    }

    /// Counts a removed segment.
    pub(crate) fn take(&mut self, segment: &Segment) {
        self.segments -= 1;
        self.bytes -= Bytes(segment.len.into());
    }
}

/// A held segment and its neighbours.
#[derive(Clone, Copy, Debug)]
struct Node {
    segment: Segment,
    /// Time of its enqueueing.
    at: Nanos,
    previous: u32,
    next: u32,
}

/// The slab. Free nodes are chained through `next`.
#[derive(Clone, Debug)]
pub(super) struct Store {
    nodes: Vec<Node>,
    free: u32,
}

/// A FIFO in a [`Store`]; always used with the same store.
#[derive(Clone, Copy, Debug)]
pub(super) struct List {
    head: u32,
    tail: u32,
    /// Its backlog.
    pub(super) backlog: Backlog,
}

impl List {
    /// The empty list.
    pub(super) const EMPTY: Self =
        Self { head: NONE, tail: NONE, backlog: Backlog { segments: 0, bytes: Bytes::ZERO } };
}

impl Store {
    /// Creates an empty store.
    pub(super) const fn new() -> Self {
        Self { nodes: Vec::new(), free: NONE }
    }

    /// Appends a segment to `list`.
    pub(super) fn push_back(&mut self, list: &mut List, segment: Segment, at: Nanos) {
        let node = Node { segment, at, previous: list.tail, next: NONE };
        let index = if self.free == NONE {
            self.nodes.push(node);
            u32::try_from(self.nodes.len() - 1).expect("limits keep queues far below 2^32 segments")
        } else {
            let index = self.free;
            self.free = self.nodes[index as usize].next;
            self.nodes[index as usize] = node;
            index
        };
        if list.tail == NONE {
            list.head = index;
        } else {
            self.nodes[list.tail as usize].next = index;
        }
        list.tail = index;
        list.backlog.add(&segment);
    }

    /// Removes the first segment of `list`; returns it with the time of its enqueueing.
    pub(super) fn pop_front(&mut self, list: &mut List) -> Option<(Segment, Nanos)> {
        let index = list.head;
        let node = *self.nodes.get(index as usize)?;
        list.head = node.next;
        if node.next == NONE {
            list.tail = NONE;
        } else {
            self.nodes[node.next as usize].previous = NONE;
        }
        self.release(index);
        list.backlog.take(&node.segment);
        Some((node.segment, node.at))
    }

    /// Removes the last segment of `list`.
    pub(super) fn pop_back(&mut self, list: &mut List) -> Option<Segment> {
        let index = list.tail;
        let node = *self.nodes.get(index as usize)?;
        list.tail = node.previous;
        if node.previous == NONE {
            list.head = NONE;
        } else {
            self.nodes[node.previous as usize].next = NONE;
        }
        self.release(index);
        list.backlog.take(&node.segment);
        Some(node.segment)
    }

    /// Visits the segments of `list`, from the first to the last.
    pub(super) fn walk(&self, list: &List, visit: &mut dyn FnMut(&Segment)) {
        let mut index = list.head;
        while let Some(node) = self.nodes.get(index as usize) {
            visit(&node.segment);
            index = node.next;
        }
    }

    fn release(&mut self, index: u32) {
        self.nodes[index as usize].next = self.free;
        self.free = index;
    }
}
