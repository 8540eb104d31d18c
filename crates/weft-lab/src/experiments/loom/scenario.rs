//! What sends when: the scenarios of Loom's Figures 9 and 11 on a time line of the user's length.

use core::net::IpAddr;
use weft_nic::testbed::{DESTINATIONS, RECEIVER};
use weft_units::Nanos;

/// A tenant or job that sends with as many bulk TCP flows as it is given, while it is its time.
#[derive(Clone, PartialEq, Debug)]
pub struct Bulk {
    /// Its name, which is also its class in the policy and its cgroup.
    pub name: &'static str,
    /// Number of TCP flows.
    pub flows: u32,
    /// Where it sends to.
    pub destination: IpAddr,
    /// When it starts, since the beginning of the run.
    pub start: Nanos,
    /// When it stops.
    pub stop: Nanos,
}

/// A scenario.
#[derive(Clone, PartialEq, Debug)]
pub struct Scenario {
    /// The figure of the paper that it repeats.
    pub figure: u32,
    /// The bulk senders, in the order of their names.
    pub bulk: Vec<Bulk>,
    /// The tenant that sends small requests and measures their latency; it runs all the time.
    pub latency: Option<&'static str>,
    /// Length of the run.
    pub duration: Nanos,
}

/// Numbers of flows of T1 to T4 in Loom's Figure 9: 4^i.
pub const FIGURE_9_FLOWS: [u32; 4] = [4, 16, 64, 256];
/// Numbers of flows of J0, J1, J2, T2, T3 and T4 in Loom's Figure 11, as the authors' scripts have them (10 Gb/s variant).
pub const FIGURE_11_FLOWS: [u32; 6] = [12, 4, 4, 16, 64, 64];

/// How long after a change of the active set a window does not count as steady: TCP fills the share that has become free,
/// or gives way, within some tens of round trips.
const SETTLE: Nanos = Nanos::from_millis(400);

impl Scenario {
    /// Figure 2: threads with numbers of flows, all of the time. Those without a flow do not run.
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

    /// Figure 9: T1 to T4 start one after the other and stop in reverse order. The paper's steps are equal; here the time
    /// at full load is twice a step, so that its percentiles rest on enough requests.
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

    /// Figure 11: T1's jobs J0 (to destination 1) and J1, J2 (to destination 2, limited together) start first, then T2,
    /// T3 and T4; all stop at the end.
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

    /// The names of all senders, the latency tenant first.
    pub fn names(&self) -> Vec<&'static str> {
        self.latency.iter().copied().chain(self.bulk.iter().map(|b| b.name)).collect()
    }

    /// The bulk senders that are meant to send during all of `from..to`: what the simulated demo goes by.
    pub fn active(&self, from: Nanos, to: Nanos) -> Vec<&'static str> {
        self.bulk.iter().filter(|b| b.start <= from && to <= b.stop).map(|b| b.name).collect()
    }

    /// Whether nothing comes or goes during `from..to`, nor has for the settling time before.
    pub fn steady(&self, from: Nanos, to: Nanos) -> bool {
        let before = from.saturating_sub(SETTLE);
        let quiet = |t: Nanos| t <= before || t >= to;
        to <= self.duration && self.bulk.iter().all(|b| quiet(b.start) && quiet(b.stop))
    }

    /// The time in which all bulk senders are active, without the first second, in which the last one's flows open and
    /// leave slow start; `None` when there is none.
    pub fn full_load(&self) -> Option<(Nanos, Nanos)> {
        let from = self.bulk.iter().map(|b| b.start).max()?;
        let to = self.bulk.iter().map(|b| b.stop).min()?;
        let from = from + SETTLE + SETTLE;
        (from < to).then_some((from, to))
    }

    /// The number of flows of each of `classes`, for the queue-per-flow plan; what does not send counts as 1.
    pub fn flows_by_class<'a>(&self, classes: impl Iterator<Item = &'a str>) -> Vec<u32> {
        let flows = |class: &str| self.bulk.iter().find(|b| b.name == class).map(|b| b.flows);
        // One more for the control connection of each iperf3 process.
        classes.map(|class| flows(class).map_or(1, |n| n + processes(n))).collect()
    }
}

/// How many iperf3 processes carry `flows` flows. iperf3 is one thread, opens its flows one after the other and takes at
/// most 128; the paper uses four processes for a tenant.
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
        let s = Scenario::figure9(FIGURE_9_FLOWS, Nanos::from_secs(20));
        assert_eq!(s.active(ms(2500), ms(3000)), ["T1"]);
        assert_eq!(s.active(ms(9000), ms(9500)), ["T1", "T2", "T3", "T4"]);
        assert_eq!(s.active(ms(17_000), ms(17_500)), ["T1"]);
        assert_eq!(s.full_load(), Some((ms(8800), ms(12_000))));
    }

    #[test]
    fn a_window_next_to_a_change_is_not_steady() {
        let s = Scenario::figure9(FIGURE_9_FLOWS, Nanos::from_secs(20));
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
