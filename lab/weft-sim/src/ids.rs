//! Identities of a run's objects, and tables that only they can index.

use std::marker::PhantomData;
use std::ops::{Index, IndexMut};
use weft_units::{RxQueueId, TxQueueId, dense_id};

dense_id!(
    /// A host of the scenario.
    HostId, "host "
);
dense_id!(
    /// A core of a host.
    CoreId, "core "
);
dense_id!(
    /// One direction of a connection, of a flow of datagrams, or of a probe. Transmit queues hold segments of streams. Streams
    /// come in pairs, forward and reverse.
    StreamId, "stream "
);
dense_id!(
    /// A flow of the scenario, in the order of its groups: a pair of streams with an application at each end.
    FlowNumber, "flow "
);
dense_id!(
    /// A group of flows of the scenario.
    GroupId, "group "
);
dense_id!(
    /// A probe of the scenario.
    ProbeId, "probe "
);
dense_id!(
    /// A switch of the network.
    SwitchId, "switch "
);
dense_id!(
    /// A segment in the run's pool; reused once the segment has been freed.
    SkbId, "skb "
);
dense_id!(
    /// A packet in the network's pool; reused once the packet has arrived.
    PacketId, "packet "
);
dense_id!(
    /// An acknowledgement's content in the run's pool; reused once it has been processed.
    AckId, "acknowledgement "
);

impl StreamId {
    /// Returns the stream of the other direction.
    pub const fn reverse(self) -> Self {
        Self(self.0 ^ 1)
    }

    /// Returns the flow that the stream would belong to. Probes come after the flows, so the result may not be a flow's number.
    pub const fn flow(self) -> FlowNumber {
        FlowNumber(self.0 / 2)
    }

    /// Whether it is the direction from the flow's first host to its second.
    pub const fn is_forward(self) -> bool {
        self.0.is_multiple_of(2)
    }
}

impl FlowNumber {
    /// Returns the stream from the flow's first host to its second.
    pub const fn forward(self) -> StreamId {
        StreamId(2 * self.0)
    }
}

/// Conversion of an identity from and to a position.
pub(crate) trait Id: Copy {
    /// Returns the position in a table.
    fn index(self) -> usize;

    /// Returns the identity at a position.
    fn at(index: usize) -> Self;
}

macro_rules! identities {
    ($($name:ty),* $(,)?) => {
        $(impl Id for $name {
            #[inline]
            fn index(self) -> usize {
                self.0 as usize
            }

            fn at(index: usize) -> Self {
                Self::from_index(index)
            }
        })*
    };
}

identities!(
    HostId, CoreId, RxQueueId, StreamId, FlowNumber, GroupId, ProbeId, SwitchId, SkbId, PacketId, AckId,
    TxQueueId
);

/// A list with an entry per identity.
#[derive(Clone, Debug)]
pub(crate) struct Table<I, T> {
    entries: Vec<T>,
    of: PhantomData<I>,
}

impl<I: Id, T> Table<I, T> {
    /// Creates an empty table.
    pub(crate) const fn new() -> Self {
        Self { entries: Vec::new(), of: PhantomData }
    }

    /// Creates a table of `count` equal entries.
    pub(crate) fn of(entry: T, count: usize) -> Self
    where
        T: Clone,
    {
        Self { entries: vec![entry; count], of: PhantomData }
    }

    /// Adds an entry; returns its identity.
    pub(crate) fn push(&mut self, entry: T) -> I {
        self.entries.push(entry);
        I::at(self.entries.len() - 1)
    }

    pub(crate) const fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns the entry of an identity; `None` if the table lacks it.
    #[inline]
    pub(crate) fn get(&self, id: I) -> Option<&T> {
        self.entries.get(id.index())
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: I) -> Option<&mut T> {
        self.entries.get_mut(id.index())
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = I> + use<I, T> {
        (0..self.entries.len()).map(I::at)
    }

    pub(crate) fn iter(&self) -> std::slice::Iter<'_, T> {
        self.entries.iter()
    }

    pub(crate) fn iter_mut(&mut self) -> std::slice::IterMut<'_, T> {
        self.entries.iter_mut()
    }

    /// Iterates over the entries with their identities.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (I, &T)> {
        self.entries.iter().enumerate().map(|(index, entry)| (I::at(index), entry))
    }

    pub(crate) fn as_slice(&self) -> &[T] {
        &self.entries
    }
}

impl<I, T> FromIterator<T> for Table<I, T> {
    fn from_iter<J: IntoIterator<Item = T>>(entries: J) -> Self {
        Self { entries: entries.into_iter().collect(), of: PhantomData }
    }
}

impl<I: Id, T> Index<I> for Table<I, T> {
    type Output = T;

    #[inline]
    fn index(&self, id: I) -> &T {
        &self.entries[id.index()]
    }
}

impl<I: Id, T> IndexMut<I> for Table<I, T> {
    #[inline]
    fn index_mut(&mut self, id: I) -> &mut T {
        &mut self.entries[id.index()]
    }
}

/// A table with removal: an identity is valid until its entry is removed, and is then reused.
#[derive(Debug)]
pub(crate) struct Pool<I, T> {
    entries: Table<I, T>,
    free: Vec<I>,
}

impl<I: Id + Ord, T: Copy> Pool<I, T> {
    pub(crate) const fn new() -> Self {
        Self { entries: Table::new(), free: Vec::new() }
    }

    #[inline]
    pub(crate) fn insert(&mut self, entry: T) -> I {
        if let Some(id) = self.free.pop() {
            self.entries[id] = entry;
            return id;
        }
        self.entries.push(entry)
    }

    #[inline]
    pub(crate) fn remove(&mut self, id: I) -> T {
        self.free.push(id);
        self.entries[id]
    }

    /// Iterates over the present entries, found without the count of insertions and removals.
    pub(crate) fn live(&self) -> impl Iterator<Item = &T> {
        let free: std::collections::BTreeSet<I> = self.free.iter().copied().collect();
        self.entries.pairs().filter(move |(id, _)| !free.contains(id)).map(|(_, entry)| entry)
    }
}

impl<I: Id, T> Index<I> for Pool<I, T> {
    type Output = T;

    #[inline]
    fn index(&self, id: I) -> &T {
        &self.entries[id]
    }
}

impl<I: Id, T> IndexMut<I> for Pool<I, T> {
    #[inline]
    fn index_mut(&mut self, id: I) -> &mut T {
        &mut self.entries[id]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_uses_identities_again_and_knows_what_is_there() {
        let mut pool: Pool<SkbId, char> = Pool::new();
        let (a, b) = (pool.insert('a'), pool.insert('b'));
        assert_eq!((a, b), (SkbId(0), SkbId(1)));
        assert_eq!(pool.remove(a), 'a');
        assert_eq!(pool.live().collect::<Vec<_>>(), [&'b']);
        assert_eq!(pool.insert('c'), a);
        pool[b] = 'd';
        assert_eq!(pool.live().collect::<String>(), "cd");
    }

    #[test]
    fn streams_come_in_pairs() {
        let stream = FlowNumber(3).forward();
        assert_eq!((stream, stream.reverse()), (StreamId(6), StreamId(7)));
        assert_eq!(stream.reverse().reverse(), stream);
        assert_eq!(stream.reverse().flow(), FlowNumber(3));
        assert!(stream.is_forward() && !stream.reverse().is_forward());
    }
}
