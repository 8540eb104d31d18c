//! Construction of a host's parts from its description in the scenario.

use super::policy;
use crate::assignment;
use crate::host::cpu::Processors;
use crate::host::nic::{Interrupts, NicReceive, NicTransmit, ReceiveParameters, TransmitParameters, Turn};
use crate::host::policy_use::PolicyUse;
use crate::host::qdisc::{Pools, QdiscLayer, QdiscParameters, Segmentation, WeightTiming};
use crate::host::socket::Stream;
use crate::host::tcp_sender::Tasklet;
use crate::host::{Host, Settings};
use crate::ids::{HostId, StreamId, Table};
use crate::nic::scheduler::{self, NicScheduler};
use crate::qdisc;
use crate::random::Random;
use crate::run_error::RunError;
use crate::scenario::{self, ReceiveSteering, Scenario, SchedulerKind};
use weft_units::LinkTransmitter;
use weft_units::{Nanos, TxQueueId};

/// Builds a host.
pub(super) fn host(
    scenario: &Scenario,
    id: HostId,
    streams: &Table<StreamId, Stream>,
    random: &mut Random,
) -> Result<Host, RunError> {
    let config = &scenario.hosts[id.index()];
    let queues = match config.nic.transmit_queues {
        0 => streams.len() as u32,
        some => some,
    };
    let (scheduler, policy) = nic_scheduler(scenario, id, queues, streams)?;
    Ok(Host {
        settings: settings(config),
        cpu: Processors::new(id, config.cores, config.numa_nodes, &scenario.costs),
        qdiscs: qdisc_layer(scenario, id, queues, random)?,
        transmit: transmit(scenario, id, queues, scheduler)?,
        receive: NicReceive::new(id, receive(scenario, config)),
        policy,
    })
}

const fn settings(config: &scenario::HostSpec) -> Settings {
    let stack = &config.stack;
    Settings {
        tasklet: if stack.transmit_batching { Tasklet::Batched } else { Tasklet::Single },
        write_size: stack.write_size.0,
        send_buffer: stack.send_buffer,
        learns_queues: matches!(config.nic.receive_steering, ReceiveSteering::ToTransmitQueue),
        doorbells: config.nic.doorbells,
    }
}

fn qdisc_layer(
    scenario: &Scenario,
    id: HostId,
    queues: u32,
    random: &mut Random,
) -> Result<QdiscLayer, RunError> {
    let config = &scenario.hosts[id.index()];
    let (stack, nic) = (&config.stack, &config.nic);
    let classes = scenario.classes.len().max(1) as u16;
    let qdiscs = (0..queues).map(|_| qdisc::build(&stack.qdisc, classes, random.bits64())).collect();
    let assignment = assignment::build(&stack.queue_assignment).ok_or_else(|| {
        RunError::unknown_name("queue assignment", &stack.queue_assignment, assignment::NAMES)
    })?;
    let timing = WeightTiming { delay: nic.weight_delay, interval: nic.weight_interval };
    let parameters = QdiscParameters {
        byte_queue_limit: stack.byte_queue_limit,
        segmentation: if stack.tso { Segmentation::Nic } else { Segmentation::Stack },
        shared_size: stack.dynamic_segment,
        weights: nic.queue_weights.then_some(timing),
        pools: pools(config, queues),
    };
    Ok(QdiscLayer::new(id, qdiscs, assignment, parameters))
}

fn transmit(
    scenario: &Scenario,
    id: HostId,
    queues: u32,
    scheduler: Box<dyn NicScheduler>,
) -> Result<NicTransmit, RunError> {
    let nic = &scenario.hosts[id.index()].nic;
    let rate = scenario.network.rate;
    let parameters = TransmitParameters {
        ring: nic.transmit_ring,
        turn: if nic.interleaving { Turn::Packet } else { Turn::Segment },
        ahead: rate.time_for(nic.transmit_buffer),
    };
    let wire = LinkTransmitter::new(rate)
        .ok_or_else(|| RunError::impossible("the link has no rate".to_owned(), "give it one"))?;
    Ok(NicTransmit::new(id, queues, parameters, scheduler, wire))
}

fn nic_scheduler(
    scenario: &Scenario,
    id: HostId,
    queues: u32,
    streams: &Table<StreamId, Stream>,
) -> Result<(Box<dyn NicScheduler>, Option<PolicyUse>), RunError> {
    let kind = &scenario.hosts[id.index()].nic.scheduler;
    if *kind == SchedulerKind::PolicyTree {
        let (scheduler, policy) = policy::build(scenario, id, streams)?;
        return Ok((Box::new(scheduler), Some(policy)));
    }
    let scheduler = scheduler::build(kind, queues).ok_or_else(|| {
        RunError::impossible(format!("no NIC scheduler can be made of {kind:?}"), "choose another")
    })?;
    Ok((scheduler, None))
}

fn receive(scenario: &Scenario, config: &scenario::HostSpec) -> ReceiveParameters {
    let nic = &config.nic;
    let latency = scenario.costs.contention.interrupt_latency_ns;
    ReceiveParameters {
        queues: nic.receive_queues,
        ring: nic.receive_ring,
        interval: nic.interrupt_interval,
        latency: (latency > 0.0).then_some(Nanos(latency as u64)),
        interrupts: if nic.pinned_interrupts { Interrupts::Pinned } else { Interrupts::Spread },
        cores: config.cores,
        merge: config.stack.gro.then_some(config.stack.gro_flows),
    }
}

/// Returns the queues that a core may use: its own with XPS, all without. The queues of each traffic class come first, by class
/// and core, then those of any class, by core. Queue i is in class i modulo classes, as in [`scheduler::Dcb`].
fn pools(host: &scenario::HostSpec, queues: u32) -> Pools {
    if host.nic.transmit_queues == 0 {
        return Pools::PerStream;
    }
    let (cores, xps) = (host.cores, host.stack.xps);
    let classes = host.nic.traffic_classes().clamp(1, queues.max(1));
    let of_class = |class: u32| (class..queues).step_by(classes as usize).map(TxQueueId).collect::<Vec<_>>();
    let by_class = if classes > 1 { classes } else { 0 };
    let pools = (0..by_class).map(of_class).chain([(0..queues).map(TxQueueId).collect()]);
    let own = |all: &[TxQueueId], core: u32| -> Vec<TxQueueId> {
        let step = cores as usize;
        match all.len() >= step {
            true => all.iter().copied().skip(core as usize).step_by(step).collect(),
            false => all.get(core as usize % all.len().max(1)).copied().into_iter().collect(),
        }
    };
    let by_core = pools.flat_map(|all| {
        (0..cores).map(move |core| if xps { own(&all, core) } else { all.clone() }).collect::<Vec<_>>()
    });
    Pools::ByCore { cores, queues: by_core.collect() }
}
