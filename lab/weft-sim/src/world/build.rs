//! Construction of a world from a scenario and a seed.

use super::{World, parts};
use crate::congestion;
use crate::event::{Agenda, Event};
use crate::host::application::Application;
use crate::host::cpu::Placement;
use crate::host::nic::Steering;
use crate::host::pinger::Pinger;
use crate::host::policy_use::PolicyUse;
use crate::host::socket::{Socket, Stream};
use crate::host::tcp_receiver::TcpReceiver;
use crate::host::tcp_sender::{Nagle, SenderParameters, SmallQueue, TcpSender};
use crate::ids::{CoreId, FlowNumber, GroupId, HostId, ProbeId, StreamId, Table};
use crate::measure::{Measured, Measurements};
use crate::network::{Fabric, Transit};
use crate::outcome::{DroppedClass, HostCounters};
use crate::packet::{Acks, Skbs};
use crate::random::Random;
use crate::run_error::RunError;
use crate::scenario::{
    FlowGroup, FlowTraffic, HostSpec, ProbeSpec, ReceiveSteering, Scenario, SchedulerKind, StackSpec,
};
use crate::trace::Observer;
use weft_units::{Nanos, RxQueueId};

/// Bytes of TCP and IP headers within an MTU: 20 + 20 and 12 of timestamps.
const MTU_HEADERS: u64 = 52;

impl<'a, O: Observer> World<'a, O> {
    pub(super) fn build(scenario: &'a Scenario, seed: u64, observer: O) -> Result<Self, RunError> {
        let fabric = Fabric::new(&scenario.network, scenario.hosts.len() as u32)?;
        check(scenario)?;
        let weights = scenario.flows.iter().flat_map(|group| (0..group.count).map(|_| group.weight));
        let no_drops = |class: &String| DroppedClass { class: class.clone(), ..DroppedClass::default() };
        let mut world = World {
            scenario,
            observer,
            agenda: Agenda::new(),
            now: Nanos::ZERO,
            events: 0,
            end: scenario.warm_up + scenario.duration,
            random: Random::new(seed),
            hosts: Table::new(),
            network: Transit::new(fabric, scenario.network.loss),
            streams: Table::new(),
            sockets: Table::new(),
            senders: Table::new(),
            receivers: Table::new(),
            steering: Steering::new(std::iter::empty()),
            applications: Table::new(),
            pingers: Table::new(),
            skbs: Skbs::new(),
            acks: Acks::new(),
            counters: HostCounters::default(),
            measure: Measurements::new(&measured(scenario), weights),
            without_policy: scenario.classes.iter().map(no_drops).collect(),
            unfinished: 0,
            ends_with_flows: false,
            freed_by_queue: Vec::new(),
            touched_queues: Vec::new(),
        };
        world.populate()?;
        Ok(world)
    }

    /// Adds flows, probes and hosts, in an order on which the run's random numbers depend.
    fn populate(&mut self) -> Result<(), RunError> {
        for (group, config) in self.scenario.flows.iter().enumerate() {
            for index in 0..config.count {
                self.add_flow(GroupId::from_index(group), config, index)?;
            }
        }
        self.ends_with_flows = self.unfinished > 0;
        for config in &self.scenario.probes {
            self.add_probe(config)?;
        }
        for host in (0..self.scenario.hosts.len()).map(HostId::from_index) {
            let parts = parts::host(self.scenario, host, &self.streams, &mut self.random)?;
            for at in parts.policy.iter().flat_map(PolicyUse::times).filter(|at| *at <= self.end) {
                self.agenda.push(at, Event::Policy { host });
            }
            self.hosts.push(parts);
        }
        let queues: Vec<RxQueueId> = self.streams.ids().map(|stream| self.steer(stream)).collect();
        self.steering = Steering::new(queues.into_iter());
        self.measure.schedule(&mut self.agenda);
        Ok(())
    }

