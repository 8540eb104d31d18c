//! The status of a device's queues: flows, weights, rates, backlog, and current fairness.

use crate::device::Titan;
use crate::error::TitanError;
use crate::layout::{FlowEntryId, FlowRecord};
use core::sync::atomic::{AtomicU64, Ordering};
use std::collections::HashMap;
use weft_facts::stats;
use weft_facts::titan::{TitanDevice, TitanEvents, TitanQueue};
use weft_host::clock;
use weft_units::{Bytes, Instant, TxQueueId};

/// A periodic reader of a device's status: rates are those between two readings.
#[derive(Debug)]
pub struct Watch {
    titan: Titan,
    at: Instant,
    queue_bytes: Vec<u64>,
    flow_bytes: HashMap<FlowEntryId, Bytes>,
}

fn read(count: &AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}

impl Watch {
    /// Takes the first reading.
    ///
    /// # Errors
    /// When the flows cannot be read.
    pub fn new(titan: Titan) -> Result<Self, TitanError> {
        let mut watch =
            Self { titan, at: Instant::ZERO, queue_bytes: Vec::new(), flow_bytes: HashMap::new() };
        let flows = watch.titan.flows();
        watch.remember(&flows);
        Ok(watch)
    }

    /// The device.
    pub fn titan(&self) -> &Titan {
        &self.titan
    }

    fn remember(&mut self, flows: &[FlowRecord]) {
        self.at = clock::now();
        let queues = self.titan.state().queues as usize;
        self.queue_bytes = self.titan.page().queues.iter().take(queues).map(|q| read(&q.bytes)).collect();
        self.flow_bytes = flows.iter().map(|flow| (flow.id, flow.bytes)).collect();
    }

    /// The current status, with the changes since the last reading.
    ///
    /// # Errors
    /// When the flows or the programs' statistics cannot be read.
    pub fn look(&mut self) -> Result<TitanDevice, TitanError> {
        let flows = self.titan.flows();
        let window = clock::now().saturating_since(self.at);
        let seconds = window.as_secs_f64().max(1e-9);
        let state = self.titan.state().clone();
        let queues = self.queues(seconds);
        let (sent, unfairness, jain) = self.fairness(&flows, seconds);
        let totals = self.titan.totals();
        let events = TitanEvents {
            activations: self.titan.page().activations(),
            moves: self.titan.page().moves(),
            kept: read(&totals.kept),
            beyond: read(&totals.beyond),
            without_socket: read(&totals.without_socket),
            passed: read(&totals.passed),
            repaired: read(&totals.repaired),
        };
        let device = TitanDevice {
            device: state.device.clone(),
            netns: state.place.clone(),
            assignment: state.assignment.clone(),
            departures: state.departures.clone(),
            attached_s: self.titan.age().as_secs_f64(),
            window_s: seconds,
            queues,
            flows: sent,
            unfairness,
            jain,
            program_ns: self.titan.nanos_per_packet()?,
            events,
            notes: self.titan.notes()?,
            parts: state.parts,
        };
        self.remember(&flows);
        Ok(device)
    }

    fn queues(&self, seconds: f64) -> Vec<TitanQueue> {
        let before = self.queue_bytes.iter();
        let queues = self.titan.page().queues.iter().zip(before).enumerate();
        queues
            .map(|(number, (queue, before))| {
                let bytes = read(&queue.bytes);
                let load = self.titan.page().load(TxQueueId::from_index(number));
                TitanQueue {
                    queue: number as u32,
                    flows: load.flows,
                    weight: load.weight,
                    packets: read(&queue.packets),
                    bytes,
                    bps: (bytes.saturating_sub(*before) as f64 * 8.0 / seconds) as u64,
                    // The two counters are read at different times: a packet that leaves in between may be counted out
                    // first.
                    standing_bytes: bytes
                        .saturating_sub(read(&queue.left_bytes).wrapping_add(read(&queue.unseen_bytes))),
                    moves: read(&queue.moves),
                }
            })
            .collect()
    }

    /// The number of flows that sent, and the unfairness among the active flows present in both readings.
    fn fairness(&self, flows: &[FlowRecord], seconds: f64) -> (u64, Option<f64>, Option<f64>) {
        let since = |flow: &FlowRecord| {
            let before = self.flow_bytes.get(&flow.id).copied();
            before.map(|before| flow.bytes.saturating_sub(before))
        };
        let sent = flows.iter().filter(|flow| since(flow).unwrap_or(flow.bytes) > Bytes(0)).count() as u64;
        let rates: Vec<f64> = flows
            .iter()
            .filter(|flow| flow.is_active())
            .filter_map(|flow| {
                Some(since(flow)?.get() as f64 * 8.0 / seconds / f64::from(flow.weight.max(1)))
            })
            .filter(|rate| *rate > 0.0)
            .collect();
        (sent, unfairness(&rates), if rates.len() > 1 { stats::jain(&rates) } else { None })
    }
}

/// The unfairness of rates: largest minus smallest, over the mean. This is Titan's normalised fairness metric over one
/// window, with the flows' own sum in place of the line's rate. `None` for fewer than two rates.
pub fn unfairness(rates: &[f64]) -> Option<f64> {
    if rates.len() < 2 {
        return None;
    }
    let mean = rates.iter().sum::<f64>() / rates.len() as f64;
    let largest = stats::max(rates)?;
    let smallest = stats::min(rates)?;
    (mean > 0.0).then(|| (largest - smallest) / mean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unfairness_is_zero_for_equals_and_two_for_one_and_none() {
        assert_eq!(unfairness(&[5.0, 5.0, 5.0]), Some(0.0));
        assert_eq!(unfairness(&[2.0, 0.0]), Some(2.0));
        assert_eq!(unfairness(&[1.0, 3.0]), Some(1.0));
        assert_eq!(unfairness(&[1.0]), None);
    }
}
