//! Senders and their times: the scenarios of Loom's Figures 9 and 11, on a time line of the user's length.

use core::net::IpAddr;
use weft_nic::testbed::{DESTINATIONS, RECEIVER};
use weft_units::Nanos;

/// A tenant or job that sends bulk TCP flows between its start and its stop.
#[derive(Clone, PartialEq, Debug)]
pub struct Bulk {
    /// The name, also that of its class in the policy and of its cgroup.
    pub name: &'static str,
    /// Number of TCP flows.
    pub flows: u32,
    /// The address to send to.
    pub destination: IpAddr,
    /// Start, relative to the beginning of the run.
    pub start: Nanos,
    /// Stop, relative to the beginning of the run.
    pub stop: Nanos,
}

/// Senders with a time line.
#[derive(Clone, PartialEq, Debug)]
pub struct LoomScenario {
    /// The number of the paper's figure.
    pub figure: u32,
    /// The bulk senders, in the order of their names.
    pub bulk: Vec<Bulk>,
    /// The tenant that sends small requests and measures their latency, throughout the run.
    pub latency: Option<&'static str>,
    /// Length of the run.
    pub duration: Nanos,
}

/// Numbers of flows of T1 to T4 in Loom's Figure 9: 4^i.
pub const FIGURE_9_FLOWS: [u32; 4] = [4, 16, 64, 256];
/// Numbers of flows of J0, J1, J2, T2, T3 and T4 in Loom's Figure 11, from the authors' scripts (10 Gb/s variant).
pub const FIGURE_11_FLOWS: [u32; 6] = [12, 4, 4, 16, 64, 64];

/// Time after a change of the active set in which a window is not steady: TCP takes the free share, or yields its
/// own, within some tens of round trips.
const SETTLE: Nanos = Nanos::from_millis(400);

impl LoomScenario {
    /// Returns Figure 2's scenario: threads with the given numbers of flows, all of the time. A thread without flows
    /// does not run.
    pub fn figure2(threads: &[(&'static str, u32)], duration: Nanos) -> Self {
        let busy = threads.iter().filter(|(_, flows)| *flows > 0);
        let bulk = busy.map(|&(name, flows)| Bulk {
            name,
            flows,
            destination: RECEIVER,
            start: Nanos::ZERO,
            stop: duration,
        });
        Self { figure: 2, bulk: bulk.collect(), latency: None, duration }
    }

    /// Returns Figure 9's scenario: T1 to T4 start one after the other and stop in reverse order. The paper's steps
    /// are equal; here the time at full load is twice a step, so that its percentiles have enough requests.
    pub fn figure9(flows: [u32; 4], duration: Nanos) -> Self {
        let step = |n: u64| Nanos(duration.get() * n / 10);
        let names = ["T1", "T2", "T3", "T4"];
        let bulk = |i: usize| Bulk {
            name: names[i],
            flows: flows[i],
            destination: RECEIVER,
            start: step(i as u64 + 1),
            stop: step(9 - i as u64),
        };
        Self { figure: 9, bulk: (0..4).map(bulk).collect(), latency: Some("T0"), duration }
    }

    /// Returns Figure 11's scenario: T1's jobs J0 (to destination 1) and J1, J2 (to destination 2, limited together)
    /// start first, then T2, T3 and T4; all stop at the end.
    pub fn figure11(flows: [u32; 6], duration: Nanos) -> Self {
        let step = |n: u64| Nanos(duration.get() * n / 10);
        let [near, far] = DESTINATIONS;
        let rows = [
            ("J0", near, 1),
            ("J1", far, 1),
            ("J2", far, 1),
            ("T2", RECEIVER, 4),
            ("T3", RECEIVER, 6),
            ("T4", RECEIVER, 8),
        ];
        let bulk = rows.iter().zip(flows).map(|(&(name, destination, start), flows)| Bulk {
            name,
            flows,
            destination,
            start: step(start),
            stop: duration,
        });
        Self { figure: 11, bulk: bulk.collect(), latency: None, duration }
    }

    /// Returns the names of all senders, the latency tenant first.
    pub fn names(&self) -> Vec<&'static str> {
        self.latency.iter().copied().chain(self.bulk.iter().map(|b| b.name)).collect()
    }

    /// Returns the bulk senders that are scheduled to send during all of `from..to`. The simulated demo uses it.
    pub fn active(&self, from: Nanos, to: Nanos) -> Vec<&'static str> {
        self.bulk.iter().filter(|b| b.start <= from && to <= b.stop).map(|b| b.name).collect()
    }

    /// Whether no sender starts or stops during `from..to` or in the settling time before it.
    pub fn steady(&self, from: Nanos, to: Nanos) -> bool {
        let before = from.saturating_sub(SETTLE);
        let quiet = |t: Nanos| t <= before || t >= to;
        to <= self.duration && self.bulk.iter().all(|b| quiet(b.start) && quiet(b.stop))
    }

    /// Returns the time in which all bulk senders are active, without its first second, in which the last sender's
    /// flows open and leave slow start; `None` if that leaves nothing.
    pub fn full_load(&self) -> Option<(Nanos, Nanos)> {
        let from = self.bulk.iter().map(|b| b.start).max()?;
        let to = self.bulk.iter().map(|b| b.stop).min()?;
        let from = from + SETTLE + SETTLE;
        (from < to).then_some((from, to))
    }

    /// Returns the number of flows of each of `classes`, for the queue-per-flow plan; a class that does not send
    /// counts as 1.
    pub fn flows_by_class<'a>(&self, classes: impl Iterator<Item = &'a str>) -> Vec<u32> {
        let flows = |class: &str| self.bulk.iter().find(|b| b.name == class).map(|b| b.flows);
        // Each iperf3 process has one more connection, for control.
        classes.map(|class| flows(class).map_or(1, |n| n + processes(n))).collect()
    }
}

/// Returns the number of iperf3 processes that carry `flows` flows. iperf3 is one thread, opens its flows one after
/// the other and allows at most 128; the paper uses four processes per tenant.
pub(super) fn processes(flows: u32) -> u32 {
    flows.div_ceil(64).clamp(1, 64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Nanos {
        Nanos::from_millis(n)
    }

    #[test]
    fn tenants_come_and_go_in_reverse_order() {
        let s = LoomScenario::figure9(FIGURE_9_FLOWS, Nanos::from_secs(20));
        assert_eq!(s.active(ms(2500), ms(3000)), ["T1"]);
        assert_eq!(s.active(ms(9000), ms(9500)), ["T1", "T2", "T3", "T4"]);
        assert_eq!(s.active(ms(17_000), ms(17_500)), ["T1"]);
        assert_eq!(s.full_load(), Some((ms(8800), ms(12_000))));
    }

    #[test]
    fn a_window_next_to_a_change_is_not_steady() {
        let s = LoomScenario::figure9(FIGURE_9_FLOWS, Nanos::from_secs(20));
        assert!(!s.steady(ms(2000), ms(2500)), "T1 has just started");
        assert!(s.steady(ms(3000), ms(3500)));
        assert!(!s.steady(ms(3800), ms(4300)), "T2 starts within");
        assert!(s.steady(ms(3500), ms(4000)));
        assert!(!s.steady(ms(19_800), ms(20_300)), "beyond the end");
    }

    #[test]
    fn flows_are_spread_over_processes_that_iperf3_can_bear() {
        assert_eq!(processes(4), 1);
        assert_eq!(processes(256), 4);
        assert!(256_u32.div_ceil(processes(256)) <= 128);
    }
}
