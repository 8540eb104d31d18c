//! Flows to be steered.

use weft_packet::header_match::HeaderMatch;
use weft_units::{BitsPerSec, FlowKey};

/// A set of packets that one queue receives: one five-tuple, or with wildcards the packets for a listening socket.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Flow {
    /// The packets.
    pub headers: HeaderMatch,
    /// Relative share of a queue's load; 1 by default.
    pub weight: u32,
    /// The rate, if known.
    pub rate: Option<BitsPerSec>,
    /// The class's name, if any.
    pub class: Option<String>,
    /// The processor on which the flow's application runs, if known.
    pub core: Option<u32>,
}

impl Flow {
    /// Creates a flow of one five-tuple with weight 1.
    pub fn new(key: &FlowKey) -> Self {
        Self { headers: HeaderMatch::of_flow(key), weight: 1, rate: None, class: None, core: None }
    }
}
