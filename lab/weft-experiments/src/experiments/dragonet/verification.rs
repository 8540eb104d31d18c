//! The document of a verification: a plan's flows sent through the software NIC.

use super::verify::{Expected, FlowSeen, Prediction, VerifyError, VerifyOptions, verify};
use std::sync::Arc;
use std::time::Instant;
use weft_facts::record::Document;
use weft_facts::steer::{SteerVerify, VerifiedFlow};
use weft_packet::HeaderMatch;
use weft_run::host_facts;
use weft_run::steering::planning::Planned;
use weft_steer::nic::{Mapping, Nic, Steering};
use weft_steer::search::Placement;
use weft_steer::{Configuration, Flow};

/// Sends `packets` packets of each flow, and counts. `None` when the user asked to stop.
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
    // Three independent programs are compared: the walk through the graph gives the expectation, the compiled form
    // executes, and the planner has its own accounting.
    let expected: Vec<Expected> = planned
        .flows
        .iter()
        .map(|flow| Expected { flow: flow.clone(), prediction: walked(nic, configuration, flow) })
        .collect();
    let believed: Vec<Option<String>> =
        planned.placed().zip(&expected).map(|((_, placement), walked)| differs(placement, walked)).collect();
    let steering = Steering::new(nic, configuration);
    let steer = Arc::new(move |packet: &HeaderMatch| steering.queue(packet));
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
        ok: seen.ok() && believed.iter().all(Option::is_none),
        flows: seen.flows.iter().zip(believed).map(|(seen, differs)| flow(seen, differs)).collect(),
        wall_s: begin.elapsed().as_secs_f64(),
    }))
}

/// Returns the destination of a flow by the model's graph.
fn walked(nic: &Nic, configuration: &Configuration, flow: &Flow) -> Prediction {
    match Mapping::of(&nic.walk(configuration, &flow.headers)) {
        Mapping::Must(queue) => Prediction::Queue(queue),
        Mapping::May(queues) => Prediction::OneOf(queues),
        Mapping::MayDrop(queues) => Prediction::OneOfOrDropped(queues),
        Mapping::Dropped => Prediction::Dropped,
    }
}

/// Returns the difference between the planner's placement of a flow and the graph's, if there is one. A flow with
/// wildcards may lose packets to other flows' rules; then the planner's queue is one of several.
fn differs(placement: Placement, walked: &Expected) -> Option<String> {
    let fits = match (placement.queue(), &walked.prediction) {
        (Some(planned), Prediction::Queue(queue)) => planned == *queue,
        (Some(planned), Prediction::OneOf(queues) | Prediction::OneOfOrDropped(queues)) => {
            queues.contains(&planned)
        }
        // Spread by the hash, even if all of its entries have one queue.
        (None, Prediction::Queue(_) | Prediction::OneOf(_) | Prediction::OneOfOrDropped(_)) => true,
        (_, Prediction::Dropped) => false,
    };
    (!fits).then(|| format!("the planner has it at {placement:?}, the graph at {:?}", walked.prediction))
}

fn flow(seen: &FlowSeen, differs: Option<String>) -> VerifiedFlow {
    let predicted = match &seen.prediction {
        Prediction::Queue(queue) => vec![queue.0],
        Prediction::OneOf(queues) | Prediction::OneOfOrDropped(queues) => {
            queues.iter().map(|queue| queue.0).collect()
        }
        Prediction::Dropped => Vec::new(),
    };
    let counted = seen.queues.iter().enumerate().filter(|(_, packets)| packets.0 > 0);
    VerifiedFlow {
        packets: seen.flow.headers.to_string(),
        predicted,
        counted: counted.map(|(queue, packets)| (queue as u32, packets.0)).collect(),
        dropped: seen.dropped.0,
        ok: seen.ok && differs.is_none(),
        planned_elsewhere: differs,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_units::RxQueueId;

    fn walked(prediction: Prediction) -> Expected {
        let flow = weft_run::steering::input::flow("udp,192.0.2.1,1,192.0.2.2,2").expect("a flow");
        Expected { flow, prediction }
    }

    #[test]
    fn a_planner_that_is_wrong_about_a_flow_is_found() {
        let (one, two) = (RxQueueId(1), RxQueueId(2));
        let queue = walked(Prediction::Queue(one));
        assert_eq!(differs(Placement::Rule(one), &queue), None);
        for placement in [Placement::Rule(two), Placement::Hash(two), Placement::Default(two)] {
            assert!(differs(placement, &queue).is_some_and(|text| text.contains("the planner has it")));
        }
        let spread = walked(Prediction::OneOf(vec![one, two]));
        assert_eq!(
            (differs(Placement::Spread, &spread), differs(Placement::Rule(two), &spread)),
            (None, None)
        );
        assert!(differs(Placement::Rule(RxQueueId(3)), &spread).is_some());
        assert!(differs(Placement::Rule(one), &walked(Prediction::Dropped)).is_some());
    }
}
