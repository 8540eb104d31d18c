//! Queueing disciplines, one per transmit queue, after the kernel's `net/sched`.
//!
//! To add one, write a file with a type that implements [`Qdisc`], and a line in [`build`].

mod alarms;
mod bucket;
mod codel;
pub mod drr;
pub mod fq_codel;
mod hash;
pub mod htb;
pub mod pfifo;
pub mod pfifo_fast;
pub mod prio;
pub mod sfq;
mod store;
pub mod tbf;

use crate::scenario::config::QdiscKind;
use crate::segment::{Backlog, Dequeued, Segment};
use weft_units::{Bytes, Nanos};

pub use drr::Drr;
pub use fq_codel::FqCodel;
pub use htb::HtbQdisc;
pub use pfifo::Pfifo;
pub use pfifo_fast::PfifoFast;
pub use prio::Prio;
pub use sfq::{Sfq, SfqParameters};
pub use tbf::TbfQdisc;

/// A queueing discipline between the stack and a NIC queue's ring.
pub trait Qdisc: Send {
    /// Takes a segment. Segments dropped for lack of space, this one or others, are pushed to `dropped`.
    fn enqueue(&mut self, segment: Segment, now: Nanos, dropped: &mut Vec<Segment>);

    /// Returns the next segment. Segments dropped on the way (CoDel) are pushed to `dropped`.
    fn dequeue(&mut self, now: Nanos, dropped: &mut Vec<Segment>) -> Dequeued;

    /// Whether an empty one remembers nothing: to dequeue from it changes nothing, and neither does a segment that enters it and is the
    /// next to leave, at whatever times (`TCQ_F_CAN_BYPASS`). The layer above then keeps such a segment itself.
    fn is_forgetful(&self) -> bool {
        false
    }

    /// Returns the discipline's own count of its backlog.
    fn backlog(&self) -> Backlog;

    /// Visits every held segment once, by walking the queues. The balance compares this with the counters of passing segments, so
    /// no counter may take part.
    fn walk(&self, visit: &mut dyn FnMut(&Segment));
}

/// Limit of the SFQ under [`QdiscKind::PrioSfq`], in segments: the setting of Titan's kernel.
pub const PRIO_SFQ_LIMIT: u32 = 250;

/// Limit of each SFQ under [`QdiscKind::DrrPrioSfq`], in segments: the setting of the Loom paper.
pub const DRR_PRIO_SFQ_LIMIT: u32 = 32_768;

/// Priority bands of a class under [`QdiscKind::DrrPrioSfq`]: the default of `tc`'s `prio`.
pub const DRR_PRIO_SFQ_BANDS: usize = 3;

/// Creates the queueing discipline of one transmit queue. `classes` is the number of the scenario's classes (0 counts as 1; a
/// segment of a class beyond belongs to the last one). `seed` perturbs hashes.
pub fn build(kind: &QdiscKind, classes: u16, seed: u64) -> Box<dyn Qdisc> {
    let classes = classes.max(1);
    match *kind {
        QdiscKind::PfifoFast => Box::new(PfifoFast::new(pfifo_fast::DEFAULT_LIMIT)),
        QdiscKind::PrioSfq { quantum } => {
            let parameters = SfqParameters { limit: PRIO_SFQ_LIMIT, ..SfqParameters::new(quantum) };
            below_urgent(Box::new(Sfq::new(parameters, seed)))
        }
        QdiscKind::FqCodel => below_urgent(Box::new(FqCodel::new(seed))),
        QdiscKind::Htb { rate } => Box::new(HtbQdisc::new(
            rate,
            (0..classes).map(|class| {
                let parameters = SfqParameters::new(Bytes(sfq::DEFAULT_QUANTUM));
                Box::new(Sfq::new(parameters, hash::mix(seed, u32::from(class)))) as Box<dyn Qdisc>
            }),
        )),
        QdiscKind::Tbf { rate, burst } => Box::new(TbfQdisc::new(rate, burst, pfifo::DEFAULT_LIMIT)),
        QdiscKind::DrrPrioSfq { quantum } => Box::new(Drr::new(
            quantum,
            (0..classes).map(|class| loom_class(quantum, hash::mix(seed, class.into()))),
        )),
    }
}

/// Returns a strict band for urgent segments (band 0) above a discipline for all others.
fn below_urgent(others: Box<dyn Qdisc>) -> Box<dyn Qdisc> {
    Box::new(Prio::new([Box::new(Pfifo::new(pfifo::DEFAULT_LIMIT)) as Box<dyn Qdisc>, others]))
}

/// Returns priority bands, each with SFQ, of one class. The number of slots equals that of hash buckets: the default of 128 would
/// refuse the first segment of a 129th flow although thousands of segments fit.
fn loom_class(quantum: Bytes, seed: u64) -> Box<dyn Qdisc> {
    let parameters = SfqParameters {
        limit: DRR_PRIO_SFQ_LIMIT,
        flows: sfq::DEFAULT_DIVISOR,
        ..SfqParameters::new(quantum)
    };
    Box::new(Prio::new((0..DRR_PRIO_SFQ_BANDS).map(|band| {
        let band = u32::try_from(band).unwrap_or(u32::MAX);
        Box::new(Sfq::new(parameters, hash::mix(seed, band))) as Box<dyn Qdisc>
    })))
}
