//! The world of a run: hosts with stacks and NICs, the network between them, and the events that move them.
//!
//! One event loop, one thread, time in whole nanoseconds. What can be computed is not an event: a wire's and a switch port's
//! departures follow from arrivals, received packets wait in their ring with the time at which they arrive until they are polled,
//! and the NIC goes on to its next packet without an event while no other event can come before.
//!
//! A processor's unit of work (a NAPI poll, a flow's turn in the TSQ tasklet, a write of an application) is done at the event that
//! begins it; a cursor runs ahead by what the work costs and stamps what the work sends. The processor is busy until the cursor.

mod application;
mod build;
mod host;
mod measure;
mod policy;
mod probe;
mod processor;
mod qdisc_run;
mod receive;
mod receiver;
mod send;
mod sender;
mod transmit;

use crate::event_queue::EventQueue;
use crate::ids::{
    AckId, CoreId, FlowNumber, HostId, PacketId, Pool, ProbeId, RxQueueId, SkbId, StreamId, SwitchId, Table,
};
use crate::network::Fabric;
use crate::outcome::{Counters, Outcome};
use crate::run_error::RunError;
use crate::scenario::Scenario;
use crate::segment::Segment;
use crate::trace::Observer;
use host::HostState;
use measure::Measurements;
use probe::ProbeState;
use rand_pcg::Pcg64Mcg;
use receiver::Receiver;
use sender::Sender;
use weft_units::{Nanos, QueueId};

/// What happens at a time.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// A host's NIC takes the next packet from its rings.
    Transmit { host: HostId },
    /// A packet in the pool arrives at a switch.
    AtSwitch { switch: SwitchId, packet: PacketId },
    /// An interrupt of a queue pair.
    Interrupt { host: HostId, vector: RxQueueId },
    /// A processor takes up its next unit of work.
    Processor { host: HostId, core: CoreId },
    /// A flow begins.
    Start { stream: StreamId },
    /// A flow stops sending.
    Stop { stream: StreamId },
    /// A sender's retransmission timer.
    Timer { stream: StreamId },
    /// A receiver's delayed acknowledgement.
    DelayedAck { stream: StreamId },
    /// An application wakes by itself: the next datagram, request or transfer.
    Application { stream: StreamId },
    /// A rate limit of a queue's qdisc lets something through.
    Qdisc { host: HostId, queue: QueueId },
    /// A probe sends.
    Probe { probe: ProbeId },
    /// Queue weights reach a host's NIC.
    Weights { host: HostId },
    /// The measured part begins.
    Measure,
    /// A window of unfairness ends.
    Fairness { index: u32 },
    /// A window of samples ends.
    Sample,
}

/// What a segment or packet is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Body {
    /// TCP data: number of the first packet.
    Data { first: u64 },
    /// A datagram.
    Datagram { number: u64 },
    /// An acknowledgement for the stream's reverse.
    /// Its content is in a pool of its own, which keeps packets small.
    Ack { content: AckId },
    /// A probe's message; `asked` is when its round began.
    Probe { probe: ProbeId, reply: bool, asked: Nanos },
}

/// Cumulative, so that a lost one loses nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ack {
    /// One more than the greatest packet number received.
    top: u64,
    /// Packets received.
    packets: u64,
    /// Payload bytes received.
    bytes: u64,
    /// When the newest packet's segment was made.
    echo: Nanos,
    /// Packets received with a congestion mark.
    marked: u32,
    /// Payload bytes that the receiver has room for.
    window: u32,
}

/// A segment in the pool.
#[derive(Clone, Copy, Debug)]
struct Skb {
    body: Body,
    /// When it was made.
    created: Nanos,
    /// Payload bytes.
    payload: u32,
    /// What its socket is charged (`skb->truesize`).
    truesize: u32,
    /// Payload of each packet but the last.
    packet_payload: u32,
    /// Packets already fetched by the NIC.
    fetched: u16,
}

/// A packet on a wire.
#[derive(Clone, Copy, Debug)]
struct Packet {
    body: Body,
    created: Nanos,
    stream: StreamId,
    payload: u32,
    /// Frame bytes.
    len: u32,
    marked: bool,
}

