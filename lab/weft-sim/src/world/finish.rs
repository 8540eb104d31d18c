//! The outcome of a run, and the balances of its stages.

use super::World;
use crate::accounting::{Stage, balance};
use crate::ids::FlowNumber;
use crate::outcome::{FlowOutcome, RunOutcome};
use crate::trace::Observer;
use weft_units::Counted;

impl<O: Observer> World<'_, O> {
    /// Builds the outcome; returns it with the observer.
    pub(super) fn finish(mut self) -> (RunOutcome, O) {
        let end = self.now.min(self.end);
        self.counters.backlog_bytes = self.measure.mean_backlog(end);
        let costs = &self.scenario.costs;
        let outcome = RunOutcome {
            events: self.events,
            measured: end.saturating_sub(self.measure.begins_at()),
            balances: self.balances(),
            flows: self.applications.ids().map(|flow| self.flow_outcome(flow)).collect(),
            fairness: self.measure.fairness(),
            probes: self.pingers.iter_mut().map(|pinger| pinger.take_latencies()).collect(),
            cpu: self.hosts.iter().map(|host| host.cpu.work_done(costs)).collect(),
            samples: self.measure.take_samples(),
            policies: self
                .hosts
                .iter_mut()
                .filter_map(|host| host.policy.as_mut())
                .flat_map(|of| of.finish(end))
                .collect(),
            without_policy: self.without_policy,
            counters: self.counters,
        };
        (outcome, self.observer)
    }

    fn flow_outcome(&mut self, flow: FlowNumber) -> FlowOutcome {
        let stream = flow.forward();
        let application = &mut self.applications[flow];
        let retransmitted = |stream| self.senders[stream].retransmitted();
        FlowOutcome {
            group: application.group.0,
            bytes: self.measure.sent_bytes(flow),
            received: self.measure.received_bytes(flow, self.receivers[stream].bytes()),
            completion: application.completion,
            retransmitted: retransmitted(stream) + retransmitted(stream.reverse()),
            requests: application.take_requests(self.measure.begins_at()),
        }
    }

    /// Returns the balances of all stages: those listed by each host, and those of the network with its switches.
    fn balances(&self) -> Vec<weft_facts::record::Stage> {
        let mut balances = Vec::new();
        let (mut sent, mut arrived, mut to_hosts) = (Counted::ZERO, Counted::ZERO, Counted::ZERO);
        for (id, host) in self.hosts.pairs() {
            let stages = host.stages();
            balances.extend(stages.iter().map(|stage| balance(&format!("host {id}"), *stage)));
            sent += host.transmit.put_on_wire(&self.skbs);
            arrived += host.receive.passed().entered;
            to_hosts += host.receive.under_way();
        }
        balances.extend(self.network.balances(sent, arrived, to_hosts, self.now));
        balances
    }
}
