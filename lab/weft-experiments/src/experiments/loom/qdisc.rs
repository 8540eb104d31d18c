//! SQ's qdisc. In Loom's evaluation the single queue has a qdisc that enforces the policy in software (section 6).
//! Here it is HTB: a class for each class of the policy, with equal parts, each of which may borrow up to the link's
//! rate.

use crate::testbed::htb::{self, Share};
use weft_host::tc::{TcDevice, TcError};
use weft_nic::nic::NicPlan;
use weft_nic::port::Port;
use weft_packet::ethernet;
use weft_units::{BitsPerSec, Bytes};

/// Sizes of a full frame and of its place on the wire: HTB counts frames, the link counts wire bytes.
const FRAME: Bytes = ethernet::frame_of(ethernet::MTU);
const WIRE: Bytes = ethernet::wire_of(FRAME);
/// Percentage of the link's rate that HTB distributes.
const PERCENT_OF_LINK: u64 = 98;

/// Installs HTB on the port and adds its classes to the plan.
pub(super) fn install(plan: &mut NicPlan, port: &Port) -> Result<(), TcError> {
    // A veth gives a qdisc no back-pressure. To hold the queue the qdisc must be slower than the link, so operators
    // of such hosts shape to a little below the link's rate; this does the same.
    let rate = BitsPerSec(plan.config().rate.get() / WIRE.get() * FRAME.get() / 100 * PERCENT_OF_LINK);
    let count = plan.policy().classes.len();
    let share = Share { rate: BitsPerSec(rate.get() / (count as u64).max(1)), priority: 0 };
    htb::install(port.near().namespace(), port.name(), rate, &vec![share; count])?;
    for lane in plan.lanes_mut() {
        lane.qdisc_class = htb::class(lane.class).raw();
    }
    Ok(())
}

/// Returns the description of the port's qdisc; `None` without one. The port counts its drops.
pub(super) fn read(port: &Port) -> Option<String> {
    let found = TcDevice::open(port.near().namespace(), port.name()).and_then(|mut device| device.classes());
    // One of them is the whole link's.
    let classes = found.ok()?.len().checked_sub(1).filter(|classes| *classes > 0)?;
    Some(format!("HTB at {PERCENT_OF_LINK} % of the link, {classes} classes of equal parts"))
}
