//! The end of a worker whose rings another process will serve.
//!
//! Packets in the rings stay there. A packet that was fetched is in no ring any more, so the rest of it is sent, whatever the
//! policy says of the moment: at most one packet of each ring, and in most configurations none, since whole packets leave at
//! once. What the uplink does not take within [`PATIENCE`] is lost, as after a crash.

use super::{Engine, Worker};
use crate::records::RecordSource;
use weft_host::clock;
use weft_units::Nanos;

/// The longest wait for room in the uplink.
const PATIENCE: Nanos = Nanos::from_millis(20);

impl<R: RecordSource, E: Engine> Worker<'_, R, E> {
    /// Sends what is in hand, and ends the worker's part.
    pub(super) fn hand_over(&mut self) {
        let until = clock::now() + PATIENCE;
        for number in 0..self.rings.len() {
            while self.rings[number].fetched.is_some() && clock::now() < until {
                let now = clock::now();
                if let Err(room) = self.send_chunk(number, now) {
                    self.wait_for_room(room, now);
                }
            }
        }
        self.handed_over = true;
    }
}
