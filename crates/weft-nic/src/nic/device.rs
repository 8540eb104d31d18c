//! The uplink's device, from the configuration and the plan.

use super::NicConfig;
use crate::doorbell::infrastructure_rate;
use crate::link::{LinkKind, LinkRate};
use crate::plan::RingPlan;
use crate::worker::{Device, DeviceConfig, Urgency};
use weft_sched::{LimitSpec, Program};
use weft_units::{BitsPerSec, Bytes, LaneId, LimitId};

/// The uplink as a device, unless the link is emulated. `most`: the longest chunk that it takes whole.
pub(super) fn device(config: &NicConfig, plan: &RingPlan, most: Bytes) -> Option<Device> {
    let LinkKind::Device(link) = config.link else { return None };
    // Hardware queues have no classes, so none is urgent.
    let rate = (link.rate == LinkRate::Given && plan.queues.is_none()).then_some(config.rate);
    let lanes: Vec<LaneId> = plan.rings.iter().map(|ring| ring.lane).collect();
    let program = limited(plan, config.rate);
    Some(Device::new(DeviceConfig {
        link,
        rate: config.rate,
        most,
        program: &program,
        urgency: Urgency::new(program.clone(), &lanes, rate),
        lane_of_ring: lanes,
    }))
}

/// The program with the limit that the egress program sets to infrastructure. Without it, the first lane of the
/// priority would be guaranteed the whole link, and the policy's classes nothing.
fn limited(plan: &RingPlan, rate: BitsPerSec) -> Program {
    let mut program = plan.program.clone();
    if let Some(lane) = plan.infrastructure.and_then(|lane| program.lanes.get_mut(lane.index())) {
        lane.limits.push(LimitId::from_index(program.limits.len()));
        let (name, rate) = (weft_policy::INFRASTRUCTURE.to_owned(), infrastructure_rate(rate));
        program.limits.push(LimitSpec { name, rate, burst: Bytes::ZERO });
    }
    program
}
