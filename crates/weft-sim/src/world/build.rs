//! From a scenario and a seed to a world.

use super::application::Application;
use super::host::{Books, Core, HostState, NicState, TransmitQueue, Vector};
use super::measure::Measurements;
use super::probe::ProbeState;
use super::receiver::Receiver;
use super::sender::Sender;
use super::{Event, Stream, World, policy};
use crate::assignment::{self, Occupancy};
use crate::byte_queue_limit::ByteQueue;
use crate::congestion;
use crate::cost::Operation;
use crate::event_queue::EventQueue;
use crate::ids::{CoreId, FlowNumber, GroupId, HostId, Pool, ProbeId, RxQueueId, StreamId, Table};
use crate::link_transmitter::LinkTransmitter;
use crate::network::Fabric;
use crate::nic::scheduler;
use crate::outcome::Counters;
use crate::qdisc;
use crate::run_error::RunError;
use crate::scenario::{FlowGroup, Host, Nic, Probe, ReceiveSteering, Scenario, SchedulerKind, Traffic};
use crate::trace::Observer;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};
use weft_units::{Nanos, QueueId};

/// Bytes of TCP and IP headers in an MTU: 20 + 20 and 12 of timestamps.
const MTU_HEADERS: u64 = 52;

impl<'a, O: Observer> World<'a, O> {
    pub(super) fn build(scenario: &'a Scenario, seed: u64, observer: O) -> Result<Self, RunError> {
        let flows: usize = scenario.flows.iter().map(|group| group.count as usize).sum();
        let fabric = Fabric::new(&scenario.network, scenario.hosts.len() as u32)?;
        let mut world = World {
            scenario,
            observer,
            queue: EventQueue::new(),
            now: Nanos::ZERO,
            totals: Operation::ALL.map(|operation| scenario.costs.total(operation)),
            events: 0,
            end: scenario.warm_up + scenario.duration,
            random: Pcg64Mcg::seed_from_u64(seed),
            hosts: Table::new(),
            fabric,
            streams: Table::new(),
            senders: Table::new(),
            receivers: Table::new(),
            applications: Table::new(),
            probes: Table::new(),
            skbs: Pool::new(),
            packets: Pool::new(),
            acks: Pool::new(),
            dropped: Vec::new(),
            counters: Counters::default(),
            measure: Measurements::new(
                scenario.warm_up,
                &scenario.fairness_intervals,
                scenario.classes.len().max(1),
                flows,
            ),
            unfinished: 0,
            ends_with_flows: false,
            scratch_queues: Vec::new(),
            scratch_touched: Vec::new(),
            scratch_merged: Vec::new(),
        };
        world.check()?;
        for (group, config) in scenario.flows.iter().enumerate() {
            for index in 0..config.count {
                world.add_flow(GroupId(group as u32), config, index)?;
            }
        }
        world.ends_with_flows = world.unfinished > 0;
        for config in &scenario.probes {
            world.add_probe(config)?;
        }
        for index in (0..scenario.hosts.len()).map(HostId::from_index) {
            let host = world.build_host(index)?;
            world.hosts.push(host);
        }
        for stream in world.streams.ids() {
            world.streams[stream].receive_queue = world.steer(stream);
        }
        world.schedule_measurements();
        Ok(world)
    }

    /// What the reader of scenario files has checked too, for scenarios made by programs.
    fn check(&self) -> Result<(), RunError> {
        let hosts = self.scenario.hosts.len() as u32;
        let pairs = self.scenario.flows.iter().map(|group| (group.from, group.to));
        let pairs = pairs.chain(self.scenario.probes.iter().map(|probe| (probe.from, probe.to)));
        for (from, to) in pairs {
            if from >= hosts || to >= hosts || from == to {
                return Err(impossible(
                    format!("a flow goes from host {from} to host {to} of {hosts}"),
                    "name two different hosts",
                ));
            }
        }
        let traffic_class = |group: &&FlowGroup| {
            let classes =
                self.scenario.hosts.get(group.from as usize).map_or(1, |host| traffic_classes(&host.nic));
            group.traffic_class.is_some_and(|class| class >= classes)
        };
        if let Some(group) = self.scenario.flows.iter().find(traffic_class) {
            return Err(impossible(
                format!("the flows {} are of a traffic class that their NIC does not have", group.name),
                "give the NIC the scheduler `dcb` with more `classes`",
            ));
        }
        let zero =
            |host: &Host| host.cores == 0 || host.nic.receive_queues == 0 || host.stack.mtu.0 <= MTU_HEADERS;
        if self.scenario.hosts.iter().any(zero) || self.scenario.network.rate.0 == 0 {
            return Err(impossible(
                "a host has no cores, no receive queues or no MTU, or the link no rate".to_owned(),
                "give each at least one",
            ));
        }
        Ok(())
    }

