//! SQ's qdisc: Loom's evaluation gives the single queue a qdisc that enforces the policy in software (section 6). Here that
//! is HTB: a class for each class of the policy with equal parts, each of which may borrow up to the link's rate.

use weft_host::htb::{self, Htb, HtbClass, HtbError};
use weft_nic::nic::NicPlan;
use weft_nic::port::Port;
use weft_packet::ethernet;
use weft_run::accounting::QdiscDrops;
use weft_units::{BitsPerSec, Bytes, Packets};

/// A full frame, and what it occupies on the wire: HTB counts frames, the link counts the wire.
const FRAME: Bytes = ethernet::frame_of(ethernet::MTU);
const WIRE: Bytes = ethernet::wire_of(FRAME);
/// The part of the link that HTB gives out.
const PERCENT_OF_LINK: u64 = 98;
/// Packets that a class may hold; more than its flows' sockets let it have.
const LIMIT: Packets = Packets(20_000);
/// Bytes of a turn: the largest packet. HTB serves a class a packet in each turn however deep it is in debt, so a smaller
/// quantum would favour whoever sends the larger packets.
const QUANTUM: Bytes = Bytes(66_000);

/// Puts HTB on the port and its classes into the plan.
pub(super) fn install(plan: &mut NicPlan, port: &Port) -> Result<(), HtbError> {
    // A veth gives a qdisc no back-pressure, so the qdisc must be the slower of the two to hold the queue: operators of such
    // hosts shape to a little below the link, and so does this.
    let rate = BitsPerSec(plan.config().rate.get() / WIRE.get() * FRAME.get() / 100 * PERCENT_OF_LINK);
    let count = plan.policy().classes.len() as u64;
    let class = |i: u64| HtbClass {
        minor: i as u16 + 1,
        rate: BitsPerSec((rate.get() / count).max(8)),
        ceil: rate,
        quantum: QUANTUM,
        priority: 0,
        limit: LIMIT,
    };
    let htb =
        Htb { rate, overhead: 0, default_class: count as u16, classes: (0..count).map(class).collect() };
    htb::install(port.app(), port.name(), &htb)?;
    for lane in plan.lanes_mut() {
        lane.qdisc_class = htb::class_id(lane.class + 1);
    }
    Ok(())
}

/// What the qdisc on the port has dropped, and what it is; nothing where there is none.
pub(super) fn read(port: &Port) -> (Option<String>, QdiscDrops) {
    match htb::stats(port.app(), port.name()) {
        Ok(classes) if !classes.is_empty() => {
            let packets = classes.iter().map(|c| c.dropped.get()).sum();
            (
                Some(format!(
                    "HTB at {PERCENT_OF_LINK} % of the link, {} classes of equal parts",
                    classes.len()
                )),
                QdiscDrops { packets },
            )
        }
        _ => (None, QdiscDrops::default()),
    }
}
