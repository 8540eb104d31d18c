//! SQ's qdisc. In Loom's evaluation the single queue has a qdisc that enforces the policy in software (section 6).
//! Here it is HTB: a class for each class of the policy, with equal parts, each of which may borrow up to the link's
//! rate.

use weft_host::htb::{self, Htb, HtbClass, HtbError};
use weft_nic::nic::NicPlan;
use weft_nic::port::Port;
use weft_packet::ethernet;
use weft_units::{BitsPerSec, Bytes, Packets};

/// Sizes of a full frame and of its place on the wire: HTB counts frames, the link counts wire bytes.
const FRAME: Bytes = ethernet::frame_of(ethernet::MTU);
const WIRE: Bytes = ethernet::wire_of(FRAME);
/// Percentage of the link's rate that HTB distributes.
const PERCENT_OF_LINK: u64 = 98;
/// Packets that a class may hold; more than the sockets of its flows allow.
const LIMIT: Packets = Packets(20_000);
/// Bytes per turn: the largest packet. HTB serves one packet per turn, however large the class's debt, so a smaller
/// quantum would favour senders of larger packets.
const QUANTUM: Bytes = Bytes(66_000);

/// Installs HTB on the port and adds its classes to the plan.
pub(super) fn install(plan: &mut NicPlan, port: &Port) -> Result<(), HtbError> {
    // A veth gives a qdisc no back-pressure. To hold the queue the qdisc must be slower than the link, so operators
    // of such hosts shape to a little below the link's rate; this does the same.
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
    htb::install(port.near().namespace(), port.name(), &htb)?;
    for lane in plan.lanes_mut() {
        lane.qdisc_class = htb::class_id(lane.class + 1);
    }
    Ok(())
}

/// Returns the description of the port's qdisc; `None` without one. The port counts its drops.
pub(super) fn read(port: &Port) -> Option<String> {
    let classes =
        htb::stats(port.near().namespace(), port.name()).ok().filter(|classes| !classes.is_empty())?;
    Some(format!("HTB at {PERCENT_OF_LINK} % of the link, {} classes of equal parts", classes.len()))
}
