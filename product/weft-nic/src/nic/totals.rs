//! The totals of a running NIC: the sums of its ports, the uplink's counters and those of the worker.

use super::{NicError, NicPort, SoftwareNic};
use crate::readings::rest_of;
use crate::totals::{Lag, PortTotals, Totals};
use weft_sched::queues::Staleness;
use weft_units::{Bytes, Nanos};

impl SoftwareNic {
    /// The current totals: the sums over the ports, those that were removed included, and the NIC's own.
    ///
    /// # Errors
    /// None at present: a counter that cannot be read keeps its last reading, and [`Totals::unread`] counts that.
    pub fn totals(&self) -> Result<Totals, NicError> {
        self.totals_with(NicPort::totals)
    }

    /// The time that looks at an idle port serve again: a second for up to 16 ports, and longer with more, so that idle
    /// ports cost the same however many there are.
    pub fn rest(&self) -> Nanos {
        rest_of(self.ports.len())
    }

    /// The totals, in which the kernel's counters of idle ports may be as old as [`rest`](Self::rest): for status lines.
    ///
    /// # Errors
    /// As [`Self::totals`].
    pub fn recent_totals(&self) -> Result<Totals, NicError> {
        self.totals_with(|port| port.recent_totals(self.rest()))
    }

    fn totals_with(&self, of: impl Fn(&NicPort) -> PortTotals) -> Result<Totals, NicError> {
        let mut ports = self.removed.clone();
        self.ports.iter().for_each(|port| ports.add(&of(port)));
        let ((arrived, device_dropped), failed) =
            self.uplink_device.readings.read(&self.uplink_device.device);
        let c = &self.counters;
        let uplink_failed = c.count(|c| &c.uplink_failed);
        let counted = self.uplink_device.device.counts_failed_writes();
        let ours = if counted { uplink_failed.packets.get() } else { 0 };
        Ok(Totals {
            uplink_writes: c.count(|c| &c.uplink_writes),
            uplink_failed,
            uplink_waits: c.packets(|c| &c.uplink_waits),
            // Each worker counts each change.
            changes: self.counters().changes.get().packets.get(),
            change_pause_max: Nanos(c.max(|c| &c.change_pause_max)),
            draining: c.draining(),
            sojourns: c.sojourns(self.plan.rings().classes()),
            lags: self.lags(),
            overdrawn: c.packets(|c| &c.overdrawn),
            ahead_max: Nanos(c.max(|c| &c.ahead_max)),
            observed_rate: self.observed_rate(),
            uplink_arrived: arrived.minus(self.uplink_device.before),
            uplink_dropped: device_dropped.saturating_sub(ours),
            unread: ports.unread + failed,
            wakeups: self.wakeups(),
            sleeps: c.packets(|c| &c.sleeps),
            wakeups_lost: c.packets(|c| &c.wakeups_lost),
            turns: c.packets(|c| &c.turns),
            worker_busy: c.max(|c| &c.worker_busy),
            worker_cpu: self.worker_cpu(),
            link_lost: Nanos(c.max(|c| &c.link_lost)),
            flows: c.sum(|c| &c.flows),
            staleness: Staleness {
                count: c.sum(|c| &c.weights_taken),
                sum: Nanos(c.sum(|c| &c.weights_age)),
                max: Nanos(c.max(|c| &c.weights_age_max)),
            },
            ..Totals::from(ports)
        })
    }

    /// The largest lags, by leaf that has a due.
    fn lags(&self) -> Vec<Lag> {
        let leaves = self.plan.rings().program.leaves.iter().zip(&self.counters().lags);
        let lag = |(leaf, gauge): (&weft_sched::LeafSpec, &crate::counters::LagGauge)| {
            let bound = gauge.bound.get();
            let (bytes, span) = (Bytes(gauge.bytes.get()), Nanos(gauge.nanos.get()));
            (bound > 0).then(|| Lag { leaf: leaf.name.clone(), bytes, span, bound: Bytes(bound) })
        };
        leaves.filter_map(lag).collect()
    }
}