    /// Creates a stream; its core is taken modulo the host's number of cores.
    fn stream(&mut self, (from, to): (u32, u32), core: u32, like: &Labels) -> Stream {
        Stream {
            from: HostId(from),
            to: HostId(to),
            core: CoreId(core % self.scenario.hosts[from as usize].cores),
            class: like.class,
            band: like.band,
            weight: like.weight,
            hash: self.random.bits32(),
            traffic_class: None,
            flow: None,
        }
    }

    fn add_stream(&mut self, stream: Stream, transport: Transport) -> Result<(), RunError> {
        let host = &self.scenario.hosts[stream.from.index()];
        let stack = &host.stack;
        let peer = &self.scenario.hosts[stream.to.index()].stack;
        let (control, nagle) = match transport {
            Transport::Datagrams => (None, Nagle::Off),
            Transport::Tcp(nagle) => (Some(control(&stack.congestion_control)?), nagle),
        };
        let id = self.streams.push(stream);
        self.senders.push(TcpSender::new(id, control, sender(host, peer, nagle)));
        self.receivers.push(TcpReceiver::new(id, peer.receive_window));
        self.sockets.push(Socket::default());
        Ok(())
    }

    fn add_flow(&mut self, group: GroupId, config: &FlowGroup, index: u32) -> Result<(), RunError> {
        let pick = |cores: &[u32]| if cores.is_empty() { index } else { cores[index as usize % cores.len()] };
        let flow = FlowNumber::from_index(self.applications.len());
        let labels = Labels { class: config.class, band: config.band, weight: config.weight };
        let (there, back) = transports(config.traffic);
        let forward = self.stream((config.from, config.to), pick(&config.cores), &labels);
        let forward = Stream { traffic_class: config.traffic_class, flow: Some(flow), ..forward };
        self.add_stream(forward, there)?;
        let reverse = self.stream((config.to, config.from), pick(&config.receiver_cores), &labels);
        self.add_stream(reverse, back)?;
        let placement = if config.pinned { Placement::Pinned } else { Placement::Free };
        let application = Application::new(flow, group, config.traffic, placement);
        self.unfinished += u32::from(application.has_end());
        self.applications.push(application);
        let spread = Nanos((self.random.uniform() * config.start_spread.0 as f64) as u64);
        let stream = flow.forward();
        self.agenda.push(config.start + spread, Event::Start { stream });
        if config.stop < self.end {
            self.agenda.push(config.stop, Event::Stop { stream });
        }
        Ok(())
    }

    fn add_probe(&mut self, config: &ProbeSpec) -> Result<(), RunError> {
        let stream = StreamId::from_index(self.streams.len());
        let drawn = self.random.bits32();
        let core = config.core.unwrap_or(drawn);
        let labels = Labels { class: config.class, band: config.band, weight: 1 };
        for ends in [(config.from, config.to), (config.to, config.from)] {
            let one = self.stream(ends, core, &labels);
            self.add_stream(one, Transport::Datagrams)?;
        }
        let first = Nanos((self.random.uniform() * config.interval.0 as f64) as u64);
        let probe = ProbeId::from_index(self.pingers.len());
        self.agenda.push(first, Event::Probe { probe });
        self.pingers.push(Pinger::new(probe, stream, config));
        Ok(())
    }

    /// Returns the receive queue of a stream at its receiving host.
    fn steer(&mut self, stream: StreamId) -> RxQueueId {
        let peer_core = self.streams[stream.reverse()].core.0;
        let host = &self.scenario.hosts[self.streams[stream].to.index()];
        let queues = host.nic.receive_queues;
        RxQueueId(match host.nic.receive_steering {
            // Applies until the stream's own end has sent, from which the NIC then learns.
            ReceiveSteering::Rss | ReceiveSteering::ToTransmitQueue => self.random.bits32() % queues,
            ReceiveSteering::ToApplication => peer_core % queues,
            ReceiveSteering::AwayFromApplication => {
                let nodes = host.numa_nodes.max(1);
                let step = if nodes > 1 { host.cores / nodes } else { 1 };
                (peer_core + step.max(1)) % host.cores % queues
            }
        })
    }
}

/// The properties that qdiscs and NICs use to classify segments.
struct Labels {
    class: u16,
    band: u8,
    weight: u32,
}

