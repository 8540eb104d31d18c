//! The world of a run: hosts, the network between them, and the events that move them.
//!
//! One event loop, one thread, time in whole nanoseconds:
//!
//! 1. `build` creates the parts from the scenario and the seed, and puts the first events on the agenda.
//! 2. `run` removes the earliest event and sets the time. `handle` passes the event to its part; the part's result goes to the
//!    next part, down to the wire or up to the application.
//! 3. `finish` computes the outcome and the balance of every stage.
//!
//! Transitions between parts, by direction: `threads` (applications and their threads), `tcp` (pushes, acknowledgements and
//! timers), `send` (qdiscs and doorbells), `wire` (the NIC's transmit side and the network), `receive` (interrupts and polls).
//!
//! Predictable changes are not events. A wire's and a switch port's departures follow from arrivals. Received packets wait in
//! their ring with their arrival times until they are polled. The NIC continues with its next packet without an event while no
//! other event can come first.
//!
//! Rules that must hold:
//!
//! * The world has no rules of the model. Each part of a host, of the network and of the measurements owns its state; the world
//!   owns what streams share (sockets, senders, receivers, applications) and the pools of segments and acknowledgements.
//! * Time never decreases, and events of equal times are handled in the order of their insertion, so a run is a function of
//!   scenario and seed. All random numbers come from the single generator, in the order of the events.
//! * Every segment, packet and acknowledgement leaves its pool once: freed, received, lost or dropped (`release`, `forget`).
//!   Those held at the end are found by a walk.
//!
//! Rare branches and their counters: drops are counted by the stage that drops, and appear in its balance
//! ([`RunOutcome::balances`](crate::outcome::Outcome::balances)). The world counts them once more by class, where it learns of them
//! (`count_drop`). A superseded interrupt, watchdog or transmit event is ignored; it counts as an event and nowhere else. A refused
//! change of a policy is in [`RunOutcome::policies`](crate::outcome::Outcome::policies).

mod build;
mod finish;
mod observe;
mod parts;
mod policy;
mod receive;
mod send;
mod tcp;
mod threads;
mod wire;

use crate::event::{Agenda, Event};
use crate::host::Host;
use crate::host::application::Application;
use crate::host::cpu::{Unit, Work};
use crate::host::nic::Steering;
use crate::host::pinger::Pinger;
use crate::host::socket::{Socket, Stream};
use crate::host::tcp_receiver::TcpReceiver;
use crate::host::tcp_sender::TcpSender;
use crate::ids::{CoreId, FlowNumber, HostId, ProbeId, StreamId, Table};
use crate::measure::Measurements;
use crate::network::Transit;
use crate::outcome::{DroppedClass, HostCounters, RunOutcome};
use crate::packet::{Acks, Skbs};
use crate::random::Random;
use crate::run_error::RunError;
use crate::scenario::Scenario;
use crate::trace::Observer;
use weft_units::{Bytes, Nanos, TxQueueId};

/// The complete state of a run.
pub(crate) struct World<'a, O> {
    scenario: &'a Scenario,
    observer: O,
    agenda: Agenda,
    now: Nanos,
    events: u64,
    /// End of the run.
    end: Nanos,
    random: Random,
    hosts: Table<HostId, Host>,
    network: Transit,
    streams: Table<StreamId, Stream>,
    sockets: Table<StreamId, Socket>,
    senders: Table<StreamId, TcpSender>,
    receivers: Table<StreamId, TcpReceiver>,
    steering: Steering,
    applications: Table<FlowNumber, Application>,
    pingers: Table<ProbeId, Pinger>,
    skbs: Skbs,
    acks: Acks,
    counters: HostCounters,
    measure: Measurements,
    /// By class of the scenario: what was dropped of hosts without a policy.
    without_policy: Vec<DroppedClass>,
    /// Number of unfinished flows with an end. The run ends when the last one is finished, if there were any.
    unfinished: u32,
    ends_with_flows: bool,
    /// Lists of units of work, kept for reuse of their memory.
    freed_by_queue: Vec<(TxQueueId, Bytes)>,
    touched_queues: Vec<TxQueueId>,
}

impl<O: Observer> World<'_, O> {
    /// Runs to the end.
    fn run(mut self) -> (RunOutcome, O) {
        while let Some((time, event)) = self.agenda.pop() {
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
            Event::Interrupt { host, queue } => self.interrupt(host, queue),
            Event::Processor { host, core } => self.processor(host, core),
            Event::Start { stream } => self.start(stream),
            Event::Stop { stream } => self.stop(stream),
            Event::Timer { stream } => self.timer(stream),
            Event::DelayedAck { stream } => self.delayed_ack(stream),
            Event::Application { stream } => self.wake_application(stream),
            Event::Qdisc { host, queue } => self.retry_qdisc(host, queue),
            Event::Probe { probe } => self.ask(probe),
            Event::Weights { host } => self.update_weights(host),
            Event::Policy { host } => self.change_policy(host),
            Event::Measure => self.begin_measuring(),
            Event::Fairness { index } => {
                let running = |flow| self.applications[flow].is_running();
                self.measure.end_window(index, running, self.now, &mut self.agenda);
            }
            Event::Sample => self.measure.sample(self.now, &mut self.agenda),
        }
    }

    /// Performs a processor's next unit of work.
    fn processor(&mut self, host: HostId, core: CoreId) {
        let (unit, mut work) = self.hosts[host].cpu.begin(core, self.now);
        match unit {
            Some(Unit::RunQdisc(queue)) => self.run_qdisc(queue, &mut work),
            Some(Unit::Poll(queue)) => self.poll(queue, &mut work),
            Some(Unit::Tasklet) => self.tasklet(&mut work),
            Some(Unit::Thread(task)) => self.run_thread(task, &mut work),
            None => {}
        }
        self.hosts[host].cpu.end(&work, &mut self.agenda);
    }

    /// Performs an event's work directly on a core, after the core's current work.
    fn at_once(&mut self, host: HostId, core: CoreId, job: impl FnOnce(&mut Self, &mut Work)) {
        let mut work = self.hosts[host].cpu.at_once(core, self.now);
        job(self, &mut work);
        self.hosts[host].cpu.end_at_once(&work);
    }

    fn begin_measuring(&mut self) {
        let received = |flow: FlowNumber| self.receivers[flow.forward()].bytes();
        self.measure.begin(received, self.now, &mut self.agenda);
        self.hosts.iter_mut().for_each(|host| host.cpu.begin_measuring());
    }
}

pub(crate) use policy::diagnostics as policy_diagnostics;

/// Builds a world and runs it.
pub(crate) fn run<O: Observer>(
    scenario: &Scenario,
    seed: u64,
    observer: O,
) -> Result<(RunOutcome, O), RunError> {
    Ok(World::build(scenario, seed, observer)?.run())
}

#[cfg(test)]
mod tests;