    /// A number in [0, 1).
    pub(super) fn uniform(&mut self) -> f64 {
        (self.random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// True with a probability.
    pub(super) fn chance(&mut self, probability: f64) -> bool {
        self.uniform() < probability
    }

    /// An exponentially distributed time.
    pub(super) fn exponential(&mut self, mean: Nanos) -> Nanos {
        Nanos((-(1.0 - self.uniform()).ln() * mean.0 as f64) as u64)
    }

    fn stream(
        &mut self,
        (from, to): (HostId, HostId),
        core: u32,
        (class, band, weight): (u16, u8, u32),
        flow: Option<FlowNumber>,
    ) -> Stream {
        Stream {
            from,
            to,
            core: CoreId(core % self.scenario.hosts[from.index()].cores),
            class,
            band,
            weight,
            hash: self.random.next_u32(),
            traffic_class: None,
            queue: None,
            outstanding: 0,
            charged: 0,
            sent: 0,
            flow,
            receive_queue: RxQueueId(0),
            arriving: 0,
            touched: None,
        }
    }

    fn add_stream(&mut self, stream: Stream, is_tcp: bool) -> Result<(), RunError> {
        let stack = &self.scenario.hosts[stream.from.index()].stack;
        let control = if is_tcp { Some(control(&stack.congestion_control)?) } else { None };
        let peer = &self.scenario.hosts[stream.to.index()].stack;
        let mss = (stack.mtu.0.min(peer.mtu.0).saturating_sub(MTU_HEADERS)).clamp(1, 65_000) as u32;
        self.senders.push(Sender::new(control, mss, peer.receive_window));
        self.receivers.push(Receiver::default());
        self.streams.push(stream);
        Ok(())
    }

    fn add_flow(&mut self, group: GroupId, config: &FlowGroup, index: u32) -> Result<(), RunError> {
        let pick = |cores: &[u32]| if cores.is_empty() { index } else { cores[index as usize % cores.len()] };
        let flow = FlowNumber::from_index(self.applications.len());
        let (core, peer_core) = (pick(&config.cores), pick(&config.receiver_cores));
        let is_tcp = !matches!(config.traffic, Traffic::Udp { .. });
        let mut forward = self.stream(
            (HostId(config.from), HostId(config.to)),
            core,
            (config.class, config.band, config.weight),
            Some(flow),
        );
        forward.traffic_class = config.traffic_class;
        self.add_stream(forward, is_tcp)?;
        let back = self.stream(
            (HostId(config.to), HostId(config.from)),
            peer_core,
            (config.class, config.band, config.weight),
            None,
        );
        self.add_stream(back, is_tcp)?;
        self.applications.push(Application::new(group, config.traffic, config.pinned));
        self.unfinished += u32::from(matches!(config.traffic, Traffic::Transfer { .. }));
        let data = flow.forward();
        let bulk = matches!(config.traffic, Traffic::Bulk | Traffic::Transfer { .. });
        self.senders[data].nagle = bulk;
        self.senders[data.reverse()].nagle = false;
        let spread = Nanos((self.uniform() * config.start_spread.0 as f64) as u64);
        self.queue.push(config.start + spread, Event::Start { stream: data });
        if config.stop < self.end {
            self.queue.push(config.stop, Event::Stop { stream: data });
        }
        Ok(())
    }

    fn add_probe(&mut self, config: &Probe) -> Result<(), RunError> {
        let index = StreamId::from_index(self.streams.len());
        let drawn = self.random.next_u32();
        let core = config.core.unwrap_or(drawn);
        let forward =
            self.stream((HostId(config.from), HostId(config.to)), core, (config.class, config.band, 1), None);
        self.add_stream(forward, false)?;
        let back =
            self.stream((HostId(config.to), HostId(config.from)), core, (config.class, config.band, 1), None);
        self.add_stream(back, false)?;
        let first = Nanos((self.uniform() * config.interval.0 as f64) as u64);
        self.queue.push(first, Event::Probe { probe: ProbeId::from_index(self.probes.len()) });
        self.probes.push(ProbeState { stream: index, latencies: crate::outcome::Latencies::default() });
        Ok(())
    }

    fn build_host(&mut self, index: HostId) -> Result<HostState, RunError> {
        let config = &self.scenario.hosts[index.index()];
        let (stack, nic) = (&config.stack, &config.nic);
        let queue_per_flow = nic.transmit_queues == 0;
        let queues = if queue_per_flow { self.streams.len() as u32 } else { nic.transmit_queues };
        let classes = self.scenario.classes.len().max(1) as u16;
        let transmit = (0..queues).map(|_| TransmitQueue {
            qdisc: qdisc::build(&stack.qdisc, classes, self.random.next_u64()),
            limit: ByteQueue::new(stack.byte_queue_limit),
            ring: std::collections::VecDeque::new(),
            active: false,
            last_core: None,
            unlocked: Nanos::ZERO,
            running: Nanos::ZERO,
            runner: CoreId(0),
            rerun: false,
            retry: Nanos::ZERO,
            last_flow: None,
        });
        let transmit = transmit.collect();
        let assignment = assignment::build(&stack.queue_assignment)
            .ok_or_else(|| unknown("queue assignment", &stack.queue_assignment, assignment::NAMES))?;
        let scheduler = match (&nic.scheduler, scheduler::build(&nic.scheduler, queues)) {
            (SchedulerKind::PolicyTree, _) => policy::tree(self.scenario, index, &self.streams)?,
            (_, Some(scheduler)) => scheduler,
            (kind, None) => {
                return Err(impossible(
                    format!("no NIC scheduler can be made of {kind:?}"),
                    "choose another",
                ));
            }
        };
        let vectors = (0..nic.receive_queues).map(|vector| Vector {
            core: CoreId(vector % config.cores),
            polling: false,
            due: Nanos::MAX,
            last: None,
            done: Vec::new(),
            ring: std::collections::VecDeque::new(),
            accepted: 0,
        });
        let rate = self.scenario.network.rate;
        Ok(HostState {
            cores: (0..config.cores).map(|_| Core::default()).collect(),
            queues: transmit,
            occupancy: Table::of(Occupancy::default(), queues as usize),
            shared_queues: 0,
            stale_weights: Table::of(false, queues as usize),
            stale: Vec::new(),
            weights_due: false,
            weights_written: Nanos::ZERO,
            assignment,
            pools: pools(config, queues),
            nic: NicState {
                scheduler,
                wire: LinkTransmitter::new(rate)
                    .ok_or_else(|| impossible("the link has no rate".to_owned(), "give it one"))?,
                pending: false,
                next_fetch: Nanos::ZERO,
                ahead: rate.time_for(nic.transmit_buffer),
                queue_per_flow,
            },
            vectors: vectors.collect(),
            active_flows: 0,
            qdisc_books: Books::default(),
            ring_books: Books::default(),
            receive_books: Books::default(),
        })
    }

    /// The receive queue of a stream at the host that it goes to.
    fn steer(&mut self, stream: StreamId) -> RxQueueId {
        let peer_core = self.streams[stream.reverse()].core.0;
        let host = &self.scenario.hosts[self.streams[stream].to.index()];
        let queues = host.nic.receive_queues;
        RxQueueId(match host.nic.receive_steering {
            // Until its own end has sent something, which is then learnt from.
            ReceiveSteering::Rss | ReceiveSteering::ToTransmitQueue => self.random.next_u32() % queues,
            ReceiveSteering::ToApplication => peer_core % queues,
            ReceiveSteering::AwayFromApplication => {
                let nodes = host.numa_nodes.max(1);
                let step = if nodes > 1 { host.cores / nodes } else { 1 };
                (peer_core + step.max(1)) % host.cores % queues
            }
        })
    }
}

/// Traffic classes of a NIC: more than one under DCB only.
const fn traffic_classes(nic: &Nic) -> u32 {
    match nic.scheduler {
        SchedulerKind::Dcb { classes, .. } => classes,
        _ => 1,
    }
}

/// The queues that a core may use, its own with XPS, all without: first those of each traffic class, by class and core, then of any class,
/// by core. Queue i is in class i modulo classes, as in [`scheduler::Dcb`].
fn pools(host: &Host, queues: u32) -> Vec<Vec<QueueId>> {
    // A NIC with a queue per flow has none to choose from.
    let queues = if host.nic.transmit_queues == 0 { 1 } else { queues };
    let (cores, xps) = (host.cores, host.stack.xps);
    let classes = traffic_classes(&host.nic).clamp(1, queues.max(1));
    let of_class = |class: u32| (class..queues).step_by(classes as usize).map(QueueId).collect::<Vec<_>>();
    let by_class = if classes > 1 { classes } else { 0 };
    let pools = (0..by_class).map(of_class).chain([(0..queues).map(QueueId).collect()]);
    let own = |all: &[QueueId], core: u32| -> Vec<QueueId> {
        let step = cores as usize;
        match all.len() >= step {
            true => all.iter().copied().skip(core as usize).step_by(step).collect(),
            false => all.get(core as usize % all.len().max(1)).copied().into_iter().collect(),
        }
    };
    pools
        .flat_map(|all| {
            (0..cores).map(move |core| if xps { own(&all, core) } else { all.clone() }).collect::<Vec<_>>()
        })
        .collect()
}

fn control(name: &str) -> Result<Box<dyn congestion::CongestionControl>, RunError> {
    congestion::build(name).ok_or_else(|| unknown("congestion control", name, congestion::NAMES))
}

fn unknown(kind: &'static str, given: &str, known: &[&str]) -> RunError {
    RunError::UnknownName { kind, given: given.to_owned(), known: known.join(", ") }
}

pub(super) fn impossible(what: String, hint: &str) -> RunError {
    RunError::Impossible { what, hint: hint.to_owned() }
}
