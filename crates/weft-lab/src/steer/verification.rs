//! A plan's flows sent through the software NIC, as a document.

use super::planning::Planned;
use super::verify::{Expected, FlowSeen, Prediction, VerifyError, VerifyOptions, verify};
use crate::host_facts;
use std::sync::Arc;
use std::time::Instant;
use weft_report::record::Document;
use weft_report::steer::{SteerVerify, VerifiedFlow};
use weft_steer::Cube;
use weft_steer::nic::{Mapping, Steering};

/// Sends so many packets of each flow, and counts. None when the user asked to stop.
///
/// # Errors
/// See [`VerifyError`].
pub fn verify_plan(
    planned: &Planned,
    packets: u32,
    seed: u64,
    stop: &dyn Fn() -> bool,
    progress: &mut dyn FnMut(usize),
) -> Result<Option<SteerVerify>, VerifyError> {
    let begin = Instant::now();
    let (nic, configuration) = (planned.planner.nic(), &planned.plan.configuration);
    // What is expected comes from the walk through the graph, and what is executed from the compiled form: two programs.
    let expected: Vec<Expected> = planned
        .flows
        .iter()
        .map(|flow| Expected {
            flow: flow.clone(),
            prediction: match Mapping::of(&nic.walk(configuration, &flow.cube)) {
                Mapping::Must(queue) => Prediction::Queue(queue),
                Mapping::May(queues) => Prediction::OneOf(queues),
                Mapping::MayDrop(queues) => Prediction::OneOfOrDropped(queues),
                Mapping::Dropped => Prediction::Dropped,
            },
        })
        .collect();
    let steering = Steering::new(nic, configuration);
    let steer = Arc::new(move |packet: &Cube| steering.queue(packet));
    let options = VerifyOptions { queues: nic.queues, packets, seed };
    let seen = match verify(&options, steer, &expected, stop, progress) {
        Ok(seen) => seen,
        Err(VerifyError::Interrupted) => return Ok(None),
        Err(error) => return Err(error),
    };
    Ok(Some(SteerVerify {
        schema: SteerVerify::SCHEMA.to_owned(),
        host: host_facts::detect(),
        nic: nic.name.clone(),
        packets_per_flow: packets,
        ok: seen.ok(),
        flows: seen.flows.iter().map(flow).collect(),
        wall_s: begin.elapsed().as_secs_f64(),
    }))
}

fn flow(seen: &FlowSeen) -> VerifiedFlow {
    let predicted = match &seen.prediction {
        Prediction::Queue(queue) => vec![queue.0],
        Prediction::OneOf(queues) | Prediction::OneOfOrDropped(queues) => {
            queues.iter().map(|queue| queue.0).collect()
        }
        Prediction::Dropped => Vec::new(),
    };
    let counted = seen.queues.iter().enumerate().filter(|(_, packets)| packets.0 > 0);
    VerifiedFlow {
        packets: seen.flow.cube.to_string(),
        predicted,
        counted: counted.map(|(queue, packets)| (queue as u32, packets.0)).collect(),
        dropped: seen.dropped.0,
        ok: seen.ok,
    }
}
