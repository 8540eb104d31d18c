//! Tracks for spans that overlap, such as the packets that wait in a queue.
//!
//! The spans of a track must nest. Those of a queue do not: the first to come is the first to leave. They are spread over tracks of
//! the same name, which viewers show as one; there are as many as packets waited at once.

use crate::perfetto::{Perfetto, TraceEvent, TrackId, TrackPlace};
use core::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::Write;
use weft_units::Nanos;

/// Tracks of one name.
#[derive(Debug)]
pub struct Lanes {
    parent: Option<TrackId>,
    rank: u32,
    name: String,
    /// The tracks, each with the end of its last span.
    tracks: BinaryHeap<Reverse<(Nanos, TrackId)>>,
}

impl Lanes {
    /// Makes no track yet.
    pub fn new(place: &TrackPlace<'_>) -> Self {
        let TrackPlace { parent, rank, name } = *place;
        Self { parent, rank, name: name.to_owned(), tracks: BinaryHeap::new() }
    }

    /// Writes a span on a track that has none at its time. A span that ends before it begins is empty.
    pub fn span<W: Write>(
        &mut self,
        trace: &mut Perfetto<W>,
        (from, to): (Nanos, Nanos),
        event: &TraceEvent<'_>,
    ) {
        let to = to.max(from);
        let free =
            self.tracks.peek().filter(|Reverse((end, _))| *end <= from).map(|Reverse((_, track))| *track);
        let track = match free {
            Some(track) => {
                self.tracks.pop();
                track
            }
            None => trace.track(&TrackPlace { parent: self.parent, rank: self.rank, name: &self.name }),
        };
        trace.span(track, (from, to), event);
        self.tracks.push(Reverse((to, track)));
    }

    /// The number of tracks made.
    pub fn count(&self) -> usize {
        self.tracks.len()
    }
}
