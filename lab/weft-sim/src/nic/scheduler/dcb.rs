//! Data centre bridging: traffic classes between queues and link.

use super::ring::{Links, Ring};
use super::surplus::Surplus;
use super::{AfterTurn, NicScheduler, Pick};
use weft_units::{Bytes, Nanos, TxQueueId};

/// Credit of a class per round if classes share by deficit round robin. It is 24 units of 64 bytes, about one frame, as
/// `ixgbe_dcb_calculate_tc_credits` computes for eight equal classes at an MTU of 1500.
pub const CLASS_CREDIT: Bytes = Bytes(1536);

/// The order between classes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BetweenClasses {
    /// Strict priority, class 0 first.
    Strict,
    /// Deficit round robin with equal weights.
    Shared,
}

/// Two levels: a queue's class is its number modulo the classes. Between classes there is strict priority, class 0 first, or
/// deficit round robin with equal weights (IEEE 802.1Q, clauses 8.6.8.1 and 8.6.8.3). Within a class, queues take one turn each.
/// A turn with strict priority scans the classes in order, of which the standard allows eight.
#[derive(Debug)]
pub struct Dcb {
    links: Links,
    /// Active queues by class.
    classes: Box<[Ring]>,
    /// Active classes, if they share.
    shares: Option<Surplus>,
    turn: Option<TxQueueId>,
}

impl Dcb {
    /// Creates the scheduler of queues below `queues`; others are ignored. There are at least one class and at most as many as
    /// queues.
    pub fn new(queues: u32, classes: u32, between: BetweenClasses) -> Self {
        let classes = classes.clamp(1, queues.max(1));
        Self {
            links: Links::new(queues),
            classes: vec![Ring::EMPTY; classes as usize].into(),
            shares: (between == BetweenClasses::Shared).then(|| Surplus::new(classes, CLASS_CREDIT)),
            turn: None,
        }
    }

    fn class_of(&self, queue: u32) -> usize {
        queue as usize % self.classes.len()
    }
}

impl NicScheduler for Dcb {
    fn activate(&mut self, queue: TxQueueId, _: Nanos) {
        let class = self.class_of(queue.0);
        if self.classes[class].push(&mut self.links, queue.0)
            && let Some(shares) = &mut self.shares
        {
            shares.activate(class as u32);
        }
    }

    fn next(&mut self, _: Nanos) -> Pick {
        let class = match &mut self.shares {
            Some(shares) => shares.next().map(|class| class as usize),
            None => self.classes.iter().position(|ring| !ring.is_empty()),
        };
        self.turn = class.and_then(|class| self.classes.get(class)).and_then(Ring::head).map(TxQueueId);
        self.turn.map_or(Pick::Idle, Pick::Queue)
    }

    fn finish(&mut self, queue: TxQueueId, sent: Bytes, after: AfterTurn, _: Nanos) {
        if self.turn != Some(queue) {
            return;
        }
        self.turn = None;
        let class = self.class_of(queue.0);
        let ring = &mut self.classes[class];
        if after == AfterTurn::Backlogged {
            ring.rotate(&mut self.links);
        } else {
            ring.pop(&mut self.links);
        }
        if let Some(shares) = &mut self.shares {
            let class = if ring.is_empty() { AfterTurn::Empty } else { AfterTurn::Backlogged };
            shares.finish(sent, class);
        }
    }

    fn set_weight(&mut self, _: TxQueueId, _: u32) {}
}
