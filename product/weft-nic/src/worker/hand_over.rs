//! The end of a worker whose rings another process will serve, and the begin of that one's.
//!
//! Packets in the rings stay there. Those that were fetched and not sent completely go to the successor, which sends what is left of
//! them in their rings' turns ([`InHand`]).

use super::{Engine, Worker};
use crate::in_hand::InHand;
use crate::records::RecordSource;

impl<R: RecordSource, E: Engine> Worker<'_, R, E> {
    /// Ends the worker's part. Returns the packets that it holds.
    pub(super) fn hand_over(&mut self) -> Vec<InHand> {
        self.handed_over = true;
        self.rings.iter().filter_map(crate::ring::Ring::in_hand).collect()
    }

    /// Takes over `packet`, which a former worker held, for the ring in `slot`.
    pub(super) fn take_over(&mut self, slot: usize, packet: &InHand) {
        self.rings[slot].take_over(packet, &mut self.pool);
    }
}
