//! Generic receive offload: consecutive packets of a flow are passed up the stack as one.

use crate::ids::StreamId;
use crate::packet::Packet;
use weft_units::Nanos;

/// The maximum size of a merged packet (`GRO_LEGACY_MAX_SIZE`).
const MERGED_MAX: u32 = 65_536;

/// Packets of a stream merged by GRO.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Merged {
    pub(crate) stream: StreamId,
    /// Number of the first packet.
    pub(crate) first: u64,
    pub(crate) packets: u32,
    pub(crate) payload: u32,
    pub(crate) marked: u32,
    /// Creation time of the newest packet's segment.
    pub(crate) created: Nanos,
}

impl Merged {
    /// Returns a packet of data as a merge of one. It counts as `packets`: a whole segment is several.
    #[inline]
    pub(crate) fn single(first: u64, packets: u32, packet: &Packet) -> Self {
        Self {
            stream: packet.stream,
            first,
            packets,
            payload: packet.payload,
            marked: u32::from(packet.marked),
            created: packet.created,
        }
    }

    /// Appends the next packet of the stream if there is room; returns whether there was.
    #[inline]
    fn take(&mut self, one: &Self) -> bool {
        let follows = self.first + u64::from(self.packets) == one.first;
        let alike = (self.marked == 0) == (one.marked == 0);
        if !follows || !alike || self.payload + one.payload >= MERGED_MAX {
            return false;
        }
        self.packets += one.packets;
        self.payload += one.payload;
        self.marked += one.marked;
        self.created = one.created;
        true
    }
}

/// The merges of the current poll.
#[derive(Debug)]
pub(crate) struct Merge {
    held: Vec<Merged>,
    /// The maximum number of streams merged at a time; `None` if GRO is off.
    streams: Option<usize>,
}

impl Merge {
    pub(crate) const fn new(streams: Option<u32>) -> Self {
        let streams = match streams {
            Some(0) => Some(1),
            Some(streams) => Some(streams as usize),
            None => None,
        };
        Self { held: Vec::new(), streams }
    }

    /// Adds a packet. Returns the merge to pass up the stack first: the same stream's if the packet does not continue it or it is
    /// full, the oldest if there are too many streams, or the packet itself if GRO is off.
    #[inline]
    pub(crate) fn add(&mut self, one: Merged) -> Option<Merged> {
        let Some(streams) = self.streams else { return Some(one) };
        if let Some(held) = self.held.iter_mut().find(|held| held.stream == one.stream) {
            return if held.take(&one) { None } else { Some(std::mem::replace(held, one)) };
        }
        let oldest = (self.held.len() >= streams).then(|| self.held.remove(0));
        self.held.push(one);
        oldest
    }

    /// Removes all merges at the end of a poll, the oldest first.
    #[inline]
    pub(crate) fn flush(&mut self) -> Vec<Merged> {
        std::mem::take(&mut self.held)
    }

    /// Returns the list of [`flush`](Self::flush) for reuse of its memory.
    #[inline]
    pub(crate) fn reuse(&mut self, mut list: Vec<Merged>) {
        list.clear();
        self.held = list;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(stream: u32, first: u64, marked: u32) -> Merged {
        Merged { stream: StreamId(stream), first, packets: 1, payload: 1448, marked, created: Nanos(first) }
    }

    #[test]
    fn packets_that_follow_are_merged_and_others_flush() {
        let mut merge = Merge::new(Some(2));
        assert_eq!((merge.add(packet(0, 5, 0)), merge.add(packet(0, 6, 0))), (None, None));
        let both = Merged { packets: 2, payload: 2896, created: Nanos(6), ..packet(0, 5, 0) };
        assert_eq!(merge.add(packet(0, 7, 1)), Some(both), "a mark does not go with packets without");
        assert_eq!(merge.add(packet(1, 0, 0)), None);
        assert_eq!(merge.add(packet(2, 0, 0)), Some(packet(0, 7, 1)), "too many streams");
        let rest = merge.flush();
        assert_eq!(rest, [packet(1, 0, 0), packet(2, 0, 0)]);
        merge.reuse(rest);
        assert!(merge.flush().is_empty());
    }

    #[test]
    fn without_it_each_packet_goes_up() {
        assert_eq!(Merge::new(None).add(packet(0, 5, 0)), Some(packet(0, 5, 0)));
    }
}
