//! Rings of queues, linked through one table: insertion, removal and rotation take constant time and do not allocate.

/// The end of a ring, and the head of an empty one.
const NONE: u32 = u32::MAX;

/// A queue in no ring.
const OUT: u32 = u32::MAX - 1;

/// The successor of each queue. Disjoint rings share a table.
#[derive(Clone, Debug)]
pub(super) struct Links(Box<[u32]>);

impl Links {
    /// Creates a table for queues below `queues`, none of them in a ring. The two highest numbers of 32 bits are not queues.
    pub(super) fn new(queues: u32) -> Self {
        Self(vec![OUT; queues.min(OUT) as usize].into())
    }
}

/// An ordered ring of queues. All of its methods need the same table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ring {
    head: u32,
    tail: u32,
}

impl Ring {
    /// The empty ring.
    pub(super) const EMPTY: Self = Self { head: NONE, tail: NONE };

    /// Returns the first queue.
    pub(super) fn head(&self) -> Option<u32> {
        (self.head != NONE).then_some(self.head)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.head == NONE
    }

    /// Appends a queue. Returns false without effect if it is already in a ring or beyond the table.
    pub(super) fn push(&mut self, links: &mut Links, queue: u32) -> bool {
        match links.0.get_mut(queue as usize) {
            Some(link) if *link == OUT => *link = NONE,
            _ => return false,
        }
        match links.0.get_mut(self.tail as usize) {
            Some(last) => *last = queue,
            None => self.head = queue,
        }
        self.tail = queue;
        true
    }

    /// Removes the first queue.
    pub(super) fn pop(&mut self, links: &mut Links) -> Option<u32> {
        let head = self.head()?;
        self.head = std::mem::replace(links.0.get_mut(head as usize)?, OUT);
        if self.head == NONE {
            self.tail = NONE;
        }
        Some(head)
    }

    /// Moves the first queue to the end.
    pub(super) fn rotate(&mut self, links: &mut Links) {
        if let Some(head) = self.pop(links) {
            self.push(links, head);
        }
    }

    /// Iterates over the queues in order.
    pub(super) fn iter<'a>(&self, links: &'a Links) -> impl Iterator<Item = u32> + use<'a> {
        let behind = |queue: &u32| links.0.get(*queue as usize).copied().filter(|next| *next < OUT);
        std::iter::successors(self.head(), behind)
    }
}