/// One direction of a connection, a stream of datagrams, or of a probe: whatever takes queues as a flow of its own.
struct Stream {
    /// Host that sends.
    from: HostId,
    /// Host that receives.
    to: HostId,
    /// Core of the application at the sending side.
    core: CoreId,
    class: u16,
    band: u8,
    weight: u32,
    hash: u32,
    /// The NIC's traffic class, whose queues alone it uses.
    traffic_class: Option<u32>,
    /// Its queue, where it has one.
    queue: Option<QueueId>,
    /// Segments in qdisc and ring.
    outstanding: u32,
    /// Charged to the socket: truesize of segments in qdisc and ring (`sk_wmem_alloc`).
    charged: u64,
    /// Frame bytes sent.
    sent: u64,
    /// The flow that it belongs to in the outcome, for data; none for acknowledgements only and probes.
    flow: Option<FlowNumber>,
    /// Destination's receive queue.
    receive_queue: RxQueueId,
    /// Packets on their way to the destination's stack.
    arriving: u32,
    /// The core that touched its socket last.
    touched: Option<CoreId>,
}

/// Everything that a run has.
pub(crate) struct World<'a, O> {
    scenario: &'a Scenario,
    observer: O,
    queue: EventQueue<Event>,
    now: Nanos,
    /// Nanoseconds of a unit of each operation.
    totals: [f64; 17],
    events: u64,
    /// When the run ends.
    end: Nanos,
    random: Pcg64Mcg,
    hosts: Table<HostId, HostState>,
    fabric: Fabric,
    streams: Table<StreamId, Stream>,
    senders: Table<StreamId, Sender>,
    receivers: Table<StreamId, Receiver>,
    applications: Table<FlowNumber, application::Application>,
    probes: Table<ProbeId, ProbeState>,
    skbs: Pool<SkbId, Skb>,
    packets: Pool<PacketId, Packet>,
    acks: Pool<AckId, Ack>,
    /// Segments that a qdisc drops are collected here.
    dropped: Vec<Segment>,
    /// Room for lists that units of work make, kept between them.
    scratch_queues: Vec<(QueueId, u64)>,
    scratch_touched: Vec<QueueId>,
    scratch_merged: Vec<receive::Merged>,
    counters: Counters,
    measure: Measurements,
    /// Flows with an end that have not reached it; the run ends when there are none and there were some.
    unfinished: u32,
    ends_with_flows: bool,
}

impl<O: Observer> World<'_, O> {
    /// Runs to the end.
    fn run(mut self) -> (Outcome, O) {
        while let Some((time, event)) = self.queue.pop() {
            if time > self.end || (self.ends_with_flows && self.unfinished == 0) {
                break;
            }
            self.now = time;
            self.events += 1;
            self.handle(event);
        }
        self.finish()
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Transmit { host } => self.transmit(host),
            Event::AtSwitch { switch, packet } => self.at_switch(switch, packet),
            Event::Interrupt { host, vector } => self.interrupt(host, vector),
            Event::Processor { host, core } => self.processor(host, core),
            Event::Start { stream } => self.start(stream),
            Event::Stop { stream } => self.stop(stream),
            Event::Timer { stream } => self.timer(stream),
            Event::DelayedAck { stream } => self.delayed_ack(stream),
            Event::Application { stream } => self.application_event(stream),
            Event::Qdisc { host, queue } => self.qdisc_event(host, queue),
            Event::Probe { probe } => self.probe_event(probe),
            Event::Weights { host } => self.weights(host),
            Event::Measure => self.begin_measuring(),
            Event::Fairness { index } => self.fairness_window(index),
            Event::Sample => self.sample(),
        }
    }
}

/// Builds a world and runs it.
pub(crate) fn run<O: Observer>(
    scenario: &Scenario,
    seed: u64,
    observer: O,
) -> Result<(Outcome, O), RunError> {
    Ok(World::build(scenario, seed, observer)?.run())
}

#[cfg(test)]
mod tests;
