//! Flows that are to be steered.

use weft_packet::header_match::HeaderMatch;
use weft_units::{BitsPerSec, FlowKey};

/// A flow: packets that are received together. One five-tuple, or with wildcards what comes to a listening socket.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Flow {
    /// Its packets.
    pub headers: HeaderMatch,
    /// Its part of a queue's load, relative to other flows; 1 where nothing is said.
    pub weight: u32,
    /// Its rate, where it is known.
    pub rate: Option<BitsPerSec>,
    /// Its class's name, where it has one.
    pub class: Option<String>,
    /// The processor on which its application runs, where that is known.
    pub core: Option<u32>,
}

impl Flow {
    /// A flow of one five-tuple, weight 1.
    pub fn new(key: &FlowKey) -> Self {
        Self { headers: HeaderMatch::of_flow(key), weight: 1, rate: None, class: None, core: None }
    }
}
