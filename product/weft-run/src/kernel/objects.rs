//! The parts of a kernel form as objects of traffic control.

use weft_host::tc::{self, FqCodel, Htb, Prio, TcObject, TcPlace};
use weft_policy::kernel::{
    Class, ClassKind, Handle, HtbClass, KernelPart, OVERHEAD, Parent, Qdisc, QdiscKind,
};
use weft_units::Nanos;

/// The bands by `skb->priority` of a prio qdisc (`TC_PRIO_MAX` + 1).
const PRIORITIES: usize = 16;
/// The longest time of fq, above that of the classifier's limits.
const FQ_HORIZON: Nanos = Nanos::from_secs(10);

/// The handle as the kernel has it.
pub(super) fn handle(of: Handle) -> tc::Handle {
    tc::Handle::new(of.major, of.minor)
}

/// A part as an object.
pub(super) fn object(part: &KernelPart) -> TcObject<'static> {
    match part {
        KernelPart::Qdisc(qdisc) => TcObject::Qdisc(place(qdisc), kind(&qdisc.kind)),
        KernelPart::Class(class) => {
            TcObject::class(handle(class.parent), handle(class.handle), parameters(class))
        }
    }
}

/// The place of a qdisc.
fn place(qdisc: &Qdisc) -> TcPlace {
    let parent = match qdisc.parent {
        Parent::Root => tc::Handle::ROOT,
        Parent::Class(class) => handle(class),
    };
    TcPlace { parent, handle: handle(qdisc.handle) }
}

fn kind(kind: &QdiscKind) -> tc::Qdisc {
    match *kind {
        QdiscKind::Htb { default } => tc::Qdisc::Htb(Htb::with_default(default.minor)),
        QdiscKind::Drr => tc::Qdisc::Drr,
        QdiscKind::Prio { bands, unclassified } => {
            let band = unclassified.saturating_sub(1);
            tc::Qdisc::Prio(Prio { bands, priomap: [band; PRIORITIES] })
        }
        QdiscKind::FqCodel { limit, target } => {
            // The kernel takes whole microseconds.
            let target = Some(Nanos::from_micros(target.get().div_ceil(1_000)));
            tc::Qdisc::FqCodel(FqCodel { limit: Some(limit), target, ..FqCodel::default() })
        }
        QdiscKind::Pfifo { limit } => tc::Qdisc::Pfifo { limit: Some(limit) },
        QdiscKind::Fq { limit, flow_limit } => tc::Qdisc::Fq(Box::new(tc::Fq {
            limit: Some(limit),
            flow_limit: Some(flow_limit),
            horizon: Some(FQ_HORIZON),
            ..tc::Fq::default()
        })),
        // A kind that this version does not know is refused by the kernel, by its name.
        _ => tc::Qdisc::Other { kind: kind.name().to_owned(), options: Vec::new() },
    }
}

fn parameters(class: &Class) -> tc::Class {
    match class.kind {
        ClassKind::Htb(HtbClass { rate, ceil, burst, cburst, prio, quantum }) => {
            tc::Class::Htb(tc::HtbClass {
                rate,
                ceil,
                burst,
                cburst,
                priority: prio,
                quantum: Some(quantum),
                overhead: OVERHEAD.get() as u16,
                mpu: 0,
            })
        }
        ClassKind::Drr { quantum } => tc::Class::Drr { quantum: Some(quantum) },
        _ => tc::Class::Other { kind: String::new(), options: Vec::new() },
    }
}
