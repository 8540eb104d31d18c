//! The policy tree of a NIC that runs the engine. Each stream has a queue, in the lane that the policy's match table gives its
//! packets.

use super::build::impossible;
use crate::host::socket::Stream;
use crate::ids::{HostId, StreamId, Table};
use crate::nic::scheduler::{NicScheduler, PolicyScheduler};
use crate::run_error::RunError;
use crate::scenario::{Scenario, Traffic};
use core::net::IpAddr;
use weft_policy::{CompileOptions, CompiledPolicy, Source, compile};
use weft_sched::PolicyTree;
use weft_units::{FlowKey, PacketMeta, Protocol, TxQueueId, Weight};

/// Builds the scheduler of a host's NIC.
pub(super) fn tree(
    scenario: &Scenario,
    host: HostId,
    streams: &Table<StreamId, Stream>,
) -> Result<Box<dyn NicScheduler>, RunError> {
    let stack = &scenario.hosts[host.index()].stack;
    let Some(text) = &stack.policy else {
        let hint = "give the host's stack a policy";
        return Err(impossible(
            format!("the NIC of host {host} has a policy tree, but the policy is missing"),
            hint,
        ));
    };
    let mut policy = compiled(text, scenario)?;
    // The interpreter, which stands in otherwise, gives the same results.
    let _ = policy.compile_algorithms();
    let tree = PolicyTree::new(&policy.program)
        .map_err(|error| impossible(format!("the policy of host {host}: {error}"), "correct the policy"))?;
    let mut scheduler = PolicyScheduler::new(tree);
    for (index, stream) in streams.pairs().filter(|(_, stream)| stream.from == host) {
        let lane = policy.classify(&meta(&policy, scenario, index, stream)?);
        let weight = Weight::new(stream.weight).unwrap_or(Weight::ONE);
        scheduler
            .add_queue(TxQueueId(index.0), lane, weight)
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

/// Returns the fields that a policy can test on a stream's packets: addresses and ports as in captures, the transport, and a
/// cgroup with the name of the stream's class. Marks and priorities of sockets are 0.
fn meta(
    policy: &CompiledPolicy,
    scenario: &Scenario,
    index: StreamId,
    stream: &Stream,
) -> Result<PacketMeta, RunError> {
    let address = |host: HostId| {
        crate::address::of_host(host).map(IpAddr::V4).ok_or_else(|| {
            impossible(
                format!("host {host} has no address that a policy could test"),
                "take at most 762 hosts",
            )
        })
    };
    // Streams come in pairs, forward and reverse.
    let (flow, back) = (index.flow().index(), !index.is_forward());
    let ports = crate::address::ports(index);
    let (sport, dport) = if back { (ports.1, ports.0) } else { ports };
    let key = FlowKey {
        src: address(stream.from)?,
        dst: address(stream.to)?,
        sport,
        dport,
        protocol: protocol(scenario, flow),
    };
    let name = scenario.classes.get(usize::from(stream.class)).map_or("", String::as_str);
    let within = |path: &str| {
        let below = name.strip_prefix(path.trim_start_matches('/'));
        below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let numbered = policy.cgroups.iter().take(64).enumerate();
    let cgroups =
        numbered.filter(|(_, path)| within(path)).fold(0, |bits, (number, _)| bits | 1_u64 << number);
    Ok(PacketMeta { key: Some(key), cgroups, ..PacketMeta::default() })
}

/// Returns the transport of a flow by its number; flows are numbered by group, and probes come after them.
fn protocol(scenario: &Scenario, flow: usize) -> Protocol {
    let mut first = 0;
    for group in &scenario.flows {
        first += group.count as usize;
        if flow < first {
            return if matches!(group.traffic, Traffic::Udp { .. }) { Protocol::UDP } else { Protocol::TCP };
        }
    }
    let in_kernel = scenario.probes.get(flow - first).is_none_or(|probe| probe.in_kernel);
    if in_kernel { Protocol::ICMP } else { Protocol::UDP }
}
