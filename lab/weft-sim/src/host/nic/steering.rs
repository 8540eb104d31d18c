//! The receive queues of streams, as the receiving NICs steer them.

use crate::ids::{StreamId, Table};
use weft_units::RxQueueId;

/// A stream at its receiving NIC.
#[derive(Clone, Copy, Debug)]
struct Steered {
    queue: RxQueueId,
    /// Number of packets on their way to the host's stack.
    under_way: u32,
}

/// The receive queue of each stream.
#[derive(Debug)]
pub(crate) struct Steering {
    streams: Table<StreamId, Steered>,
}

impl Steering {
    pub(crate) fn new(queues: impl Iterator<Item = RxQueueId>) -> Self {
        Self { streams: queues.map(|queue| Steered { queue, under_way: 0 }).collect() }
    }

    /// Returns the receive queue of a stream's next packet, and counts the packet as in transit. A learnt queue takes effect only
    /// while no packet of the stream is in transit, to keep their order; only then is it asked for.
    #[inline]
    pub(crate) fn arrives(
        &mut self,
        stream: StreamId,
        learnt: impl FnOnce() -> Option<RxQueueId>,
    ) -> RxQueueId {
        let steered = &mut self.streams[stream];
        if steered.under_way == 0
            && let Some(queue) = learnt()
        {
            steered.queue = queue;
        }
        steered.under_way += 1;
        steered.queue
    }

    /// Counts a packet that was taken from its ring or dropped there.
    #[inline]
    pub(crate) fn taken(&mut self, stream: StreamId) {
        self.streams[stream].under_way -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_moves_only_while_nothing_is_under_way() {
        let (stream, old, new) = (StreamId(0), RxQueueId(3), RxQueueId(5));
        let mut steering = Steering::new([old].into_iter());
        assert_eq!(steering.arrives(stream, || None), old);
        assert_eq!(steering.arrives(stream, || Some(new)), old);
        steering.taken(stream);
        steering.taken(stream);
        assert_eq!(steering.arrives(stream, || Some(new)), new);
    }
}
