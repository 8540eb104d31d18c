//! The uplink's device, from the configuration and the plan.

use super::NicConfig;
use crate::doorbell::infrastructure_rate;
use crate::link::LinkKind;
use crate::plan::RingPlan;
use crate::worker::Device;
use weft_sched::{LimitSpec, Program};
use weft_units::{BitsPerSec, Bytes, LimitId};

/// The uplink as a device, unless the link is emulated. `most`: the longest chunk that it takes whole.
pub(super) fn device(config: &NicConfig, plan: &RingPlan, most: Bytes) -> Option<Device> {
    let LinkKind::Device(link) = config.link else { return None };
    Some(Device::new(link, config.rate, most, &limited(plan, config.rate)))
}

/// The program with the limit that the egress program sets to infrastructure. Without it, the first lane of the
/// priority would be guaranteed the whole link, and the policy's classes nothing.
pub(crate) fn limited(plan: &RingPlan, rate: BitsPerSec) -> Program {
    let mut program = Program::clone(&plan.program);
    if let Some(lane) = plan.infrastructure.and_then(|lane| program.lanes.get_mut(lane.index())) {
        lane.limits.push(LimitId::from_index(program.limits.len()));
        let (name, rate) = (weft_policy::INFRASTRUCTURE.to_owned(), infrastructure_rate(rate));
        program.limits.push(LimitSpec { name, rate, burst: Bytes::ZERO });
    }
    program
}
