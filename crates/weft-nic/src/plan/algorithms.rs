//! The algorithms of one's own that the NIC can run.
//!
//! A doorbell carries counts. Before a packet is fetched, its length, arrival and deadline are unknown, and what waits is
//! known in packets alone. Algorithms that read these would order by nothing, so their policies are refused. Those that
//! know of turns and sent bytes alone run as in the simulator.

use super::PlanError;
use weft_rank::{Kind, Metadatum};
use weft_sched::program::{Custom, Discipline, HeadUse, LeafDiscipline, Program};

/// Checks the algorithms of a program.
pub(super) fn check(program: &Program) -> Result<(), PlanError> {
    let nodes = program.nodes.iter().filter_map(|node| match &node.discipline {
        Discipline::Custom(custom) => Some((&node.name, custom)),
        _ => None,
    });
    let leaves = program.leaves.iter().filter_map(|leaf| match &leaf.discipline {
        LeafDiscipline::Custom(custom) => Some((&leaf.name, custom)),
        _ => None,
    });
    for (place, custom) in nodes.chain(leaves) {
        let (algorithm, what) = match needed(custom) {
            Some(what) => (&custom.algorithm.name, what),
            None => match &custom.dropper {
                Some(dropper) => (&dropper.algorithm.name, "to drop packets"),
                None => continue,
            },
        };
        return Err(PlanError::Algorithm { place: place.clone(), algorithm: algorithm.clone(), what });
    }
    Ok(())
}

/// The unknown input that an algorithm needs.
fn needed(custom: &Custom) -> Option<&'static str> {
    let algorithm = &custom.algorithm;
    if algorithm.kind == Kind::Dropper || algorithm.parts.fetched.is_some() {
        return Some("to drop packets");
    }
    let read = algorithm.reads().first().map(|of| match of {
        Metadatum::Length => "the next packet's length",
        Metadatum::Arrived => "the next packet's time of arrival",
        Metadatum::Deadline => "the next packet's deadline",
        Metadatum::Slack => "the next packet's slack",
        Metadatum::Left => "what the flow still has to send",
        Metadatum::Late => "the lateness of packets",
        Metadatum::Priority => "the priority of packets",
        Metadatum::SendTime => "the next packet's send time",
        Metadatum::Pace => "the flow's pacing rate",
    });
    let queue = algorithm.reads_queue().then_some("the bytes that wait");
    let heads = (custom.head == HeadUse::Followed).then_some("the next packet of each child");
    read.or(queue).or(heads)
}
