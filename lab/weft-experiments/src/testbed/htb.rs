//! The kernel's hierarchical token bucket as a peer: one bucket with the whole rate, a class for each share, and a FIFO in each class.

use weft_host::NetNs;
use weft_host::tc::{Class, Handle, Htb, HtbClass, Qdisc, Result, TcDevice, TcObject};
use weft_units::{BitsPerSec, Bytes, Nanos, Packets};

/// Packets that a class may hold; more than the sockets of its flows allow.
const LIMIT: Packets = Packets(20_000);
/// Bytes per turn: the largest packet. HTB serves one packet per turn, however large the class's debt, so a smaller
/// quantum would favour senders of larger packets.
const QUANTUM: Bytes = Bytes(66_000);
/// A bucket holds at least one Ethernet packet, and this time at its rate.
const BURST_MIN: Bytes = Bytes(1600);
const BURST: Nanos = Nanos::from_millis(1);
/// The class of the whole link.
const WHOLE: Handle = Handle::FIRST.class(0xffff);

/// A share of the link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    /// The guaranteed rate; each may borrow up to the link's.
    pub(crate) rate: BitsPerSec,
    /// The order in which spare capacity is offered, lowest first.
    pub(crate) priority: u8,
}

/// The class of share `number`, which is the value of `skb->priority` for its packets.
pub(crate) fn class(number: u16) -> Handle {
    Handle::FIRST.class(number + 1)
}

/// Installs HTB at the device's egress, which must have no other configured qdisc. Packets without a class belong to the last share. The
/// rates are those of frames: the kernel adds an overhead once for an uncut segment.
pub(crate) fn install(ns: &NetNs, device: &str, rate: BitsPerSec, shares: &[Share]) -> Result<()> {
    let last = class((shares.len() as u16).saturating_sub(1));
    let of = |share: Share, quantum| {
        let depth = |rate: BitsPerSec| rate.bytes_in(BURST).max(BURST_MIN);
        let (guarantee, quantum) = (share.rate.max(BitsPerSec(8)), Some(quantum));
        let (burst, cburst, priority) = (depth(guarantee), depth(rate), share.priority);
        Class::Htb(HtbClass {
            rate: guarantee,
            ceil: rate,
            burst,
            cburst,
            priority,
            quantum,
            overhead: 0,
            mpu: 0,
        })
    };
    let mut objects = vec![
        TcObject::root(Handle::FIRST, Qdisc::Htb(Htb::with_default(last.minor()))),
        TcObject::class(Handle::FIRST, WHOLE, of(Share { rate, priority: 0 }, BURST_MIN)),
    ];
    for (share, number) in shares.iter().zip(0..) {
        objects.push(TcObject::class(WHOLE, class(number), of(*share, QUANTUM)));
        objects.push(TcObject::leaf(class(number), Handle::NONE, Qdisc::Pfifo { limit: Some(LIMIT) }));
    }
    TcDevice::open(ns, device)?.install(objects)
}