/// The transport of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Transport {
    Datagrams,
    Tcp(Nagle),
}

/// Returns the transports of a flow's two streams, forward and reverse.
const fn transports(traffic: FlowTraffic) -> (Transport, Transport) {
    let there = match traffic {
        FlowTraffic::Udp { .. } => return (Transport::Datagrams, Transport::Datagrams),
        FlowTraffic::Bulk | FlowTraffic::Transfer { .. } => Nagle::On,
        FlowTraffic::RequestResponse { .. } | FlowTraffic::Short { .. } => Nagle::Off,
    };
    (Transport::Tcp(there), Transport::Tcp(Nagle::Off))
}

fn sender(host: &HostSpec, peer: &StackSpec, nagle: Nagle) -> SenderParameters {
    let stack = &host.stack;
    let mss = stack.mtu.0.min(peer.mtu.0).saturating_sub(MTU_HEADERS).clamp(1, 65_000) as u32;
    let floor_segments = if stack.small_queue_floor { 2 } else { 0 };
    SenderParameters {
        mss,
        whole_segments: stack.tso && !host.nic.segmentation,
        gso: stack.gso,
        small_queue: stack.small_queue.map(|limit| SmallQueue { limit, floor_segments }),
        send_buffer: stack.send_buffer,
        receive_window: peer.receive_window,
        nagle,
    }
}

fn measured(scenario: &Scenario) -> Measured<'_> {
    Measured {
        begin: scenario.warm_up,
        fairness_intervals: &scenario.fairness_intervals,
        sample_interval: Some(scenario.sample_interval).filter(|interval| *interval > Nanos::ZERO),
        classes: scenario.classes.len().max(1),
        rate: scenario.network.rate,
    }
}

/// Repeats the checks of the scenario files' reader, for scenarios built by programs.
fn check(scenario: &Scenario) -> Result<(), RunError> {
    let hosts = scenario.hosts.len() as u32;
    let pairs = scenario.flows.iter().map(|group| (group.from, group.to));
    let mut pairs = pairs.chain(scenario.probes.iter().map(|probe| (probe.from, probe.to)));
    if let Some((from, to)) = pairs.find(|(from, to)| *from >= hosts || *to >= hosts || from == to) {
        return Err(RunError::impossible(
            format!("a flow goes from host {from} to host {to} of {hosts}"),
            "name two different hosts",
        ));
    }
    let traffic_class = |group: &&FlowGroup| {
        let classes = scenario.hosts.get(group.from as usize).map_or(1, |host| host.nic.traffic_classes());
        group.traffic_class.is_some_and(|class| class >= classes)
    };
    if let Some(group) = scenario.flows.iter().find(traffic_class) {
        return Err(RunError::impossible(
            format!("the flows {} are of a traffic class that their NIC does not have", group.name),
            "give the NIC the scheduler `dcb` with more `classes`",
        ));
    }
    let has_policy = |host: u32| {
        let host = scenario.hosts.get(host as usize);
        host.is_some_and(|host| host.nic.scheduler == SchedulerKind::PolicyTree)
    };
    if let Some(change) = scenario.changes.iter().find(|change| !has_policy(change.host)) {
        return Err(RunError::impossible(
            format!("host {} has no policy that could change", change.host),
            "give its NIC the scheduler `policy`, and its stack a policy",
        ));
    }
    let zero =
        |host: &HostSpec| host.cores == 0 || host.nic.receive_queues == 0 || host.stack.mtu.0 <= MTU_HEADERS;
    if scenario.hosts.iter().any(zero) || scenario.network.rate.0 == 0 {
        return Err(RunError::impossible(
            "a host has no cores, no receive queues or no MTU, or the link no rate".to_owned(),
            "give each at least one",
        ));
    }
    Ok(())
}

fn control(name: &str) -> Result<Box<dyn congestion::CongestionControl>, RunError> {
    congestion::build(name)
        .ok_or_else(|| RunError::unknown_name("congestion control", name, congestion::NAMES))
}
