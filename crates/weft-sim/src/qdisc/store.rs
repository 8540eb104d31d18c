//! Segments of many FIFOs in one slab, so that no FIFO allocates once the slab has its size.

use crate::segment::{Backlog, Segment};
use weft_units::{Bytes, Nanos};

/// No node.
const NONE: u32 = u32::MAX;

impl Backlog {
    /// Counts a segment in.
    pub(crate) fn add(&mut self, segment: &Segment) {
        self.segments += 1;
        self.bytes += Bytes(segment.len.into());
    }

    /// Counts a segment out.
    pub(crate) fn take(&mut self, segment: &Segment) {
        self.segments -= 1;
        self.bytes -= Bytes(segment.len.into());
    }
}

/// A held segment and its neighbours.
#[derive(Clone, Copy, Debug)]
struct Node {
    segment: Segment,
    /// When it was enqueued.
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

/// A FIFO in a [`Store`]; always used with the same one.
#[derive(Clone, Copy, Debug)]
pub(super) struct List {
    head: u32,
    tail: u32,
    /// What it holds.
    pub(super) backlog: Backlog,
}

impl List {
    /// An empty one.
    pub(super) const EMPTY: Self =
        Self { head: NONE, tail: NONE, backlog: Backlog { segments: 0, bytes: Bytes::ZERO } };
}

impl Store {
    /// An empty one.
    pub(super) const fn new() -> Self {
        Self { nodes: Vec::new(), free: NONE }
    }

    /// Puts a segment at the end of `list`.
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

    /// Takes the first segment of `list`, with the time at which it was enqueued.
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

    /// Takes the last segment of `list`.
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

    /// Shows the segments of `list`, from the first to the last.
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
