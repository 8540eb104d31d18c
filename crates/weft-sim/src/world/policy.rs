//! The policy tree of a NIC that runs the engine: a queue for each stream, in the lane of the policy's class of the same name.

use super::Stream;
use super::build::impossible;
use crate::nic::scheduler::{NicScheduler, PolicyScheduler};
use crate::run::RunError;
use crate::scenario::Scenario;
use weft_policy::{CompileOptions, CompiledPolicy, Source, compile};
use weft_sched::PolicyTree;
use weft_units::{LaneId, QueueId, Weight};

/// Makes the scheduler of a host's NIC.
pub(super) fn tree(
    scenario: &Scenario,
    host: u32,
    streams: &[Stream],
) -> Result<Box<dyn NicScheduler>, RunError> {
    let stack = &scenario.hosts[host as usize].stack;
    let Some(text) = &stack.policy else {
        let hint = "give the host's stack a policy";
        return Err(impossible(
            format!("the NIC of host {host} has a policy tree and there is no policy"),
            hint,
        ));
    };
    let policy = compiled(text, scenario)?;
    let tree = PolicyTree::new(&policy.program)
        .map_err(|error| impossible(format!("the policy of host {host}: {error}"), "correct the policy"))?;
    let mut scheduler = PolicyScheduler::new(tree);
    for (index, stream) in streams.iter().enumerate().filter(|(_, stream)| stream.from == host) {
        let lane = lane(&policy, scenario, stream);
        let weight = Weight::new(stream.weight).unwrap_or(Weight::ONE);
        scheduler
            .add_queue(QueueId(index as u32), lane, weight)
            .map_err(|error| impossible(format!("a flow of host {host}: {error}"), "correct the policy"))?;
    }
    Ok(Box::new(scheduler))
}

fn compiled(text: &str, scenario: &Scenario) -> Result<CompiledPolicy, RunError> {
    let options = CompileOptions { link: Some(scenario.network.rate), ..CompileOptions::default() };
    let compilation = compile(Source { name: "policy", text }, &options);
    let first =
        compilation.diagnostics.iter().find(|diagnostic| diagnostic.is_error()).map(ToString::to_string);
    compilation.policy.ok_or_else(|| {
        impossible(first.unwrap_or_else(|| "the policy has errors".to_owned()), "correct the policy")
    })
}

/// The lane of a stream: that of its class, and among the lanes of a class that is limited by destination the one that a packet
/// to the destination's address takes. A class that the policy does not have takes the default class's.
fn lane(policy: &CompiledPolicy, scenario: &Scenario, stream: &Stream) -> LaneId {
    let name = scenario.classes.get(usize::from(stream.class)).map_or("", String::as_str);
    let class =
        policy.classes.iter().position(|class| class.name == name).unwrap_or(policy.classes.len() - 1);
    let lane = policy.program.lanes.iter().position(|lane| lane.class.index() == class);
    LaneId::from_index(lane.unwrap_or(0))
}
