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
use crate::network::{Fabric, SwitchId};
use crate::outcome::{Counters, Outcome};
use crate::run_error::RunError;
use crate::scenario::Scenario;
use crate::segment::{FlowIndex, Segment, SkbId};
use crate::trace::Observer;
use host::HostState;
use measure::Measurements;
use probe::ProbeState;
use rand_pcg::Pcg64Mcg;
use receiver::Receiver;
use sender::Sender;
use weft_units::{Nanos, TxQueueId};

/// What happens at a time.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// A host's NIC takes the next packet from its rings.
    Transmit { host: u32 },
    /// A packet in the pool arrives at a switch.
    AtSwitch { switch: SwitchId, packet: u32 },
    /// An interrupt of a queue pair.
    Interrupt { host: u32, vector: u32 },
    /// A processor takes up its next unit of work.
    Processor { host: u32, core: u32 },
    /// A flow begins.
    Start { stream: u32 },
    /// A flow stops sending.
    Stop { stream: u32 },
    /// A sender's retransmission timer.
    Timer { stream: u32 },
    /// A receiver's delayed acknowledgement.
    DelayedAck { stream: u32 },
    /// An application wakes by itself: the next datagram, request or transfer.
    Application { stream: u32 },
    /// A rate limit of a queue's qdisc lets something through.
    Qdisc { host: u32, queue: TxQueueId },
    /// A probe sends.
    Probe { probe: u32 },
    /// Queue weights reach a host's NIC.
    Weights { host: u32 },
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
    Ack { content: u32 },
    /// A probe's message; `asked` is when its round began.
    Probe { probe: u32, reply: bool, asked: Nanos },
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
    stream: u32,
    payload: u32,
    /// Frame bytes.
    len: u32,
    marked: bool,
}

/// One direction of a connection, a stream of datagrams, or of a probe: whatever takes queues as a flow of its own.
struct Stream {
    /// Host that sends.
    from: u32,
    /// Host that receives.
    to: u32,
    /// Core of the application at the sending side.
    core: u32,
    class: u16,
    band: u8,
    weight: u32,
    hash: u32,
    /// The NIC's traffic class, whose queues alone it uses.
    traffic_class: Option<u32>,
    /// Its queue, where it has one.
    queue: Option<TxQueueId>,
    /// Segments in qdisc and ring.
    outstanding: u32,
    /// Charged to the socket: truesize of segments in qdisc and ring (`sk_wmem_alloc`).
    charged: u64,
    /// Frame bytes sent.
    sent: u64,
    /// The flow that it belongs to in the outcome, for data; `u32::MAX` for acknowledgements only and probes.
    flow: u32,
    /// Destination's receive queue.
    receive_queue: u32,
    /// Packets on their way to the destination's stack.
    arriving: u32,
    /// The core that touched its socket last.
    touched: u32,
}

impl Stream {
    /// The same, as queues name it.
    const fn index(stream: u32) -> FlowIndex {
        FlowIndex(stream)
    }
}

/// The stream of the other direction: streams come in pairs.
const fn reverse(stream: u32) -> u32 {
    stream ^ 1
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
    hosts: Vec<HostState>,
    fabric: Fabric,
    streams: Vec<Stream>,
    senders: Vec<Sender>,
    receivers: Vec<Receiver>,
    applications: Vec<application::Application>,
    probes: Vec<ProbeState>,
    skbs: Pool<Skb>,
    packets: Pool<Packet>,
    acks: Pool<Ack>,
    /// Segments that a qdisc drops are collected here.
    dropped: Vec<Segment>,
    /// Room for lists that units of work make, kept between them.
    scratch_queues: Vec<(TxQueueId, u64)>,
    scratch_touched: Vec<TxQueueId>,
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

/// A pool with reuse: indices stay valid until freed.
struct Pool<T> {
    items: Vec<T>,
    free: Vec<u32>,
}

impl<T: Copy> Pool<T> {
    const fn new() -> Self {
        Self { items: Vec::new(), free: Vec::new() }
    }

    fn insert(&mut self, item: T) -> u32 {
        if let Some(index) = self.free.pop() {
            self.items[index as usize] = item;
            return index;
        }
        self.items.push(item);
        (self.items.len() - 1) as u32
    }

    fn remove(&mut self, index: u32) -> T {
        self.free.push(index);
        self.items[index as usize]
    }
}

impl std::ops::Index<SkbId> for Pool<Skb> {
    type Output = Skb;
    fn index(&self, id: SkbId) -> &Skb {
        &self.items[id.0 as usize]
    }
}

impl std::ops::IndexMut<SkbId> for Pool<Skb> {
    fn index_mut(&mut self, id: SkbId) -> &mut Skb {
        &mut self.items[id.0 as usize]
    }
}

#[cfg(test)]
mod tests;
