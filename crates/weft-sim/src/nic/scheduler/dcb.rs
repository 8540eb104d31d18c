//! Data centre bridging: queues belong to traffic classes, served in strict order or in turns of equal bytes, and round robin inside
//! each class (IEEE 802.1Qaz; Titan TR, section 8; Loom, section 2).

use super::{Deficit, NicScheduler, Pick, RoundRobin};
use weft_units::{Bytes, Nanos, QueueId};

/// Credit of a class in its turn: one full frame.
const CLASS_QUANTUM: Bytes = Bytes(1514);

/// Classes, and how turns pass between them.
#[derive(Clone, Debug)]
pub struct Dcb {
    classes: Vec<RoundRobin>,
    /// Turns between classes, unless they are strict.
    fair: Option<Deficit>,
}

impl Dcb {
    /// `classes` classes (at least one); queue q belongs to class q modulo their number.
    pub fn new(classes: u32, strict: bool) -> Self {
        let classes = classes.max(1);
        let fair = (!strict).then(|| Deficit::new(classes, CLASS_QUANTUM));
        Self { classes: vec![RoundRobin::default(); classes as usize], fair }
    }

    const fn class_of(&self, queue: QueueId) -> QueueId {
        QueueId(queue.0 % self.classes.len() as u32)
    }
}

impl NicScheduler for Dcb {
    fn activate(&mut self, queue: QueueId, now: Nanos) {
        let class = self.class_of(queue);
        let idle = self.classes[class.index()].is_idle();
        self.classes[class.index()].activate(queue, now);
        if let Some(fair) = self.fair.as_mut().filter(|_| idle) {
            fair.activate(class, now);
        }
    }

    fn next(&mut self, now: Nanos) -> Pick {
        let class = match &mut self.fair {
            None => self.classes.iter_mut().find(|class| !class.is_idle()),
            Some(fair) => match fair.next(now) {
                Pick::Queue(class) => self.classes.get_mut(class.index()),
                other => return other,
            },
        };
        class.map_or(Pick::Idle, |class| class.next(now))
    }

    fn finish(&mut self, queue: QueueId, sent: Bytes, backlogged: bool, now: Nanos) {
        let class = self.class_of(queue);
        self.classes[class.index()].finish(queue, sent, backlogged, now);
        let more = !self.classes[class.index()].is_idle();
        if let Some(fair) = &mut self.fair {
            fair.finish(class, sent, more, now);
        }
    }

    fn set_weight(&mut self, _: QueueId, _: u32) {}
}
