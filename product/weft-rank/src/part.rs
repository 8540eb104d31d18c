//! The parts of an algorithm: the events at which one of its programs runs.

/// An event at which an algorithm's program runs for a child.
///
/// A turn is `begin`, `fetched` for each packet at hand, `sent`, and then `rank` or `idle`. All of them have the time at which the turn
/// begins, whenever the engine learns what was sent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Part {
    /// An idle child has something to send again. A return from the shaping queue is not such an event.
    Active,
    /// A packet or a doorbell reaches a child, idle or not.
    Arrives,
    /// A reference to the child goes into the node's order: the program yields its rank.
    Rank,
    /// A turn of the child begins.
    Begin,
    /// A turn of the child has ended, and what it sent is known.
    Sent,
    /// The child has nothing left to send.
    Idle,
    /// A packet of the child has been fetched: its length and metadata are known, and it may still be dropped.
    Fetched,
}

impl Part {
    /// All parts, in the order of the enumeration.
    pub const ALL: [Self; 7] =
        [Self::Active, Self::Arrives, Self::Rank, Self::Begin, Self::Sent, Self::Idle, Self::Fetched];

    /// The part's word in the policy language.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Arrives => "arrives",
            Self::Rank => "rank",
            Self::Begin => "begin",
            Self::Sent => "sent",
            Self::Idle => "idle",
            Self::Fetched => "fetched",
        }
    }

    /// The part's place in [`Part::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }
}

impl core::fmt::Display for Part {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name())
    }
}
